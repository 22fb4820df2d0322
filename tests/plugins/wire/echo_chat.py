"""A wire of one's own: POST /echo/chat takes {"say": …} and answers {"heard": …, "end": …}, or a line of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from antiphon.api import ApiError, Context, ErrorShape, Post, PostRoute, Wire
from antiphon.conversation import Conversation, Event, Message, Role
from antiphon.errors import AntiphonError
from antiphon.generation import StepEvents, TurnRequest, plan_turn
from antiphon.http.errors import api_error
from antiphon.http.route import INFERENCE, ApiRoute
from antiphon.wire.json import encode
from antiphon.wire.projection import Finished, Projection, VisibleText
from antiphon.wire.writer import JSON, StreamForm

# What its JSON looks like


class EchoRequest(msgspec.Struct, kw_only=True):
    say: str
    model: str | None = None
    stream: bool = False


class Echo(msgspec.Struct, omit_defaults=True):
    heard: str = ""
    end: str = ""


def read(wire: EchoRequest) -> TurnRequest:
    """The way from the wire to a turn."""
    return TurnRequest(conversation=Conversation((Message(role=Role.USER, text=wire.say),)))


class EchoWriter:
    """The way back: a line for each change, or one object."""

    media_type = JSON

    def __init__(self) -> None:
        self.form = StreamForm(broken, media_type="application/x-ndjson", keep_alive=b"\n")
        self._projection = Projection()
        self._echo = Echo()

    def change(self, step: StepEvents[Event]) -> bytes:
        return b"".join([encode(echo) + b"\n" for echo in self._echoes(step)])

    def end(self) -> bytes:
        return b""

    def add(self, step: StepEvents[Event]) -> None:
        for echo in self._echoes(step):
            self._echo = Echo(self._echo.heard + echo.heard, echo.end)

    def whole(self) -> bytes:
        return encode(self._echo)

    def _echoes(self, step: StepEvents[Event]) -> list[Echo]:
        changes = (self._projection.feed(event) for event in step.events)
        echoes: list[Echo] = []
        for change in changes:
            if isinstance(change, VisibleText):
                echoes.append(Echo(heard=change.text))
            elif isinstance(change, Finished):
                echoes.append(Echo(end=change.reason.value))
        return echoes


# How it tells errors


def body(error: ApiError) -> object:
    return {"oops": error.code}


def broken(error: AntiphonError) -> bytes:
    return encode(body(api_error(error))) + b"\n"


# Its route


class EchoChat(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(EchoRequest)
        post.exchange.stream = wire.stream
        model = await post.model(wire.model)
        draft = await post.off_loop(partial(plan_turn, model, read(wire)))
        await post.answer([draft], EchoWriter())


def routes(context: Context) -> Sequence[ApiRoute]:
    return [ApiRoute("POST", "/echo/chat", EchoChat(context), INFERENCE)]


WIRE = Wire(name="echo-chat", routes=routes, places=["/echo"], errors=ErrorShape(body=body))
