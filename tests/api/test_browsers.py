"""CORS: no page may call the server from a browser, but those that its owner names."""

from __future__ import annotations

import pytest

from antiphon.errors import ConfigError
from antiphon.http.gate.keys import new_key
from kit.api import END, Got, app, ids, request, running

PAGE = "https://chat.example"
SECRET, KEY = new_key("alice")
REPLY = ids("ok", END)


def preflight(base: str, origin: str = PAGE) -> Got:
    """What a browser asks before it sends a question with a key."""
    return request(
        base, "OPTIONS", "/v1/chat/completions", origin=origin, access_control_request_method="POST",
        access_control_request_headers="authorization,content-type,x-stainless-lang",
    )  # fmt: skip


def allowed(got: Got) -> str | None:
    return got.headers.get("access-control-allow-origin")


def test_without_a_word_of_the_owner_no_page_may_call() -> None:
    with running(app(REPLY)) as base:
        assert allowed(preflight(base)) is None
        assert allowed(request(base, "GET", "/v1/models", origin=PAGE)) is None


def test_a_page_that_is_named_may_ask_and_read_and_no_other_may() -> None:
    with running(app(REPLY, keys=[KEY], origins=[PAGE])) as base:
        answer = preflight(base)
        assert (answer.status, allowed(answer)) == (200, PAGE)
        assert "authorization" in answer.headers["access-control-allow-headers"]
        assert "POST" in answer.headers["access-control-allow-methods"]
        got = request(base, "GET", "/v1/models", origin=PAGE, x_api_key=SECRET)
        assert (got.status, allowed(got), got.headers["vary"]) == (200, PAGE, "Origin")
        assert "x-request-id" in got.headers["access-control-expose-headers"].lower()
        assert "access-control-allow-credentials" not in got.headers
        for other in ("https://chat.example.evil", "http://chat.example", "https://chat.example:8443", "null"):
            assert allowed(preflight(base, other)) is None, other
            assert allowed(request(base, "GET", "/v1/models", origin=other, x_api_key=SECRET)) is None


def test_a_page_can_read_why_it_was_refused_but_needs_a_key_like_everybody() -> None:
    with running(app(REPLY, keys=[KEY], origins=[PAGE])) as base:
        got = request(base, "GET", "/v1/models", origin=PAGE)
        assert (got.status, got.error["code"], allowed(got)) == (401, "invalid_api_key", PAGE)


def test_every_page_may_call_where_the_owner_says_so_and_no_cookie_is_taken() -> None:
    with running(app(REPLY, origins=["*"])) as base:
        got = request(base, "GET", "/v1/models", origin="https://any.example", cookie="a=b")
        assert allowed(got) == "*"
        assert "access-control-allow-credentials" not in got.headers


@pytest.mark.parametrize(
    "origin", ["", "chat.example", "https://chat.example/", "https://*.example", "https://a@b", "**", "https://a\nb"]
)
def test_what_is_no_origin_starts_no_server(origin: str) -> None:
    with pytest.raises(ConfigError):
        app(REPLY, origins=[origin])
