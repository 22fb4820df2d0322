"""One request's part in a session: what came before it, what stops it, what is kept of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from antiphon.conversation import End, Message, MessageEnded, TurnEnded
from antiphon.errors import ConflictError
from antiphon.generation import ChoiceEvent, Plan, run_turn
from antiphon.store import OpenSession, Sessions

from .http.lifecycle import Work


class SessionCancelled(ConflictError):
    """Another request cancelled this one; nothing of its turn is kept."""

    default_code = "session_cancelled"


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """One turn of a session. ``ends``: the session is forgotten with it (``sequence_end``)."""

    session: OpenSession
    ends: bool = False
    work: Work = field(default_factory=Work)

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

    async def run(self, plan: Plan) -> AsyncGenerator[ChoiceEvent, None]:
        """The turn's events. The last comes when the turn is kept: whoever has heard it can rely on it."""
        said: list[Message] = []
        async with aclosing(run_turn(plan)) as turn:
            async for choice_event in turn:
                match choice_event.event:
                    case MessageEnded(message):
                        said.append(message)
                    case TurnEnded():
                        await self._keep(plan.request.conversation.messages[len(self.history) :], said)
                    case _:
                        pass
                yield choice_event

    async def _keep(self, asked: Sequence[Message], said: Sequence[Message]) -> None:
        if self.ends:
            await self.session.end()
        else:
            await self.session.commit([*asked, *as_history(said)])


@asynccontextmanager
async def session_turn(
    sessions: Sessions, name: str, *, owner: str, start: bool | None = None, ends: bool = False
) -> AsyncIterator[SessionTurn]:
    """The session ``name`` for one request alone; see `Sessions.turn`."""
    work = Work()
    cancelled = SessionCancelled(f"The request of the session {name!r} was cancelled.")
    async with sessions.turn(name, owner=owner, start=start, stop=lambda: work.stop(cancelled)) as session:
        yield SessionTurn(session, ends, work)


def as_history(said: Sequence[Message]) -> Iterator[Message]:
    """What later turns see of an answer: one that its limit cut ends there; a call that was cut was never made."""
    for message in said:
        if message.end is not End.NONE:
            yield message
        elif not message.is_call:
            yield replace(message, end=End.END)
