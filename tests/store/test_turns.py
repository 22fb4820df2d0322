"""Unfinished turns in a store: found by any of their names, the latest of each owner, until they expire."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.catalog.loading import open_store
from antiphon.config.config import SessionsConfig
from antiphon.conversation import End, Message, Role
from antiphon.errors import StoreError
from antiphon.store import Delete, Key, MemoryStore, Record, SessionLimits, Together, TurnLimits, UnfinishedTurns, Write
from antiphon.store.sessions import MOST_TOGETHER
from antiphon.tokens import SampledText

ARGUMENTS = SampledText("{}", (5, 6), "v")
CALL = Message(role=Role.ASSISTANT, channel="commentary", recipient="functions.f", text=ARGUMENTS, end=End.CALL)


def turns(**limits: float) -> UnfinishedTurns:
    return UnfinishedTurns(MemoryStore(), lambda: 1e9, TurnLimits(**limits), lambda: 0.0)  # type: ignore[arg-type]  # whole numbers


def thought(text: str) -> Message:
    return Message(role=Role.ASSISTANT, channel="analysis", text=text)


async def test_a_turn_is_what_it_was_under_each_of_its_names() -> None:
    stored = turns()
    assert await stored.put("ann", ["a", "b"], [thought("Hm."), CALL])
    for names in (["a"], ["b"], ["x", "b"]):
        found = await stored.find("ann", names)
        assert found == (thought("Hm."), CALL)
        assert isinstance(found[1].text, SampledText)
        assert found[1].text.ids == (5, 6)
    assert await stored.find("bob", ["a", "b"]) == await stored.find("ann", ["x"]) == ()


async def test_a_lone_surrogate_is_stored_as_it_is_shown() -> None:
    stored = turns()
    assert await stored.put("ann", ["a"], [thought("so \ud803 it is")])
    assert await stored.find("ann", ["a"]) == (thought("so \ufffd it is"),)


async def test_a_later_turn_takes_a_name_over_and_keeps_it_when_the_first_is_dropped() -> None:
    stored = turns(count=2)
    for number, names in enumerate((["a", "same"], ["b", "same"], ["c"])):
        assert await stored.put("ann", names, [thought(str(number))])
    assert await stored.find("ann", ["a"]) == ()
    assert [(await stored.find("ann", [name]))[0].text for name in ("same", "b", "c")] == ["1", "1", "2"]


async def test_owners_do_not_take_each_other_s_room() -> None:
    stored = turns(count=1)
    for owner in ("ann", "bob"):
        assert await stored.put(owner, ["a"], [thought(owner)])
    assert [(await stored.find(owner, ["a"]))[0].text for owner in ("ann", "bob")] == ["ann", "bob"]


class Counting(MemoryStore):
    """Counts its transactions; those of Eve fail."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: list[list[str]] = []

    async def put_all(self, *writes: Write | Delete) -> None:
        self.owners.append([one.key.owner for one in writes])
        if "eve" in self.owners[-1]:
            raise StoreError("full", code="store_full")
        await super().put_all(*writes)


async def test_what_is_stored_for_an_owner_in_one_moment_is_one_transaction_whoever_of_them_goes_away() -> None:
    store = Counting()
    together = Together(store)
    texts, ids = (
        UnfinishedTurns(store, lambda: 1e9, TurnLimits(), lambda: 0.0, kind, together) for kind in ("turn", "ids")
    )
    puts = [
        asyncio.create_task(stored.put(owner, [name], [thought(name)]))
        for stored, owner, name in (
            (texts, "ann", "a"), (texts, "bob", "b"), (ids, "ann", "c"), (texts, "eve", "d"), (ids, "eve", "e"),
        )
    ]  # fmt: skip
    await asyncio.sleep(0)
    puts[0].cancel()
    gone, *others, failed, failed_too = await asyncio.gather(*puts, return_exceptions=True)
    assert isinstance(gone, asyncio.CancelledError)
    assert others == [True, True]
    assert isinstance(failed, StoreError)
    assert isinstance(failed_too, StoreError)
    assert sorted(store.owners) == [["ann", "ann"], ["bob"], ["eve", "eve"]]
    assert [(await stored.find("ann", [name]))[0].text for stored, name in ((texts, "a"), (ids, "c"))] == ["a", "c"]


async def test_many_turns_of_one_moment_are_several_transactions() -> None:
    store = Counting()
    stored = UnfinishedTurns(store, lambda: 1e9, TurnLimits(), lambda: 0.0)
    names = [str(number) for number in range(3 * MOST_TOGETHER)]
    assert all(await asyncio.gather(*(stored.put("ann", [name], [thought(name)]) for name in names)))
    assert [*map(len, store.owners)] == [MOST_TOGETHER] * 3
    assert [(await stored.find("ann", [name]))[0].text for name in names] == names


async def test_what_is_too_large_or_not_to_be_stored_is_not() -> None:
    for stored in (turns(bytes=30), turns(lifetime=0)):
        assert not await stored.put("ann", ["a"], [thought("long " * 20)])
        assert await stored.find("ann", ["a"]) == ()


async def test_what_expired_leaves_the_store_and_is_not_counted() -> None:
    now = 1e9
    store = MemoryStore()
    stored = UnfinishedTurns(store, lambda: now, TurnLimits(lifetime=10, count=2), lambda: now)
    await stored.put("ann", ["a"], [thought("1")])
    now += 11
    assert await stored.find("ann", ["a"]) == ()
    assert await store.expire(now) == 1
    for name in ("b", "c"):
        await stored.put("ann", [name], [thought(name)])
    assert [len(await stored.find("ann", [name])) for name in ("b", "c")] == [1, 1]


async def test_what_is_damaged_is_an_error() -> None:
    stored = turns()
    await stored.store.put(Key("turn", "ann", "a"), Record(b"\xff?", 1e9, 2e9))
    with pytest.raises(StoreError) as caught:
        await stored.find("ann", ["a"])
    assert caught.value.code == "store_corrupt"


async def test_a_turn_that_is_gone_on_with_in_its_second_half_lives_longer() -> None:
    now = 1e9
    store = MemoryStore()
    stored = UnfinishedTurns(store, lambda: now, TurnLimits(lifetime=10), lambda: now)
    await stored.put("ann", ["a"], [thought("1")])
    expires = []
    for later in (5, 5.5):
        now = 1e9 + later
        assert await stored.find("ann", ["a"])
        record = await store.get(Key("turn", "ann", "a"))
        assert record is not None
        assert record.expires is not None
        expires.append(record.expires - 1e9)
    assert expires == [10, 15.5]


def test_the_limits_of_a_program_are_those_of_a_configuration() -> None:
    _, limits = open_store(SessionsConfig(store="memory"))
    assert limits == SessionLimits()
