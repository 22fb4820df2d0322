"""POST /v1/openchatml: a transcript in, the transcript with the model's turn or its events out."""

from __future__ import annotations

import secrets

from starlette.datastructures import QueryParams
from starlette.types import Receive

from antiphon.api.gate.large import BodyRoom
from antiphon.api.http.client import read_body
from antiphon.api.http.exchange import Exchange
from antiphon.api.post import Post, PostRoute
from antiphon.conversation import DebugCapability
from antiphon.errors import Position, RequestError
from antiphon.formats.openchatml import EventStream
from antiphon.generation import plan_turn
from antiphon.wire.transcript.read import read_transcript
from antiphon.wire.transcript.write import TranscriptWriter

STREAMS = {"true": True, "1": True, "false": False, "0": False}


class OpenChatMLTurns(PostRoute):
    """Goes on with a transcript. Its header names the model, the settings, and the events that its client takes."""

    async def body(self, exchange: Exchange, receive: Receive, room: BodyRoom) -> bytes:
        return await read_body(exchange.headers, receive, self._context.limits, room)

    async def answer(self, post: Post) -> None:
        today, tenant = self._context.today, post.tenant
        post.exchange.stream = streams(post)
        order = await post.off_loop(lambda: read_transcript(post.body, today=today, tenant=tenant))
        model = await post.model(order.model)
        draft = await post.off_loop(lambda: plan_turn(model, order.request))
        debug = DebugCapability(post.exchange.owner) if post.reveals else None
        stream = EventStream(f"msg_{secrets.token_hex(12)}", accept=order.events, debug=debug)
        writer = TranscriptWriter(order.request.conversation, post.body, stream, revealed=post.reveals)
        await post.answer([draft], writer)


def streams(post: Post) -> bool:
    """``?stream=true``, or that events are accepted. Raises `RequestError` for another word."""
    requested = QueryParams(post.scope.get("query_string", b"")).get("stream")
    if requested is None:
        return "text/event-stream" in post.exchange.headers.get("accept", "")
    if requested not in STREAMS:
        raise RequestError("stream: must be true or false.", position=Position(path="stream"))
    return STREAMS[requested]
