"""Where a reply goes on: in the slot that holds its beginning, so that only what is new is evaluated.

The server by itself goes by the share of the new prompt that a slot holds; then sessions with a long common beginning
take each other's slot, and what was behind it is lost. Here it counts how much of a slot's own content would stay. A
prompt that continues none is left to the server, which takes the slot that is longest unused and stores its contents.

The server does not separate owners. So from the moment on in which requests of two domains came, each is sent to a slot
by number, and only one whose last prompt was of the same domain may be gone on with: neither a count nor a time shows
what others sent. The server's store of prompts is not used then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from antiphon.tenancy import Tenant

Ids = TypeVar("Ids", list[int], tuple[int, ...])
SHARED = 0.8
"""A prompt continues a slot if at least this share of the slot's content stays."""


@dataclass(slots=True, eq=False)
class Placement:
    """One request: the slot that it requests (None: the server's choice) and, later, the one that it got.

    ``reuse``: what the slot holds may be gone on with. ``began``: the server works at it, or has.
    """

    tenant: Tenant
    domain: str
    ids: list[int]
    requested: int | None = None
    reuse: bool = True
    slot: int | None = None
    began: bool = False

    @property
    def place(self) -> int | None:
        """The slot, as far as it is known."""
        return self.requested if self.slot is None else self.slot


@dataclass(slots=True)
class Slots:
    """What the ``count`` slots of one child contain, as far as this process has seen. ``shared``: owners share them."""

    count: int
    shared: bool = False
    _contents: dict[int, Placement] = field(default_factory=dict)
    """By slot, the longest unused first."""
    _active: list[Placement] = field(default_factory=list)

    def enter(self, prompt: Sequence[int], tenant: Tenant, *, n: int = 1, apart: bool = False) -> Placement:
        """Where a request goes. ``apart``: several domains ask, each request is for one choice, and a slot is free."""
        place = Placement(tenant, tenant.domain(shared=self.shared), list(prompt))
        # While the server has not reported where it put another request, a slot that looks idle may not be.
        known = all(other.place is not None for other in self._active)
        if apart:
            place.requested = slot = self._own(place)
            place.reuse = known and slot in self._contents and self._contents[slot].domain == place.domain
            self._hold(slot, place)
        elif n == 1 and known:
            place.requested = self._best(place, self._idle())
        self._active.append(place)
        return place

    def settle(self, place: Placement, slot: int) -> None:
        """The server has begun, in that slot; -1: it says later in which."""
        place.began = True
        if slot >= 0:
            place.slot = slot
            self._hold(slot, place)

    def leave(self, place: Placement) -> None:
        """The request is over. What a slot holds for which it was meant, but in which it never began, nobody knows."""
        self._active.remove(place)
        if not place.began and place.requested is not None and self._contents.get(place.requested) is place:
            del self._contents[place.requested]

    def _hold(self, slot: int, place: Placement) -> None:
        self._contents.pop(slot, None)
        self._contents[slot] = place

    def _idle(self) -> dict[int, Placement]:
        busy = {other.place for other in self._active}
        return {slot: content for slot, content in self._contents.items() if slot not in busy}

    def _own(self, place: Placement) -> int:
        """A slot of the same domain that the prompt continues, else an unused one, else that longest unused."""
        idle = self._idle()
        best = self._best(place, {slot: content for slot, content in idle.items() if content.domain == place.domain})
        if best is not None:
            return best
        busy = {other.place for other in self._active}
        unused = (slot for slot in range(self.count) if slot not in self._contents and slot not in busy)
        return next(unused, next(iter(idle), 0))

    def _best(self, place: Placement, idle: dict[int, Placement]) -> int | None:
        own = [slot for slot, content in idle.items() if _same_session(content, place)]
        if own:
            return own[-1]
        common = {slot: common_length(content.ids, place.ids) for slot, content in idle.items()}
        fitting = [slot for slot, length in common.items() if length >= SHARED * len(idle[slot].ids)]
        return max(fitting, key=common.__getitem__, default=None)


def _same_session(one: Placement, other: Placement) -> bool:
    session = other.tenant.affinity
    return bool(session) and (one.tenant.owner, one.tenant.affinity) == (other.tenant.owner, session)


def common_length(one: Ids, other: Ids) -> int:
    """Length of the common beginning of two lists, or two tuples: by halves, for slices compare at memory's speed."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
