"""A key under which a request comes once: who holds it, for how long, and when it is given back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from antiphon.errors import ConflictError, RequestError
from antiphon.http.gate.idempotency import Idempotency
from antiphon.store import Key, Leases, MemoryStore, Record, Store
from antiphon.store.archive import DAY, Archive


def idempotency(
    store: Store | None = None, clock: Callable[[], float] = lambda: 1000.0, steady: Callable[[], float] = lambda: 0.0
) -> Idempotency:
    """A server's, over its own store or one that several share."""
    store = store or MemoryStore()
    return Idempotency(Archive(store, clock, steady=steady), Leases(store))


async def claimed(keys: Idempotency, owner: str, key: str, body: bytes, response: str) -> str:
    """The response that has the key, which is given back at once."""
    async with keys.claimed(owner, key, body, response) as (first, _):
        return first


async def test_a_key_is_held_while_its_response_is_made_and_given_back_when_that_failed() -> None:
    store = MemoryStore()
    keys, elsewhere = idempotency(store), idempotency(store)
    async with keys.claimed("ann", "k", b"{}", "first") as (first, _):
        assert first == "first"
        assert await claimed(keys, "ann", "k", b"{}", "second") == "first"
        assert await claimed(elsewhere, "ann", "k", b"{}", "second") == "first"
    assert await claimed(elsewhere, "ann", "k", b"{}", "third") == "third"


async def test_a_key_is_held_by_the_response_of_its_owner_alone() -> None:
    keys = idempotency()
    async with keys.claimed("ann", "k", b"{}", "first"), keys.claimed("bob", "k", b"{other}", "other") as (bobs, _):
        assert bobs == "other"
        assert await claimed(keys, "ann", "k", b"{}", "again") == "first"


async def test_a_key_that_is_claimed_in_this_moment_is_not_given_twice() -> None:
    store = MemoryStore()
    async with Leases(store).hold(Key("idempotency", "ann", "k")):
        with pytest.raises(ConflictError) as refused:
            await claimed(idempotency(store), "ann", "k", b"{}", "second")
    assert refused.value.code == "idempotency_in_progress"


async def test_a_request_without_a_key_has_nothing_to_claim() -> None:
    async with idempotency().claimed("ann", None, b"{}", "first") as (first, claim):
        assert (first, claim.lease) == ("first", None)


async def test_a_key_never_serves_two_bodies() -> None:
    keys = idempotency()
    await claimed(keys, "ann", "k", b"{}", "failed")
    with pytest.raises(RequestError) as refused:
        await claimed(keys, "ann", "k", b"{} ", "other")
    assert (refused.value.code, refused.value.param) == ("idempotency_key_reused", "idempotency-key")


@pytest.mark.parametrize("key", ["", "a b", "é", "\x7f", "\n", "x" * 256])
async def test_a_key_is_printable_and_short(key: str) -> None:
    with pytest.raises(RequestError) as refused:
        await claimed(idempotency(), "ann", key, b"{}", "first")
    assert (refused.value.code, refused.value.param) == ("invalid_value", "idempotency-key")


@pytest.mark.parametrize("key", ["!", "~", "x" * 255])
async def test_the_longest_and_the_oddest_key_are_taken(key: str) -> None:
    assert await claimed(idempotency(), "ann", key, b"{}", "first") == "first"


async def test_a_key_outlives_a_sweep_for_a_day_and_no_longer() -> None:
    store = MemoryStore()
    await claimed(idempotency(store), "ann", "k", b"{}", "first")
    assert await store.expire(1000.0 + DAY - 1) == 0
    assert await store.expire(1000.0 + DAY) == 1


@pytest.mark.parametrize("jump", [-400 * DAY, -1.0, 61.0, 2 * DAY, 400 * DAY])
async def test_a_jump_of_the_clock_makes_no_second_response_of_a_key(jump: float) -> None:
    store, now, steady = MemoryStore(), [1_800_000_000.0], [0.0]
    keys = idempotency(store, lambda: now[0], lambda: steady[0])
    await claimed(keys, "ann", "k", b"{}", "first")
    await store.put(Key("response", "ann", "first"), Record(b"{}", now[0], now[0] + 30 * DAY))
    now[0] += jump
    steady[0] += 1
    assert await claimed(keys, "ann", "k", b"{}", "second") == "first"
    assert await claimed(idempotency(store, lambda: now[0], lambda: steady[0]), "ann", "k", b"{}", "third") == "first"


async def test_a_key_is_free_a_day_later_by_both_clocks() -> None:
    store, now, steady = MemoryStore(), [1_800_000_000.0], [0.0]
    keys = idempotency(store, lambda: now[0], lambda: steady[0])
    await claimed(keys, "ann", "k", b"{}", "first")
    await store.put(Key("response", "ann", "first"), Record(b"{}", now[0], now[0] + 30 * DAY))
    now[0], steady[0] = now[0] + DAY, steady[0] + DAY
    assert await claimed(keys, "ann", "k", b"{}", "second") == "second"
