"""Admission: which requests run, wait or are sent away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from antiphon.errors import OverloadedError
from antiphon.http.rules import Rules
from antiphon.http.transcript_runs import TranscriptCancel
from antiphon.tenancy import DisplacedError, FairRoom


class Admission:
    """A bounded queue before a bounded room, in which the owners take turns."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._room = FairRoom(lambda: rules.limits.concurrent)
        self._behind: dict[tuple[str, int], FairRoom] = {}
        """By model and its slots, the room for work that nobody waits for."""

    @property
    def running(self) -> int:
        return self._room.running

    @property
    def waiting(self) -> int:
        return self._room.waiting

    def check(self, owner: str) -> None:
        """Refuses, before any work is spent on it, a request that could not even wait."""
        if self._room.full and self.waiting >= self._rules.limits.max_queue and not self._room.may_displace(owner):
            raise self._queue_full()

    async def check_all(self, owner: str) -> None:
        """`check`, also where other processes wait in the same queue: before work that nobody waits for is accepted."""
        self.check(owner)

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncIterator[None]:
        """Runs the body in the room. Raises `OverloadedError`: ``queue_full`` at once, ``queue_timeout`` later.

        Where the queue is full, the owner who waits with the most requests loses the latest of them to one with fewer.
        """
        if self._room.full and self.waiting >= self._rules.limits.max_queue and not self._room.displace(owner):
            raise self._queue_full()
        patience = self._rules.limits.queue_timeout
        async with AsyncExitStack() as place:
            place.callback(self._let_in_behind)  # once the place is free, and nobody else has it
            try:
                await place.enter_async_context(self._room.places(owner, patience=patience))
            except TimeoutError:
                message = f"The request waited {patience:g} seconds for its turn."
                raise OverloadedError(message, code="queue_timeout", hint="Try again later.") from None
            except DisplacedError:
                raise self._queue_full() from None
            yield

    @asynccontextmanager
    async def background(
        self, owner: str, *, model: str, slots: int, places: int, patience: float | None = None
    ) -> AsyncIterator[None]:
        """Runs the body once requests leave room for it: below all of them, and fair between the owners of such work.

        ``slots`` is how many answers the engine of ``model`` makes at once. One of them stays free for the next request
        that comes, unless there is no more than one; while a request waits, nothing enters. Raises `TimeoutError`
        after ``patience`` seconds of waiting.
        """
        room = self._behind.setdefault((model, slots), FairRoom(lambda: self._left_of(slots)))
        async with room.places(owner, places, patience=patience):
            yield

    def _left_of(self, slots: int) -> int:
        """The slots of an engine that requests leave. All that run count, whatever their model: some may be its."""
        if self._room.waiting:
            return 0
        return max(0, self.most_behind(slots) - self._room.running)

    def most_behind(self, slots: int) -> int:
        """The answers at once that `background` lets an engine of ``slots`` make where no request runs."""
        return max(1, min(slots, self._rules.limits.concurrent) - 1)

    def let_in(self) -> None:
        """Lets waiting requests enter as far as there is room, after the room grew."""
        self._room.let_in()
        self._let_in_behind()

    def _let_in_behind(self) -> None:
        for room in self._behind.values():
            room.let_in()

    def _queue_full(self) -> OverloadedError:
        return OverloadedError(
            f"{self.running} requests run and {self.waiting} wait, which is all that this server takes.",
            code="queue_full",
            hint="Try again later.",
        )


# What several processes of one server have together.


class SharedLimits(Protocol):
    """State that a process shares with the others of its server: the limits hold over all of them."""

    def admission(self, rules: Rules) -> Admission: ...

    def model_changed(self, name: str) -> None:
        """A model was fetched or deleted here."""

    async def cancel(self, owner: str, id: str, request: TranscriptCancel) -> bool:
        """Whether another process makes the answer ``id`` to a transcript, and cancels what is requested of it."""

    async def metrics(self) -> bytes:
        """The text of a scrape, summed over all."""
