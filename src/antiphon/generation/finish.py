"""A constrained reply that is whole at its limit: the shortest ending is taken while it still fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from antiphon.engines import EngineEnd, Step

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.grammar.compiler import CompiledGrammar
    from antiphon.grammar.following import Matcher

UNKNOWN = 512
"""How long an ending is taken to be that the search does not find."""
FAR = 2 * UNKNOWN
"""While so many ids are left, none is looked for."""


class Finisher:
    """Follows one choice of at most ``most`` ids, and knows an ending of it at each of them.

    The first id after which no ending would fit any more is not taken: the ending before it is, in its place. A reply
    of which none is found for long is cut, as it would be without.
    """

    def __init__(self, compiled: CompiledGrammar, most: int, ending: tuple[int, ...]) -> None:
        """``ending`` is one from the reply's beginning."""
        self._compiled = compiled
        self._matcher = compiled.matcher()
        self._left = most
        self._ending: tuple[int, ...] | None = ending
        self.ended = False
        """The ending was taken: the reply is whole, and the limit is why it ended."""

    def fitted(self, step: Step) -> Step:
        """The step as it may be read: whole, or up to where the ending is taken."""
        taken: list[int] = []
        for id in step.ids:
            if not self._take(id):
                self.ended = True
                ids = (*taken, *(self._ending or ()))
                return msgspec.structs.replace(step, ids=ids, logprobs=(), end=EngineEnd.LENGTH_OUTPUT)
            taken.append(id)
        return step

    def _take(self, id: int) -> bool:
        """Whether an ending fits behind the id. One that the grammar does not allow is for others to refuse."""
        after = self._matcher.copy()
        if after.consume([id]) is not None:
            return True
        ending = self._after(id, after)
        if self._ending is not None and (UNKNOWN if ending is None else len(ending)) > self._left - 1:
            return False
        self._matcher, self._ending, self._left = after, ending, self._left - 1
        return True

    def _after(self, id: int, after: Matcher) -> tuple[int, ...] | None:
        """An ending behind the id: the rest of the last one, the last one again, or another."""
        if self._left > FAR:
            return None
        last = self._ending
        if last and last[0] == id:
            return last[1:]
        if last is not None and not after.accepting:
            again = after.copy()
            if again.consume(last) is None and again.accepting:
                return last
        return self._compiled.ending(after, max(0, self._left - 1))
