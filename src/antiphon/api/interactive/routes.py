"""POST /v1/chat/interactive, as LMDeploy had it: the client sends only its new turn (LMD-27)."""

from __future__ import annotations

import secrets

from antiphon.errors import AntiphonError
from antiphon.generation import TurnRequest
from antiphon.http.errors import api_error
from antiphon.http.post import Post, PostRoute
from antiphon.http.session import SessionTurn, session_turn
from antiphon.wire.dialect import session_name
from antiphon.wire.errors import ErrorDetail, refused

from .wire import (
    InteractiveAnswer,
    InteractiveRequest,
    InteractiveWriter,
    cancels,
    ends_session,
    history_tokens,
    nothing,
    read_interactive,
)


class InteractiveChat(PostRoute):
    """Goes on with a session, cancels its request, or ends it."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(InteractiveRequest)
        name, owner, sessions = session_name(wire.session_id), post.exchange.owner, self._context.sessions
        if cancels(wire):
            if name is None:
                raise refused("session_id", "it must name the session whose request is to be cancelled.")
            await sessions.cancel(name, owner=owner)
            return await post.send_json(nothing(wire))
        if ends_session(wire):
            if name is not None:
                async with sessions.turn(name, owner=owner) as ended:
                    await ended.end()
            return await post.send_json(nothing(wire))
        post.exchange.stream = wire.stream
        name = name or secrets.token_hex(12)
        async with session_turn(sessions, name, owner=owner, ends=not wire.interactive_mode) as session:
            return await self._go_on(post, wire, session)

    async def _go_on(self, post: Post, wire: InteractiveRequest, session: SessionTurn) -> None:
        model = await post.model(wire.model)
        today, history = self._context.today, session.history
        tenant = post.tenant.asking(affinity=session.affinity)

        def turn() -> TurnRequest:
            return read_interactive(wire, history, today=today, tenant=tenant)

        draft = await post.plan(model, turn, more=session.size)
        earlier = await post.off_loop(lambda: history_tokens(draft, history), more=session.size)
        head = _head(wire, session, input_tokens=len(draft.prompt_ids) - earlier, history_tokens=earlier)
        await post.answer([draft], InteractiveWriter(head, describe), session=session)


def _head(
    wire: InteractiveRequest, session: SessionTurn, *, input_tokens: int, history_tokens: int
) -> InteractiveAnswer:
    named = session_name(wire.session_id) is not None
    return InteractiveAnswer(
        text="",
        tokens=0,
        input_tokens=input_tokens,
        history_tokens=history_tokens,
        session_id=wire.session_id if named else session.session.key.name,
    )


def describe(error: AntiphonError) -> ErrorDetail:
    """An error as OpenAI's body has it."""
    described = api_error(error)
    return ErrorDetail(message=described.message, type=described.type, param=described.param, code=described.code)
