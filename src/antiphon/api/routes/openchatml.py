"""POST /v1/openchatml: a transcript in, the transcript with the model's turn or its events out."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from functools import partial

from starlette.datastructures import QueryParams
from starlette.types import Receive

from antiphon.api.gate.large import BodyRoom
from antiphon.api.http.client import read_body
from antiphon.api.http.exchange import Exchange
from antiphon.api.post import Post, PostRoute
from antiphon.conversation import DebugCapability, FinishReason
from antiphon.errors import Position, RequestError
from antiphon.formats.openchatml import EventStream
from antiphon.generation import plan_turn
from antiphon.wire.dialect import OPENAI_FINISH
from antiphon.wire.transcript.read import read_transcript
from antiphon.wire.transcript.write import TranscriptWriter

MOST_NOTES = 10
"""Changes of one answer that its header names."""
STREAMS = {"true": True, "1": True, "false": False, "0": False}
_NO_VALUE = re.compile(r"[^ -~]")
"""What a header's value cannot have."""


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
        writer = TranscriptWriter(
            order.request.conversation, post.body, stream, revealed=post.reveals, report=partial(_report, post.exchange)
        )
        await post.answer([draft], writer)


def _report(exchange: Exchange, reason: FinishReason, notes: Sequence[str]) -> None:
    """Why the turn ended, and what was changed of it, in headers of the answer."""
    exchange.finish = OPENAI_FINISH[reason]
    exchange.warnings = (*exchange.warnings, *(_NO_VALUE.sub("?", note) for note in notes[:MOST_NOTES]))


def streams(post: Post) -> bool:
    """``?stream=true``, or that events are accepted. Raises `RequestError` for another word."""
    requested = QueryParams(post.scope.get("query_string", b"")).get("stream")
    if requested is None:
        return "text/event-stream" in post.exchange.headers.get("accept", "")
    if requested not in STREAMS:
        raise RequestError("stream: must be true or false.", position=Position(path="stream"))
    return STREAMS[requested]
