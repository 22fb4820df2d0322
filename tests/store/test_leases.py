"""The leases of a process: renewed while it works, lost where it must not work on, and nothing is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from antiphon.errors import StoreError
from antiphon.store import Key, Lease, Leases, MemoryLeases, MemoryStore
from kit.waiting import turns, until

KEY, OTHER = Key("session", "ann", "s"), Key("session", "ann", "t")


@dataclass(slots=True)
class Times:
    """A clock that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class SlowStore(MemoryStore):
    """One whose calls about leases wait for `open`, and fail while there is a `fault`."""

    def __init__(self, clock: Times) -> None:
        super().__init__(leases=MemoryLeases(clock))
        self.open = asyncio.Event()
        self.open.set()
        self.fault: StoreError | None = None
        self.renewals = 0

    async def claim(self, key: Key, holder: str, seconds: float) -> Lease | None:
        lease = await super().claim(key, holder, seconds)
        await self.open.wait()
        return lease

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        self.renewals += 1
        await self.open.wait()
        if self.fault:
            raise self.fault
        return await super().renew(leases, seconds)

    async def release(self, lease: Lease) -> None:
        await self.open.wait()
        if self.fault:
            raise self.fault
        await super().release(lease)


@dataclass(slots=True)
class Heard:
    """What the holder of a lease was told."""

    signals: list[str] = field(default_factory=list)
    lost: list[Key] = field(default_factory=list)


@pytest.fixture
def clock() -> Times:
    return Times()


@pytest.fixture
def store(clock: Times) -> SlowStore:
    return SlowStore(clock)


@pytest.fixture
async def leases(store: SlowStore) -> AsyncIterator[Leases]:
    """Renewed at every turn of the event loop. Of what they did, nothing may be left."""
    leases = Leases(store, seconds=15.0, every=0.0)
    yield leases
    store.fault = None
    store.open.set()
    await leases.aclose()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def acquired(leases: Leases, heard: Heard, key: Key = KEY) -> Lease:
    lease = await leases.acquire(key, signalled=heard.signals.append, lost=lambda: heard.lost.append(key))
    assert lease is not None
    return lease


async def renewed(store: SlowStore) -> None:
    """Waits until that was tried several times from now."""
    seen = store.renewals
    await until(lambda: store.renewals > seen + 3)


async def test_a_lease_is_renewed_until_it_is_released(leases: Leases, store: SlowStore, clock: Times) -> None:
    async with leases.hold(KEY) as lease:
        for _ in range(3):
            clock.now += 10.0
            await renewed(store)
            assert await store.lease(KEY) == lease
            assert await leases.acquire(KEY) is None
        async with leases.hold(KEY) as second:
            assert second is None
        assert await store.lease(KEY) == lease, "who did not get it does not release it"
    assert await store.lease(KEY) is None
    assert await store.abandoned("session") == []


async def test_when_the_last_lease_is_released_nothing_is_pending(store: SlowStore) -> None:
    before, leases = asyncio.all_tasks(), Leases(store, every=3600.0)
    async with leases.hold(KEY), leases.hold(OTHER):
        assert len(asyncio.all_tasks() - before) == 1, "one task renews them all"
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    async with leases.hold(KEY):
        assert len(asyncio.all_tasks() - before) == 1, "and there is one again"
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_signal_comes_once_from_elsewhere_and_at_once_from_here(leases: Leases, store: SlowStore) -> None:
    heard = Heard()
    await acquired(leases, heard)
    assert await Leases(store).signal(KEY, "cancel")
    await until(lambda: heard.signals)
    await renewed(store)
    assert heard.signals == ["cancel"]
    assert await leases.signal(KEY, "hurry")
    assert heard.signals == ["cancel", "hurry"]
    assert not await leases.signal(OTHER, "cancel")
    assert heard.lost == []


async def test_a_lease_ends_at_its_second_and_is_abandoned_from_then_on(store: SlowStore, clock: Times) -> None:
    await store.claim(KEY, "one", 15.0)
    for now, held in ((14.9, True), (15.0, False)):
        clock.now = now
        assert (await store.lease(KEY) is not None) == held
        assert await store.abandoned("session") == ([] if held else [KEY])
    assert await store.claim(KEY, "other", 15.0) is not None


async def test_a_lease_that_another_claimed_is_lost(leases: Leases, store: SlowStore, clock: Times) -> None:
    heard = Heard()
    store.open.clear()  # This process hears nothing, while the clock goes on.
    task = asyncio.ensure_future(acquired(leases, heard))
    await until(lambda: store.leases.lease(KEY))
    clock.now += 20.0
    other = store.leases.claim(KEY, "other", 15.0)
    store.open.set()
    lease = await task
    await until(lambda: heard.lost)
    assert other is not None
    await leases.release(lease)
    assert await store.lease(KEY) == other, "another's is not released"
    assert heard.lost == [KEY]


async def test_a_store_that_is_out_of_reach_for_a_while_costs_no_lease(
    leases: Leases, store: SlowStore, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    lease = await acquired(leases, heard)
    store.fault = StoreError("away", code="store_failed")
    await renewed(store)
    store.fault = None
    await renewed(store)
    assert await store.lease(KEY) == lease
    assert heard.lost == []
    assert "store_failed" in caplog.text


@pytest.mark.parametrize("how", ["it fails", "it does not answer"])
async def test_a_store_that_is_out_of_reach_for_as_long_as_a_lease_lasts_costs_it(store: SlowStore, how: str) -> None:
    heard, leases = Heard(), Leases(store, seconds=0.05, every=0.0)
    await acquired(leases, heard)
    await acquired(leases, heard, OTHER)
    if how == "it fails":
        store.fault = StoreError("away", code="store_failed")
    else:
        store.open.clear()
    await until(lambda: len(heard.lost) == 2)
    assert set(heard.lost) == {KEY, OTHER}
    store.fault = None
    store.open.set()
    await leases.aclose()


async def test_a_lease_that_cannot_be_released_ends_by_itself(leases: Leases, store: SlowStore, clock: Times) -> None:
    heard = Heard()
    lease = await acquired(leases, heard)
    store.fault = StoreError("away", code="store_full")
    await leases.release(lease)
    store.fault = None
    assert await leases.acquire(KEY) is None
    clock.now += 20.0
    await acquired(leases, heard)
    assert heard.lost == [], "it was given back, not lost"


async def test_who_goes_away_while_it_claims_leaves_no_lease(leases: Leases, store: SlowStore) -> None:
    store.open.clear()
    claiming = asyncio.ensure_future(leases.acquire(KEY))
    await until(lambda: store.leases.lease(KEY))
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    store.open.set()
    await until(lambda: store.leases.lease(KEY) is None)


async def test_who_goes_away_while_it_releases_has_released(leases: Leases, store: SlowStore) -> None:
    lease = await acquired(leases, Heard())
    store.open.clear()
    releasing = asyncio.ensure_future(leases.release(lease))
    await asyncio.sleep(0)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    store.open.set()
    await until(lambda: store.leases.lease(KEY) is None)


async def test_a_lease_that_ran_out_unheard_is_lost_when_its_own_process_claims_the_key_again(
    store: SlowStore, clock: Times
) -> None:
    heard, leases = Heard(), Leases(store, every=3600.0)
    first = await acquired(leases, heard)
    clock.now += 20.0
    second = await acquired(leases, Heard())
    assert heard.lost == [KEY]
    await leases.release(first)
    assert await store.lease(KEY) == second
    await leases.aclose()
    assert await store.lease(KEY) is None


async def test_a_key_is_waited_for_until_its_lease_is_over(leases: Leases, store: SlowStore) -> None:
    await leases.until_free(KEY)
    first = await Leases(store).store.claim(KEY, "other", 15.0)
    assert first is not None
    waiting = asyncio.ensure_future(leases.until_free(KEY))
    await asyncio.sleep(0)
    assert not waiting.done()
    await store.release(first)
    assert await store.claim(KEY, "a third", 15.0)
    await waiting


@pytest.mark.parametrize("end", [Leases.release, Leases.abandon])
async def test_a_key_that_this_process_has_is_waited_for_until_it_gives_it_up(
    leases: Leases, end: Callable[[Leases, Lease], Awaitable[None]]
) -> None:
    lease = await acquired(leases, Heard())
    waiting = asyncio.ensure_future(leases.until_free(KEY))
    await turns(3)
    assert not waiting.done()
    await end(leases, lease)
    await turns(3)
    heard = waiting.done()
    waiting.cancel()
    assert heard, "whoever waits hears of it"


async def test_leases_that_cannot_be_renewed_for_another_reason_are_lost(
    store: SlowStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(leases: Sequence[Lease], seconds: float) -> list[Lease]:
        raise LookupError("a fault of the store's own")

    heard, leases = Heard(), Leases(store, every=0.0)
    monkeypatch.setattr(store, "renew", broken)
    await acquired(leases, heard)
    await until(lambda: heard.lost)
    assert "not renewed any more" in caplog.text
    monkeypatch.undo()
    await acquired(leases, heard, OTHER)
    assert heard.lost == [KEY], "what is claimed later is renewed again"
    await leases.aclose()
