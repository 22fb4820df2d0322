"""One request's part in a session: what came before it, what stops it, what is stored of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import msgspec

from antiphon.conversation import Message
from antiphon.errors import ConflictError
from antiphon.generation import Plan
from antiphon.generation.reply import as_history
from antiphon.generation.turn import Keep
from antiphon.store import OpenSession, Sessions
from antiphon.store.store import lease_lost

from .lifecycle import Work


class SessionCancelled(ConflictError):
    """Another request cancelled this one; nothing of its turn is stored."""

    default_code = "session_cancelled"


class SessionTurn(msgspec.Struct, frozen=True):
    """One turn of a session. ``ends``: the session is forgotten with it (``sequence_end``)."""

    session: OpenSession
    ends: bool = False
    work: Work = msgspec.field(default_factory=Work)

    @property
    def history(self) -> tuple[Message, ...]:
        return self.session.messages

    @property
    def size(self) -> int:
        """Bytes of the history."""
        return self.session.size

    @property
    def affinity(self) -> str:
        return self.session.affinity

    @asynccontextmanager
    async def admitted(self, room: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
        """Runs the body in ``room``; a request that still waits for it can be cancelled too."""
        async with AsyncExitStack() as entered:
            await self.work.run(entered.enter_async_context(room))
            yield

    def keeper(self, plan: Plan) -> Keep:
        """Stores the turn of ``plan`` when it ends: the request's messages and the model's."""
        requested = plan.request.conversation.messages[len(self.history) :]

        async def keep(messages: Sequence[Message]) -> None:
            if self.ends:
                await self.session.end()
            else:
                await self.session.commit([*requested, *as_history(messages)])

        return keep


@asynccontextmanager
async def session_turn(
    sessions: Sessions, name: str, *, owner: str, start: bool | None = None, ends: bool = False
) -> AsyncIterator[SessionTurn]:
    """The session ``name`` for one request alone; see `Sessions.turn`."""
    work = Work()
    cancelled = SessionCancelled(f"The request of the session {name!r} was cancelled.")
    async with sessions.turn(
        name, owner=owner, start=start, stop=lambda: work.stop(cancelled), lost=lambda: work.stop(lease_lost())
    ) as session:
        yield SessionTurn(session, ends, work)
