"""CORS: no page may call the server from a browser, but those that its owner names."""

from __future__ import annotations

import pytest

from antiphon.errors import ConfigError
from antiphon.http.gate.keys import new_key
from antiphon.http.origins import Origins
from kit.api import END, Got, app, ids, request, running

PAGE = "https://chat.example"
SECRET, KEY = new_key("alice")
REPLY = ids("ok", END)


def preflight(base: str, origin: str = PAGE, **headers: str) -> Got:
    """What a browser asks before it sends a question with a key."""
    return request(
        base, "OPTIONS", "/v1/chat/completions", None, origin=origin, access_control_request_method="POST",
        access_control_request_headers="authorization,content-type,x-stainless-lang", **headers,
    )  # fmt: skip


def allowed(got: Got) -> str | None:
    return got.headers.get("access-control-allow-origin")


def refused(got: Got) -> bool:
    return (got.status, allowed(got), got.error["code"]) == (403, None, "origin_not_allowed")


def test_without_a_word_of_the_owner_no_page_may_call() -> None:
    with running(app(REPLY)) as base:
        assert refused(preflight(base))
        assert refused(request(base, "GET", "/v1/models", origin=PAGE))


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
            assert refused(preflight(base, other)), other
            assert refused(request(base, "GET", "/v1/models", origin=other, x_api_key=SECRET)), other


def test_a_named_page_of_the_internet_may_reach_a_private_network_and_no_other_may() -> None:
    with running(app(REPLY, origins=[PAGE])) as base:
        private = {"access_control_request_private_network": "true"}
        assert preflight(base, **private).headers["access-control-allow-private-network"] == "true"
        assert "access-control-allow-private-network" not in preflight(base).headers
        other = preflight(base, "https://evil.example", **private)
        assert refused(other)
        assert "access-control-allow-private-network" not in other.headers


def test_a_page_can_read_why_it_was_refused_but_needs_a_key_like_everybody() -> None:
    with running(app(REPLY, keys=[KEY], origins=[PAGE])) as base:
        got = request(base, "GET", "/v1/models", origin=PAGE)
        assert (got.status, got.error["code"], allowed(got)) == (401, "invalid_api_key", PAGE)


def test_every_page_may_call_where_the_owner_says_so_and_no_cookie_is_taken() -> None:
    with running(app(REPLY, origins=["*"])) as base:
        got = request(base, "GET", "/v1/models", origin="https://any.example", cookie="a=b")
        assert allowed(got) == "*"
        assert "access-control-allow-credentials" not in got.headers


NAMED = {
    "vscode-webview://*": (["vscode-webview://0a1b-2c"], ["vscode-webview-x://a", "app://a", "vscode-webview://a/b"]),
    "http://localhost:*": (
        ["http://localhost", "http://localhost:3000", "http://localhost:65535"],
        ["https://localhost:3000", "http://localhost.evil.example:3000", "http://localhost:3000.evil.example",
         "http://localhost:", "http://a@localhost:3000", "http://notlocalhost:3000"],
    ),
    "https://*.chat.example": (
        ["https://a.chat.example", "https://a.b.chat.example"],
        ["https://chat.example", "https://evilchat.example", "https://a.chat.example:8443", "https://.chat.example",
         "https://evil.example/.chat.example", "https://a.chat.example.evil"],
    ),
    "http://[::1]:8080": (["http://[::1]:8080"], ["http://[::1]", "http://[::2]:8080"]),
    "https://Chat.example:443": (["https://chat.example", "https://chat.example:443"], ["http://chat.example:443"]),
    "app://obsidian.md": (["app://obsidian.md"], ["app://obsidianxmd", "app://obsidian.md:1"]),
    "tauri://localhost": (["tauri://localhost"], ["http://tauri.localhost"]),
    "https://*": (["https://any.example", "https://[::1]"], ["https://any.example:8443", "http://any.example"]),
    "file://*": (["file://"], ["null"]),
}  # fmt: skip


@pytest.mark.parametrize("named", NAMED)
def test_an_asterisk_stands_for_a_host_its_beginning_or_a_port(named: str) -> None:
    origins = Origins([named, "https://other.example"])
    own, others = NAMED[named]
    assert [origin for origin in own if not origins.allow(origin)] == []
    assert [origin for origin in [*others, "null", "", "*"] if origins.allow(origin)] == []
    assert origins.allow("https://other.example")


def test_a_server_without_named_pages_allows_none() -> None:
    assert not any(map(Origins().allow, ("", "null", "*", PAGE)))


@pytest.mark.parametrize(
    "origin",
    [
        "", "chat.example", "https://chat.example/", "https://a*.example", "https://a.*", "https://a@b", "**", "null",
        "https://a\nb", "*://a", "https://*:*:1", "https://a:x", "https://*.", "https://..", "https://a b",
    ],
)  # fmt: skip
def test_what_is_no_origin_starts_no_server(origin: str) -> None:
    with pytest.raises(ConfigError):
        app(REPLY, origins=[origin])
