"""Who runs, who waits, who is sent away."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.api.rules import Rules
from antiphon.errors import OverloadedError


class Admission:
    """A bounded queue before a bounded room, first come first served."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def check(self) -> None:
        """Refuses, before any work is spent on it, a request that could not even wait."""
        if self._is_full and len(self._waiting) >= self._rules.limits.max_queue:
            raise OverloadedError(
                f"{self.running} requests run and {self.waiting} wait, which is all that this server takes.",
                code="queue_full",
                hint="Try again later.",
            )

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Runs the body in the room. Raises `OverloadedError`: ``queue_full`` at once, ``queue_timeout`` later."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        if not self._is_full:
            self.running += 1
            return
        self.check()
        patience = self._rules.limits.queue_timeout
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(patience):
                await turn
        except BaseException as error:
            self._give_up(turn)
            if isinstance(error, TimeoutError):
                message = f"The request waited {patience:g} seconds for its turn."
                raise OverloadedError(message, code="queue_timeout", hint="Try again later.") from None
            raise

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        """Leaves the queue; a turn that was given in the same moment goes to the next."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif not turn.cancelled():
            self._leave()

    def _leave(self) -> None:
        self.running -= 1
        self.let_in()

    def let_in(self) -> None:
        """Those who wait enter as far as there is room: one left, or the room grew."""
        while self._waiting and not self._is_full:
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)

    @property
    def _is_full(self) -> bool:
        return self.running >= self._rules.limits.max_concurrent
