"""What the masks of a constrained reply cost: the engine computes one for every token, and its other replies wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .departure import too_costly

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.grammar.following import Matcher

EVERY = 16
"""Ids from one look to the next."""
LOOKS = 4
"""How many looks in a row make a mean."""


class MaskWatch:
    """Computes a mask now and then, as the engine does at each token, and ends replies whose masks take too long."""

    def __init__(self, most: float, clock: Callable[[], float] = time.thread_time, *, path: str | None = None) -> None:
        """``most`` are seconds of processor time for one mask, in the mean of `LOOKS`.

        ``path`` is of what the request constrains the reply by.
        """
        self._most = most
        self._path = path
        self._clock = clock
        self._next = EVERY
        self._spent: list[float] = []

    def look(self, matcher: Matcher) -> None:
        """Once every so many ids. Raises `RequestError` (``invalid_grammar``)."""
        if matcher.position < self._next or matcher.stopped:
            return
        self._next = matcher.position + EVERY
        began = self._clock()
        matcher.mask()
        self._spent = [*self._spent, self._clock() - began][-LOOKS:]
        if matcher.failed or (len(self._spent) == LOOKS and sum(self._spent) > LOOKS * self._most):
            raise too_costly(matcher.position, self._path)
