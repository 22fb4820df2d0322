"""State between calls of a session: so many in all, so many an owner, and none is taken away while it works."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from .call import TOOL_BUSY, ToolError, ToolFailure

_REMEMBERED = 1024
EVICTED = "there was no room for it beside those of other sessions"
ENDED = "the call before this one was given up"
UNUSED = "it was not used for a while"


class Closable(Protocol):
    """An interpreter, a connection: with a state, until it is closed (more than once, perhaps) or ends by itself."""

    @property
    def alive(self) -> bool: ...

    async def aclose(self) -> None: ...


Resource = TypeVar("Resource", bound=Closable)


class PoolSize(msgspec.Struct, frozen=True, kw_only=True):
    """How many there are: ``total``, and ``per_owner`` for an owner with a name; ``users`` calls may use one at once.

    ``wait`` is for how many seconds a call waits for room. What no call of an owner with a name used for ``idle``
    seconds is closed.
    """

    total: int
    per_owner: int
    wait: float
    users: int = 1
    idle: float | None = None

    def of(self, owner: str) -> int:
        """How many an owner may have at once. The nameless one (a server without keys, a program) may have all."""
        return min(self.per_owner, self.total) if owner else self.total


class Session(msgspec.Struct, frozen=True):
    """Owner of a state. A call without a ``name`` has no state: what it used ends with it."""

    owner: str
    name: str


@dataclass(slots=True, eq=False)
class Seat(Generic[Resource]):
    """One place of the pool, for the calls of one session.

    ``used`` once a call ended well here. ``previous`` has to end before another begins here. ``closing``: it ends.
    """

    session: Session
    users: int = 0
    used: bool = False
    closing: bool = False
    resource: Resource | None = None
    previous: Resource | None = None
    filling: asyncio.Lock = field(default_factory=asyncio.Lock)
    timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        return self.users > 0 or self.closing


@dataclass(slots=True, eq=False)
class Waiter(Generic[Resource]):
    session: Session
    seat: asyncio.Future[Seat[Resource]]


class Borrowed(msgspec.Struct, Generic[Resource], frozen=True):
    """``resource`` for one call. ``lost`` says why the state of earlier calls is gone, where it is."""

    resource: Resource
    lost: str | None


class SessionPool(Generic[Resource]):
    """States that ``start`` makes, by session. The one unused for longest is closed for another; who has no room waits.

    Who has fewer at work is served first, then who came first. ``busy`` tells the model that there was no room.
    """

    def __init__(self, start: Callable[[], Awaitable[Resource]], size: PoolSize, *, busy: str) -> None:
        self._start = start
        self._size = size
        self._busy = busy
        self._seats: list[Seat[Resource]] = []  # the least recently used first
        self._waiters: list[Waiter[Resource]] = []
        self._lost: OrderedDict[Session, str] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def borrow(self, session: Session) -> AsyncGenerator[Borrowed[Resource], None]:
        """The session's own, for one call. Raises `ToolFailure` (``E-TOOL-BUSY``) without room in time."""
        seat = await self._take(session)
        try:
            yield await self._fill(seat)
            seat.used = True
        except BaseException:
            if seat.used and not (seat.resource is not None and seat.resource.alive):
                self._remember(session, ENDED)
            raise
        finally:
            # A task of its own: a call that is closed while it waits here must not take the seat with it.
            await asyncio.shield(self._in_background(self._give_back(seat)))

    async def end(self, session: Session) -> None:
        """Closes what the session has, though it may be at work; its state is gone."""
        for seat in [seat for seat in self._seats if seat.session == session]:
            await self._leave(seat)

    async def aclose(self) -> None:
        for seat in list(self._seats):
            await self._leave(seat)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _take(self, session: Session) -> Seat[Resource]:
        waiter: Waiter[Resource] = Waiter(session, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self._serve()
        try:
            # A session whose own is at work waits for as long as its call may take.
            async with asyncio.timeout(None if self._seat_of(session) else self._size.wait):
                return await waiter.seat
        except BaseException as error:
            if waiter.seat.done() and not waiter.seat.cancelled():
                await asyncio.shield(self._in_background(self._give_back(waiter.seat.result())))
            if isinstance(error, TimeoutError):
                raise ToolFailure(ToolError(TOOL_BUSY, self._busy, retryable=True)) from error
            raise
        finally:
            self._waiters = [one for one in self._waiters if one is not waiter]

    def _serve(self) -> None:
        """Gives seats to those who wait, as far as there are any."""

        def busy(waiter: Waiter[Resource]) -> int:
            return self._count(waiter.session.owner, busy=True)

        while any(self._seated(waiter) for waiter in sorted(self._waiters, key=busy)):
            pass

    def _seated(self, waiter: Waiter[Resource]) -> bool:
        """Whether the waiter got a seat just now."""
        seat = None if waiter.seat.done() else self._free_seat(waiter.session)
        if seat is not None:
            waiter.seat.set_result(seat)
        return seat is not None

    def _free_seat(self, session: Session) -> Seat[Resource] | None:
        """The session's own seat, a new one, or one that an idle session has to leave; None while there is none."""
        seat = self._seat_of(session)
        if seat is not None:
            if seat.closing or seat.users >= self._size.users:
                return None
            self._seats.remove(seat)
        else:
            room, previous = self._room(session.owner)
            if not room:
                return None
            seat = Seat(session, previous=previous)
        self._seats.append(seat)
        seat.users += 1
        self._stop_timer(seat)
        return seat

    def _room(self, owner: str) -> tuple[bool, Resource | None]:
        """Whether an owner can have a further seat, and what has to go for it."""
        if self._count(owner) >= self._size.of(owner):
            idle = [seat for seat in self._seats if not seat.busy and seat.session.owner == owner]
        elif len(self._seats) >= self._size.total:
            idle = sorted(
                (seat for seat in self._seats if not seat.busy), key=lambda one: -self._count(one.session.owner)
            )
        else:
            return True, None
        if not idle:
            return False, None
        self._seats.remove(idle[0])
        self._stop_timer(idle[0])
        self._remember(idle[0].session, EVICTED)
        return True, idle[0].resource

    async def _fill(self, seat: Seat[Resource]) -> Borrowed[Resource]:
        async with seat.filling:
            if seat.previous is not None:
                await seat.previous.aclose()
                seat.previous = None
            if seat.resource is not None and seat.resource.alive:
                return Borrowed(seat.resource, None)
            if seat.resource is not None:
                await seat.resource.aclose()
            seat.resource = await self._start()
            return Borrowed(seat.resource, self._lost.pop(seat.session, None))

    def _in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _give_back(self, seat: Seat[Resource]) -> None:
        """The seat is free for the session's next call; for anybody where its resource, or the session, is none."""
        seat.users -= 1
        if seat.users and seat in self._seats:
            self._serve()
        elif seat not in self._seats or seat.resource is None or not seat.resource.alive or not seat.session.name:
            await self._leave(seat)
        else:
            if self._size.idle is not None and seat.session.owner:
                seat.timer = asyncio.get_running_loop().call_later(self._size.idle, self._expire, seat)
            self._serve()

    def _expire(self, seat: Seat[Resource]) -> None:
        self._remember(seat.session, UNUSED)
        seat.closing = True
        self._in_background(self._leave(seat))

    @staticmethod
    def _stop_timer(seat: Seat[Resource]) -> None:
        if seat.timer is not None:
            seat.timer.cancel()
            seat.timer = None

    async def _leave(self, seat: Seat[Resource]) -> None:
        seat.closing = True  # Nobody gets it meanwhile.
        self._stop_timer(seat)
        try:
            for resource in (seat.previous, seat.resource):
                if resource is not None:
                    await resource.aclose()
        finally:
            self._seats = [one for one in self._seats if one is not seat]
            self._serve()

    def _seat_of(self, session: Session) -> Seat[Resource] | None:
        return next((seat for seat in self._seats if session.name and seat.session == session), None)

    def _count(self, owner: str, *, busy: bool = False) -> int:
        return sum(seat.session.owner == owner and (seat.busy or not busy) for seat in self._seats)

    def _remember(self, session: Session, why: str) -> None:
        if session.name:
            self._lost[session] = why
        while len(self._lost) > _REMEMBERED:
            self._lost.popitem(last=False)
