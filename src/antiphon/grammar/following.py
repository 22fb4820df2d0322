"""Checks sampled ids against a grammar, one reply at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from llguidance import LLMatcher


class Violation(msgspec.Struct, frozen=True):
    """The id at ``position`` of the reply is not one that the grammar allows there (or the matcher failed there)."""

    position: int
    id: int
    reason: str


class Matcher:
    """Follows one reply: as a shadow beside an engine that masks by itself, or as the mask of one that does not.

    Once an id was refused the matcher stays where it was; what came before remains true.
    """

    def __init__(self, start: LLMatcher) -> None:
        self._matcher = start
        self._violation: Violation | None = None
        self.position: int = 0

    def consume(self, ids: Sequence[int]) -> Violation | None:
        """Takes the ids in order; the first that the grammar does not allow, now or in an earlier call."""
        if self._violation is None and ids:
            # One id at a time is how they stream, and then the other call costs nearly twice as much.
            one = len(ids) == 1
            taken = self._matcher.consume_token(ids[0]) if one else self._matcher.try_consume_tokens(list(ids))
            self.position += taken
            if taken < len(ids):
                reason = self._matcher.get_error().split("\n")[0] or "the grammar does not allow it here"
                self._violation = Violation(self.position, ids[taken], reason)
        return self._violation

    def copy(self) -> Matcher:
        """Another matcher at the same place."""
        other = Matcher(self._matcher.deep_copy())
        other._violation, other.position = self._violation, self.position
        return other

    @property
    def accepting(self) -> bool:
        """Whether the reply may end here."""
        return self._violation is None and self._matcher.is_accepting()

    @property
    def stopped(self) -> bool:
        """Whether nothing more may come."""
        return self._matcher.is_stopped()

    @property
    def failed(self) -> bool:
        """Whether the matcher itself gave up, at one of its limits."""
        return self._violation is None and self._matcher.is_error()

    @property
    def stuck(self) -> bool:
        """Whether the reply may neither end here nor go on."""
        if self.accepting:
            return False
        allowed = any(self.mask())
        return self._matcher.is_error() or not allowed

    def mask(self) -> bytes:
        """The ids allowed next, a bit each, lowest bit first; bits from the vocabulary's size on mean nothing.

        All zero when the reply is over or was refused.
        """
        if self._violation is not None or self._matcher.is_stopped():
            return bytes(0)
        return self._matcher.compute_bitmask()
