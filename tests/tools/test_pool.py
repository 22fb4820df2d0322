"""The pool of what lasts between calls, by itself: who gets room, who has to go, and what is said to be lost."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from antiphon.tools import ToolFailure
from antiphon.tools.pool import ENDED, EVICTED, UNUSED, PoolSize, Session, SessionPool
from kit.waiting import LoopClock, turns, until

ANN, BOB, CARL = (Session(owner, "s") for owner in ("ann", "bob", "carl"))


class Thing:
    """Something with a state, which notes what becomes of it."""

    def __init__(self, number: int, log: list[str]) -> None:
        self.number = number
        self.alive = True
        self._log = log
        log.append(f"start {number}")

    async def aclose(self) -> None:
        self.alive = False
        await turns(1)  # It may be given up here, and closed once more.
        if self._log.count(f"close {self.number}") == 0:
            self._log.append(f"close {self.number}")


class Pool(SessionPool[Thing]):
    """A pool of things; ``faults`` are raised by the next starts."""

    def __init__(self, total: int = 2, per_owner: int = 2, wait: float = 10.0, **size: float) -> None:
        self.log: list[str] = []
        self.faults: list[BaseException] = []
        self._made = 0
        limits = PoolSize(total=total, per_owner=per_owner, wait=wait, users=int(size.pop("users", 1)), **size)
        super().__init__(self._begin, limits, busy="no room now")

    async def _begin(self) -> Thing:
        if self.faults:
            raise self.faults.pop()
        self._made += 1
        return Thing(self._made, self.log)

    async def use(self, session: Session) -> tuple[int, str | None]:
        """The number of what a short call gets, and what it is told to have lost."""
        async with self.borrow(session) as borrowed:
            return borrowed.resource.number, borrowed.lost

    def start(self, session: Session) -> asyncio.Task[tuple[int, str | None]]:
        return asyncio.create_task(self.use(session))


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    return LoopClock(monkeypatch)


def of(owner: str, count: int) -> list[Session]:
    return [Session(owner, f"{number}") for number in range(count)]


def test_an_owner_may_have_its_share_and_the_nameless_all() -> None:
    assert [PoolSize(total=6, per_owner=2, wait=1).of(owner) for owner in ("ann", "")] == [2, 6]
    assert PoolSize(total=1, per_owner=2, wait=1).of("ann") == 1


async def test_a_session_has_its_own_as_long_as_it_lives_and_a_call_without_one_leaves_nothing() -> None:
    pool = Pool()
    assert [await pool.use(session) for session in (ANN, BOB, ANN)] == [(1, None), (2, None), (1, None)]
    await pool.aclose()
    assert await pool.use(Session("", "")) == (3, None)
    assert pool.log[-2:] == ["start 3", "close 3"]
    assert await pool.use(Session("", "")) == (4, None)


async def test_the_one_that_was_unused_for_longest_goes_and_ends_before_another_begins() -> None:
    pool = Pool(total=3)
    for session in (ANN, BOB, CARL, ANN):
        await pool.use(session)
    assert await pool.use(Session("dave", "s")) == (4, None)
    assert pool.log[-2:] == ["close 2", "start 4"]
    assert await pool.use(ANN) == (1, None), "used since"
    assert await pool.use(BOB) == (5, EVICTED)
    assert pool.log[-2:] == ["close 3", "start 5"]
    assert await pool.use(BOB) == (5, None), "it is said once"


async def test_an_owner_with_more_idle_ones_gives_one_up_first() -> None:
    pool = Pool(total=3)
    first, second = of("bob", 2)
    for session in (ANN, first, second):
        await pool.use(session)
    await pool.use(CARL)
    assert pool.log[-2:] == ["close 2", "start 4"], "bob's oldest, though ann's was unused for longer"
    assert await pool.use(ANN) == (1, None)


async def test_an_owner_at_its_share_gives_up_its_own_and_no_other_s() -> None:
    pool = Pool(total=5, per_owner=2)
    await pool.use(BOB)
    for session in of("ann", 3):
        await pool.use(session)
    assert pool.log[-2:] == ["close 2", "start 4"]
    assert await pool.use(BOB) == (1, None)
    await pool.aclose()
    for session in of("", 5):
        await pool.use(session)
    assert pool.log[-5:] == [f"start {number}" for number in range(5, 10)], "the nameless owner may have all"


@pytest.mark.parametrize("users", [1, 2, 3])
async def test_as_many_calls_of_a_session_go_on_at_once_as_may(users: int, clock: LoopClock) -> None:
    pool = Pool(users=users)
    async with AsyncExitStack() as stack:
        for _ in range(users):
            borrowed = await stack.enter_async_context(pool.borrow(ANN))
            assert borrowed.resource.number == 1
        waiting = pool.start(ANN)
        await clock.forward(1000)
        assert not waiting.done(), "it waits for its own as long as that takes"
    assert await waiting == (1, None)
    assert pool.log == ["start 1"]


async def test_calls_of_one_session_that_begin_together_start_one() -> None:
    pool = Pool(users=8)
    assert await asyncio.gather(*(pool.use(ANN) for _ in range(8))) == [(1, None)] * 8
    assert pool.log == ["start 1"]


async def test_who_finds_no_room_is_told_so_after_the_wait(clock: LoopClock) -> None:
    pool = Pool(total=1, wait=10.0)
    async with pool.borrow(ANN):
        waiting = pool.start(BOB)
        await clock.forward(9)
        assert not waiting.done()
        await clock.forward(2)
        with pytest.raises(ToolFailure) as caught:
            await waiting
        error = caught.value.error
        assert (error.code, error.message, error.retryable) == ("E-TOOL-BUSY", "no room now", True)
    assert await pool.use(BOB) == (2, None)


async def test_who_has_fewer_at_work_is_served_first_and_then_who_came_first() -> None:
    pool = Pool(total=2, wait=100)
    order: list[str] = []

    async def visit(session: Session) -> None:
        async with pool.borrow(session):
            order.append(session.owner)

    async with pool.borrow(Session("ann", "b")):
        async with pool.borrow(ANN):
            waiting = [asyncio.create_task(visit(one)) for one in (Session("ann", "c"), CARL, BOB)]
            await turns(5)
            assert order == []
        await asyncio.gather(*waiting)
    assert order == ["carl", "bob", "ann"]


@pytest.mark.parametrize("rounds", range(8))
async def test_who_gives_up_at_any_moment_of_its_turn_hands_it_on(rounds: int) -> None:
    pool, leave = Pool(total=1, wait=100), asyncio.Event()

    async def stay() -> None:
        async with pool.borrow(ANN):
            await leave.wait()

    staying = asyncio.create_task(stay())
    await turns(3)
    first, second = pool.start(BOB), pool.start(CARL)
    await turns(3)
    leave.set()
    await turns(rounds)
    first.cancel()
    await asyncio.gather(staying, first, return_exceptions=True)
    number, lost = await second
    assert (pool.log[-1], lost) == (f"start {number}", None)
    assert sum(line.startswith("start") for line in pool.log) == 1 + sum(line.startswith("close") for line in pool.log)
    assert (await pool.use(CARL))[0] == number


async def test_what_does_not_start_costs_its_call_and_no_room() -> None:
    pool = Pool(total=1)
    for fault in (ValueError("no"), asyncio.CancelledError(), KeyError("x")):
        pool.faults.append(fault)
        with pytest.raises(type(fault)):
            await pool.use(ANN)
    assert await pool.use(ANN) == (1, None), "nothing of it was lost: there was nothing"


async def test_a_call_that_fails_and_leaves_its_state_alive_has_lost_nothing() -> None:
    pool = Pool()
    await pool.use(ANN)
    with pytest.raises(ZeroDivisionError):
        async with pool.borrow(ANN):
            raise ZeroDivisionError
    assert await pool.use(ANN) == (1, None)


@pytest.mark.parametrize("used", [False, True])
async def test_a_call_that_costs_the_state_is_said_to_where_there_was_any(used: bool) -> None:
    pool = Pool()
    if used:
        await pool.use(ANN)

    async def fail() -> None:
        async with pool.borrow(ANN) as borrowed:
            await borrowed.resource.aclose()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await pool.use(ANN) == (2, ENDED if used else None)
    assert pool.log == ["start 1", "close 1", "start 2"]


async def test_what_ended_by_itself_is_made_anew() -> None:
    pool = Pool()
    async with pool.borrow(ANN) as borrowed:
        borrowed.resource.alive = False
    assert await pool.use(ANN) == (2, None)
    async with pool.borrow(ANN) as borrowed:
        kept = borrowed.resource
    kept.alive = False
    assert await pool.use(ANN) == (3, None)


async def test_what_no_call_uses_is_closed_in_time_and_said_to_be(clock: LoopClock) -> None:
    pool = Pool(idle=60.0)
    await pool.use(ANN)
    await clock.forward(59)
    assert await pool.use(ANN) == (1, None), "a call begins the time anew"
    await clock.forward(59)
    assert pool.log == ["start 1"]
    await clock.forward(2)
    await until(lambda: pool.log == ["start 1", "close 1"])
    assert await pool.use(ANN) == (2, UNUSED)


async def test_what_a_call_uses_is_not_unused_however_long_it_takes(clock: LoopClock) -> None:
    pool = Pool(idle=60.0)
    await pool.use(ANN)
    async with pool.borrow(ANN):
        await clock.forward(1000)
    assert await pool.use(ANN) == (1, None)


async def test_the_nameless_owner_s_is_never_unused_and_no_limit_is_none(clock: LoopClock) -> None:
    for pool, session in ((Pool(idle=60.0), Session("", "s")), (Pool(), ANN)):
        await pool.use(session)
        await clock.forward(100_000)
        assert await pool.use(session) == (1, None)


async def test_what_was_taken_for_another_is_not_closed_again_by_its_time(clock: LoopClock) -> None:
    pool = Pool(total=1, idle=60.0)
    await pool.use(ANN)
    await pool.use(BOB)
    async with pool.borrow(BOB):
        await clock.forward(1000)
    assert pool.log == ["start 1", "close 1", "start 2"]
    assert await pool.use(ANN) == (3, EVICTED)


async def test_a_session_that_is_ended_is_gone_though_it_works_and_others_are_not() -> None:
    pool = Pool()
    await pool.use(BOB)
    async with pool.borrow(ANN) as borrowed:
        await pool.end(ANN)
        assert not borrowed.resource.alive
        await pool.end(CARL)
    assert await pool.use(ANN) == (3, None), "who ended it knows"
    assert await pool.use(BOB) == (1, None)


async def test_a_pool_that_is_closed_has_closed_everything_when_it_says_so(clock: LoopClock) -> None:
    pool = Pool(total=3, idle=60.0)
    await asyncio.gather(*(pool.use(session) for session in (ANN, BOB, CARL)))
    await pool.aclose()
    assert sorted(pool.log) == ["close 1", "close 2", "close 3", "start 1", "start 2", "start 3"]
    await clock.forward(1000)
    assert len(pool.log) == 6
    await pool.use(ANN)
    pool._expire(pool._seats[0])
    await pool.aclose()
    assert pool.log[-1] == "close 4", "what is closed in the background too"


@pytest.mark.parametrize(("count", "lost"), [(1024, EVICTED), (1025, None)])
async def test_of_so_many_sessions_it_is_remembered_that_they_lost_something(count: int, lost: str | None) -> None:
    pool = Pool(total=1)
    sessions = of("", count)
    for session in sessions:
        await pool.use(session)
    assert await pool.use(sessions[0]) == (count + 1, lost)
