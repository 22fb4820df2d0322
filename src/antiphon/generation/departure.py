"""Why a reply left its grammar: the engine did not keep to it, or the grammar is one that no engine can follow.

An engine whose matcher reaches one of its limits goes on without a grammar, and says nothing of it. So what it did is
done again: a mask at each token, up to the one that the grammar does not allow. Our own matcher may be
at a limit too, for those of other replies count with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from antiphon.errors import AntiphonError, EngineError, Position, RequestError

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.grammar.compiler import CompiledGrammar

SECONDS = 2.0
"""Processor time, at most, to follow a reply once more. The masks of one that takes longer cost too much anyway."""


class GrammarViolation(Exception):
    """A reply whose id at ``place`` the grammar does not allow, or that ended there before its grammar did.

    ``path`` is of what the request constrains the reply by; ``reword`` puts an error into the wire's names.
    """

    def __init__(
        self,
        compiled: CompiledGrammar,
        ids: Sequence[int],
        place: int,
        path: str | None,
        reword: Callable[[RequestError], object],
    ) -> None:
        super().__init__(place)
        self._compiled = compiled
        self._ids = ids
        self._place = place
        self._path = path
        self._reword = reword

    async def cause(self) -> AntiphonError:
        """The error to raise instead: a `RequestError` where the grammar is at fault. It is found in a thread."""
        error = await asyncio.to_thread(self._found)
        if isinstance(error, RequestError):
            self._reword(error)
        return error

    def _found(self) -> AntiphonError:
        """`cause` before it is put into the wire's names; takes up to `SECONDS`."""
        matcher, end = self._compiled.alone(), time.thread_time() + SECONDS
        for id in self._ids[: self._place + 1]:
            mask = matcher.mask()
            if matcher.failed or time.thread_time() > end:
                return too_costly(self._place, self._path)
            if id // 8 >= len(mask) or not mask[id // 8] >> id % 8 & 1:
                return self._broken() if any(mask) or matcher.stopped else self._leads_nowhere()
            if matcher.consume([id]) is not None:
                return too_costly(self._place, self._path)
        if self._place == len(self._ids):
            return self._leads_nowhere() if matcher.stuck else self._broken()
        return too_costly(self._place, self._path)  # for the matcher that refused the id

    def _leads_nowhere(self) -> RequestError:
        return RequestError(
            f"after {self._place} tokens of the reply nothing fits its schema or pattern any more",
            code="invalid_grammar",
            position=Position(path=self._path),
            hint="Look for bounds, types or patterns that contradict each other.",
        )

    def _broken(self) -> EngineError:
        if self._place == len(self._ids):
            return EngineError(
                "the engine ended the reply before its grammar did", code="grammar_broken", hint="Try again."
            )
        return EngineError(
            f"the engine left the grammar at token {self._place}",
            code="grammar_broken",
            hint="Nothing after that point can be trusted; try again.",
        )


def too_costly(tokens: int, path: str | None = None) -> RequestError:
    """The error for a grammar that no engine can follow any further than ``tokens``."""
    return RequestError(
        f"the reply's schema or pattern takes too long to follow, after {tokens} tokens of it",
        code="invalid_grammar",
        position=Position(path=path),
        hint="Use simpler patterns: fewer alternatives, and fewer counted repetitions after a wildcard.",
    )
