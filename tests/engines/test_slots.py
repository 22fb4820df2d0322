"""In which slot a reply goes on."""

from __future__ import annotations

from antiphon.engines.llama_cpp.slots import Placement, Slots

GUIDE = list(range(80))


def ran(slots: Slots, slot: int, ids: list[int], affinity: str | None = None) -> None:
    place = slots.enter(ids, affinity, n=1)
    slots.settle(place, slot)
    slots.leave(place)


def requested_slot(slots: Slots, ids: list[int], affinity: str | None = None, n: int = 1) -> int | None:
    place: Placement = slots.enter(ids, affinity, n=n)
    slots.leave(place)
    return place.requested


def test_a_prompt_that_goes_on_with_a_slot_s_content_asks_for_that_slot() -> None:
    slots = Slots()
    ran(slots, 0, [*GUIDE, 1])
    ran(slots, 1, [*GUIDE, *[1] * 40])
    assert requested_slot(slots, [*GUIDE, *[1] * 40, 2]) == 1
    assert requested_slot(slots, [*GUIDE, *[1] * 40, 2], n=2) is None


def test_a_common_beginning_is_not_enough_to_take_another_s_slot() -> None:
    slots = Slots()
    ran(slots, 0, [*GUIDE, *[1] * 40])
    assert requested_slot(slots, [*GUIDE, *[2] * 5]) is None


def test_a_session_asks_for_its_own_slot_whatever_became_of_its_prompt_unless_another_used_it_since() -> None:
    slots = Slots()
    ran(slots, 1, [7] * 100, "ann/s")
    assert requested_slot(slots, [8] * 9, "ann/s") == 1
    ran(slots, 1, [9] * 100, "bob/t")
    assert requested_slot(slots, [7] * 100, "ann/s") is None


def test_nobody_asks_for_a_slot_that_works_or_that_may_work() -> None:
    slots = Slots()
    ran(slots, 0, GUIDE, "ann/s")
    unknown = slots.enter([5], None, n=1)
    assert requested_slot(slots, GUIDE, "ann/s") is None
    slots.settle(unknown, 0)
    assert requested_slot(slots, GUIDE, "ann/s") is None
    slots.leave(unknown)
    assert requested_slot(slots, [5, 6]) == 0
