"""Calls that were approved or refused, in items of the Responses API, as other forms have them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon import convert
from antiphon.errors import ParseError


def request(number: int) -> dict[str, Any]:
    return {"type": "mcp_approval_request", "id": f"r{number}", "server_label": "p", "name": "a", "arguments": "{}"}


def response(number: int, *, approve: bool, **fields: Any) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": f"r{number}", "approve": approve, **fields}


def test_a_result_of_no_call_is_refused_where_it_stands() -> None:
    items = [{"role": "user", "content": "Hi"}, {"type": "function_call_output", "call_id": "x", "output": "7"}]
    with pytest.raises(ParseError, match="waits for an answer") as refused:
        convert(json.dumps({"model": "m", "input": items}), to="chat")
    assert "input[1].call_id" in str(refused.value)


def test_each_call_has_one_answer() -> None:
    ran = {"type": "mcp_call", "id": "m", "server_label": "p", "name": "a", "arguments": "{}", "output": "7"}
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "mcp_list_tools", "id": "l", "server_label": "p", "tools": []},
        request(1), response(1, approve=True), {**ran, "approval_request_id": "r1"},
        request(2), response(2, approve=False, reason="Not now."),
        {"type": "message", "role": "assistant", "content": "Done."},
    ]  # fmt: skip
    messages = json.loads(convert(json.dumps({"model": "m", "input": items}), to="chat").text)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    first, second = messages[1]["tool_calls"][0], messages[3]["tool_calls"][0]
    assert (first["function"]["name"], second["function"]["name"]) == ("p__a", "p__a")
    assert (messages[2]["tool_call_id"], messages[2]["content"]) == (first["id"], "7")
    assert messages[4]["tool_call_id"] == second["id"]
    assert "the user refused this call: Not now." in messages[4]["content"]
