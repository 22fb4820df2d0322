"""Two ends of a socket that share contexts."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon.api import Limits
from antiphon.config import EngineConfig
from antiphon.errors import EngineError, EngineLostError, OverloadedError
from antiphon.http.rules import Rules
from antiphon.workers.engines import Shared
from antiphon.workers.peer import Grant, Peer
from antiphon.workers.worker import RemoteAdmission
from kit.waiting import until


class Room:
    """What one end offers: a room for one, and things that go wrong."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.notes: list[Any] = []
        self.heard: list[Any] = []
        self.lock = asyncio.Lock()
        self.waiting = 0
        self.failure: Exception | None = None

    @asynccontextmanager
    async def room(self, name: str) -> AsyncGenerator[Grant, None]:
        self.waiting += 1
        try:
            await self.lock.acquire()
        finally:
            self.waiting -= 1
        try:
            self.inside.append(name)
            yield Grant({"name": name}, self.notes.append)
            self.inside.remove(name)
        finally:
            self.lock.release()

    @asynccontextmanager
    async def fails(self) -> AsyncGenerator[Grant, None]:
        if self.failure:
            raise self.failure
        yield Grant()


class Pair:
    def __init__(self, room: Room, one: Peer, other: Peer) -> None:
        self.room, self.one, self.other = room, one, other


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    room, (left, right) = Room(), socket.socketpair()
    one = await Peer.over(left, {"room": room.room, "slot": room.room, "fails": room.fails}, {"say": room.heard.append})
    other = await Peer.over(right, {}, {})
    yield Pair(room, one, other)
    one.close()
    other.close()
    await asyncio.gather(one.lost, other.lost)


async def test_who_enters_gets_the_value_and_its_notes_come_before_it_leaves(pair: Pair) -> None:
    async with pair.other.enter("room", "ann") as visit:
        assert visit.value == {"name": "ann"}
        assert pair.room.inside == ["ann"]
        visit.note([1, 2])
    assert (pair.room.inside, pair.room.notes) == ([], [[1, 2]])
    pair.other.tell("say", "hello")
    await until(lambda: pair.room.heard == ["hello"])


async def test_a_note_behind_the_leaving_is_nobodys(pair: Pair) -> None:
    async with pair.other.enter("room", "ann") as visit:
        pass
    visit.note("late")
    assert await pair.other.call("room", "bob") == {"name": "bob"}
    assert pair.room.notes == []


async def test_who_waits_enters_when_the_other_leaves_and_who_gives_up_never_does(pair: Pair) -> None:
    async with pair.other.enter("room", "ann"):
        bob, carl = (asyncio.create_task(pair.other.call("room", name)) for name in ("bob", "carl"))
        await asyncio.sleep(0)
        bob.cancel()
        await asyncio.gather(bob, return_exceptions=True)
        assert pair.room.inside == ["ann"]
    assert await carl == {"name": "carl"}
    assert pair.room.inside == []


async def test_a_worker_counts_its_own_that_run_and_that_wait(pair: Pair) -> None:
    admission = RemoteAdmission(Rules(Limits()), pair.other)

    async def bob() -> tuple[int, int]:
        async with admission.slot("bob"):
            return admission.running, admission.waiting

    async with admission.slot("ann"):
        waits = asyncio.create_task(bob())
        await until(lambda: pair.room.waiting == 1)
        assert (admission.running, admission.waiting) == (1, 1)
    assert await waits == (1, 0)
    assert (admission.running, admission.waiting) == (0, 0)


async def test_the_work_behind_requests_has_one_room_for_all_workers() -> None:
    """Of four answers at once one is left to requests: three places are taken, and who comes then waits in vain."""
    left, right = socket.socketpair()
    one = await Peer.over(left, Shared(Limits(), EngineConfig()).services, {})
    other = await Peer.over(right, {}, {})
    admission = RemoteAdmission(Rules(Limits()), other)
    async with admission.background("ann", model="small", slots=4, places=3):
        with pytest.raises(TimeoutError):
            async with admission.background("bob", model="small", slots=4, places=1, patience=0.01):
                pass
    async with admission.background("bob", model="small", slots=4, places=1):
        pass
    one.close()
    other.close()
    await asyncio.gather(one.lost, other.lost)


async def test_an_error_arrives_as_it_was_raised(pair: Pair) -> None:
    error = pair.room.failure = OverloadedError("full", code="queue_full", retry_after=7.5, hint="Later.")
    with pytest.raises(OverloadedError) as raised:
        await pair.other.call("fails")
    assert vars(raised.value) == vars(error)


async def test_a_timeout_is_one_there_too_and_any_other_failure_is_told_without_its_text(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.room.failure = TimeoutError()
    with pytest.raises(TimeoutError):
        await pair.other.call("fails")
    pair.room.failure = ValueError("a secret")
    with caplog.at_level(logging.ERROR, "antiphon.workers"), pytest.raises(EngineError) as raised:
        await pair.other.call("fails")
    assert "secret" not in str(raised.value)
    assert "a secret" in caplog.text


async def test_who_is_gone_has_left_everything(pair: Pair) -> None:
    entered, waits = (asyncio.create_task(stay_in(pair.other, name)) for name in ("ann", "bob"))
    await until(lambda: pair.room.inside == ["ann"])
    pair.other.close()
    await until(lambda: pair.room.inside == [])
    for task in (entered, waits):
        with pytest.raises(EngineLostError):
            await task
    with pytest.raises(EngineLostError):
        await pair.one.call("room", "ann")


async def test_who_is_gone_waits_no_longer(pair: Pair) -> None:
    async with pair.room.lock:
        bob = asyncio.create_task(pair.other.call("room", "bob"))
        await until(lambda: pair.room.waiting == 1)
        pair.other.close()
        await until(lambda: pair.room.waiting == 0)
    with pytest.raises(EngineLostError):
        await bob


async def stay_in(peer: Peer, name: str) -> None:
    async with peer.enter("room", name):
        await peer.lost


async def test_what_is_larger_than_the_socket_holds_arrives_whole(pair: Pair) -> None:
    name = "n" * 3_000_000
    assert await pair.other.call("room", name) == {"name": name}
