"""Requests at the edges: of HTTP/1.0, with odd slashes, for what is not there, for a model without a name."""

from __future__ import annotations

import json
import socket
from itertools import cycle, product
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.routing import Route, WebSocketRoute

from antiphon.http.route import Paths
from antiphon.playground.site import PLAYGROUND, site_wire
from kit.api import END, Got, app, exchange_bytes, ids, request, served
from kit.waiting import PATIENCE

MESSAGES = [{"role": "user", "content": "Hi"}]
SERVED = app(ids("K", END), wires=[PLAYGROUND, site_wire()])


base = served(lambda: app(ids("K", END), wires=[PLAYGROUND, site_wire()]))


def heard(base: str, method: str, path: str, body: bytes = b"", *headers: str, version: str = "1.0") -> Got:
    """An answer as it came, to the connection's end."""
    address = urlsplit(base)
    lines = [f"{method} {path} HTTP/{version}", "host: x", f"content-length: {len(body)}", *headers]
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=PATIENCE) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, content = answer.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    return Got(int(status.split()[1]), dict(field.split(": ", 1) for field in fields), content)


# HTTP/1.0

STREAMS = {
    "/v1/chat/completions": {"messages": MESSAGES, "stream": True},
    "/v1/completions": {"prompt": "a", "stream": True},
    "/v1/responses": {"input": "a", "stream": True},
    "/v1/messages": {"model": "small", "max_tokens": 99, "messages": MESSAGES, "stream": True},
    "/api/chat": {"model": "small", "messages": MESSAGES},
    "/api/generate": {"model": "small", "prompt": "a", "stream": True},
}


ODD: list[tuple[str, ...]] = [(), ("connection: keep-alive",), ("upgrade: websocket", "connection: upgrade")]


@pytest.mark.parametrize(("path", "headers"), [*zip(STREAMS, cycle(ODD), strict=False)])
def test_a_stream_to_http_1_0_has_no_chunks_and_ends_with_its_connection(
    base: str, path: str, headers: tuple[str, ...]
) -> None:
    body = json.dumps(STREAMS[path]).encode()
    got = heard(base, "POST", path, body, "content-type: application/json", *headers)
    assert (got.status, got.headers["connection"]) == (200, "close")
    assert {"transfer-encoding", "content-length"}.isdisjoint(got.headers)
    lines = [line for line in got.body.decode().split("\n") if line]
    assert all(line.startswith(("data: ", "event: ", "id: ", ":", "{")) for line in lines), lines
    assert any('"K"' in line for line in lines), lines
    if path.startswith("/v1"):
        assert got.body.endswith(b"\n\n")
    chunked = heard(base, "POST", path, body, "content-type: application/json", "connection: close", version="1.1")
    assert chunked.headers["transfer-encoding"] == "chunked"


@pytest.mark.parametrize(
    "path", ["/health", "/v1/models", "/metrics", "/openapi.json", "/playground", "/nothing", "/v1/chat/completions"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_nor_has_any_other_answer(base: str, path: str, method: str) -> None:
    got = heard(base, method, path)
    assert "transfer-encoding" not in got.headers
    assert len(got.body) == (0 if method == "HEAD" else int(got.headers["content-length"]))


def test_a_client_of_http_1_0_is_not_told_to_go_on(base: str) -> None:
    body = json.dumps({"messages": MESSAGES}).encode()
    got = heard(base, "POST", "/v1/chat/completions", body, "content-type: application/json", "expect: 100-continue")
    assert (got.status, got.json["choices"][0]["message"]["content"]) == (200, "K")


# Slashes

ROUTES = [route for route in SERVED.routes if isinstance(route, Route | WebSocketRoute)]
PATHS = Paths(ROUTES)
PLAIN = sorted(
    {route.path.replace("{", "").replace("}", "").replace(":path", "") for route in ROUTES} - {"/docs", "/playground"}
)


def test_every_route_is_found_with_slashes_at_its_end_and_with_two_for_one() -> None:
    for path in PLAIN:
        if path.endswith("/") or path.startswith(("/docs/", "/playground/")):
            assert PATHS.spelled(path) == path
            continue
        for odd in (f"{path}/", f"{path}//", f"/{path}", f"//{path}/"):
            assert PATHS.spelled(odd).rstrip("/") == path
        doubled = path.replace("/", "//")
        assert PATHS.spelled(doubled) == path or any(route.path_regex.match(doubled) for route in ROUTES), doubled


@pytest.mark.parametrize(
    ("odd", "path"),
    [
        ("/", "/"), ("//", "/"), ("///", "/"), ("/docs", "/docs"), ("/docs/", "/docs/"), ("//docs//", "/docs/"),
        ("/playground/", "/playground/"), ("/v1/models/", "/v1/models"), ("/v1/models//", "/v1/models"),
        ("/v1/models/owner/name/", "/v1/models/owner/name"), ("/v1/models//a/b.gguf", "/v1/models//a/b.gguf"),
        ("/api/2.0/serving-endpoints/", "/api/2.0/serving-endpoints/"), ("/v1/../metrics/", "/v1/../metrics"),
    ],
)  # fmt: skip
def test_a_slash_that_says_something_stays(odd: str, path: str) -> None:
    assert PATHS.spelled(odd) == path


def test_a_base_url_that_ends_with_a_slash_works(base: str) -> None:
    body = json.dumps({"messages": MESSAGES}).encode()
    for path in ("/v1//chat/completions", "//v1/chat/completions", "/v1/chat/completions/", "//chat/completions"):
        got = request(base, "POST", path, body, content_type="application/json")
        assert (got.status, got.json["choices"][0]["message"]["content"]) == (200, "K"), path
    assert request(base, "GET", "/v1/models/").json["object"] == "list"
    assert request(base, "GET", "/health/?a=//").status == 200
    assert request(base, "GET", "//evil.example/v1/models").status == 404


# Ids of nothing

QUERIES = (
    "", "stream=true", "stream=true&starting_after=0", "stream=true&starting_after=-1",
    "stream=true&starting_after=abc", "starting_after=0",
    "limit=0", "limit=abc", "after=x", "order=bad", "include=bad", "include[]=bad", "other=1",
)  # fmt: skip
WRITES = {"/v1/conversations/{id}": b'{"metadata": {}}', "/v1/chat/completions/{id}": b'{"metadata": {}}'}
WRITES["/v1/conversations/{id}/items"] = b'{"items": [{"type": "message", "role": "user", "content": "a"}]}'


async def test_what_is_not_there_is_a_404_whatever_else_the_request_says() -> None:
    routes = [route for route in ROUTES if isinstance(route, Route) and "{id" in route.path]
    tried = 0
    for route, query in product(routes, QUERIES):
        path = route.path.replace("{id:path}", "resp_0").replace("{id}", "resp_0").replace("{item}", "msg_0")
        path = path.replace("{kind}", "responses")
        for method in sorted((route.methods or set()) - {"HEAD"}):
            body = WRITES.get(f"/v1{route.path.removeprefix('/v1').removeprefix('/v1')}", b"")
            if not body and method == "POST" and not route.path.endswith("/cancel"):
                body = next((write for place, write in WRITES.items() if route.path.endswith(place[3:])), b"{}")
            got = await exchange_bytes(SERVED, path, body, [], method=method, query=query.encode())
            tried += 1
            assert got.status == 404, (method, path, query, got.body)
    assert tried > 500


# A model without a name

NAMELESS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": "a"},
    "/v1/responses": {"input": "a"},
    "/v1/responses/input_tokens": {"input": "a"},
    "/v1/responses/compact": {"input": "a"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 9},
    "/v1/messages/count_tokens": {"messages": MESSAGES},
    "/v1/embeddings": {"input": "a"},
    "/v1/rerank": {"query": "a", "documents": ["a"]},
    "/v1/score": {"text_1": "a", "text_2": "b"},
    "/v1/encode": {"input": "a"},
    "/v1/chat/interactive": {"prompt": "a"},
    "/v1/tokenize": {"prompt": "a"},
    "/v1/detokenize": {"tokens": [65]},
    "/v1/render": {"messages": MESSAGES},
    "/v1/parse": {"text": "a"},
    "/v1/templates/check": {"template": "a"},
    "/v1/templates/try": {"template": "a", "messages": MESSAGES},
    "/api/chat": {"messages": MESSAGES},
    "/api/generate": {"prompt": "a"},
    "/api/embed": {"input": "a"},
    "/api/show": {},
    "/lmdeploy/v1/chat/completions": {"messages": MESSAGES},
    "/mindie/v1/chat/completions": {"messages": MESSAGES},
    "/databricks/v1/chat/completions": {"messages": MESSAGES},
}
ABSENT = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/tokenize", "/v1/templates/try"}


@pytest.mark.parametrize("path", NAMELESS)
@pytest.mark.parametrize("name", ["", " "])
async def test_a_model_without_a_name_is_no_model(path: str, name: str) -> None:
    body = json.dumps({**NAMELESS[path], "model": name}).encode()
    got = await exchange_bytes(SERVED, path, body, [])
    assert got.status in (400, 404, 422)
    assert b"model" in got.body
    if path in ABSENT:
        assert (got.status, got.error["code"], got.error["param"]) == (404, "model_not_found", "model")
        absent = json.dumps(NAMELESS[path]).encode()
        assert (await exchange_bytes(SERVED, path, absent, [])).status == 200
