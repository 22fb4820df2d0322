"""POST /v1/chat/completions."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from functools import partial

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.api.client import read_json, while_connected
from antiphon.api.context import Context
from antiphon.api.convert.answer import Finished, Projection, Whole
from antiphon.api.convert.chat import Reading, to_turn
from antiphon.api.convert.chunks import AnswerHead, ChunkWriter, completion
from antiphon.api.convert.fields import check_fields, warnings
from antiphon.api.convert.sampling import streams
from antiphon.api.errors import INTERNAL, ClientGone, error_event
from antiphon.api.exchange import FAULTS, KEY, Exchange
from antiphon.api.lifecycle import Work
from antiphon.api.schemas.chat import ChatRequest
from antiphon.api.served import Served, served, served_events
from antiphon.api.session import SessionTurn, session_name, session_turn
from antiphon.api.sse import DONE, Outbox, fill, send_events
from antiphon.api.wire import decode, encode
from antiphon.conversation import Usage
from antiphon.errors import AntiphonError
from antiphon.generation import ChoiceEvent, Model, Plan, held, merge_usage, plan_turn, run_turn


class ChatCompletions:
    """Reads, plans, waits for its turn, answers: streamed or whole, from the same changes."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[KEY]
        self._context.traffic.requests += 1
        try:
            body = await read_json(scope, receive, self._context.limits)
            await while_connected(receive, self._answer(body, scope, receive, send))
        except ClientGone:
            exchange.status = 499
            self._context.traffic.clients_gone += 1

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        context, exchange = self._context, scope[KEY]
        context.lifecycle.check()
        context.admission.check()
        wire, ignored = decode(body, ChatRequest)
        exchange.ignored = tuple(ignored)
        context.traffic.ignored_fields += len(ignored)
        check_fields(wire, ignored, context.dialect)
        headers = Headers(scope=scope)
        exchange.warnings = warnings(wire)
        exchange.stream = wire.stream = streams(wire.stream, context.dialect, headers.get("accept", ""))
        model = await context.model_for(exchange, wire.model)
        async with AsyncExitStack() as stack:
            session = await self._session(wire, exchange.owner, stack)
            affinity = session.affinity if session else headers.get("x-session-affinity")
            earlier = session.history if session else ()
            reading = Reading(context.dialect, context.limits, context.today, affinity, earlier)
            size = len(body) + (session.size if session else 0)
            ours = served(context, wire, model.format)
            plan = await self._plan(wire, model, reading, ours, heavy=size > context.limits.off_loop_above)
            exchange.planned = time.perf_counter()
            room = context.admission.slot()
            await stack.enter_async_context(session.admitted(room) if session else room)
            exchange.admitted = time.perf_counter()
            head = self._head(wire, model)
            answer = Answer(context, plan, head, exchange, logprobs=bool(wire.logprobs), session=session, ours=ours)
            if exchange.stream:
                await answer.stream(send)
            else:
                await (await answer.whole())(scope, receive, send)

    async def _session(self, wire: ChatRequest, owner: str, stack: AsyncExitStack) -> SessionTurn | None:
        """The session that the request names, held for it alone."""
        name = session_name(wire.session_id)
        if name is None:
            return None
        turn = session_turn(
            self._context.sessions, name, owner=owner, start=wire.sequence_start, ends=bool(wire.sequence_end)
        )
        return await stack.enter_async_context(turn)

    async def _plan(
        self, wire: ChatRequest, model: Model, reading: Reading, ours: Served | None, *, heavy: bool
    ) -> Plan:
        def plan() -> Plan:
            turn = to_turn(wire, reading)
            asked = turn if ours is None else ours.added_to(turn)
            return plan_turn(model, asked, most=reading.dialect.prompt_limit(model.context))

        return await held(await asyncio.to_thread(plan) if heavy else plan())

    def _head(self, wire: ChatRequest, model: Model) -> AnswerHead:
        options = wire.stream_options
        return AnswerHead(
            id=f"chatcmpl-{secrets.token_hex(12)}",
            created=int(self._context.clock()),
            model=model.name,
            dialect=self._context.dialect,
            usage=bool(options and options.include_usage),
            continuous_usage=bool(options and options.continuous_usage_stats),
        )


class Answer:
    """One turn on its way to its client."""

    def __init__(
        self,
        context: Context,
        plan: Plan,
        head: AnswerHead,
        exchange: Exchange,
        *,
        logprobs: bool,
        session: SessionTurn | None = None,
        ours: Served | None = None,
    ) -> None:
        self._context = context
        self._plan = plan
        self._head = head
        self._exchange = exchange
        self._logprobs = logprobs
        self._n = plan.request.n
        self._session = session
        self._ours = ours
        self._work = session.work if session else Work()

    async def whole(self) -> Response:
        """The answer as one body."""
        works = self._context.lifecycle.works
        works.add(self._work)
        try:
            answers = await self._work.run(self._collected())
        finally:
            works.discard(self._work)
        usage = merge_usage([answer.finished.usage for answer in answers if answer.finished is not None])
        self._exchange.tokens = usage.completion_tokens
        body = completion(self._head, answers, usage, logprobs=self._logprobs)
        return Response(encode(body), media_type="application/json")

    async def stream(self, send: Send) -> None:
        """The answer as events. What goes wrong before the first is raised, afterwards it is the last event."""
        limits, works, work = self._context.limits, self._context.lifecycle.works, self._work
        outbox = Outbox(limits.stream_buffer, limits.keep_alive)
        writer = asyncio.ensure_future(fill(outbox, self._chunks(), work, self._unforeseen))
        works.add(work)
        try:
            await send_events(outbox, send, error_event=partial(error_event, dialect=self._head.dialect))
        finally:
            works.discard(work)
            outbox.close()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _collected(self) -> list[Whole]:
        projections, answers = self._projections(), [Whole() for _ in range(self._n)]
        async with aclosing(self._turn()) as turn:
            async for choice_event in turn:
                self._note(choice_event)
                change = projections[choice_event.choice].feed(choice_event.event)
                if change is not None:
                    answers[choice_event.choice].add(change)
        return answers

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        writer, projections = ChunkWriter(self._head, self._n), self._projections()
        ends: dict[int, Usage] = {}
        said = [0] * self._n
        begun: set[int] = set()
        async with aclosing(self._turn()) as turn:
            async for choice_event in turn:
                self._note(choice_event)
                index = choice_event.choice
                said[index] = choice_event.completion_tokens
                usage = Usage(len(self._plan.prompt_ids), sum(said)) if self._head.continuous_usage else None
                if index not in begun:
                    begun.add(index)
                    yield writer.first(index, usage)
                change = projections[index].feed(choice_event.event)
                if isinstance(change, Finished):
                    ends[index] = change.usage
                    if self._head.dialect.usage == "last" and len(ends) == self._n:
                        usage = merge_usage([ends[i] for i in range(self._n)])
                if change is not None:
                    yield writer.change(index, change, usage)
        usage = merge_usage([ends[index] for index in range(self._n)])
        self._exchange.tokens = usage.completion_tokens
        yield writer.last(usage) + DONE

    def _turn(self) -> AsyncGenerator[ChoiceEvent, None]:
        if self._ours is not None:
            return served_events(self._plan, self._ours, self._head.id)
        return self._session.run(self._plan) if self._session else run_turn(self._plan)

    def _projections(self) -> list[Projection]:
        revealed = self._context.reveals(self._exchange)
        return [Projection(expose_reasoning=revealed) for _ in range(self._n)]

    def _note(self, choice_event: ChoiceEvent) -> None:
        if self._exchange.first_event is None:
            self._exchange.first_event = time.perf_counter()

    def _unforeseen(self, error: Exception) -> AntiphonError:
        FAULTS.log(logging.ERROR, "%s failed", self._exchange.id, exc_info=error)
        return INTERNAL
