"""/v1/openchatml: a transcript in, the transcript with the model's turn or its events out, and what cancels these."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from functools import partial

from starlette.datastructures import QueryParams
from starlette.types import Receive

from antiphon.api.chat.request import turn_memory
from antiphon.conversation import DebugCapability, FinishReason, Message
from antiphon.errors import NotFoundError
from antiphon.formats.openchatml import EventStream
from antiphon.generation import Rounds, constrain
from antiphon.generation.rounds import CancellableRounds
from antiphon.http.client import read_body
from antiphon.http.context import day_of
from antiphon.http.exchange import Exchange
from antiphon.http.gate.large import BodyRoom
from antiphon.http.lifecycle import Work
from antiphon.http.post import Post, PostRoute
from antiphon.http.transcript_runs import CancelledTranscript, TranscriptCancel
from antiphon.tools import Router, ToolCall
from antiphon.wire.dialect import OPENAI_FINISH
from antiphon.wire.writer import StreamForm

from .read import is_streamed, read_transcript
from .write import Gate, TranscriptWriter, error_event, open_message

MOST_NOTES = 10
"""Changes of one answer that its header names."""
_NO_VALUE = re.compile(r"[^ -~]")
"""Characters that a header's value cannot have."""


class CancelTurn(PostRoute):
    """Cancels a call of an answer that is being made, or all of it. Only the key that it is made for can."""

    def check(self, post: Post) -> None:
        """Cancelling makes room: it is possible while none is left."""

    async def answer(self, post: Post) -> None:
        id, owner = post.scope["path_params"]["id"], post.exchange.owner
        request = await post.read(TranscriptCancel) if post.body.strip() else TranscriptCancel()
        try:
            cancelled = self._context.transcripts.cancel(owner, id, request)
        except NotFoundError:
            shares = self._context.shares
            if shares is None or not await shares.cancel(owner, id, request):
                raise
            cancelled = CancelledTranscript(id=id.partition(".")[0], cancelled=True, call_id=request.call_id)
        await post.send_json(cancelled)


class OpenChatMLTurns(PostRoute):
    """Goes on with a transcript. Its header names the model, the settings, and the events that its client takes."""

    async def body(self, exchange: Exchange, receive: Receive, room: BodyRoom) -> bytes:
        return await read_body(exchange.headers, receive, self._context.limits, room)

    async def form(self, post: Post) -> StreamForm:
        return StreamForm(error_event)

    async def answer(self, post: Post) -> None:
        context, began, tenant = self._context, post.created_at, post.tenant
        requested = QueryParams(post.scope.get("query_string", b"")).get("stream")
        takes_events = post.left is not None or "text/event-stream" in post.exchange.headers.get("accept", "")
        post.exchange.stream = is_streamed(requested, takes_events)
        order = await post.off_loop(lambda: read_transcript(post.body, today=day_of(began), tenant=tenant))
        post.ignore(order.ignored)
        for finding in order.findings:
            post.exchange.note_incident(finding.code)
        model, id = await post.model(order.model), post.answer_id(f"msg_{secrets.token_hex(12)}")
        offer = context.tools.offered(builtins=model.format.framed) if context.tools else None
        memory = turn_memory(context, post.exchange, model, post.off_loop, exact=True)
        request, router = order.turn(offer, always=context.offer_tools)
        draft = post.as_begun(await post.plan(model, lambda: request, memory=memory))
        debug = DebugCapability(post.exchange.owner) if post.may_see_reasoning else None
        stream = EventStream(id, accept=order.events, debug=debug, tools=order.declared)
        report = partial(_report, post.exchange)
        refuses = partial(_refuses, request.calls, router)
        gate = Gate(order.conversation, revealed=post.may_see_reasoning, refuses=refuses)
        continues = open_message(order.conversation) is not None
        writer = TranscriptWriter(gate, post.body, stream, continues=continues, report=report)

        recorded = post.recorded([draft], writer, None, id, began)
        log = recorded.journal.replay_log if recorded else None
        turns = Rounds(await constrain(draft), router, session=id, envelope=True, meter=post.meter(), log=log)
        rounds = CancellableRounds(turns)
        steps = partial(context.transcripts.steps, post.exchange.owner, id, rounds)
        run = post.driver([steps], keep=None if post.may_see_reasoning else memory.keeper(request, rounds))
        if recorded is not None:
            await post.deliver_recorded(run, writer, recorded)
            return
        async with post.admitted():
            await post.deliver(run, writer, Work())


def _refuses(offered: Collection[str] | None, router: Router, call: Message) -> bool:
    """Whether the called tool is not offered, or runs here and does not take the arguments."""
    missing = offered is not None and call.recipient not in offered
    return missing or not router.takes(ToolCall.of(call, fallback_id=""))


def _report(exchange: Exchange, reason: FinishReason, notes: Sequence[str]) -> None:
    """Why the turn ended, and what was changed of it, in headers of the answer."""
    exchange.finish = OPENAI_FINISH[reason]
    exchange.warnings = (*exchange.warnings, *(_NO_VALUE.sub("?", note) for note in notes[:MOST_NOTES]))
