"""Requests of Anthropic's messages that no server may take, each with the place that the refusal names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .bad_requests import GOOD, MESSAGE_TOKENS, MESSAGES, Bad, wrong

USER = {"role": "user", "content": "Hi"}
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def answered(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


VALUES: dict[str, list[Any]] = {
    "messages": [[], "hi", [{"role": "system", "content": "x"}], [USER] * 100_000], "stream": ["yes"],
    "model": ["../../etc/passwd", "", "claude-opus-9", ["m"]], "system": [3, {"type": "text", "text": "x"}],
    "stop_sequences": ["x", ["x"] * 2000], "temperature": [2.5, "1"], "top_p": [0], "top_k": [1.5],
    "thinking": ["yes"], "output_config": [3], "container": ["container_1"],
    "mcp_servers": [[{"type": "url", "url": "http://127.0.0.1/", "name": "x"}]],
    "thread": [{"id": "t"}], "compaction": [{"type": "auto"}], "n": [2], "bad_words": [["x"]], "temprature": [1],
    "max_tokens": [-1, 10**30, "9", 1.5], "tools": [{"f": TOOL}, [{**TOOL, "name": f"f{i}"} for i in range(1100)]],
    "tool_choice": ["auto", {"type": "any"}, {"type": "tool", "name": "f"}],
}  # fmt: skip
"""Of fields that the refusal names as they are."""
FIELDS: list[tuple[dict[str, Any], str]] = [
    *(({name: value}, name) for name, values in VALUES.items() for value in values),
    ({"messages": [7]}, "messages[0]"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}]}, "messages[0].content"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "__class__.__init__", "content": "x"}]}, "messages[0].role"),
    ({"messages": [USER, {"role": "developer", "content": "x"}]}, "messages[1].role"),
    ({"messages": [{"role": "system", "content": [{"type": "image"}]}, USER]}, "messages[0].content[0]"),
    ({"messages": [USER, said(USE), answered({"type": "tool_result", "id": "toolu_1"})]},
     "messages[2].content[0].tool_use_id"),
    ({"messages": [USER, said(USE), answered({**RESULT, "content": [{"type": "image"}]})]},
     "messages[2].content[0].content[0]"),
    ({"messages": [USER, said(USE), answered({**RESULT, "content": {"a": 1}})]}, "messages[2].content[0].content"),
    ({"messages": [USER, said(USE), answered({**RESULT, "is_error": "yes"})]}, "messages[2].content[0].is_error"),
    ({"system": [{"type": "image", "source": {}}]}, "system[0]"),
    ({"system": [{"type": "text"}]}, "system[0].text"),
    ({"stop_sequences": [1]}, "stop_sequences[0]"),
    ({"stop_sequences": [""]}, "stop_sequences[0]"),
    ({"stop_sequences": ["x" * 2000]}, "stop_sequences[0]"),
    ({"thinking": {}}, "thinking.type"),
    ({"thinking": {"type": "much"}}, "thinking.type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": "9"}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "adaptive", "display": 5}}, "thinking.display"),
    ({"output_config": {"effort": "huge"}}, "output_config.effort"),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format"),
    ({"output_format": {"type": "yaml"}}, "output_format.type"),
    ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, "context_management.edits[0].type"),
    ({"context_management": {"edits": [{}]}}, "context_management.edits[0].type"),
]  # fmt: skip

TOOLS: list[tuple[dict[str, Any], str]] = [
    ({"tools": ["f"]}, "tools[0]"),
    ({"tools": [{}]}, "tools[0].name"),
    ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
    ({"tools": [{**TOOL, "name": ""}]}, "tools[0].name"),
    ({"tools": [{**TOOL, "name": "../x"}]}, "tools[0].name"),
    ({"tools": [{**TOOL, "name": "x" * 200}]}, "tools[0].name"),
    ({"tools": [TOOL, TOOL]}, "tools[1].name"),
    ({"tools": [{**TOOL, "input_schema": "{}"}]}, "tools[0].input_schema"),
    ({"tools": [{**TOOL, "description": 3}]}, "tools[0].description"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "code_execution_20250522", "name": "code_execution"}]}, "tools[0].type"),
    ({"tools": [{"type": "web_search_20250305", "max_uses": "1"}]}, "tools[0].max_uses"),
    ({"tools": [{"type": "web_search_20250305", "allowed_domains": "x"}]}, "tools[0].allowed_domains"),
    ({"tools": [{"type": "bash_20991231", "name": "bash"}]}, "tools[0].type"),
    ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}, "tools[0].type"),
    ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice.name"),
    ({"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": "yes"}},
     "tool_choice.disable_parallel_tool_use"),
]  # fmt: skip

BLOCKS: list[tuple[Any, str]] = [
    ("Hi", ""),
    ({}, ".type"),
    ({"type": "text"}, ".text"),
    ({"type": "text", "text": 3}, ".text"),
    ({"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/x.png"}}, ""),
    ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, ""),
    ({"type": "document", "source": {"type": "file", "file_id": "file_1"}}, ""),
    ({"type": "container_upload", "file_id": "file_1"}, ""),
    ({"type": "search_result", "source": "x", "title": "x", "content": [{"type": "video"}]}, ""),
    ({"type": "thinking", "thinking": "x", "signature": "x"}, ""),
    (USE, ""),
    ({"type": "tool_result"}, ".tool_use_id"),
    ({"type": "__class__"}, ""),
]
"""A user's."""

SAID: list[tuple[Any, str]] = [
    ({"type": "tool_use", "name": "f", "input": {}}, ".id"),
    ({"type": "tool_use", "id": "toolu_1", "input": {}}, ".name"),
    ({"type": "tool_use", "id": "toolu_1", "name": "f"}, ".input"),
    ({**USE, "input": "{}"}, ".input"),
    ({**USE, "input": [1]}, ".input"),
    (RESULT, ""),
    ({"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {}}, ".name"),
    ({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": [1]}, ".input"),
    ({"type": "server_tool_use", "name": "web_search", "input": {}}, ".id"),
    ({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, ".tool_use_id"),
    ({"type": "code_execution_tool_result", "content": {"type": "code_execution_result"}}, ".tool_use_id"),
    ({"type": "web_fetch_tool_result", "tool_use_id": "x", "content": {"type": "web_fetch_result", "url": 1}},
     ".content.url"),
    ({"type": "bash_code_execution_tool_result", "tool_use_id": "x", "content": {"type": "x"}}, ""),
    ({"type": "thinking", "thinking": 3, "signature": ""}, ".thinking"),
    ({"type": "image"}, ""),
]  # fmt: skip
"""The assistant's."""

MALFORMED = {"type": "json_schema", "schema": {"type": "strin"}}
SHAPES: list[tuple[dict[str, Any], str]] = [
    ({"output_format": MALFORMED}, "output_format.schema.type"),
    ({"output_config": {"format": MALFORMED}}, "output_config.format.schema.type"),
    ({"tools": [{"name": "f", "strict": True, "input_schema": {"type": "strin"}}]}, "tools[0].input_schema.type"),
]
ONE: dict[str, Any] = {"custom_id": "a", "params": {"model": "smollm2", "max_tokens": 9, "messages": [USER]}}
BATCHED: list[tuple[Any, str]] = [
    (None, "requests"), ([], "requests"), ({}, "requests"), ("x", "requests"),
    ([None], "requests[0]"), ([[]], "requests[0]"), (["x"], "requests[0]"),
    *(([{**ONE, "custom_id": id}], "requests[0].custom_id") for id in (None, 7, "", "../x", "x" * 65, "é")),
    ([{**ONE, "params": None}], "requests[0].params"), ([{**ONE, "params": []}], "requests[0].params"),
    ([{**ONE, "params": "x"}], "requests[0].params"),
    ([{"params": {}}], "requests[0].custom_id"),
    ([{"custom_id": "a"}], "requests[0].params"),
    ([ONE, ONE], "requests[1].custom_id"),
    ([{**ONE, "params": {**ONE["params"], "stream": True}}], "requests[0].params.stream"),
]  # fmt: skip
MESSAGE_BATCHES = f"{MESSAGES}/batches"
BAD_MODELS = (
    "/anthropic/v1/models/nothing",
    *(
        f"/anthropic/v1/models?{query}"
        for query in ("limit=0", "limit=1001", "limit=x", "after_id=no", "before_id=../x", "after_id=a&before_id=b")
    ),
)


def bad_fields() -> Iterator[tuple[dict[str, Any], str]]:
    """All of them, blocks in the messages that they stand in."""
    yield from (*FIELDS, *TOOLS, *SHAPES)
    for block, place in BLOCKS:
        yield {"messages": [{"role": "user", "content": [block]}]}, f"messages[0].content[0]{place}"
    for block, place in SAID:
        yield {"messages": [USER, said(block), USER]}, f"messages[1].content[0]{place}"


def bad_messages() -> Iterator[Bad]:
    """Anthropic's messages, and the tokens of one."""
    for name in GOOD[MESSAGES]:
        body = {key: value for key, value in GOOD[MESSAGES].items() if key != name}
        yield Bad(f"no {name}", MESSAGES, json.dumps(body).encode(), name)
    yield wrong(MESSAGES, "max_tokens", max_tokens=None)
    for path in (MESSAGES, MESSAGE_TOKENS):
        for fields, param in bad_fields():
            yield wrong(path, param, **fields)
        yield Bad("PUT", path, b"{}", method="PUT")
    yield Bad("no such message", "/v1/messages/msg_1", None, method="GET")
    for requests, param in BATCHED:
        data = json.dumps({"requests": requests}).encode()
        yield Bad(f"a batch of {str(requests)[:40]}", MESSAGE_BATCHES, data, param)
    for path in ("msgbatch_0", "msgbatch_0/results", "..%2f..%2fetc", "%00"):
        yield Bad("no such batch of messages", f"{MESSAGE_BATCHES}/{path}", None, method="GET", headers={})
    for query in ("limit=0", "limit=1001", "limit=x", "after_id=no", "before_id=../x", "after_id=a&before_id=b"):
        yield Bad("no such page of batches", f"{MESSAGE_BATCHES}?{query}", None, method="GET", headers={})
    yield Bad("no such batch to cancel", f"{MESSAGE_BATCHES}/msgbatch_0/cancel", b"")
    yield Bad("no such batch to delete", f"{MESSAGE_BATCHES}/msgbatch_0", None, method="DELETE", headers={})
    for path in BAD_MODELS:
        yield Bad("no such model, or page", path, None, method="GET", headers={})
