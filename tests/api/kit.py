"""A small format with everything an answer can hold, a server on a real socket, and a client without opinions."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.api.server import Server
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import (
    Channel,
    Conversation,
    End,
    Incident,
    Intent,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    Role,
    TextDelta,
)
from antiphon.engines import ScriptedEngine
from antiphon.engines.scripted import Script
from antiphon.formats import HistoryPolicy, SamplingDefaults
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Control, Piece

START, END = Control("<|im_start|>"), Control("<|im_end|>")
THINK, SAY, AHEAD, CALL = Control("<think>"), Control("<say>"), Control("<ahead>"), Control("<call>")
TOKENIZER = ByteTokenizer([START, END, THINK, SAY, AHEAD, CALL])


class TaggedFormat:
    """ChatML prompts; in a reply a tag opens each message, and a call's first line is its function."""

    name = "tagged"
    controls = tuple(TOKENIZER.controls)
    stops = (END,)
    defaults = SamplingDefaults()

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        for message in conversation.messages:
            yield START
            yield f"{message.name or message.role}\n"
            yield from message.segments
            if message.end is End.NONE:
                return
            yield END
            yield "\n"
        yield START
        yield f"{reply_as}\n"

    def parser(
        self, *, reply_as: Role | None = Role.ASSISTANT, prompt: Sequence[Piece] = (), strict: bool = False
    ) -> TaggedParser:
        return TaggedParser()


class TaggedParser:
    def __init__(self) -> None:
        self.ended: str | None = None
        self._open: Message | None = None
        self._header: str | None = None
        self._text: list[str] = []

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        for piece in pieces:
            if self.ended is not None:
                events.append(Incident("after_end", 0, str(piece)))
            elif isinstance(piece, Control):
                events += self._control(piece)
            else:
                events += self._said(piece)
        return events

    def close(self) -> list[ParserEvent]:
        return self._close(End.NONE) if self.ended is None else []

    def _control(self, control: Control) -> list[ParserEvent]:
        events = self._close(End.END)
        if control == END:
            self.ended = END.spelling
        elif control == CALL:
            self._header = ""
        else:
            channel = {THINK: Channel.ANALYSIS, AHEAD: Channel.COMMENTARY}.get(control, Channel.FINAL)
            intent = Intent.PREAMBLE if control == AHEAD else None
            events += self._start(Message(role=Role.ASSISTANT, channel=channel, intent=intent, end=End.NONE))
        return events

    def _said(self, text: str) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        if self._header is not None:
            name, line, text = (self._header + text).partition("\n")
            self._header = None if line else name
            if not line:
                return []
            events = self._start(
                Message(
                    role=Role.ASSISTANT,
                    channel="commentary",
                    recipient=f"functions.{name}",
                    content_type="json",
                    end=End.NONE,
                )
            )
        if self._open is None:
            events += self._start(Message(role=Role.ASSISTANT, channel=Channel.FINAL, end=End.NONE))
        if text:
            self._text.append(text)
            events.append(TextDelta(text))
        return events

    def _start(self, message: Message) -> list[ParserEvent]:
        self._open, self._text = message, []
        return [MessageStarted(message)]

    def _close(self, end: End) -> list[ParserEvent]:
        message, self._open = self._open, None
        if message is None:
            return []
        end = End.CALL if end is End.END and message.is_call else end
        return [MessageEnded(replace(message, text="".join(self._text), end=end))]


def ids(*pieces: Piece) -> list[int]:
    """What a model samples to say these pieces."""
    said: list[int] = []
    for piece in pieces:
        said += [TOKENIZER.controls[piece]] if isinstance(piece, Control) else TOKENIZER.encode(piece)
    return said


def token_bytes(id: int) -> bytes:
    piece = TOKENIZER.piece(id)
    return piece if isinstance(piece, bytes) else piece.spelling.encode()


def scripted(script: Script | Sequence[int], **options: Any) -> ScriptedEngine:
    return ScriptedEngine(script, token_bytes=token_bytes, **options)


def model(engine: ScriptedEngine, *, name: str = "small") -> Model:
    return Model(name=name, engine=engine, tokenizer=TOKENIZER, format=TaggedFormat())


def app(script: Script | Sequence[int] | ScriptedEngine, **options: Any) -> Starlette:
    """An application over one scripted model, named ``small``."""
    engine = script if isinstance(script, ScriptedEngine) else scripted(script)
    return create_app(StaticCatalog({"small": model(engine)}), **options)


@contextlib.contextmanager
def running(application: Starlette, *, drain: float = 5.0) -> Iterator[str]:
    """The base URL of the application on a free port of the loopback; the server stops afterwards."""
    ready = threading.Event()
    server = Server(application, drain=drain, on_ready=lambda url: ready.set())
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(20), "the server did not start"
    try:
        yield server.url
    finally:
        server.should_exit = True
        thread.join(20)


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
        told = [
            part.removeprefix("data: ") for part in self.body.decode().split("\n\n")[:-1] if not part.startswith(":")
        ]
        return [part if part == "[DONE]" else json.loads(part) for part in told]


def request(base: str, method: str, path: str, body: bytes | None = None, **headers: str) -> Got:
    """One request; header names with ``_`` for ``-``."""
    address = urlsplit(base)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
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
