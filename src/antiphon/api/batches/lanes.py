"""In which order lines are run, and next to which: what prompts share is evaluated once, not once for each of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from .lines import Line


class Lanes:
    """Lines, divided between ``count`` lanes that run one line after the other, each in a slot of the engine.

    ``by_prompt``: lines whose prompts begin alike are neighbours in one lane, so that its slot has that beginning
    already; else lines are dealt out in their order. A lane that is through takes over half of what the longest has.
    """

    def __init__(self, lines: Iterable[Line], count: int, *, by_prompt: bool) -> None:
        ordered = sorted(lines, key=lambda line: (line.prompt, line.number)) if by_prompt else list(lines)
        share = -(-len(ordered) // count)
        parts = (ordered[i * share : (i + 1) * share] if by_prompt else ordered[i::count] for i in range(count))
        self._lanes = [deque(part) for part in parts]

    def lines(self, lane: int) -> Iterator[Line]:
        """What is to be run in a lane; each line is given once. Ends when no lane has any more."""
        own = self._lanes[lane]
        while True:
            if not own:
                longest = max(self._lanes, key=len)
                own.extendleft(longest.pop() for _ in range(-(-len(longest) // 2)))
            if not own:
                return
            yield own.popleft()
