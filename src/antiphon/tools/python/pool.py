"""Which session has an interpreter: so many in all, so many an owner, and none is taken away while it runs a cell."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from antiphon.tools.call import TOOL_BUSY, ToolError
from antiphon.tools.tool import ToolFailure

from .interpreter import Interpreter

_REMEMBERED = 1024
EVICTED = "there was no room for it beside those of other sessions"
ENDED = "the call before this one was given up"


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """``interpreters`` in all and ``per_owner``; ``wait`` is for how many seconds a call waits for room.

    The nameless owner (a server without keys, a program of its own) may have them all.
    """

    interpreters: int = 8
    per_owner: int = 4
    wait: float = 10.0

    def of(self, owner: str) -> int:
        """How many interpreters an owner may have at once."""
        return min(self.per_owner, self.interpreters) if owner else self.interpreters


@dataclass(frozen=True, slots=True)
class Session:
    """Whose state an interpreter has. A call without a ``name`` has no state: its interpreter ends with it."""

    owner: str
    name: str


@dataclass(slots=True, eq=False)
class Seat:
    """One place of the pool; ``used`` once a cell ran here. ``before`` has to end before an interpreter starts here."""

    session: Session
    busy: bool = True
    used: bool = False
    interpreter: Interpreter | None = None
    before: Interpreter | None = None


@dataclass(slots=True, eq=False)
class Waiter:
    session: Session
    seat: asyncio.Future[Seat]


@dataclass(frozen=True, slots=True)
class Borrowed:
    """An interpreter for one cell. ``lost`` says why the variables of earlier cells are gone, where they are."""

    interpreter: Interpreter
    lost: str | None


class InterpreterPool:
    """Interpreters by session. Room is made by ending the one that was idle for longest; who cannot have room waits.

    Who has fewer interpreters at work is served first, then who came first.
    """

    def __init__(self, start: Callable[[], Awaitable[Interpreter]], limits: PoolLimits) -> None:
        self._start = start
        self._limits = limits
        self._seats: list[Seat] = []  # the least recently used first
        self._waiters: list[Waiter] = []
        self._lost: OrderedDict[Session, str] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def borrow(self, session: Session) -> AsyncGenerator[Borrowed, None]:
        """The session's interpreter, for one cell. Raises `ToolFailure` (``E-TOOL-BUSY``) without room in time."""
        seat = await self._take(session)
        try:
            yield await self._fill(seat)
            seat.used = True
        except BaseException:
            if seat.used:
                self._remember(session, ENDED)
            raise
        finally:
            # A task of its own: a call that is closed while it waits here must not take the seat with it.
            await asyncio.shield(self._giving_back(seat))

    async def end(self, session: Session) -> None:
        """Ends a session's interpreter, a busy one too; its variables are gone."""
        for seat in [seat for seat in self._seats if seat.session == session]:
            await self._leave(seat)

    async def aclose(self) -> None:
        for seat in list(self._seats):
            await self._leave(seat)

    async def _take(self, session: Session) -> Seat:
        waiter = Waiter(session, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self._serve()
        try:
            # A session whose own interpreter is at work waits for as long as its call may take.
            async with asyncio.timeout(None if self._seat_of(session) else self._limits.wait):
                return await waiter.seat
        except BaseException as error:
            if waiter.seat.done() and not waiter.seat.cancelled():
                await asyncio.shield(self._giving_back(waiter.seat.result()))
            if isinstance(error, TimeoutError):
                raise _busy() from error
            raise
        finally:
            self._waiters = [one for one in self._waiters if one is not waiter]

    def _serve(self) -> None:
        """Gives seats to those who wait, as far as there are any."""

        def busy(waiter: Waiter) -> int:
            return self._count(waiter.session.owner, busy=True)

        while any(self._seated(waiter) for waiter in sorted(self._waiters, key=busy)):
            pass

    def _seated(self, waiter: Waiter) -> bool:
        """Whether the waiter got a seat just now."""
        seat = None if waiter.seat.done() else self._free_seat(waiter.session)
        if seat is not None:
            waiter.seat.set_result(seat)
        return seat is not None

    def _free_seat(self, session: Session) -> Seat | None:
        """The session's own seat, a new one, or one that an idle interpreter has to leave; None while there is none."""
        seat = self._seat_of(session)
        if seat is not None:
            if seat.busy:
                return None
            seat.busy = True
            self._seats.remove(seat)
        else:
            room, before = self._room(session.owner)
            if not room:
                return None
            seat = Seat(session, before=before)
        self._seats.append(seat)
        return seat

    def _room(self, owner: str) -> tuple[bool, Interpreter | None]:
        """Whether an owner can have a further seat, and which interpreter has to go for it."""
        if self._count(owner) >= self._limits.of(owner):
            idle = [seat for seat in self._seats if not seat.busy and seat.session.owner == owner]
        elif len(self._seats) >= self._limits.interpreters:
            idle = sorted(
                (seat for seat in self._seats if not seat.busy), key=lambda one: -self._count(one.session.owner)
            )
        else:
            return True, None
        if not idle:
            return False, None
        self._seats.remove(idle[0])
        self._remember(idle[0].session, EVICTED)
        return True, idle[0].interpreter

    async def _fill(self, seat: Seat) -> Borrowed:
        if seat.before is not None:
            await seat.before.aclose()
            seat.before = None
        if seat.interpreter is not None and seat.interpreter.alive:
            return Borrowed(seat.interpreter, None)
        seat.interpreter = await self._start()
        return Borrowed(seat.interpreter, self._lost.pop(seat.session, None))

    def _giving_back(self, seat: Seat) -> asyncio.Task[None]:
        task = asyncio.create_task(self._give_back(seat))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _give_back(self, seat: Seat) -> None:
        """The seat is free for the session's next cell; for anybody where the interpreter, or the session, is none."""
        if seat not in self._seats or seat.interpreter is None or not seat.interpreter.alive or not seat.session.name:
            await self._leave(seat)
        else:
            seat.busy = False
            self._serve()

    async def _leave(self, seat: Seat) -> None:
        seat.busy = True  # Nobody gets it meanwhile.
        try:
            for interpreter in (seat.before, seat.interpreter):
                if interpreter is not None:
                    await interpreter.aclose()
        finally:
            self._seats = [one for one in self._seats if one is not seat]
            self._serve()

    def _seat_of(self, session: Session) -> Seat | None:
        return next((seat for seat in self._seats if session.name and seat.session == session), None)

    def _count(self, owner: str, *, busy: bool = False) -> int:
        return sum(seat.session.owner == owner and (seat.busy or not busy) for seat in self._seats)

    def _remember(self, session: Session, why: str) -> None:
        if session.name:
            self._lost[session] = why
        while len(self._lost) > _REMEMBERED:
            self._lost.popitem(last=False)


def _busy() -> ToolFailure:
    message = "all interpreters are at work; the code did not run. Call again a little later."
    return ToolFailure(ToolError(TOOL_BUSY, message, retryable=True))
