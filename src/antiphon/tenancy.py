"""The owner of a request, and how room is shared between owners."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a request, by which its caches, its queues and its tools go.

    ``owner`` is the name of an API key; where there are no keys everybody is one owner. ``salt`` divides an owner's
    caches further, as a client may ask. ``affinity`` names what goes on in one place of the engine, such as a session;
    it is looked for among the owner's own only.
    """

    owner: str = ""
    salt: str = ""
    affinity: str | None = None

    def asking(self, *, affinity: str | None = None, salt: str | None = None) -> Tenant:
        """The same owner with what a request asks for itself; None and "": nothing."""
        return replace(self, affinity=affinity or self.affinity, salt=salt or self.salt)

    def domain(self, *, shared: bool = False) -> str:
        """The cache domain: what one request left in a cache is found by others of its domain, and by no other.

        ``shared``: the operator lets owners share caches, so only the salt divides them. The domain says nothing of
        whose it is; that of everybody is empty.
        """
        owner = "" if shared else self.owner
        if not owner and not self.salt:
            return ""
        return hashlib.sha256(f"{len(owner)}:{owner}{self.salt}".encode("utf-8", "surrogatepass")).hexdigest()


NOBODY = Tenant()
"""The tenant where requests have no owner: a library's caller, a server without keys."""


_MOST_REMEMBERED = 4096
"""Owners whose last turn is remembered."""


class DisplacedError(Exception):
    """A place in the queue was given up to an owner who waits with fewer."""


@dataclass(slots=True, eq=False)
class _Waiting:
    places: int
    turn: asyncio.Future[None]
    entered: bool = False


class FairRoom:
    """A bounded room. Who finds it full waits; what is free goes to the owner that has the fewest places in it.

    Among owners with as many, the one whose last turn is longest ago is next, and among an owner's own requests the one
    that came first: who asks one after the other has as many turns as who asks for all at once. ``size`` is looked up
    each time, so it may change; `let_in` makes use of more room. Nobody enters a room of size 0.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._lines: dict[str, deque[_Waiting]] = {}
        self._taken: Counter[str] = Counter()
        self._turns: dict[str, int] = {}
        """When each owner last had a turn, the latest last; a newcomer comes before who had the latest of all."""
        self._turn = 0
        self.running: int = 0

    @property
    def waiting(self) -> int:
        return sum(map(len, self._lines.values()))

    @property
    def full(self) -> bool:
        """Whether a request for one place would wait now."""
        return bool(self._lines) or not self._fits(1)

    @asynccontextmanager
    async def places(self, owner: str, count: int = 1, *, patience: float | None = None) -> AsyncIterator[None]:
        """Runs the body with ``count`` places of ``owner``; more than there are: when the room is empty.

        Raises `TimeoutError` after ``patience`` seconds of waiting, `DisplacedError` where `displace` chose it.
        """
        await self._enter(owner, count, patience)
        try:
            yield
        finally:
            self._leave(owner, count)

    def let_in(self) -> None:
        """Lets waiting requests enter in turn, as far as there is room."""
        while self._lines:
            owner = min(self._lines, key=lambda owner: (self._taken[owner], self._turns[owner]))
            if not self._fits(self._lines[owner][0].places):
                return
            waiting = self._take_out(owner, self._lines[owner][0])
            if not waiting.turn.done():  # Else it was cancelled in this moment.
                waiting.entered = True
                self._take(owner, waiting.places)
                waiting.turn.set_result(None)

    def may_displace(self, owner: str) -> bool:
        """Whether somebody waits with more requests than ``owner`` would with one more."""
        return len(self._lines.get(self._longest, ())) > len(self._lines.get(owner, ())) + 1

    def displace(self, owner: str) -> bool:
        """Sends away the latest of the owner who waits with the most requests, so that one of ``owner`` may wait.

        False where nobody waits with more than ``owner`` would.
        """
        if not self.may_displace(owner):
            return False
        longest = self._longest
        waiting = self._take_out(longest, self._lines[longest][-1])
        if not waiting.turn.done():
            waiting.turn.set_exception(DisplacedError)
        return True

    @property
    def _longest(self) -> str:
        return max(self._lines, key=lambda owner: len(self._lines[owner]), default="")

    async def _enter(self, owner: str, count: int, patience: float | None) -> None:
        if not self._lines and self._fits(count):
            self._take(owner, count)
            return
        waiting = _Waiting(count, asyncio.get_running_loop().create_future())
        self._lines.setdefault(owner, deque()).append(waiting)
        self._turns.setdefault(owner, self._turn - 1)
        try:
            async with asyncio.timeout(patience):
                await waiting.turn
        except BaseException:
            self._give_up(owner, waiting)
            raise

    def _give_up(self, owner: str, waiting: _Waiting) -> None:
        """Leaves the queue, or hands back the places that were given in the same moment."""
        if waiting.entered:
            self._leave(owner, waiting.places)
        elif waiting in self._lines.get(owner, ()):
            self._take_out(owner, waiting)
            self.let_in()

    def _take_out(self, owner: str, waiting: _Waiting) -> _Waiting:
        line = self._lines[owner]
        line.remove(waiting)
        if not line:
            del self._lines[owner]
        return waiting

    def _fits(self, count: int) -> bool:
        size = self._size()
        return size > 0 and (self.running == 0 or self.running + count <= size)

    def _take(self, owner: str, count: int) -> None:
        self.running += count
        self._taken[owner] += count
        self._turn += 1
        self._turns.pop(owner, None)
        self._turns[owner] = self._turn
        while len(self._turns) > _MOST_REMEMBERED + len(self._lines):
            self._forget(next(iter(self._turns)))

    def _forget(self, owner: str) -> None:
        """Forgets when the owner had a turn; one who waits is looked at again after all others."""
        turn = self._turns.pop(owner)
        if owner in self._lines:
            self._turns[owner] = turn

    def _leave(self, owner: str, count: int) -> None:
        self.running -= count
        self._taken[owner] -= count
        if not self._taken[owner]:
            del self._taken[owner]
        self.let_in()


class DomainGate:
    """The queue of an engine whose cache does not separate owners.

    As long as all requests are of one domain the engine may reuse what it likes. The first of another waits until the
    room is empty; from then on requests are ``apart``, for good. ``size`` is the room, by whether they are ``apart``.
    """

    def __init__(self, size: Callable[[bool], int], *, shared: bool = False, domain: str | None = None) -> None:
        """``domain`` is that of what the cache holds already; None: nothing."""
        self.shared = shared
        self.apart: bool = False
        self._domain = domain
        self._room = FairRoom(lambda: size(self.apart))

    @asynccontextmanager
    async def places(self, tenant: Tenant, count: int = 1) -> AsyncIterator[bool]:
        """Runs the body with ``count`` places; gives whether requests are apart."""
        domain = tenant.domain(shared=self.shared)
        self._domain = domain if self._domain is None else self._domain
        alone = domain != self._domain and not self.apart
        async with self._room.places(tenant.owner, sys.maxsize if alone else count):
            self.apart = self.apart or alone
            yield self.apart
