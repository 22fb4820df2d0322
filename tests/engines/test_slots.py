"""In which slot a reply goes on."""

from __future__ import annotations

from antiphon.engines.llama_cpp.scoring import Placement, Slots
from antiphon.tenancy import NOBODY, Tenant

GUIDE = list(range(80))


def ran(slots: Slots, slot: int, ids: list[int], affinity: str | None = None) -> None:
    place = slots.enter(ids, Tenant(affinity=affinity), n=1)
    slots.settle(place, slot)
    slots.leave(place)


def requested_slot(slots: Slots, ids: list[int], affinity: str | None = None, n: int = 1) -> int | None:
    place: Placement = slots.enter(ids, Tenant(affinity=affinity), n=n)
    slots.leave(place)
    return place.requested


def test_a_prompt_that_goes_on_with_a_slot_s_content_asks_for_that_slot() -> None:
    slots = Slots(4)
    ran(slots, 0, [*GUIDE, 1])
    ran(slots, 1, [*GUIDE, *[1] * 40])
    assert requested_slot(slots, [*GUIDE, *[1] * 40, 2]) == 1
    assert requested_slot(slots, [*GUIDE, *[1] * 40, 2], n=2) is None


def test_a_common_beginning_is_not_enough_to_take_another_s_slot() -> None:
    slots = Slots(4)
    ran(slots, 0, [*GUIDE, *[1] * 40])
    assert requested_slot(slots, [*GUIDE, *[2] * 5]) is None


def test_a_session_asks_for_its_own_slot_whatever_became_of_its_prompt_unless_another_used_it_since() -> None:
    slots = Slots(4)
    ran(slots, 1, [7] * 100, "ann/s")
    assert requested_slot(slots, [8] * 9, "ann/s") == 1
    ran(slots, 1, [9] * 100, "bob/t")
    assert requested_slot(slots, [7] * 100, "ann/s") is None


def test_nobody_asks_for_a_slot_that_works_or_that_may_work() -> None:
    slots = Slots(4)
    ran(slots, 0, GUIDE, "ann/s")
    unknown = slots.enter([5], NOBODY, n=1)
    assert requested_slot(slots, GUIDE, "ann/s") is None
    slots.settle(unknown, 0)
    assert requested_slot(slots, GUIDE, "ann/s") is None
    slots.leave(unknown)
    assert requested_slot(slots, [5, 6]) == 0


ANN, BOB = Tenant(owner="ann"), Tenant(owner="bob")


def apart(slots: Slots, ids: list[int], tenant: Tenant, *, began: bool = True) -> Placement:
    """A request that ran to its end where it was sent, or was given up before."""
    place = slots.enter(ids, tenant, apart=True)
    if began:
        slots.settle(place, -1)
    slots.leave(place)
    return place


def test_of_several_owners_each_finds_its_own_slot_only() -> None:
    slots = Slots(2)
    assert not apart(slots, GUIDE, ANN).reuse
    assert apart(slots, [*GUIDE, 1], ANN).reuse
    bobs = apart(slots, [*GUIDE, 1, 2], BOB)
    assert (bobs.requested, bobs.reuse) == (1, False)
    assert apart(slots, [*GUIDE, 1, 2, 3], BOB).requested == 1
    anns = apart(slots, [*GUIDE, 1, 2, 3], ANN)
    assert (anns.requested, anns.reuse) == (0, True)


def test_a_salt_parts_an_owner_s_own_prompts() -> None:
    slots = Slots(2)
    apart(slots, GUIDE, Tenant(owner="ann", salt="one"))
    assert not apart(slots, GUIDE, Tenant(owner="ann", salt="two")).reuse
    assert apart(slots, GUIDE, Tenant(owner="ann", salt="one")).reuse


def test_an_affinity_reaches_its_owner_s_slots_only() -> None:
    slots = Slots(2)
    apart(slots, GUIDE, Tenant(owner="ann", affinity="ann/s"))
    thief = apart(slots, [9, 9], Tenant(owner="bob", affinity="ann/s"))
    assert (thief.requested, thief.reuse) == (1, False)
    again = apart(slots, [8, 8], Tenant(owner="ann", affinity="ann/s"))
    assert (again.requested, again.reuse) == (0, True)


def test_the_slot_that_is_longest_unused_is_taken_from_another_owner_and_nothing_of_it_is_reused() -> None:
    slots = Slots(2)
    for ids in ([1] * 9, [2] * 9):
        apart(slots, ids, ANN)
    apart(slots, [1] * 9, ANN)
    taken = apart(slots, [1] * 9, BOB)
    assert (taken.requested, taken.reuse) == (1, False)
    assert apart(slots, [2] * 9, ANN).requested == 0


def test_nobody_knows_what_is_in_a_slot_whose_last_request_never_began() -> None:
    slots = Slots(1)
    apart(slots, GUIDE, ANN)
    apart(slots, GUIDE, BOB, began=False)
    assert not apart(slots, GUIDE, BOB).reuse
    assert apart(slots, GUIDE, BOB).reuse


def test_while_a_request_may_be_in_any_slot_nothing_is_reused() -> None:
    slots = Slots(2)
    apart(slots, GUIDE, ANN)
    somewhere = slots.enter([5], ANN, n=2)
    assert not apart(slots, GUIDE, ANN).reuse
    slots.leave(somewhere)


def test_where_caches_are_shared_owners_find_each_other_s_prompts() -> None:
    slots = Slots(2, shared=True)
    apart(slots, GUIDE, ANN)
    assert apart(slots, [*GUIDE, 1], BOB).reuse
