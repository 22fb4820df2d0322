"""Where a reply goes on: in the slot that holds its beginning, so that only what is new is evaluated.

The server by itself goes by the share of the new prompt that a slot holds; then sessions with a long common beginning
take each other's slot, and what was behind it is lost. Here it counts how much of a slot's own content would stay. A
prompt that continues none is left to the server, which takes the slot that is longest unused and stores its contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SHARED = 0.8
"""A prompt continues a slot if at least this share of the slot's content stays."""


@dataclass(slots=True, eq=False)
class Placement:
    """One request: the slot that it requests (None: the server's choice) and, later, the one that it got."""

    affinity: str | None
    ids: list[int]
    requested: int | None = None
    slot: int | None = None


@dataclass(slots=True)
class Slots:
    """What the slots of one child contain, as far as this process has seen."""

    _contents: dict[int, Placement] = field(default_factory=dict)
    _active: list[Placement] = field(default_factory=list)

    def enter(self, prompt: Sequence[int], affinity: str | None, *, n: int) -> Placement:
        place = Placement(affinity, list(prompt))
        # While the server has not reported where it put another request, a slot that looks idle may not be.
        if n == 1 and all(other.slot is not None for other in self._active):
            place.requested = self._best(place)
        self._active.append(place)
        return place

    def settle(self, place: Placement, slot: int) -> None:
        """Notes the slot that the server gave to the request."""
        place.slot = slot
        self._contents[slot] = place

    def leave(self, place: Placement) -> None:
        self._active.remove(place)

    def _best(self, place: Placement) -> int | None:
        busy = {other.slot for other in self._active}
        idle = {slot: content for slot, content in self._contents.items() if slot not in busy}
        own = [slot for slot, content in idle.items() if place.affinity and content.affinity == place.affinity]
        if own:
            return own[-1]
        common = {slot: _common(content.ids, place.ids) for slot, content in idle.items()}
        fitting = [slot for slot, length in common.items() if length >= SHARED * len(idle[slot].ids)]
        return max(fitting, key=common.__getitem__, default=None)


def _common(one: list[int], other: list[int]) -> int:
    """Length of the common beginning: by halves, for slices compare at memory's speed."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
