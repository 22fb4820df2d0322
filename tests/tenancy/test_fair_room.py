"""Who enters a full room next."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from antiphon.tenancy import _MOST_REMEMBERED, DisplacedError, DomainGate, FairRoom, Tenant
from kit.waiting import turns


class Visitors:
    """Requests that stay in a room until the test lets them go; ``entered`` are their names in order."""

    def __init__(self, room: FairRoom) -> None:
        self.room = room
        self.entered: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str, places: int = 1) -> None:
        """Each is named by its owner's letter and a number."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._visit(name, places))
        await turns(3)

    async def go(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        await turns(5)

    async def _visit(self, name: str, places: int) -> None:
        async with self.room.places(name[0], places):
            self.entered.append(name)
            await self._ends[name].wait()


def room(size: int) -> Visitors:
    return Visitors(FairRoom(lambda: size))


async def test_an_owner_with_fewer_places_goes_before_all_who_came_earlier() -> None:
    visitors = room(2)
    await visitors.come("a1", "a2", "a3", "a4", "a5", "b1", "b2")
    assert visitors.entered == ["a1", "a2"]
    await visitors.go("a1")
    assert visitors.entered == ["a1", "a2", "b1"]
    await visitors.go("b1")
    assert visitors.entered == ["a1", "a2", "b1", "b2"]
    await visitors.go("a2", "b2")
    assert visitors.entered[4:] == ["a3", "a4"]


async def test_owners_with_as_many_take_turns_and_each_owner_s_own_keep_their_order() -> None:
    visitors = room(1)
    await visitors.come("a1", "a2", "a3", "b1", "b2", "c1")
    for name in ("a1", "b1", "c1", "a2", "b2"):
        await visitors.go(name)
    assert visitors.entered == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_who_asks_one_after_the_other_has_as_many_turns_as_who_asks_for_all_at_once() -> None:
    visitors = room(1)
    await visitors.come("a1", "a2", "a3", "a4", "b1")
    await visitors.go("a1", "b1")
    await visitors.come("b2")
    await visitors.go("a2", "b2")
    await visitors.come("b3")
    await visitors.go("a3", "b3")
    assert visitors.entered == ["a1", "b1", "a2", "b2", "a3", "b3", "a4"]


async def test_newcomers_do_not_pass_who_waits_longer() -> None:
    """Each new owner comes while the one before it runs; one that was there before them all has its turn."""
    visitors = room(1)
    await visitors.come("a1", "a2", "b1")
    for name, newcomer in (("a1", "c1"), ("b1", "d1"), ("c1", "e1")):
        await visitors.come(newcomer)
        await visitors.go(name)
    assert "a2" in visitors.entered[:5]


async def test_no_more_owners_are_remembered_than_some_thousands() -> None:
    visitors = FairRoom(lambda: 1)
    for i in range(10_000):
        async with visitors.places(str(i)):
            pass
    assert len(visitors._turns) < 5000


async def test_who_waits_takes_no_other_owner_s_place_among_those_remembered() -> None:
    visitors = room(1)
    for i in range(_MOST_REMEMBERED - 1):
        async with visitors.room.places(str(i)):
            pass
    await visitors.come("a1", "b1", "c1", "01")
    await visitors.go("a1")
    await visitors.come("11")
    await visitors.go("01")
    assert visitors.entered == ["a1", "01", "11"], "their last turn is longer ago than b and c have waited"
    await visitors.go("11", "b1", "c1")


async def test_who_gives_up_leaves_no_trace_also_in_the_moment_of_entering() -> None:
    visitors = room(1)
    async with visitors.room.places("a"):
        await visitors.come("b1", "c1", "d1")
        visitors.tasks["c1"].cancel()
        await turns(3)
        assert visitors.room.waiting == 2
    # It is b1's turn now, and before it runs it is cancelled.
    assert (visitors.room.running, visitors.room.waiting) == (1, 1)
    visitors.tasks["b1"].cancel()
    await turns(5)
    assert visitors.entered == ["d1"]
    await visitors.go("d1")
    assert (visitors.room.running, visitors.room.waiting) == (0, 0)


async def test_who_is_cancelled_just_before_its_turn_is_passed_over() -> None:
    visitors = room(1)
    await visitors.come("a1", "b1", "c1")
    visitors.tasks["b1"].cancel()
    visitors._ends["a1"].set()
    await turns(5)
    assert visitors.entered == ["a1", "c1"]
    await visitors.go("c1")
    assert (visitors.room.running, visitors.room.waiting) == (0, 0)


async def test_one_that_needs_many_places_is_not_passed_by_those_that_need_one() -> None:
    visitors = room(3)
    await visitors.come("a1", "a2")
    await visitors.come("b1", places=3)
    await visitors.come("c1", "a3")
    assert visitors.entered == ["a1", "a2"]
    await visitors.go("a1", "a2")
    assert visitors.entered == ["a1", "a2", "b1"]
    await visitors.go("b1")
    assert visitors.entered[3:] == ["c1", "a3"]


async def test_those_behind_one_that_gives_up_need_not_wait_for_who_is_in_the_room() -> None:
    visitors = room(3)
    await visitors.come("a1")
    await visitors.come("b1", places=3)
    await visitors.come("c1", "d1")
    assert visitors.entered == ["a1"]
    visitors.tasks["b1"].cancel()
    await turns(5)
    assert visitors.entered == ["a1", "c1", "d1"]
    await visitors.go("a1", "c1", "d1")


async def test_the_queue_s_last_of_the_longest_line_gives_way_to_an_owner_with_fewer() -> None:
    visitors = room(1)
    await visitors.come("a1", "a2", "a3", "a4")
    assert not visitors.room.displace("a")
    assert visitors.room.displace("b")
    await turns(3)
    with pytest.raises(DisplacedError):
        await visitors.tasks["a4"]
    await visitors.come("b1")
    assert visitors.room.waiting == 3
    assert not visitors.room.displace("b")
    await visitors.go("a1", "b1")
    assert visitors.entered == ["a1", "b1", "a2"]


async def test_waiting_is_bounded_by_patience() -> None:
    visitors = room(1)
    await visitors.come("a1")
    with pytest.raises(TimeoutError):
        async with visitors.room.places("b", patience=0.001):
            pytest.fail("there is no room")
    assert visitors.room.waiting == 0


async def test_a_room_that_grew_lets_in_as_many() -> None:
    size = 1
    visitors = Visitors(FairRoom(lambda: size))
    await visitors.come("a1", "a2", "a3")
    size = 3
    visitors.room.let_in()
    await turns(3)
    assert visitors.entered == ["a1", "a2", "a3"]


async def test_the_first_of_another_domain_waits_until_nobody_runs_and_from_then_on_all_are_apart() -> None:
    gate = DomainGate(lambda apart: 2 if apart else 5)
    ann, bob = Tenant(owner="ann"), Tenant(owner="bob")
    entered: list[tuple[str, bool]] = []
    end = asyncio.Event()

    async def ask(tenant: Tenant) -> None:
        async with gate.places(tenant) as apart:
            entered.append((tenant.owner, apart))
            await end.wait()

    tasks = [asyncio.create_task(ask(ann)) for _ in range(3)]
    await turns(3)
    assert entered == [("ann", False)] * 3
    tasks += [asyncio.create_task(ask(tenant)) for tenant in (bob, ann)]
    await turns(3)
    assert len(entered) == 3
    end.set()
    await asyncio.gather(*tasks)
    assert entered[3:] == [("bob", True), ("ann", True)]
    async with AsyncExitStack() as both:
        assert await both.enter_async_context(gate.places(ann))
        assert await both.enter_async_context(gate.places(bob))


async def test_owners_who_share_the_cache_run_beside_each_other() -> None:
    gate = DomainGate(lambda apart: 2, shared=True)
    async with gate.places(Tenant(owner="ann")):
        other = asyncio.create_task(gate.places(Tenant(owner="bob")).__aenter__())
        await turns(3)
        assert other.done()
        assert other.result() is False


async def test_a_stranger_who_gives_up_changes_nothing() -> None:
    gate = DomainGate(lambda apart: 2)
    async with gate.places(Tenant(owner="ann")):
        stranger = asyncio.create_task(gate.places(Tenant(owner="bob")).__aenter__())
        await turns(3)
        stranger.cancel()
        await turns(3)
        async with gate.places(Tenant(owner="ann")) as apart:
            assert not apart


def test_domains_are_those_of_owner_and_salt_and_tell_neither() -> None:
    tenants = [Tenant(owner=owner, salt=salt) for owner in ("", "a", "ab", "1:a") for salt in ("", "a", "b", "ba")]
    domains = {tenant.domain() for tenant in tenants}
    assert len(domains) == len(tenants)
    assert Tenant(affinity="x").domain() == ""
    assert Tenant(owner="ann", affinity="x").domain() == Tenant(owner="ann").domain()
    assert Tenant(owner="ann").domain(shared=True) == ""
    assert Tenant(owner="ann", salt="s").domain(shared=True) == Tenant(owner="bob", salt="s").domain(shared=True) != ""
    assert all("ann" not in Tenant(owner="ann", salt=salt).domain() for salt in ("", "salt"))


async def test_only_an_owner_who_waits_with_more_is_displaced() -> None:
    visitors = room(1)
    await visitors.come("a1", "a2", "a3", "b1")
    assert visitors.room.may_displace("b") is False, "with one more it would be as many"
    assert visitors.room.displace("b") is False
    assert visitors.room.may_displace("c") is True
    assert visitors.room.displace("c") is True
    await turns(3)
    with pytest.raises(DisplacedError):
        visitors.tasks["a3"].result()
    assert visitors.room.displace("c") is False, "all wait with one each"
    assert visitors.room.waiting == 2
    await visitors.go("a1", "a2", "b1")
    assert visitors.entered == ["a1", "b1", "a2"]


async def test_a_room_is_full_when_one_more_would_wait() -> None:
    visitors = room(3)
    await visitors.come("a1", places=2)
    full = [visitors.room.full]
    await visitors.come("b1")
    full.append(visitors.room.full)
    await visitors.come("c1", places=2)
    await visitors.go("b1")
    assert [*full, visitors.room.full] == [False, True, True], "somebody waits, who comes first"
    await visitors.go("a1")
    assert visitors.entered == ["a1", "b1", "c1"]
    await visitors.go("c1")
    assert (visitors.room.running, visitors.room.full) == (0, False)


async def test_more_places_than_there_are_are_given_when_the_room_is_empty() -> None:
    visitors = room(2)
    await visitors.come("a1")
    await visitors.come("b1", places=5)
    assert visitors.entered == ["a1"]
    await visitors.go("a1")
    assert visitors.entered == ["a1", "b1"]
    assert visitors.room.running == 5


async def test_nobody_enters_a_room_of_size_0_until_it_grows() -> None:
    sizes = [0]
    visitors = Visitors(FairRoom(lambda: sizes[0]))
    await visitors.come("a1")
    assert (visitors.entered, visitors.room.full) == ([], True)
    sizes[0] = 1
    visitors.room.let_in()
    await visitors.go("a1")
    assert (visitors.entered, visitors.room.full) == (["a1"], False)
