"""Meters of turns, and limits of their time. A meter gets numbers and ends, never content."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol

import msgspec

from antiphon.conversation import TurnEnded
from antiphon.errors import OverloadedError


class TimeLimits(msgspec.Struct, frozen=True):
    """Seconds until the first event of a turn, and for the whole of it; 0 is no limit."""

    first: float = 0
    whole: float = 0


UNLIMITED = TimeLimits()


class TurnMeter(Protocol):
    """Counts one turn."""

    @property
    def between(self) -> Callable[[float], object]:
        """Takes the seconds between two tokens, once a step: the only call that each token costs."""

    def first(self) -> None:
        """The first event is there."""

    def incident(self, code: str) -> None: ...

    def ended(self, choice: int, end: TurnEnded) -> None: ...

    def end(self, tokens: Mapping[int, int], error: BaseException | None) -> None:
        """The turn is over, with so many tokens of each choice that had any event.

        ``error`` is what ended it early (`GeneratorExit` when the reader stopped).
        """


class Meter(Protocol):
    """Counts the turns of one request."""

    def begin(self, prompt_tokens: int) -> TurnMeter:
        """A turn begins in its engine."""


class Unmetered:
    """Counts nothing."""

    def begin(self, prompt_tokens: int) -> TurnMeter:
        return self

    def between(self, seconds: float) -> None:
        """Nothing is measured."""

    def first(self) -> None:
        """Nothing is measured."""

    def incident(self, code: str) -> None:
        """Nothing is measured."""

    def ended(self, choice: int, end: TurnEnded) -> None:
        """Nothing is measured."""

    def end(self, tokens: Mapping[int, int], error: BaseException | None) -> None:
        """Nothing is measured."""


UNMETERED = Unmetered()
"""A meter that measures nothing: where nobody asks for metrics."""


class Deadline:
    """Stops the task that entered it when a turn takes too long: one timer a turn, set anew at its first event.

    Leaving it raises `OverloadedError` (``first_token_timeout``, ``turn_timeout``) where the time was up.
    """

    def __init__(self, limits: TimeLimits) -> None:
        self._limits = limits
        self._timeout = asyncio.timeout(None)
        self._end: float | None = None
        self._first = False

    async def __aenter__(self) -> Deadline:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, where)
        except TimeoutError:
            raise self._error() from None

    def begin(self) -> None:
        """A turn begins."""
        limits, now = self._limits, asyncio.get_running_loop().time()
        self._end = now + limits.whole if limits.whole else None
        self._first = bool(limits.first) and (not limits.whole or limits.first < limits.whole)
        self._set(now + limits.first if self._first else self._end)

    def first(self) -> None:
        """Its first event is there."""
        if self._first:
            self._first = False
            self._set(self._end)

    def over(self) -> None:
        """It is over; what comes until the next begins is not limited."""
        self._set(None)

    def cause(self, error: BaseException) -> BaseException:
        """The real end of a turn that ``error`` ended: the time, or just that."""
        return self._error() if self._timeout.expired() else error

    def _set(self, when: float | None) -> None:
        if not self._timeout.expired() and self._timeout.when() != when:
            self._timeout.reschedule(when)

    def _error(self) -> OverloadedError:
        if self._first:
            message = f"The model wrote nothing in {self._limits.first:g} seconds."
            return OverloadedError(message, code="first_token_timeout")
        message = f"The answer was not whole after {self._limits.whole:g} seconds."
        return OverloadedError(message, code="turn_timeout")
