"""The system's clock jumps: nothing is deleted, and nothing is hidden, because of a clock that was wrong."""

from __future__ import annotations

import pytest

from antiphon.conversation import Message, Role
from antiphon.store import MemoryStore, SessionLimits, Sessions
from antiphon.store.clock import GRACE, ConfirmedClock

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
