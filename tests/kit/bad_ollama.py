"""Requests of Ollama's API that no server may take: (path, the field that the answer must name, fields)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

OLLAMA_CHAT, OLLAMA_GENERATE, OLLAMA_EMBED = (f"/api/{name}" for name in ("chat", "generate", "embed"))
BadFields = tuple[str, str | None, dict[str, Any]]
CALL = {"function": {"name": "f", "arguments": {}}}
BOTH: tuple[tuple[str, list[Any]], ...] = (
    ("stream", ["yes", 1, []]), ("options", [[], "x", 5, {"temperature": "hot"}, {"seed": 1.5}]),
    ("options.temperature", [{"temperature": 2.1}, {"temperature": -1}, {"temperature": [1]}]),
    ("options.top_p", [{"top_p": 0}, {"top_p": 7}]),
    ("options.num_predict", [{"num_predict": "9"}, {"num_predict": -9}]),
    ("options.stop", [{"stop": {"a": 1}}]), ("options.stop[0]", [{"stop": [1]}, {"stop": [""]}, {"stop": "x" * 2000}]),
    ("options.mirostat", [{"mirostat": 1}]), ("options.typical_p", [{"typical_p": 0.5}]),
    ("options.tfs_z", [{"tfs_z": 2}]), ("options.repeat_penalty", [{"repeat_penalty": 0}, {"repeat_penalty": "x"}]),
    ("options.num_ctx", [{"num_ctx": "x"}, {"num_ctx": 1.5}]), ("options.temprature", [{"temprature": 1}]),
    ("options.grammar", [{"grammar": "root ::= root"}, {"grammar": 5}]), ("options.lora", [{"lora": "x"}]),
    ("format", ["yaml", 5, [1], {"minItems": 10**9, "type": "array"}, True]), ("format.type", [{"type": 123}]),
    ("keep_alive", ["soon", {}, [1], "5 minutes"]), ("think", ["very", 5, [], ""]), ("shift", [True, "x"]),
    ("logprobs", ["x", 5]), ("top_logprobs", [5, -1, "x"]), ("truncate", ["x"]), ("model", ["", "nobody", "a/../b"]),
)  # fmt: skip


def _bad() -> Iterator[BadFields]:
    for path in (OLLAMA_CHAT, OLLAMA_GENERATE):
        for name, values in BOTH:
            for value in values:
                yield path, name, {name.partition(".")[0]: value}
    messages: dict[str, list[Any]] = {
        "messages[0]": ["x", None, {"role": "tool", "tool_name": 5}],
        "messages[0].role": [{"role": "boss", "content": "x"}, {"content": "x"}, {"role": 5}],
        "messages[0].content": [{"role": "user", "content": text} for text in (5, [{"type": "text", "text": "x"}])],
        "messages[0].images": [{"role": "user", "content": "x", "images": ["AAAA"]}, {"role": "user", "images": [5]}],
        "messages[0].tool_calls": [
            {"role": "user", "tool_calls": [CALL]}, {"role": "assistant", "tool_calls": [{}]},
        ],
        "messages[0].tool_calls[0].function.arguments": [
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]},
        ],
        "messages[0].thinking": [{"role": "assistant", "thinking": 5}],
    }  # fmt: skip
    for place, several in messages.items():
        for message in several:
            yield OLLAMA_CHAT, place, {"messages": [message]}
    yield OLLAMA_CHAT, "messages", {"messages": [{"role": "user", "content": "x"}] * 100_000}
    tools: Any
    for tools in ({}, [{}], [{"type": "magic", "function": {"name": "f"}}], [{"function": {"name": "a b"}}], ["f"]):
        yield OLLAMA_CHAT, "tools", {"tools": tools}
    generate: list[tuple[str, Any]] = [
        ("suffix", "x"), ("suffix", 5), ("template", "{{ .Prompt }}"), ("context", [1]), ("context", "x"), ("raw", 5),
        ("system", 5), ("images", ["AAAA"]), ("messages", [{"role": "user", "content": "x"}]),
        ("prompt", "x" * 200_000),
    ]  # fmt: skip
    for name, value in generate:
        yield OLLAMA_GENERATE, name, {name: value}
    for name, value in (("template", "x"), ("system", "x"), ("context", [1])):
        yield OLLAMA_GENERATE, name, {"raw": True, name: value}
    embed: list[tuple[str, Any]] = [
        ("input", [1]), ("input", ["a"] * 100_000), ("dimensions", 0), ("dimensions", 10**9),
        ("dimensions", "x"), ("truncate", "x"), ("keep_alive", "x y"), ("options", []), ("model", "smollm2"),
        ("normalize", False), ("input", {"text": "x"}),
    ]  # fmt: skip
    for name, value in embed:
        yield OLLAMA_EMBED, name if name != "model" else None, {name: value}
    yield OLLAMA_EMBED, None, {"truncate": False, "input": "word " * 4000}
    for path in ("/api/show", "/api/pull", "/api/embeddings"):
        yield path, "model", {}
        yield path, "model", {"prompt": "x", "model": 5}
        yield path, "model", {"prompt": "x", "model": "nobody"}
    yield "/api/embeddings", "prompt", {"model": "minilm", "prompt": 5}
    for path in ("/api/create", "/api/copy", "/api/push", "/api/blobs/sha256:00"):
        yield path, None, {"model": "smollm2"}


BAD_OLLAMA = tuple(_bad())
