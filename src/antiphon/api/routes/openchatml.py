"""POST /v1/openchatml: a transcript in, the transcript with the model's turn or its events out."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope

from antiphon.api.call import Call, Posted
from antiphon.api.http.client import read_body
from antiphon.api.http.sse import HEADERS, KEEP_ALIVE, StreamForm
from antiphon.conversation import DebugCapability
from antiphon.errors import AntiphonError, Position, RequestError
from antiphon.formats.openchatml import EventStream, sse
from antiphon.generation import Plan, collect, held, plan_turn, run_turn
from antiphon.wire.transcript.read import TranscriptOrder, continued, read_transcript

MEDIA_TYPE = "text/x-openchatml; charset=utf-8"
STREAMS = {"true": True, "1": True, "false": False, "0": False}


class OpenChatMLTurns(Posted):
    """Goes on with a transcript. Its header names the model, the settings, and the events that its client takes."""

    async def body(self, scope: Scope, receive: Receive) -> bytes:
        return await read_body(scope, receive, self._context.limits)

    async def answer(self, call: Call) -> None:
        context, headers = self._context, Headers(scope=call.scope)
        call.exchange.stream = streams(call.scope, headers)
        affinity = headers.get("x-session-affinity")
        order = await call.planned(lambda: read_transcript(call.body, today=context.today, affinity=affinity))
        model = await call.model(order.model)
        plan = await held(await call.planned(lambda: plan_turn(model, order.request)))
        async with call.admitted():
            if call.exchange.stream:
                await call.stream(events(call, order, plan), form=StreamForm(HEADERS, KEEP_ALIVE, error_event))
                return
            transcript = await call.run(whole(call, plan))
            await Response(transcript, media_type=MEDIA_TYPE)(call.scope, call.receive, call.send)


def streams(scope: Scope, headers: Headers) -> bool:
    """``?stream=true``, or that events are accepted. Raises `RequestError` for another word."""
    told = QueryParams(scope.get("query_string", b"")).get("stream")
    if told is None:
        return "text/event-stream" in headers.get("accept", "")
    if told not in STREAMS:
        raise RequestError("stream: must be true or false.", position=Position(path="stream"))
    return STREAMS[told]


async def whole(call: Call, plan: Plan) -> bytes:
    """The transcript, with the turn's frames."""
    async with aclosing(run_turn(plan)) as turn:
        (reply,) = await collect(turn)
    revealed = call.context.reveals(call.exchange)
    return continued(plan.request.conversation, call.body, reply.messages, revealed=revealed)


async def events(call: Call, order: TranscriptOrder, plan: Plan) -> AsyncGenerator[bytes, None]:
    """The turn's events (OpenChatML §9), as server-sent events."""
    debug = DebugCapability(call.exchange.owner) if call.context.reveals(call.exchange) else None
    stream = EventStream(f"msg_{secrets.token_hex(12)}", accept=order.events, debug=debug)
    async with aclosing(run_turn(plan)) as turn:
        async for told in turn:
            call.note_event()
            if sent := b"".join(map(sse, stream.feed(told.event))):
                yield sent


def error_event(error: AntiphonError) -> bytes:
    return sse({"type": "error", "code": error.code, "message": error.message})
