"""Bad input gets a 4xx with OpenAI's body and the field's name; the server goes on as if nothing had been."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.api import Limits
from kit.api import END, Got, app, chat, ids, request, running, scripted

ENGINE = scripted(ids("Fine.", END), context=400)
LIMITS = Limits(max_body=2**20, max_messages=100)
USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with running(app(ENGINE, limits=LIMITS)) as url:
        yield url


@pytest.fixture(autouse=True)
def _the_server_goes_on(base: str) -> Iterator[None]:
    yield
    assert chat(base).json["choices"][0]["message"]["content"] == "Fine."
    assert ENGINE.running == 0


def raw(base: str, body: bytes, **headers: str) -> Got:
    return request(base, "POST", "/v1/chat/completions", body, **{"content_type": "application/json", **headers})


BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [7]}, "messages[0]"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "__class__.__init__.__globals__", "content": "x"}]}, "messages[0].role"),
    ({"messages": [USER, {"role": "system; import os", "content": "x"}]}, "messages[1].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "assistant"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "tool", "tool_call_id": "c9", "content": "x"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].name"),
    ({"messages": [{"role": "user", "content": "x", "tool_calls": [CALL]}]}, "messages[0].tool_calls"),
    ({"messages": [USER] * 101}, "messages"),
    ({"model": "../../etc/passwd"}, "model"),
    ({"model": 3}, "model"),
    ({"n": 0}, "n"),
    ({"n": -1}, "n"),
    ({"n": 10**9}, "n"),
    ({"n": 1.5}, "n"),
    ({"n": "2"}, "n"),
    ({"n": True}, "n"),
    ({"temperature": "1"}, "temperature"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": 1e30}, "temperature"),
    ({"top_p": 5}, "top_p"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"min_p": 2}, "min_p"),
    ({"presence_penalty": 1e9}, "presence_penalty"),
    ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 10**30}, "max_tokens"),
    ({"seed": 2**64}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"seed": "x"}, "seed"),
    ({"stop": [str(i) for i in range(10_000)]}, "stop"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"stop": "x" * 100_000}, "stop[0]"),
    ({"stop": [1]}, "stop[0]"),
    ({"logit_bias": {"99999999": 1}}, "logit_bias"),
    ({"logit_bias": {"abc": 1}}, "logit_bias"),
    ({"logit_bias": {"-5": 1}}, "logit_bias"),
    ({"logit_bias": {"5": 1e39}}, "logit_bias.5"),
    ({"logit_bias": {str(i): 1 for i in range(5000)}}, "logit_bias"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
    ({"tools": [TOOL] * 1000}, "tools"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "<|x|>"}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "x" * 65}}]}, "tools[0].function.name"),
    ({"tool_choice": "auto"}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"reasoning_effort": "heroic"}, "reasoning_effort"),
    ({"continue_final_message": True}, "continue_final_message"),
]


@pytest.mark.parametrize(("fields", "param"), BAD_FIELDS, ids=lambda value: str(value)[:60])
def test_a_bad_field_is_named(base: str, fields: dict[str, Any], param: str) -> None:
    got = chat(base, **fields)
    assert got.status == (404 if param == "model" and isinstance(fields["model"], str) else 400), got.body
    assert got.error["type"] == "invalid_request_error"
    assert got.error["param"] == param
    assert got.error["code"]


UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"audio": {"voice": "x"}}, "audio"),
    ({"web_search_options": {"x": 1}}, "web_search_options"),
    ({"best_of": 10**9}, "best_of"),
    ({"store": True}, "store"),
    ({"min_tokens": 5}, "min_tokens"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
]


@pytest.mark.parametrize(("fields", "param"), UNSUPPORTED, ids=lambda value: str(value)[:60])
def test_what_cannot_be_honoured_is_refused_and_not_ignored(base: str, fields: dict[str, Any], param: str) -> None:
    got = chat(base, **fields)
    assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_parameter", param)


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file", "x" * 1000])
def test_parts_that_are_not_text_are_refused_by_place(base: str, kind: str) -> None:
    parts = [{"type": "text", "text": "look"}, {"type": kind, "image_url": {"url": "data:,"}}]
    got = chat(base, messages=[{"role": "user", "content": parts}])
    assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_content", "messages[0].content[1]")
    assert len(got.error["message"]) < 300


MALFORMED: list[tuple[bytes, str | None]] = [
    (b"", None),
    (b"{", None),
    (b"[]", None),
    (b'"hi"', None),
    (b"null", None),
    (b'{"messages": [}', None),
    (b'{"messages": ["\xff"]}', None),
    (b"\xef\xbb\xbf{}", None),
    (b"[" * 100_000, None),
    (b'{"messages": ' + b"[" * 100_000, None),
    (b'{"unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    (b'{"messages":[{"role":"user","content":"x"}],"temperature":NaN}', "temperature"),
    (b'{"messages":[{"role":"user","content":"x"}],"top_p":-Infinity}', "top_p"),
    (b'{"messages":[{"role":"user","content":"x"}],"temperature":1e400}', "temperature"),
    (b'{"messages":[{"role":"user","content":"\\ud800"}]}', "messages[0].content"),
    (b'{"messages":[{"role":"user","content":"\\udc00 tail"}]}', "messages[0].content"),
    (b'{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":[]}}]}]}',
     "messages[0].tool_calls[0].function.arguments"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "param"), MALFORMED, ids=lambda value: str(value)[:50])
def test_a_malformed_body_is_a_400(base: str, body: bytes, param: str | None) -> None:
    got = raw(base, body)
    assert (got.status, got.error["type"], got.error["param"]) == (400, "invalid_request_error", param), got.body


def test_a_body_over_the_limit_is_a_413_whether_its_length_is_told_or_not(base: str) -> None:
    huge = json.dumps({"messages": [{"role": "user", "content": "x" * (10 * 2**20)}]}).encode()
    told = request(
        base, "POST", "/v1/chat/completions", b"{}", content_type="application/json", content_length="99999999"
    )
    assert (told.status, told.error["code"]) == (413, "body_too_large")
    for size, status in ((10 * 2**20, 413), (2**20 + 1, 413), (2**20, 400)):
        assert raw(base, huge[:size]).status == status


def test_another_kind_of_body_is_a_415(base: str) -> None:
    body = json.dumps({"messages": [USER]}).encode()
    assert raw(base, body, content_type="text/plain").error["code"] == "unsupported_media_type"
    assert raw(base, body, content_type="application/x-www-form-urlencoded").status == 415
    assert raw(base, body, content_encoding="gzip").status == 415
    assert raw(base, body, content_type="application/json; charset=utf-8").status == 200


def test_unknown_urls_and_methods_have_openai_s_body(base: str) -> None:
    lost = request(base, "GET", "/v1/nothing")
    assert (lost.status, lost.error["code"]) == (404, "unknown_url")
    wrong = request(base, "GET", "/v1/chat/completions")
    assert (wrong.status, wrong.error["code"], wrong.headers["allow"]) == (405, "method_not_allowed", "POST")
    absent = request(base, "GET", "/v1/models/owner/absent")
    assert (absent.status, absent.error["code"], absent.error["param"]) == (404, "model_not_found", "model")


def test_a_prompt_longer_than_the_context_is_told_both_numbers(base: str) -> None:
    room = 400 - len("user\nassistant\n\n") - 3
    got = chat(base, messages=[{"role": "user", "content": "x" * 1000}])
    assert (got.status, got.error["code"], got.error["param"]) == (400, "context_length_exceeded", "messages")
    assert "400" in got.error["message"]
    assert "1019" in got.error["message"]
    assert chat(base, messages=[{"role": "user", "content": "x" * (room - 1)}]).status == 200
    assert chat(base, messages=[{"role": "user", "content": "x" * room}]).status == 400


def test_odd_but_possible_conversations_are_answered(base: str) -> None:
    possible: list[list[dict[str, Any]]] = [
        [{"role": "system", "content": "Be."}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": []}],
        [{"role": "user", "content": " \n\t\x00"}],
        [{"role": "developer", "content": "d", "name": "me"}, USER, {"role": "assistant", "refusal": "no"}],
        [USER, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": None}],
        [USER, {"role": "assistant", "content": "So", "reasoning_content": "hm", "tool_calls": [CALL]},
         {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "1"}]}],
        [USER, {"role": "assistant", "content": "It is"}],
    ]  # fmt: skip
    for messages in possible:
        assert chat(base, messages=messages).status == 200, messages


def test_an_answered_call_cannot_be_answered_again(base: str) -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "1"}
    got = chat(base, messages=[USER, {"role": "assistant", "tool_calls": [CALL]}, result, result])
    assert (got.status, got.error["param"]) == (400, "messages[3].tool_call_id")


def test_engine_settings_of_others_are_never_forwarded(base: str) -> None:
    ENGINE.requests.clear()
    odd = dict.fromkeys(
        ("n_discard", "id_slot", "cache_prompt", "samplers", "lora", "grammar", "n_keep", "filename"), 1
    )
    plain = chat(base)
    assert chat(base, **odd).status == plain.status == 200
    assert ENGINE.requests[0] == ENGINE.requests[1]
