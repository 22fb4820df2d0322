"""What a browser sends for another page is refused at every route, unread, but by those that the owner names."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute

from antiphon.errors import ConfigError
from antiphon.http.gate.keys import new_key
from antiphon.http.origins import Origins
from antiphon.playground.site import PLAYGROUND, site_wire
from kit.api import END, Got, app, ids, request, running

HOST = "127.0.0.1:8080"
OWN, NAMED = f"http://{HOST}", "https://chat.example"
SECRET, KEY = new_key("alice")
Headers = dict[str, str]
FOREIGN: dict[str, Headers] = {
    "a page of another site": {"origin": "https://evil.example"},
    "with a type": {"origin": "https://evil.example", "content-type": "application/json"},
    "a page without an origin": {"origin": "null"},
    "another port": {"origin": "http://127.0.0.1:3000"},
    "another scheme": {"origin": f"https://{HOST}"},
    "another name of this machine": {"origin": "http://localhost:8080"},
    "an origin of nothing": {"origin": ""},
    "an extension": {"origin": "chrome-extension://abcdefgh", "sec-fetch-site": "none"},
    "an editor's web view": {"origin": "vscode-webview://0a1b", "sec-fetch-site": "cross-site"},
    "an image": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    "a frame": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    "a page of another port without an origin": {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    "a word of tomorrow": {"sec-fetch-site": "related"},
    "own, by way of another": {"origin": OWN, "sec-fetch-site": "cross-site"},
    "a named origin's sister": {"origin": "https://x.chat.example"},
}
LINK = {
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
    "accept": "text/html",
}
TRUSTED: dict[str, Headers] = {
    "own": {"origin": OWN},
    "own, as the browser says": {"origin": OWN, "sec-fetch-site": "same-origin"},
    "own behind a proxy that says another name": {"origin": "https://llm.example", "sec-fetch-site": "same-origin"},
    "a person": {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    "named": {"origin": NAMED, "sec-fetch-site": "cross-site"},
    "named, as nobody spells it": {"origin": "HTTPS://chat.example:443"},
    "a program": {},
    "Node's fetch": {"sec-fetch-mode": "cors"},
}
PAGES = {"/", "/playground", "/docs", "/docs/{name:path}"}
"""Where a link of another site may lead."""


def application(**options: Any) -> Starlette:
    return app(ids("ok", END), origins=[NAMED], wires=[PLAYGROUND, site_wire()], **options)


async def answered(
    application: Starlette, route: Route | WebSocketRoute, method: str, headers: Headers, body: bytes = b""
) -> tuple[int, str | None, bool]:
    """The status, the error's code, and whether the body was read."""
    read, sent = [False], list[MutableMapping[str, Any]]()

    async def receive() -> MutableMapping[str, Any]:
        if read[0]:
            await asyncio.Event().wait()
        read[0] = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    path, socket = route.path.replace("{", "").replace("}", ""), isinstance(route, WebSocketRoute)
    given = {"host": HOST, **({"content-length": str(len(body))} if body else {}), **headers}
    scope: dict[str, Any] = {
        "type": "websocket" if socket else "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "ws" if socket else "http", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": None, "server": None, "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    await application(scope, receive, send)
    start, *rest = sent
    content = b"".join(message.get("body", b"") for message in rest)
    try:
        error = json.loads(content).get("error")
    except (ValueError, AttributeError):
        error = None
    code = error.get("code") or error.get("error_code") if isinstance(error, dict) else None
    return start.get("status", 101), code, read[0]


def every(application: Starlette) -> list[tuple[Route | WebSocketRoute, str]]:
    """Each route with its own methods, and with the one that forms have."""
    routes = [route for route in application.routes if isinstance(route, Route | WebSocketRoute)]
    return [
        (route, method)
        for route in routes
        for method in (sorted({"POST", *(route.methods or ())}) if isinstance(route, Route) else ["GET"])
    ]


@pytest.mark.parametrize("keys", [None, [KEY]])
async def test_no_route_hears_of_a_request_of_another_page(keys: Any) -> None:
    served = application(keys=keys)
    routes, kinds = every(served), list(FOREIGN)
    assert len(routes) > 400
    for number, (route, method) in enumerate(routes):
        for kind in kinds[number % 3 :: 3]:
            headers = {"authorization": f"Bearer {SECRET}", **FOREIGN[kind]}
            status, _, read = await answered(served, route, method, headers, b"{}")
            assert (status, read) == (403, False), f"{kind}: {method} {route.path}"


async def test_a_link_of_another_site_opens_pages_and_nothing_else() -> None:
    served = application()
    for route, method in every(served):
        status, _, read = await answered(served, route, method, LINK)
        opens = method == "GET" and route.path in PAGES
        assert (status != 403) == opens, f"{method} {route.path}"
        assert not read


CHAT = {"model": "small", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": CHAT,
    "/api/generate": {"model": "small", "prompt": "a"},
    "/v1/tokenize": {"prompt": "a"},
}


@pytest.mark.parametrize("kind", TRUSTED)
async def test_own_pages_named_ones_people_and_programs_are_answered(kind: str) -> None:
    served, headers = application(), {"content-type": "application/json", **TRUSTED[kind]}
    for path, body in BODIES.items():
        found = await answered(served, at(path), "POST", headers, json.dumps(body).encode())
        assert found == (200, None, True), path
    assert (await answered(served, at("/v1/models"), "GET", TRUSTED[kind]))[0] == 200


async def test_what_a_browser_sends_without_a_type_is_not_read() -> None:
    served, kinds = (
        application(),
        [kind for kind, headers in TRUSTED.items() if {"origin", "sec-fetch-site"} & {*headers}],
    )
    for number, (route, method) in enumerate(every(served)):
        kind = kinds[number % len(kinds)]
        if method == "POST":
            status, _, read = await answered(served, route, method, TRUSTED[kind], b'{"a": 1}')
            assert (status in (415, 400), read) == (True, False), (
                f"{kind}: {route.path}"
            )  # 400: Databricks' word for it


@pytest.mark.parametrize("kind", ["a program", "Node's fetch"])
async def test_what_a_program_sends_without_a_type_is_json_as_ever(kind: str) -> None:
    for path, body in BODIES.items():
        found = await answered(application(), at(path), "POST", TRUSTED[kind], json.dumps(body).encode())
        assert found == (200, None, True), path


async def test_a_request_without_a_body_needs_no_type() -> None:
    for headers in TRUSTED.values():
        assert (await answered(application(), at("/v1/responses/resp_1/cancel"), "POST", headers))[0] == 404


def at(path: str) -> Route:
    return Route(path, lambda request: None)


async def test_all_pages_may_call_where_the_owner_says_so() -> None:
    served = app(ids("ok", END), origins=["*"], wires=[PLAYGROUND])
    for kind, headers in FOREIGN.items():
        assert (await answered(served, at("/v1/models"), "GET", headers))[0] == 200, kind


def test_the_refusal_names_the_setting_and_the_page() -> None:
    with running(application()) as base:
        got = request(base, "GET", "/v1/models", origin="vscode-webview://0a1b")
        assert (got.status, got.error["code"]) == (403, "origin_not_allowed")
        assert "antiphon serve --origins vscode-webview://0a1b" in got.error["message"]
        image = request(base, "GET", "/v1/models", sec_fetch_site="cross-site")
        assert "server.origins" in image.error["message"]


def test_two_origins_are_foreign_when_one_is() -> None:
    with running(application()) as base:
        lines = [f"GET /v1/models HTTP/1.1\r\nhost: {base[7:]}\r\nconnection: close", f"origin: {base}"]
        assert " 200 " in raw(base, *lines)
        assert " 403 " in raw(base, *lines, "origin: https://evil.example")
        assert " 403 " in raw(base, *lines, "sec-fetch-site: same-origin", "sec-fetch-site: cross-site")


def raw(base: str, *lines: str) -> str:
    address = urlsplit(base)
    with socket.create_connection((address.hostname or "", address.port or 0)) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        return b"".join(iter(lambda: client.recv(65536), b"")).decode().splitlines()[0]


PAGE = "https://chat.example"
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


SPELLED = {
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


@pytest.mark.parametrize("named", SPELLED)
def test_an_asterisk_stands_for_a_host_its_beginning_or_a_port(named: str) -> None:
    origins = Origins([named, "https://other.example"])
    own, others = SPELLED[named]
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
