"""POST /v1/chat/interactive, as LMDeploy had it: the client sends only its new turn (LMD-27)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from antiphon.api.call import Call, Posted
from antiphon.api.http.errors import api_error
from antiphon.api.http.sse import StreamForm
from antiphon.api.session import SessionTurn, session_turn
from antiphon.conversation import FinishReason
from antiphon.errors import AntiphonError
from antiphon.generation import held
from antiphon.wire.chat.messages import refused
from antiphon.wire.errors import ErrorDetail
from antiphon.wire.fields import session_name
from antiphon.wire.interactive.read import InteractiveTurn, check_possible, ends_session, plan_interactive
from antiphon.wire.interactive.schema import InteractiveAnswer, InteractiveRequest
from antiphon.wire.json import encode
from antiphon.wire.projection import Finished, Projection, Said

JSON_LINES = (
    (b"content-type", b"application/x-ndjson; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
CUT = (FinishReason.LENGTH_OUTPUT, FinishReason.LENGTH_CONTEXT, FinishReason.TIMEOUT)


class InteractiveChat(Posted):
    """Goes on with a session, cancels its request, or ends it."""

    async def answer(self, call: Call) -> None:
        wire = call.read(InteractiveRequest)
        check_possible(wire)
        name, owner, sessions = session_name(wire.session_id), call.exchange.owner, self._context.sessions
        if wire.cancel:
            if name is None:
                raise refused("session_id", "it must name the session whose request is to be cancelled.")
            await sessions.cancel(name, owner=owner)
            return await call.tell(nothing(wire))
        if ends_session(wire):
            if name is not None:
                async with sessions.turn(name, owner=owner) as ended:
                    await ended.end()
            return await call.tell(nothing(wire))
        call.exchange.stream = wire.stream
        name = name or secrets.token_hex(12)
        async with session_turn(sessions, name, owner=owner, ends=not wire.interactive_mode) as session:
            return await self._go_on(call, wire, session)

    async def _go_on(self, call: Call, wire: InteractiveRequest, session: SessionTurn) -> None:
        model = await call.model(wire.model)
        today = self._context.today
        turn = await call.planned(
            lambda: plan_interactive(wire, model, session.history, today=today, affinity=session.affinity),
            more=session.size,
        )
        answer = Answer(call, wire, session, InteractiveTurn(await held(turn.plan), turn.history_tokens))
        async with session.admitted(call.admitted()):
            if wire.stream:
                await call.stream(answer.lines(), work=session.work, form=answer.form)
            else:
                await call.tell(await call.run(answer.whole(), session.work))


class Answer:
    """One turn on its way to its client: one JSON object, or one a line."""

    def __init__(self, call: Call, wire: InteractiveRequest, session: SessionTurn, turn: InteractiveTurn) -> None:
        self._call = call
        self._session = session
        self._turn = turn
        named = session_name(wire.session_id) is not None
        self._so_far = InteractiveAnswer(
            text="",
            tokens=0,
            input_tokens=turn.input_tokens,
            history_tokens=turn.history_tokens,
            session_id=wire.session_id if named else session.session.key.name,
        )

    @property
    def form(self) -> StreamForm:
        """Lines of JSON; an empty line is a sign of life, an error is the last line."""
        return StreamForm(JSON_LINES, b"\n", self._broken)

    async def whole(self) -> InteractiveAnswer:
        texts: list[str] = []
        async with aclosing(self._parts()) as parts:
            async for part in parts:
                texts.append(part.text)
        return msgspec.structs.replace(self._so_far, text="".join(texts))

    async def lines(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._parts()) as parts:
            async for part in parts:
                yield encode(part) + b"\n"

    async def _parts(self) -> AsyncGenerator[InteractiveAnswer, None]:
        """What is told as it comes; the last has the finish reason, and comes when the turn is kept."""
        projection = Projection()
        async with aclosing(self._session.run(self._turn.plan)) as turn:
            async for choice_event in turn:
                self._call.note_event()
                match projection.feed(choice_event.event):
                    case Said(text):
                        yield self._now(text=text, tokens=choice_event.completion_tokens)
                    case Finished(reason, usage):
                        yield self._now(
                            text="",
                            tokens=usage.completion_tokens,
                            finish_reason="length" if reason in CUT else "stop",
                            cached_tokens=usage.cached_tokens or 0,
                        )
                    case _:
                        pass

    def _now(self, **changes: object) -> InteractiveAnswer:
        self._so_far = msgspec.structs.replace(self._so_far, **changes)
        return self._so_far

    def _broken(self, error: AntiphonError) -> bytes:
        told = api_error(error)
        detail = ErrorDetail(message=told.message, type=told.type, param=told.param, code=told.code)
        return encode(self._now(text="", finish_reason="error", error=detail)) + b"\n"


def nothing(wire: InteractiveRequest) -> InteractiveAnswer:
    """The answer where nothing was asked of the model."""
    return InteractiveAnswer(text="", tokens=0, input_tokens=0, history_tokens=0, session_id=wire.session_id)
