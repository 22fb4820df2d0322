"""A model that plays a script, a server on a real socket, and a client without opinions."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.engines.scripted import Script
from antiphon.formats.template import template_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import Model
from antiphon.http.server.server import Server
from antiphon.tokens import ByteTokenizer, Control, Piece, Tokenizer
from kit.forked import Several, several_running
from kit.waiting import PATIENCE

START, END = Control("<|im_start|>"), Control("<|im_end|>")
THINK, UNTHINK = Control("<think>"), Control("</think>")
CALL, UNCALL = Control("<tool_call>"), Control("</tool_call>")
TOKENIZER = ByteTokenizer([START, END, THINK, UNTHINK, CALL, UNCALL])
CHATML = template_format("chatml", TOKENIZER.controls.keys(), replies=QWEN)


def ids(*pieces: Piece) -> list[int]:
    """What a model samples to say these pieces."""
    return sampled(TOKENIZER, pieces)


def sampled(tokenizer: Tokenizer, pieces: Iterable[Piece]) -> list[int]:
    """The ids of pieces, one behind the other."""
    each = ([tokenizer.controls[one]] if isinstance(one, Control) else tokenizer.encode(one) for one in pieces)
    return [id for ids in each for id in ids]


def rest_of(reply: Sequence[int], prompt: Sequence[int]) -> Sequence[int]:
    """What comes after as much of the reply as the prompt ends with."""
    return next(reply[n:] for n in range(len(reply), -1, -1) if list(prompt[len(prompt) - n :]) == list(reply[:n]))


def token_bytes(id: int) -> bytes:
    piece = TOKENIZER.piece(id)
    return piece if isinstance(piece, bytes) else piece.spelling.encode()


def scripted(script: Script | Sequence[int], **options: Any) -> ScriptedEngine:
    return ScriptedEngine(script, token_bytes=token_bytes, **options)


def replies(*turns: Sequence[Piece]) -> ScriptedEngine:
    """A model that says these, one a request."""
    engine = scripted(lambda prompt, sampling, choice: ids(*turns[len(engine.requests) - 1]))
    return engine


def call(name: str, arguments: str) -> tuple[Piece, ...]:
    """A tool call as the model writes it."""
    return (CALL, f'{{"name": "{name}", "arguments": {arguments}}}', UNCALL)


def model(engine: ScriptedEngine, *, name: str = "small") -> Model:
    return Model(name=name, engine=engine, tokenizer=TOKENIZER, format=CHATML)


def app(script: Script | Sequence[int] | ScriptedEngine, **options: Any) -> Starlette:
    """An application over one scripted model, named ``small``."""
    engine = script if isinstance(script, ScriptedEngine) else scripted(script)
    return create_app(StaticCatalog({"small": model(engine)}), **options)


@contextlib.contextmanager
def running(application: Starlette, *, drain: float = 5.0) -> Iterator[str]:
    """The base URL of the application on a free port of the loopback; the server stops afterwards."""
    served: object = application
    if isinstance(served, Several):
        with several_running(served, drain) as base:
            yield base
        return
    ready = threading.Event()
    server = Server(application, drain=drain, on_ready=lambda url: ready.set())
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE), "the server did not start"
    try:
        yield server.url
    finally:
        server.should_exit = True
        thread.join(20)


def served(application: Callable[[], Starlette]) -> Any:
    """A fixture of a module: the base URL of the application that its tests share."""

    @pytest.fixture(scope="module")
    def base() -> Iterator[str]:
        with running(application()) as url:
            yield url

    return base


@dataclass(frozen=True, slots=True)
class Got:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        assert set(self.json) == {"error"}
        error: dict[str, Any] = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error

    @property
    def events(self) -> list[Any]:
        """The stream's events, ``[DONE]`` as a string."""
        assert self.body.endswith(b"\n\n"), self.body[-100:]
        parts = [
            part.removeprefix("data: ") for part in self.body.decode().split("\n\n")[:-1] if not part.startswith(":")
        ]
        return [part if part == "[DONE]" else json.loads(part) for part in parts]


def request(base: str, method: str, path: str, body: bytes | None = None, **headers: str) -> Got:
    """One request; header names with ``_`` for ``-``."""
    address = urlsplit(base)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Got(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def chat(base: str, **fields: Any) -> Got:
    """A chat completion of one user message, unless ``messages`` says otherwise."""
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    return request(base, "POST", "/v1/chat/completions", json.dumps(body).encode(), content_type="application/json")


def post(base: str, path: str, **fields: Any) -> Got:
    """A request with a JSON body."""
    return request(base, "POST", path, json.dumps(fields).encode(), content_type="application/json")


def wire_bytes(path: str, fields: Mapping[str, Any]) -> bytes:
    """A request with a JSON body as it goes over a connection."""
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


Answered = list[MutableMapping[str, Any]]
"""What an application has sent so far of its answer to one request."""


async def in_process(application: ASGIApp, **fields: Any) -> Got:
    """A chat completion without a socket."""
    return await in_process_into([], application, **fields)


async def in_process_into(answered: Answered, application: ASGIApp, **fields: Any) -> Got:
    """The same, where the test looks at ``answered`` meanwhile."""
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    return await exchange(application, "/v1/chat/completions", body, answered)


async def post_in_process(application: ASGIApp, path: str, **fields: Any) -> Got:
    """A request without a socket."""
    return await exchange(application, path, fields, [])


async def exchange(
    application: ASGIApp,
    path: str,
    fields: Mapping[str, Any],
    answered: Answered,
    *,
    key: str | None = None,
    method: str = "POST",
) -> Got:
    """A request without a socket, with an API key or none."""
    return await exchange_bytes(application, path, json.dumps(fields).encode(), answered, key=key, method=method)


async def exchange_bytes(
    application: ASGIApp,
    path: str,
    body: bytes,
    answered: Answered,
    *,
    key: str | None = None,
    method: str = "POST",
    query: bytes = b"",
    content_type: str = "application/json",
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> Got:
    """The same for a body of any kind: the application's own three calls."""
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    never = asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        if not incoming:
            await never.wait()
        return incoming.pop()

    async def send(message: MutableMapping[str, Any]) -> None:
        answered.append(message)

    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query, "root_path": "",
        "headers": [(b"content-type", content_type.encode()), *headers], "client": None, "server": None,
    }  # fmt: skip
    if key is not None:
        scope["headers"].append((b"authorization", f"Bearer {key}".encode()))
    await application(scope, receive, send)
    start, *bodies = answered
    answered_with = {name.decode(): value.decode() for name, value in start["headers"]}
    return Got(start["status"], answered_with, b"".join(message["body"] for message in bodies))


def stopping(application: Starlette) -> ASGIApp:
    """The application, which is stopped after each part of an answer that it sends."""

    async def stopping(scope: Scope, receive: Receive, send: Send) -> None:
        async def stop_after(message: Message) -> None:
            await send(message)
            if message.get("body"):
                application.state.context.lifecycle.stop()

        await application(scope, receive, stop_after)

    return stopping


@contextlib.asynccontextmanager
async def serving(application: Starlette) -> AsyncIterator[int]:
    """The port of the application, served by this test's own event loop."""
    served: object = application
    if isinstance(served, Several):
        async with served.living():
            assert served.team is not None
            yield served.team.port
        return
    ready = asyncio.Event()
    server = Server(application, on_ready=lambda url: ready.set())
    task = asyncio.create_task(server.serve())
    await ready.wait()
    try:
        yield int(server.url.rpartition(":")[2])
    finally:
        server.should_exit = True
        await task
