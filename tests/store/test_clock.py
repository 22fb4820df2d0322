"""The system's clock jumps: nothing is deleted, and nothing is hidden, because of a clock that was wrong."""

from __future__ import annotations

import pytest

from antiphon.conversation import Message, Role
from antiphon.store import MemoryStore, SessionLimits, Sessions
from antiphon.store.clock import GRACE, ConfirmedClock, steady_time

DAY = 24 * 3600.0
USER = Message(role=Role.USER, text="hi")


class Time:
    """The true time, and how far the system's clock is from it."""

    def __init__(self) -> None:
        self.true = 1e9
        self.off = 0.0

    def clock(self) -> float:
        return self.true + self.off

    def steady(self) -> float:
        return self.true - 5e8


def sessions_of(store: MemoryStore, time: Time, lifetime: float = 7 * DAY) -> Sessions:
    return Sessions(store, time.clock, SessionLimits(lifetime=lifetime), time.steady)


async def has_history(sessions: Sessions) -> bool:
    async with sessions.turn("s") as turn:
        return not turn.new


async def begun(sessions: Sessions) -> None:
    async with sessions.turn("s") as turn:
        await turn.commit([USER])


@pytest.mark.parametrize("ahead", [8 * DAY, 365 * DAY])
async def test_a_clock_that_is_ahead_for_a_minute_takes_no_session(ahead: float) -> None:
    store, time = MemoryStore(), Time()
    sessions = sessions_of(store, time)
    await begun(sessions)
    time.true += 2 * GRACE
    assert await sessions.sweep() == 0
    time.off = ahead
    for _ in range(3):
        time.true += 20
        assert await sessions.sweep() == 0
        assert await has_history(sessions), "nor is it hidden meanwhile"
    time.off = 0.0
    assert await sessions.sweep() == 0
    assert await has_history(sessions)


async def test_a_server_that_starts_under_a_wrong_clock_takes_no_session() -> None:
    store, time = MemoryStore(), Time()
    await begun(sessions_of(store, time))
    time.off = 8 * DAY
    restarted = sessions_of(store, time)
    assert await restarted.sweep() == 0
    assert await has_history(restarted)
    time.off = 0.0
    assert await has_history(restarted)


async def test_a_jump_that_lasts_is_the_time() -> None:
    store, time = MemoryStore(), Time()
    sessions = sessions_of(store, time)
    await begun(sessions)
    time.off = 8 * DAY
    assert await sessions.sweep() == 0
    assert await has_history(sessions)
    time.true += GRACE + 1
    assert not await has_history(sessions)


async def test_what_expired_by_any_clock_is_swept() -> None:
    store, time = MemoryStore(), Time()
    sessions = sessions_of(store, time)
    await begun(sessions)
    swept = 0
    for _ in range(8):
        time.true += DAY
        swept += await sessions.sweep()
    assert swept == 1
    assert await store.names("session", "") == []


async def test_a_session_of_a_short_life_ends_in_time_though_the_server_just_started() -> None:
    store, time = MemoryStore(), Time()
    sessions = sessions_of(store, time, lifetime=60)
    await begun(sessions)
    time.true += 59
    assert await has_history(sessions)
    time.true += 2
    assert not await has_history(sessions)


def test_a_clock_that_goes_back_is_followed() -> None:
    time = Time()
    clock = ConfirmedClock(time.clock, time.steady)
    time.off = -8 * DAY
    assert clock() == time.clock()
    time.off = 0.0
    assert clock() < time.clock(), "what comes after it is a jump ahead"
    time.true += GRACE
    assert clock() == time.clock()


def test_a_clock_that_is_set_right_by_little_is_followed_at_once() -> None:
    time = Time()
    clock = ConfirmedClock(time.clock, time.steady)
    for _ in range(100):
        time.true += 600
        time.off += 30
        assert clock() == time.clock()


def test_a_minute_ahead_is_no_jump_and_more_than_a_minute_is_one() -> None:
    time = Time()
    clock = ConfirmedClock(time.clock, time.steady)
    time.off = 60.0
    assert clock() == time.clock()
    time.off = 120.5
    assert clock() == time.clock() - 60.5


def test_a_jump_counts_once_it_has_lasted_an_hour() -> None:
    time = Time()
    clock = ConfirmedClock(time.clock, time.steady)
    time.off = DAY
    assert clock() == time.clock() - DAY
    time.true += 3599
    assert clock() == time.clock() - DAY
    time.true += 1
    assert clock() == time.clock()


def test_a_jump_that_was_taken_back_and_comes_again_has_to_last_anew() -> None:
    time = Time()
    clock = ConfirmedClock(time.clock, time.steady)
    for off in (DAY, 0.0, DAY):
        time.off = off
        clock()
        time.true += 3000
    assert clock() == time.clock() - DAY


def test_a_clock_has_settled_an_hour_after_the_start() -> None:
    time = Time()
    clock = ConfirmedClock(time.clock, time.steady)
    assert clock.settled is False
    time.true += 3599
    assert clock.settled is False
    time.true += 1
    assert clock.settled is True


@pytest.mark.parametrize(
    ("written", "lifetime", "after", "expired"),
    [
        (0.0, 60.0, 59.0, False),
        (0.0, 60.0, 60.0, True),
        (-1.0, 60.0, 60.0, False),
        (-1.0, 7200.0, 3599.0, False),
        (-1.0, 60.0, 3600.0, True),
        (-7200.0, 3600.0, 3599.0, False),
        (-7200.0, 3600.0, 3600.0, True),
    ],
)
def test_what_was_written_since_the_start_expires_on_time_and_what_was_before_when_the_clock_has_settled(
    written: float, lifetime: float, after: float, expired: bool
) -> None:
    """``written`` and ``after`` are seconds from the start of the clock."""
    time = Time()
    clock = ConfirmedClock(time.clock, time.steady)
    expires = time.clock() + written + lifetime
    time.true += after
    assert clock.expired(expires, lifetime) is expired


def test_what_has_no_end_never_expires() -> None:
    time = Time()
    clock = ConfirmedClock(time.clock, time.steady)
    time.true += 365 * DAY
    assert clock.expired(None, 0.0) is False


def test_the_steady_clock_of_a_machine_goes_on_by_itself() -> None:
    before = steady_time()
    assert steady_time() >= before > 0
