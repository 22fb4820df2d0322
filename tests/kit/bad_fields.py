"""Fields of requests for a chat, and for a response, that no server may take, each with the name of the refusal."""

from __future__ import annotations

from typing import Any

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f"}}
FLAT = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}

BAD_VALUES: dict[str, list[Any]] = {
    "messages": [None, [], "hi"], "n": [0, -1, 10**9, 1.5, "2", True], "model": ["../../etc/passwd", 3],
    "max_tokens": [-1, 10**30], "stop": [[str(i) for i in range(10_000)], ["a", "b", "c", "d", "e"]],
    "logit_bias": [{"99999999": 1}, {"abc": 1}, {"-5": 1}, {str(i): 1 for i in range(5000)}],
    "top_logprobs": [2], "stream_options": [{"include_usage": True}], "tools": [[TOOL] * 1000], "tool_choice": ["auto"],
    "reasoning_effort": ["heroic"], "continue_final_message": [True],
}  # fmt: skip
"""Of fields that the refusal names as they are: a 400, or a 404 for the model. Numbers are in `bad_requests`."""
BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    *(({name: value}, name) for name, values in BAD_VALUES.items() for value in values),
    ({"messages": [7]}, "messages[0]"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "__class__.__init__.__globals__", "content": "x"}]}, "messages[0].role"),
    ({"messages": [USER, {"role": "system; import os", "content": "x"}]}, "messages[1].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].name"),
    ({"messages": [{"role": "user", "content": "x", "tool_calls": [CALL]}]}, "messages[0].tool_calls"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"stop": "x" * 100_000}, "stop[0]"),
    ({"stop": [1]}, "stop[0]"),
    ({"logit_bias": {"5": 1e39}}, "logit_bias.5"),
    *(({"logprobs": True, "top_logprobs": count}, "top_logprobs") for count in (21, -1)),
    ({"logprobs": False, "top_logprobs": -1}, "top_logprobs"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
    *(
        ({"tools": [{"type": "function", "function": {"name": name}}]}, "tools[0].function.name")
        for name in ("a b", "<|x|>", "x" * 65, ".a", "a.", "a..b", ".")
    ),
    ({"tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
]

UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"audio": {"voice": "x"}}, "audio"),
    ({"web_search_options": {"x": 1}}, "web_search_options"),
    ({"best_of": 10**9}, "best_of"),
    ({"min_tokens": 5, "tools": [TOOL]}, "min_tokens"),
    ({"include_stop_str_in_output": True, "stop_token_ids": [5]}, "include_stop_str_in_output"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
]
"""Known, and nothing here can honour them: ``unsupported_parameter``."""

CALLED = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "1"}
ALLOWED = {"type": "allowed_tools", "mode": "auto"}
UNKNOWN = {"type": "function", "name": "g"}
BAD_RESPONSE_VALUES: dict[str, list[Any]] = {
    "input": [None, [], 7], "temperature": [3], "top_p": [0], "conversation": ["conv_unknown"],
    "previous_response_id": ["resp_unknown", "../../etc/passwd"],
    "stream_options": [{"include_obfuscation": True}], "max_output_tokens": [0, -1], "max_tool_calls": [-1],
    "top_logprobs": [21], "metadata": [{str(i): "" for i in range(17)}, {"k" * 65: ""}, {"k": "v" * 513}],
    "prompt": [{"id": "pmpt_1"}], "truncation": ["some"], "tools": [[FLAT] * 129], "tool_choice": ["required"],
}  # fmt: skip
BAD_RESPONSES: list[tuple[dict[str, Any], str]] = [
    *(({name: value}, name) for name, values in BAD_RESPONSE_VALUES.items() for value in values),
    ({"input": [7]}, "input[0]"),
    ({"input": [{"content": "Hi"}]}, "input[0].role"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "__class__", "content": "x"}]}, "input[0].role"),
    ({"input": [USER, {"type": "computer_call", "id": "x"}]}, "input[1].type"),
    ({"input": [USER, {"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[1].call_id"),
    ({"input": [USER, {"type": "function_call", "call_id": "c", "name": "f"}]}, "input[1].arguments"),
    ({"input": [USER, CALLED, {**OUTPUT, "output": None}]}, "input[2].output"),
    ({"input": [USER, CALLED, {**OUTPUT, "output": 5}]}, "input[2].output"),
    ({"input": [{"type": "item_reference", "id": "msg_0"}]}, "input[0].id"),
    ({"input": [{"type": "reasoning", "encrypted_content": "AAAA"}]}, "input[0].encrypted_content"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0]"),
    ({"previous_response_id": "resp_0", "conversation": "conv_0"}, "previous_response_id"),
    ({"background": True, "store": False}, "background"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
    ({"tools": [FLAT, FLAT]}, "tools[1].name"),
    ({"tools": [{"type": "custom", "name": "c", "format": {"type": "grammar"}}]}, "tools[0].format.syntax"),
    ({"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, "tools[0].environment.type"),
    ({"tools": [{"type": "namespace", "name": "a.b", "tools": []}]}, "tools[0].name"),
    ({"tools": [FLAT], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice.name"),
    ({"tools": [FLAT], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
    ({"tools": [FLAT], "tool_choice": {**ALLOWED, "tools": []}}, "tool_choice.tools"),
    ({"tools": [FLAT], "tool_choice": {**ALLOWED, "tools": [UNKNOWN]}}, "tool_choice.tools[0].name"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
    ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
]
"""Of a request for a response, the same."""
