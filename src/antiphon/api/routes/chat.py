"""POST /v1/chat/completions."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

from starlette.datastructures import Headers

from antiphon.api.call import Call, Posted
from antiphon.api.context import Context
from antiphon.api.served import Served, served, served_events
from antiphon.api.session import SessionTurn, session_turn
from antiphon.conversation import Usage
from antiphon.generation import ChoiceEvent, Model, Plan, held, merge_usage, plan_turn, run_turn
from antiphon.wire.chat.read import Reading, to_turn
from antiphon.wire.chat.schema import ChatCompletion, ChatRequest
from antiphon.wire.chat.write import AnswerHead, ChunkWriter, completion
from antiphon.wire.fields import session_name
from antiphon.wire.projection import Finished, Projection, Whole
from antiphon.wire.sampling import streams
from antiphon.wire.sse import DONE


class ChatCompletions(Posted):
    """Reads, plans, waits for its turn, answers: streamed or whole, from the same changes."""

    async def answer(self, call: Call) -> None:
        context, exchange = self._context, call.exchange
        wire = call.read(ChatRequest)
        headers = Headers(scope=call.scope)
        exchange.stream = wire.stream = streams(wire.stream, context.dialect, headers.get("accept", ""))
        model = await call.model(wire.model)
        async with AsyncExitStack() as stack:
            session = await self._session(wire, exchange.owner, stack)
            affinity = session.affinity if session else headers.get("x-session-affinity")
            earlier = session.history if session else ()
            reading = Reading(context.dialect, context.limits, context.today, affinity, earlier)
            ours = served(context, wire, model.format)
            plan = await call.planned(lambda: _plan(wire, model, reading, ours), more=session.size if session else 0)
            answer = Answer(call, await held(plan), wire, session=session, ours=ours)
            work = session.work if session else None
            await stack.enter_async_context(session.admitted(call.admitted()) if session else call.admitted())
            if exchange.stream:
                await call.stream(answer.chunks(), work=work)
            else:
                await call.tell(await call.run(answer.whole(), work))

    async def _session(self, wire: ChatRequest, owner: str, stack: AsyncExitStack) -> SessionTurn | None:
        """The session that the request names, held for it alone."""
        name = session_name(wire.session_id)
        if name is None:
            return None
        turn = session_turn(
            self._context.sessions, name, owner=owner, start=wire.sequence_start, ends=bool(wire.sequence_end)
        )
        return await stack.enter_async_context(turn)


def _plan(wire: ChatRequest, model: Model, reading: Reading, ours: Served | None) -> Plan:
    turn = to_turn(wire, reading)
    asked = turn if ours is None else ours.added_to(turn)
    return plan_turn(model, asked, most=reading.dialect.prompt_limit(model.context))


def _head(wire: ChatRequest, model: Model, context: Context) -> AnswerHead:
    options = wire.stream_options
    return AnswerHead(
        id=f"chatcmpl-{secrets.token_hex(12)}",
        created=int(context.clock()),
        model=model.name,
        dialect=context.dialect,
        usage=bool(options and options.include_usage),
        continuous_usage=bool(options and options.continuous_usage_stats),
    )


class Answer:
    """One turn on its way to its client."""

    def __init__(
        self,
        call: Call,
        plan: Plan,
        wire: ChatRequest,
        *,
        session: SessionTurn | None = None,
        ours: Served | None = None,
    ) -> None:
        self._call = call
        self._plan = plan
        self._head = _head(wire, plan.model, call.context)
        self._logprobs = bool(wire.logprobs)
        self._n = plan.request.n
        self._session = session
        self._ours = ours

    async def whole(self) -> ChatCompletion:
        """The answer as one body."""
        projections, answers = self._projections(), [Whole() for _ in range(self._n)]
        async with aclosing(self._turn()) as turn:
            async for choice_event in turn:
                self._call.note_event()
                change = projections[choice_event.choice].feed(choice_event.event)
                if change is not None:
                    answers[choice_event.choice].add(change)
        usage = merge_usage([answer.finished.usage for answer in answers if answer.finished is not None])
        return completion(self._head, answers, usage, logprobs=self._logprobs)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The answer as the bytes of a stream."""
        writer, projections = ChunkWriter(self._head, self._n), self._projections()
        tells_always = self._head.continuous_usage
        ends: dict[int, Usage] = {}
        said = [0] * self._n
        begun: set[int] = set()
        async with aclosing(self._turn()) as turn:
            async for choice_event in turn:
                index = choice_event.choice
                said[index] = choice_event.completion_tokens
                usage = Usage(len(self._plan.prompt_ids), sum(said)) if tells_always else None
                if index not in begun:
                    self._call.note_event()
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
        yield writer.last(usage) + DONE

    def _turn(self) -> AsyncGenerator[ChoiceEvent, None]:
        if self._ours is not None:
            return served_events(self._plan, self._ours, self._head.id)
        return self._session.run(self._plan) if self._session else run_turn(self._plan)

    def _projections(self) -> list[Projection]:
        revealed = self._call.context.reveals(self._call.exchange)
        return [Projection(expose_reasoning=revealed) for _ in range(self._n)]
