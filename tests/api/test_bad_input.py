"""Whatever is wrong with a request, it is a 4xx at once in OpenAI's shape with the field's name; the server goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import ErrorResponse as MessagesErrorResponse

from antiphon.api import Limits, create_app
from antiphon.catalog.static import StaticCatalog
from kit.api import END, Got, app, chat, ids, in_process, request, scripted, served
from kit.bad_fields import CALL, USER
from kit.bad_messages import bad_messages
from kit.bad_requests import Bad, bad_requests
from kit.obliging import chatting_and_embedding

ENGINE = scripted(ids("Fine.", END), context=400)
LIMITS = Limits(max_body=2**20, max_messages=100)


asked = served(lambda: app(ENGINE, limits=LIMITS))


@pytest.fixture
def base(asked: str) -> Iterator[str]:
    """A server that goes on after each test."""
    yield asked
    assert chat(asked).json["choices"][0]["message"]["content"] == "Fine."
    assert ENGINE.running == 0


def raw(base: str, body: bytes, **headers: str) -> Got:
    return request(base, "POST", "/v1/chat/completions", body, **{"content_type": "application/json", **headers})


def test_so_many_messages_are_read_and_no_more(base: str) -> None:
    got = [chat(base, messages=[USER] * count) for count in (100, 101)]
    assert [one.error["param"] for one in got] == ["messages", "messages"]
    assert [one.error["code"] == "context_length_exceeded" for one in got] == [True, False]


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


def test_a_body_over_the_limit_is_a_413_whether_its_length_is_reported_or_not(base: str) -> None:
    huge = json.dumps({"messages": [{"role": "user", "content": "x" * (10 * 2**20)}]}).encode()
    answer = request(
        base, "POST", "/v1/chat/completions", b"{}", content_type="application/json", content_length="99999999"
    )
    assert (answer.status, answer.error["code"]) == (413, "body_too_large")
    for size, status in ((10 * 2**20, 413), (2**20 + 1, 413), (2**20, 400)):
        assert raw(base, huge[:size]).status == status


def test_another_kind_of_body_is_a_415(base: str) -> None:
    body = json.dumps({"messages": [USER]}).encode()
    assert raw(base, body, content_type="text/plain").error["code"] == "unsupported_media_type"
    assert raw(base, body, content_type="application/x-www-form-urlencoded").status == 415
    assert raw(base, body, content_encoding="gzip").status == 415
    assert raw(base, body, content_type="application/json; charset=utf-8").status == 200


def test_a_url_and_a_tool_that_are_nearly_right_are_answered_with_the_right_ones(base: str) -> None:
    lost = request(base, "POST", "/v1/chat/completion", b"{}")
    assert lost.error["message"].endswith("Did you mean /v1/chat/completions?")
    tools = [{"type": "function", "function": {"name": "weather"}}]
    body = {"messages": [{"role": "user", "content": "x"}], "tools": tools, "tool_choice": "weathr"}
    got = request(base, "POST", "/v1/chat/completions", json.dumps(body).encode())
    assert (got.status, got.error["param"]) == (400, "tool_choice")
    assert got.error["message"].endswith("Did you mean weather?")


def test_unknown_urls_and_methods_have_openai_s_body(base: str) -> None:
    lost = request(base, "GET", "/v1/nothing")
    assert (lost.status, lost.error["code"]) == (404, "unknown_url")
    for method, path, allowed in (
        ("GET", "/v1/completions", "POST"),
        ("PUT", "/v1/chat/completions", "GET, HEAD, POST"),
        ("PATCH", "/v1/conversations/conv_1", "DELETE, GET, HEAD, POST"),
    ):
        wrong = request(base, method, path)
        assert (wrong.status, wrong.error["code"], wrong.headers["allow"]) == (405, "method_not_allowed", allowed)
    absent = request(base, "GET", "/v1/models/owner/absent")
    assert (absent.status, absent.error["code"], absent.error["param"]) == (404, "model_not_found", "model")


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(base: str) -> None:
    room = 400 - len("user\nassistant\n\n") - 3
    got = chat(base, messages=[{"role": "user", "content": "x" * 1000}])
    assert (got.status, got.error["code"], got.error["param"]) == (400, "context_length_exceeded", "messages")
    assert "400" in got.error["message"]
    assert "1019" in got.error["message"]
    (choice,) = chat(base, messages=[{"role": "user", "content": "x" * (room - 1)}]).json["choices"]
    assert (choice["finish_reason"], len(choice["message"]["content"])) == ("length", 1), "just one token is left"
    full = chat(base, messages=[{"role": "user", "content": "x" * room}])
    assert (full.status, full.error["code"]) == (400, "context_length_exceeded")
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


def test_engine_settings_of_others_are_never_forwarded(base: str) -> None:
    ENGINE.requests.clear()
    odd = dict.fromkeys(("n_discard", "id_slot", "cache_prompt", "n_keep", "filename"), 1)
    plain = chat(base)
    assert chat(base, **odd).status == plain.status == 200
    assert ENGINE.requests[0] == ENGINE.requests[1]


async def test_a_server_without_a_default_model_asks_for_one_by_name() -> None:
    got = await in_process(create_app(StaticCatalog({})))
    error = got.error
    assert (got.status, error["code"], error["param"]) == (400, "missing_required_parameter", "model")


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [("GET", "/v1/messages", 405, "POST"), ("POST", "/v1/messages/x/y", 404, None)],
)
def test_what_no_route_answers_is_refused_with_the_id_of_the_request(
    base: str, method: str, path: str, status: int, allow: str | None
) -> None:
    got = request(base, method, path, x_request_id="mine-1")
    assert (got.status, got.json["request_id"], got.headers["x-request-id"]) == (status, "mine-1", "mine-1")
    assert got.headers.get("allow") == allow


ALL = [*bad_requests(), *bad_messages()]
PLACES = {bad.path.partition("?")[0] for bad in ALL}
QUICK = 30.0
"""Seconds: far more than any of them takes, far less than a server that hangs."""


obliging = served(lambda: chatting_and_embedding())


@pytest.mark.parametrize("place", sorted(PLACES))
def test_bad_requests_are_refused_in_the_words_of_their_api_at_once(obliging: str, place: str) -> None:
    """Each other one of its place; `make bad-requests` sends all."""
    for bad in [bad for bad in ALL if bad.path.partition("?")[0] == place][::2]:
        begun = time.monotonic()
        got = request(obliging, bad.method, bad.path, bad.body, **bad.headers)
        assert time.monotonic() - begun < QUICK, bad.what
        assert 400 <= got.status < 500, (bad.what, got.body[:500])
        assert len(got.body) < 2000, bad.what
        assert b"Traceback" not in got.body, bad.what
        look_at(bad, got)
    assert chat(obliging).json["choices"][0]["message"]["content"] == "Hello!"


def look_at(bad: Bad, got: Got) -> None:
    """The refusal is in the words of the API, and names the field."""
    if bad.path.startswith("/serving-endpoints/"):
        assert got.json.keys() >= {"error_code", "message"}, bad.what  # Databricks' own words
        return
    if bad.path == "/api" or bad.path.startswith("/api/"):
        assert got.json.keys() == {"error"}, bad.what  # Ollama's own sentence
        assert (bad.param or "") in got.json["error"], bad.what
        return
    if bad.path.startswith(("/v1/messages", "/anthropic/")):
        refused = MessagesErrorResponse.model_validate(got.json)
        assert refused.error.type in ("invalid_request_error", "not_found_error", "request_too_large"), bad.what
        assert refused.error.message, bad.what
        assert refused.request_id == got.headers["request-id"], bad.what
        assert bad.param is None or bad.param in refused.error.message, (bad.what, got.body)
        return
    assert got.error.keys() == {"message", "type", "param", "code"}, bad.what
    assert all(got.error[name] for name in ("message", "type", "code")), bad.what
    assert bad.code in (None, got.error["code"]), bad.what
    if bad.param is not None:
        assert (got.error["param"], got.error["type"]) == (bad.param, "invalid_request_error"), (bad.what, got.body)
