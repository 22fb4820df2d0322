"""Requests that no server may take, each with what is wrong with it: for tests, and for servers of others.

Every one is to be answered at once with a 4xx and an error body. They speak to a server whose default model is
``smollm2``, with ``minilm`` beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .bad_fields import BAD_FIELDS, BAD_RESPONSES, FLAT, UNSUPPORTED, USER
from .bad_ollama import BAD_OLLAMA, OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_GENERATE

Fields = dict[str, Any]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CHAT, TEXT, VECTORS, RESPONSES, COMPACT, INTERACTIVE = (
    f"/v1/{name}"
    for name in ("chat/completions", "completions", "embeddings", "responses", "responses/compact", "chat/interactive")
)
BATCHES = "/v1/batches"
RERANK, SCORE = "/v1/rerank", "/v1/score"
FIM, INFILL = "/v1/fim/completions", "/infill"
MESSAGES, MESSAGE_TOKENS = "/v1/messages", "/v1/messages/count_tokens"
GOOD: Mapping[str, Fields] = {
    CHAT: {"messages": [USER]},
    TEXT: {"prompt": "Hi"},
    FIM: {"prompt": "Hi"},
    INFILL: {"input_prefix": "Hi", "input_suffix": ""},
    RESPONSES: {"input": "Hi"},
    COMPACT: {"input": "Hi", "model": "smollm2"},
    MESSAGES: {"messages": [USER], "model": "smollm2", "max_tokens": 9},
    MESSAGE_TOKENS: {"messages": [USER], "model": "smollm2"},
    INTERACTIVE: {"prompt": "Hi"},
    "/v1/encode": {"input": "Hi"},
    "/v1/tokenize": {"prompt": "Hi"},
    "/v1/detokenize": {"tokens": [1]},
    "/v1/render": {"messages": [USER]},
    "/v1/parse": {"text": "Hi"},
    "/v1/chat/completions/render": {"messages": [USER]},
    "/v1/completions/render": {"prompt": "Hi"},
    "/v1/messages/render": {"messages": [USER], "model": "smollm2", "max_tokens": 9},
    "/v1/responses/render": {"input": "Hi"},
    "/v1/chat/completions/derender": {"generate_response": {"choices": [{"token_ids": [1]}]}},
    "/v1/completions/derender": {"generate_responses": [{"choices": [{"token_ids": [1]}]}]},
    "/inference/v1/generate": {"token_ids": [1], "sampling_params": {"max_tokens": 1}},
    "/v1/convert": {"input": "<|start|>user<|message|>Hi<|end|>"},
    "/v1/schemas/check": {"schema": {"type": "integer"}},
    "/v1/templates/check": {"template": "{{ messages[-1].content }}"},
    "/v1/templates/try": {"messages": [USER]},
    VECTORS: {"input": "Hi", "model": "minilm"},
    RERANK: {"query": "Hi", "documents": ["Hi"], "model": "minilm"},
    SCORE: {"text_1": "Hi", "text_2": "Hi", "model": "minilm"},
    OLLAMA_CHAT: {"messages": [USER], "model": "smollm2"},
    OLLAMA_GENERATE: {"prompt": "Hi", "model": "smollm2"},
    OLLAMA_EMBED: {"input": "Hi", "model": "minilm"},
}
"""The least body that each route takes."""
WITHOUT_MODEL = frozenset(["/v1/convert", "/v1/schemas/check"])


@dataclass(frozen=True, slots=True)
class Bad:
    """One request. ``what`` tells what is wrong; ``param`` is the field that the answer must name, where it is one,
    and ``code`` the code of its error, where that is told."""

    what: str
    path: str
    body: bytes | None
    param: str | None = None
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: {"content_type": "application/json"})
    code: str | None = None


def bad_requests() -> Iterator[Bad]:
    """All of them but for those of `kit.bad_messages`."""
    yield from malformed()
    yield from mistyped()
    yield from out_of_range()
    yield from chats()
    yield from completions()
    yield from responses()
    yield from compactions()
    yield from layer()
    yield from interactive()
    yield from other_names()
    yield from embeddings()
    yield from batches()
    yield from ranking()
    yield from (wrong(path, param, **fields) for path, param, fields in BAD_OLLAMA)
    yield from others()
    yield from unknown_places()


def wrong(path: str, param: str | None, **fields: Any) -> Bad:
    """A good body but for some fields."""
    body = json.dumps(fields)
    what = body if len(body) < 80 else f"{body[:60]}… ({len(body)} characters)"
    return Bad(what, path, json.dumps({**GOOD.get(path, {}), **fields}).encode(), param)


def placed(path: str, table: Mapping[str, Sequence[Any]]) -> Iterator[Bad]:
    """Bad values by the place that the answer must name, each as the field that the place is in."""
    for place, values in table.items():
        for value in values:
            yield wrong(path, place, **{re.split(r"[.\[]", place)[0]: value})


def malformed() -> Iterator[Bad]:
    """What is no JSON object, whatever the route."""
    for path, what, body in ((path, *odd) for path in (*GOOD, BATCHES) for odd in odd_bodies()):
        yield Bad(what, path, body)
    for path in GOOD:
        good = json.dumps(GOOD[path]).encode()
        if not path.startswith("/api/"):  # Ollama's clients do not say what they send.
            yield Bad("text/plain", path, good, headers={"content_type": "text/plain"})
        yield Bad("gzip", path, good, headers={"content_type": "application/json", "content_encoding": "gzip"})
        if path in WITHOUT_MODEL:
            continue
        yield Bad(
            "a model by its path", path, json.dumps({**GOOD[path], "model": "../../etc/passwd"}).encode(), "model"
        )
        yield Bad("a model by its URL", path, json.dumps({**GOOD[path], "model": "http://[::1]/m"}).encode(), "model")
        yield Bad("a lone surrogate", path, good[:-1] + b', "model": "\\ud800"}', "model")


def odd_bodies() -> Iterator[tuple[str, bytes]]:
    """What is no JSON object."""
    deep = 100_000
    yield from {
        "nothing": b"",
        "half an object": b'{"model": ',
        "a list": b"[]",
        "null": b"null",
        "a trailing comma": b'{"model": null,}',
        "single quotes": b"{'model': null}",
        "two objects": b"{}{}",
        "a byte order mark": b"\xef\xbb\xbf{}",
        "UTF-16": '{"model": null}'.encode("utf-16"),
        "overlong UTF-8": b'{"user": "\xc0\xaf\xc1\x81"}',
        "half a character": b'{"user": "\xe2\x82"}',
        "a surrogate in UTF-8": b'{"user": "\xed\xa0\x80"}',
        "a NUL in a name": b'{"us\x00er": 1}',
        "a bare control character": b'{"user": "a\nb"}',
        "NaN": b'{"user": NaN}',
        "a number without end": b'{"user": 1e}',
        "brackets without end": b"[" * deep,
        "objects without end": b'{"a":' * deep,
    }.items()


def mistyped() -> Iterator[Bad]:
    """Every field of the least bodies, and those that all routes share, with values of another type."""
    others: list[Any] = [None, True, 1.5, {"a": 1}, [None], [{}], [[[]]]]
    names: list[Any] = [1, True, ["m"], {"id": "m"}]
    for path, good in GOOD.items():
        for name in sorted(good.keys() - {"model"}):
            for value in others:
                if name == "schema" and isinstance(value, bool | dict):
                    continue
                if value is not None or path not in (OLLAMA_CHAT, OLLAMA_GENERATE):  # there nothing loads the model
                    yield wrong(path, None, **{name: value})
        for value in names if path not in WITHOUT_MODEL else ():
            yield wrong(path, "model", model=value)


def out_of_range() -> Iterator[Bad]:
    """Numbers on every route that samples."""
    numbers: list[tuple[str, list[Any]]] = [
        ("temperature", [-1, 2.1, 1e30, "1", True, [1], -1e-9]),
        ("top_p", [0, -0.0, 1.1, "x", False]),
        ("top_k", [-2, 2**31, 1.5, "5"]),
        ("min_p", [-0.1, 1.1, "x"]),
        ("repetition_penalty", [0, -1, 3, "x"]),
        ("seed", [2**64, -(2**63) - 1, 1.5, "x", True]),
    ]
    for path in (CHAT, TEXT, RESPONSES, INTERACTIVE, OLLAMA_CHAT, OLLAMA_GENERATE, MESSAGES):
        for name, values in numbers:
            for value in values:
                yield wrong(path, name, **{name: value})
        for text in ("NaN", "Infinity", "-Infinity", "1e400", "-1e400"):
            good = json.dumps(GOOD[path]).encode()[:-1]
            yield Bad(f"temperature {text}", path, good + f', "temperature": {text}}}'.encode(), "temperature")
    for path in (CHAT, TEXT, RESPONSES, OLLAMA_CHAT, MESSAGES):
        for name in ("presence_penalty", "frequency_penalty"):
            for value in (-2.1, 2.1, 1e9, "x"):
                yield wrong(path, name, **{name: value})


def completions() -> Iterator[Bad]:
    yield from placed(TEXT, {
        "prompt": [None, "", [], ["a", 1], [-1], [2**31], [10**9, 1], ["a"] * 257, ["a"] * 100_000, {"text": "a"}],
        "prompt[0]": [[[]], [True], [1.5]], "prompt[1]": [["a", ""], [[1], [10**9]]],
        "n": [0, -1, 10**9, 1.5, True], "best_of": [0, 10**9, "2"], "logprobs": [-1, 6, 60_000, True],
        "max_tokens": [-1, 10**30, "9", 1.5], "stop": [["a"] * 5, {"a": 1}], "stop[0]": ["x" * 2000, [1], [""]],
        "logit_bias": [{"99999999": 1}, {"abc": 1}, [1]], "logit_bias.1": [{"1": 1e39}, {"1": -101}],
        "suffix": ["x"], "prompt_logprobs": [-1, 21], "response_format.type": [{"type": "yaml"}],
        "error_behavior": ["ignore"], "use_raw_prompt": ["yes"], "truncate_prompt_tokens": [5], "min_tokens": [-1],
        "stream_options": [{"include_usage": True}], "stream": ["yes", 1], "echo": ["yes", 1], "explain_prefix": [True],
    })  # fmt: skip
    together: list[tuple[str, Fields]] = [
        ("best_of", {"best_of": 1, "n": 2}), ("echo", {"logprobs": 1, "echo": True, "use_raw_prompt": False}),
        ("prompt_logprobs", {"prompt_logprobs": 1, "stream": True}),
        ("prompt_logprobs", {"prompt_logprobs": 1, "error_behavior": "truncate"}),
        ("echo", {"logprobs": 1, "echo": True, "error_behavior": "truncate"}),
        ("return_token_ids", {"return_token_ids": True, "error_behavior": "truncate"}),
        ("include_stop_str_in_output", {"include_stop_str_in_output": True, "stop_token_ids": [5]}),
        ("use_raw_prompt", {"use_raw_prompt": False, "prompt": [1]}),
        ("skip_special_tokens", {"use_raw_prompt": False, "skip_special_tokens": False}),
    ]  # fmt: skip
    yield from (wrong(TEXT, place, **fields) for place, fields in together)
    yield from placed(FIM, {
        "prompt": ["", ["Hi"], [1]], "suffix": ["x", 1, ["x"]], "max_tokens": [-1, "9"], "min_tokens": [-1, "5"],
        "stop": [["a"] * 5, {"a": 1}], "random_seed": [2**64, "x"], "n": [2], "stream": ["yes", 1], "echo": [True],
    })  # fmt: skip
    yield from placed(INFILL, {
        "input_suffix": [1, ["x"], "", "x"], "prompt": [1, ["x"], [1]], "n_predict": ["9", 1.5], "samplers": [1, [1]],
        "input_extra": ["x", {"text": "x"}], "input_extra[0]": [["x"]], "input_extra[0].text": [[{}], [{"text": 1}]],
        "input_extra[0].filename": [[{"text": "", "filename": 1}]], "response_fields": ["content", {"a": 1}],
        "t_max_predict_ms": ["1"], "n_indent": [1.5], "lora": [[{"id": 0, "scale": 1}]], "min_tokens": [5],
    })  # fmt: skip


def responses() -> Iterator[Bad]:
    deep: Fields = {}
    for _ in range(900):
        deep = {"a": deep}
    bad: list[Fields] = [
        {"input": [{"type": "computer_call", "id": "x"}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://127.0.0.1/"}]}]},
        *({"input": [item]} for item in (
            {"type": "mcp_approval_response"}, {"type": "mcp_approval_request", "id": "r1"},
            {"type": "mcp_approval_response", "approval_request_id": "r1", "approve": True},
            {"type": "mcp_approval_response", "approval_request_id": 5, "approve": "no"},
            {"type": "mcp_list_tools", "server_label": "x", "tools": [{"name": 1}]},
        )),
        {"previous_response_id": "resp_0"}, {"previous_response_id": 1},
        {"previous_response_id": "resp_0' OR 1=1 --"}, {"conversation": "conv_0"}, {"conversation": {"id": 1}},
        {"max_output_tokens": 10**30}, {"top_logprobs": -1},
        {"include": "x"}, {"metadata": {"k": 1}},
        {"tools": [FLAT] * 1000}, {"tools": {"f": FLAT}},
        {"tools": [{**FLAT, "name": "../x"}]}, {"tools": [{**FLAT, "name": "x" * 200}]},
        {"tools": [{**FLAT, "parameters": deep, "strict": True}]}, {"tool_choice": {"type": "function", "name": "g"}},
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "strin"}}}},
        {"modalities": ["audio"]}, {"stream": "yes"},
    ]  # fmt: skip
    yield from (wrong(RESPONSES, None, **fields) for fields in bad)
    for fields, param in BAD_RESPONSES:
        yield from (
            wrong(RESPONSES, param, **fields, stream=stream)
            for stream in (None, *([True] if param != "stream_options" else []))
        )
    blanks = {"content_type": "application/json", "idempotency_key": "a b"}
    yield Bad("an idempotency key of blanks", RESPONSES, b'{"input": "Hi"}', headers=blanks)


def compactions() -> Iterator[Bad]:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    sealed = [{"type": "compaction", "encrypted_content": text} for text in ("", "AAAA", "é", "A" * 100_000, "a.b")]
    yield from placed(COMPACT, {
        "input": [None, [], "x" * 1_000_000, [call]], "input[0].encrypted_content": [[one] for one in sealed],
        "stream": [True, "yes"], "background": [True], "conversation": ["conv_0"],
        "previous_response_id": ["resp_0", 1], "temperature": [3], "top_p": [0], "max_output_tokens": [0, "9"],
        "truncation": ["some"], "include[0]": [[7]], "reasoning.effort": [{"effort": "huge"}],
        "prompt": [{"id": "p"}], "instructions": [5], "tools": [{"f": FLAT}], "metadata[...]": [{"k": 1}],
        "model": [None],
    })  # fmt: skip
    yield wrong(COMPACT, "input[0].encrypted_content", input=[{"type": "compaction"}])
    yield from (wrong(COMPACT, None, input=[item]) for item in (7, {"role": "user"}))
    yield wrong(COMPACT, None, previous_response_id="resp_0", conversation="conv_0")
    here: list[Fields] = [
        {"type": "code_interpreter"}, {"type": "code_interpreter", "container": 5}, {"type": "mcp"},
        {"type": "mcp", "server_label": "x", "server_url": "http://169.254.169.254/latest"},
        {"type": "mcp", "headers": {}},
        {"type": "mcp", "server_label": "../x"}, {"type": "mcp", "server_label": "x", "allowed_tools": 5},
        {"type": "web_search", "filters": 5}, {"type": "mcp", "server_url": "file:///etc/passwd"},
        *({"type": "mcp", "server_label": "x", "server_url": url} for url in (
            "", "http://10.0.0.1/mcp", "http://[::1]/", "http://0x7f000001/", "http://u:p@example.com/", 5,
            "x" * 9000,
        )),
        {"type": "mcp", "server_label": "x", "server_url": "https://example.com/", "require_approval": "sometimes"},
        {"type": "mcp", "server_label": "x", "server_url": "https://example.com/", "require_approval": {"never": 5}},
        {"type": "mcp", "server_label": "x", "server_url": "https://example.com/", "headers": {"a": "b\r\nc: d"}},
        {"type": "mcp", "server_label": "x", "server_url": "https://example.com/", "connector_id": "connector_gmail"},
    ]  # fmt: skip
    for tool in here:
        yield wrong(RESPONSES, None, tools=[tool])
    yield from placed(RESPONSES, {
        "context_management": ["auto", [{"type": "compaction"}] * 2], "context_management[0]": [[7]],
        "context_management[0].type": [[{"type": "truncation"}], [{}]],
        "context_management[0].compact_threshold": [
            [{"type": "compaction", "compact_threshold": number}] for number in (0, -1, 1.5, "9", True)
        ],
    })  # fmt: skip


def layer() -> Iterator[Bad]:
    huge = [1] * 1_000_000
    yield from placed("/v1/tokenize", {"prompt": [None, 3]})
    yield from placed("/v1/detokenize", {"tokens": [None, "abc"], "tokens[1]": [[1, -1]], "tokens[0]": [[2**40]]})
    yield from placed("/v1/render", {"messages": [None, []], "tool_choice": ["required"], "n": [0]})
    yield from placed("/v1/parse", {"text": [None]})
    together: list[tuple[str, str, Fields]] = [
        ("/v1/tokenize", "prompt", {"prompt": "a", "messages": [USER]}),
        ("/v1/tokenize", "messages", {"prompt": None, "messages": []}),
        ("/v1/tokenize", "messages[0].role", {"prompt": None, "messages": [{"role": "boss", "content": "x"}]}),
        ("/v1/parse", "text", {"text": "a", "ids": [1]}), ("/v1/parse", "ids[0]", {"text": None, "ids": [10**9]}),
        ("/v1/parse", "prompt_ids[0]", {"text": "a", "prompt_ids": [-5]}),
    ]  # fmt: skip
    yield from (wrong(path, place, **fields) for path, place, fields in together)
    bad: dict[str, list[Fields]] = {
        "/v1/detokenize": [{"tokens": [*huge, -1]}], "/v1/parse": [{"text": None, "ids": [*huge, 10**9]}],
        "/v1/render": [{"chat_template_kwargs": {"tokenize": True, "chat_template": "{{ 1 }}"}}],
        "/v1/convert": [
            {"input": 5}, {"to": "nothing"}, {"from": "chatml"}, {"input": "x" * 2_200_000}, {"to": "../../etc/passwd"},
        ],
        "/v1/schemas/check": [{"text": "x" * 70_000}, {"text": 5}, {"strict": "yes"}],
        "/v1/templates/try": [
            {"messages": []}, {"messages": [USER] * 300}, {"reply": "x" * 40_000}, {"controls": ["x"] * 5000},
            {"template": "{% for %}"}, {"template": "{{ 1 / 0 }}"}, {"special_tokens": {"eos_token": 5}},
            {"template": "{% for i in range(10**9) %}{% endfor %}"}, {"chat_template_kwargs": {"messages": []}},
        ],
    }  # fmt: skip
    yield from (wrong(path, None, **fields) for path, several in bad.items() for fields in several)


def chats() -> Iterator[Bad]:
    yield from (wrong(CHAT, param, **fields) for fields, param in BAD_FIELDS)
    yield from (replace(wrong(CHAT, param, **fields), code="unsupported_parameter") for fields, param in UNSUPPORTED)
    bad: list[Fields] = [
        {"chat_template": "{% for i in range(10**9) %}{% endfor %}"}, {"chat_template_kwargs": {"tokenize": True}},
        {"chat_template": "{{ cycler.__init__.__globals__.os.popen('id').read() }}"},
        {"chat_template_kwargs": {"chat_template": "{{ ''.__class__.__mro__ }}"}}, {"chat_template_kwargs": []},
        {"chat_template_kwargs": {"x": "y" * 2_000_000}}, {"session_id": "../x"}, {"session_id": "x" * 10_000},
        {"sequence_start": True}, {"server_tools": ["python", "nothing"]}, {"messages": [USER] * 100_000},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}] * 10_000}]},
    ]  # fmt: skip
    for field_set in bad:
        yield wrong(CHAT, None, **field_set)


def interactive() -> Iterator[Bad]:
    yield from placed(INTERACTIVE, {
        "prompt": ["", []], "session_id": ["../x", [1], 1.5, -2, 2**63, 10**40], "image_url": ["http://127.0.0.1/x.png"],
        "adapter_name": ["lora"], "min_new_tokens": [4], "request_output_len": [-1, "9"], "stream": ["yes"],
        "stop[0]": [[""]], "skip_special_tokens": [False], "interactive_mode": ["yes"],
    })  # fmt: skip
    yield wrong(INTERACTIVE, "session_id", cancel=True)


def other_names() -> Iterator[Bad]:
    """Constraints in the words of other servers that nothing can hold, or that would take a server down."""
    deep: Any = "x"
    for _ in range(200):
        deep = {"type": "grammar", "grammar": deep}
    constraints: list[tuple[str, list[Any]]] = [
        ("grammar", ["x", "root ::= " + "(" * 30_000, "start: " + "[" * 50_000, deep, 5]),
        ("grammar", ["root ::= <[5]>", "root ::= root", "start: start"]),
        ("guided_json", ["{", 5, {"type": 123}, {"minItems": 10**9, "type": "array"}, "[" * 50_000]),
        ("guided_regex", ["(?=x)", "((x{999}){999}){999}", 5, "["]), ("guided_choice", [[], [""], [5], "x"]),
        ("structured_outputs", [{"regex": "x", "choice": ["y"]}, {"frob": 1}, {"structural_tag": "{"}, "x"]),
        ("response_format", [{"type": "json_object", "schema": {"type": 123}}]),
        ("stop_token_ids", [[-1], [10**9], ["x"], [1] * 2000 + list(range(2000))]),
    ]  # fmt: skip
    for path in (CHAT, TEXT, RESPONSES, INTERACTIVE, OLLAMA_CHAT, MESSAGES):
        for name, values in constraints:
            for value in values:
                yield wrong(path, None, **{name: value})
        for name in ("temprature", "bad_words", "mirostat", "lora", "use_beam_search"):
            yield wrong(path, name, **{name: 2})
    for path in (RESPONSES, INTERACTIVE):
        yield wrong(path, "prompt_logprobs", prompt_logprobs=2)


def embeddings() -> Iterator[Bad]:
    yield from placed(VECTORS, {
        "input": [None, [], [[]], [1, "a"], ["a"] * 2049, ["a"] * 100_000, [[1]] * 100_000],
        "input[0]": [[None], [1.5], [[10**9]]], "input[1]": [[1, -2]],
        "dimensions": [0, 10**9, -1, "384"], "encoding_format": ["hex"], "error_behavior": ["cut"],
        "truncate_prompt_tokens": [0, -2, 10**9, "9"],
    })  # fmt: skip
    yield from (wrong(VECTORS, None, input=input) for input in ([1] * 9000, "word " * 4000))


def ranking() -> Iterator[Bad]:
    """Rerank and score, under their several names."""
    long = "word " * 4000
    documents: list[Any] = [
        None, [], {}, 5, "a", True, [None], [5], [[]], [["a"]], [{}], [{"text": None}], [{"text": 5}], [{"image": "x"}],
        ["a", {"txt": "b"}], [True], [1.5], ["a"] * 100_000, [{"text": "a"}] * 100_000, [long], ["a", {"text": long}],
    ]  # fmt: skip
    for value in documents:
        yield wrong(RERANK, None, documents=value)
    for value in (None, 5, "", "  ", "\n\t", [], ["a"], {"text": "a"}, True, long):
        yield wrong(RERANK, "query", query=value)
    fields: list[tuple[str, list[Any]]] = [
        ("top_n", [-1, "3", 1.5, [], -(10**30)]), ("return_documents", ["yes", 1, {}]), ("return_text", ["no"]),
        ("truncate_prompt_tokens", [0, -2, 10**9, "9", 1, 2]), ("max_tokens_per_doc", [0, -1, "9", 0.5]),
        ("use_activation", [False, "yes"]), ("raw_scores", [True, 1]), ("model", ["none", 5, "../x", "smollm2"]),
        ("truncation_side", ["left"]), ("rank_fields", [["title"]]), ("max_chunks_per_doc", [3]),
        ("user", [5]), ("truncate", ["END", 5]),
    ]  # fmt: skip
    for name, values in fields:
        for value in values:
            yield wrong(RERANK, name, **{name: value})
    yield wrong(RERANK, "truncate", truncate=True, truncate_prompt_tokens=5)
    yield wrong(RERANK, "documents", texts=["a"])
    for texts in ([], 5, "a", [{"text": "a"}], [None], [long]):
        yield wrong(RERANK, None, documents=None, texts=texts)
    for path in ("/rerank", "/v2/rerank", "/reranking", "/v1/reranking", "/v1/v1/rerank"):
        yield Bad("no documents", path, b'{"query": "a"}', "documents")
    for side in ("text_1", "text_2"):
        for value in (None, 5, [], {}, [5], [None], [["a"]], ["a"] * 100_000, long, True):
            yield wrong(SCORE, None, **{side: value})
    pairs: list[tuple[str | None, Fields]] = [
        ("text_1", {"text_1": ""}), ("text_1[1]", {"text_1": ["a", " "], "text_2": ["b", "c"]}),
        ("text_2", {"text_1": ["a", "b"]}), ("text_2", {"text_1": ["a", "b"], "text_2": ["c"] * 3}),
        ("text_2[1]", {"text_2": ["a", long]}), ("use_activation", {"use_activation": False}),
        ("truncate_prompt_tokens", {"truncate_prompt_tokens": 0}), ("model", {"model": "smollm2"}),
        ("model", {"model": "none"}), ("text_3", {"text_3": "a"}),
    ]  # fmt: skip
    for param, body in pairs:
        yield wrong(SCORE, param, **body)
    yield Bad("nothing to compare", "/score", b"{}", "text_1")


def batches() -> Iterator[Bad]:
    """Batches of files that are nobody's, and what is no batch at all."""
    good = {"input_file_id": "file-0", "endpoint": CHAT, "completion_window": "24h"}
    bad: dict[str, list[Any]] = {
        "input_file_id": ["", "file-0", "../../etc/passwd", "file-%00", "x" * 100_000, 1, None, ["a"], {"id": "a"}],
        "endpoint": ["", "/v1/models", "/v1/batches", "http://[::1]/v1/chat/completions", "chat", 1, None, [CHAT]],
        "completion_window": ["", "1h", "24H", "24", 24, None, ["24h"], "9" * 10_000],
        "metadata": [1, "x", ["a"], {"k": 1}, {"k" * 65: ""}, {"k": "v" * 513}, {str(i): "" for i in range(17)}],
        "output_expires_after": [
            1, "1h", {}, {"anchor": "created_at"}, {"seconds": 3600}, {"anchor": "now", "seconds": 3600},
            {"anchor": "created_at", "seconds": 3599}, {"anchor": "created_at", "seconds": 10**9},
            {"anchor": "created_at", "seconds": "3600"}, {"anchor": "created_at", "seconds": 3600, "more": 1},
        ],
    }  # fmt: skip
    for name, values in bad.items():
        for value in values:
            yield Bad(f"{name} {str(value)[:40]}", BATCHES, json.dumps({**good, name: value}).encode())
        yield Bad(f"no {name}", BATCHES, json.dumps({key: one for key, one in good.items() if key != name}).encode())
    for kind in ("application/json", "text/plain", "multipart/form-data", "multipart/form-data; boundary=", ""):
        for body in (b"", b"{}", b"--\r\n\r\n", b"x" * 1000):
            yield Bad(f"a file as {kind or 'nothing'}", "/v1/files", body, headers={"content_type": kind})
    for path in ("/v1/files", BATCHES):
        for query in ("limit=0", "limit=-1", "limit=x", "limit=99999999", "after=x", "after=%00", "after=../../etc"):
            yield Bad(f"GET a page of {query}", f"{path}?{query}", None, method="GET", headers={})


def others() -> Iterator[Bad]:
    invocations: list[tuple[str, Fields]] = [
        ("no task", {}), ("two tasks", {"prompt": "a", "input": "b"}), ("messages of nothing", {"messages": []}),
        ("a temperature of 9", {"messages": [USER], "temperature": 9}), ("no messages", {"messages": "x"}),
    ]  # fmt: skip
    for what, fields in invocations:
        yield Bad(what, "/serving-endpoints/smollm2/invocations", json.dumps(fields).encode())
    for what, body in (("items of no kind", {"items": [7]}), ("metadata of numbers", {"metadata": {"a": 1}})):
        yield Bad(what, "/v1/conversations", json.dumps(body).encode())
    text = {"content_type": "text/x-openchatml"}
    for what, transcript in (
        ("no transcript", b"hello"),
        ("bytes", b"\xff\xfe"),
        ("half a frame", b"<|im_start|>user"),
    ):
        yield Bad(what, "/v1/openchatml", transcript, headers=text)


def unknown_places() -> Iterator[Bad]:
    """Addresses and methods that are not there, and things that are nobody's."""
    for path in (
        "/api", "/api/nothing", "/api/chat/", "/v1", "/v1/nothing", "/v1/models/none",
        "/v1/models/..%2f..%2fetc%2fpasswd", "/v1/models/%00",
        "/v1/responses/resp_0", "/v1/responses/%00", "/v1/responses/..%2f..%2fetc", "/v1/responses/resp_0/input_items",
        "/v1/conversations/conv_0", "/v1/conversations/conv_0/items", "/v1/conversations/conv_0/items/msg_0",
        "/swagger", "/redoc", "/v1/files/file-0", "/v1/files/file-0/content", "/v1/files/%00", "/v1/batches/batch_0",
        "/v1/batches/..%2f..%2fetc", "/v1/files/..%2f..%2fetc/content",
        "/v1/streams/chatcmpl-0", "/v1/streams/%00", "/v1/streams/..%2f..%2fetc", "/v1/streams/a?starting_after=-1",
        "/v1/fine_tuning/jobs", "/.env", "/v1/chat/completion", "/%2e%2e/etc/passwd",
    ):  # fmt: skip
        yield Bad("GET what is not there", path, None, method="GET", headers={})
    for path in (CHAT, TEXT, RESPONSES, VECTORS, RERANK, SCORE, "/v1/models", "/health"):
        yield Bad("a method that is not there", path, b"{}", method="PATCH")
    for path in ("/v1/responses/resp_0/cancel", "/v1/conversations/conv_0/items", "/v1/batches/batch_0/cancel"):
        yield Bad("POST to what is not there", path, b"{}")
    conversation = "/v1/conversations/conv_0"
    for path in (
        "/v1/responses/resp_0",
        conversation,
        f"{conversation}/items/msg_0",
        "/v1/files/file-0",
        "/v1/streams/cmpl-0",
    ):
        yield Bad("DELETE what is not there", path, None, method="DELETE", headers={})
