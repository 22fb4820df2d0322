"""Histories between requests: nothing acknowledged is ever lost, nobody sees another's."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import Channel, End, Message, OpaquePart, Role, TextPart
from antiphon.errors import ConfigError, ConflictError, NotFoundError, RequestError, StoreError
from antiphon.store import (
    Key,
    MemoryStore,
    Record,
    SessionLimits,
    Sessions,
    SqliteStore,
    Store,
    pack,
    unpack,
)
from antiphon.store.sqlite_file import open_file
from antiphon.tokens import SampledText
from kit.waiting import Clock, turns

USER = Message(role=Role.USER, text="hi")
ANSWER = Message(role=Role.ASSISTANT, text=SampledText("hello", (7, 8), "v"), channel=Channel.FINAL, end=End.RETURN)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "sessions.db")
    yield made
    await made.aclose()


@pytest.mark.spec("LMD-27")
async def test_a_session_s_next_turn_finds_what_the_last_one_committed(store: Store) -> None:
    sessions = Sessions(store, Clock())
    async with sessions.turn("s") as first:
        assert first.new
        await first.commit([USER, ANSWER])
    async with sessions.turn("s") as second:
        assert not second.new
        assert second.messages == (USER, ANSWER)
        text = second.messages[1].text
        assert isinstance(text, SampledText)
        assert (text.ids, text.vocabulary) == ((7, 8), "v")


async def test_a_turn_that_failed_leaves_the_history_as_it_was(store: Store) -> None:
    sessions = Sessions(store, Clock())
    with pytest.raises(ZeroDivisionError):
        async with sessions.turn("s"):
            raise ZeroDivisionError
    async with sessions.turn("s") as again:
        assert again.new


async def test_two_requests_on_one_session_are_a_conflict_and_other_sessions_are_not(store: Store) -> None:
    sessions = Sessions(store, Clock())
    async with sessions.turn("s"):
        with pytest.raises(ConflictError, match="in progress"):
            await sessions.turn("s").__aenter__()
        async with sessions.turn("s", owner="another"), sessions.turn("t"):
            pass
    async with sessions.turn("s"):
        pass


async def test_another_owner_s_session_does_not_exist(store: Store) -> None:
    sessions = Sessions(store, Clock())
    async with sessions.turn("s", owner="ann") as mine:
        await mine.commit([USER])
    with pytest.raises(NotFoundError, match="no session"):
        await sessions.turn("s", owner="bob", start=False).__aenter__()
    async with sessions.turn("s", owner="ann") as mine:
        assert mine.messages == (USER,)
        await mine.end()
    async with sessions.turn("s", owner="ann") as mine:
        assert mine.new


async def test_a_session_that_starts_anew_forgets_what_was(store: Store) -> None:
    sessions = Sessions(store, Clock())
    async with sessions.turn("s") as turn:
        await turn.commit([USER])
    async with sessions.turn("s", start=True) as turn:
        assert turn.new
        await turn.commit([USER])
    async with sessions.turn("s", start=False) as turn:
        assert turn.messages == (USER,)


async def test_cancelling_stops_the_request_that_has_the_session_and_waits_for_its_end() -> None:
    sessions = Sessions(MemoryStore(), Clock())
    assert not await sessions.cancel("s")
    stopped = asyncio.Event()
    ended = False

    async def request() -> None:
        nonlocal ended
        async with sessions.turn("s", stop=stopped.set):
            await stopped.wait()
            await asyncio.sleep(0)
            ended = True

    task = asyncio.create_task(request())
    await turns(5)
    assert not await sessions.cancel("s", owner="another")
    assert await sessions.cancel("s")
    assert ended
    await task


async def test_a_turn_that_is_being_kept_is_not_stopped_any_more() -> None:
    sessions = Sessions(MemoryStore(), Clock())
    stops: list[str] = []
    async with sessions.turn("s", stop=lambda: stops.append("stop")) as turn:
        await turn.commit([USER])
        cancelling = asyncio.create_task(sessions.cancel("s"))
        await asyncio.sleep(0)
    assert await cancelling
    assert not stops


async def test_a_session_expires_after_its_last_turn(store: Store) -> None:
    clock = Clock()
    sessions = Sessions(store, clock, SessionLimits(lifetime=60), clock)
    async with sessions.turn("old") as turn:
        await turn.commit([USER])
    clock.now += 59
    async with sessions.turn("old") as turn:
        assert not turn.new
        await turn.commit([ANSWER])
    clock.now += 61
    async with sessions.turn("old") as turn:
        assert turn.new
    assert await store.names("session", "") == []


async def test_a_history_that_grows_too_long_is_refused_and_kept_as_it_was(store: Store) -> None:
    sessions = Sessions(store, Clock(), SessionLimits(bytes=500))
    async with sessions.turn("s") as turn:
        await turn.commit([USER])
        with pytest.raises(RequestError, match="more than 500"):
            await turn.commit([Message(role=Role.USER, text="x" * 1000)])
    async with sessions.turn("s") as turn:
        assert turn.messages == (USER,)


async def test_all_turns_of_a_history_count_for_its_length(store: Store) -> None:
    sessions = Sessions(store, Clock(), SessionLimits(bytes=1000))
    for _ in range(2):
        async with sessions.turn("s") as turn:
            await turn.commit([Message(role=Role.USER, text="x" * 400)])
    async with sessions.turn("s") as turn:
        with pytest.raises(RequestError, match="more than 1,000"):
            await turn.commit([Message(role=Role.USER, text="x" * 400)])


async def test_every_write_is_on_the_disk_before_it_returns(tmp_path: Path) -> None:
    """By the file's own word (2 is FULL, which syncs at each commit): no test can cut the power."""
    connection = open_file(tmp_path / "sessions.db", check=True)
    settings = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]
    connection.close()
    assert settings == [2, b"wal"]


async def test_a_write_whose_caller_goes_away_is_not_torn_and_not_forgotten(tmp_path: Path) -> None:
    """A call that waits in the store's thread behind others goes on when who called it is cancelled."""
    store = SqliteStore(tmp_path / "sessions.db")
    names = [str(number) for number in range(20)]
    writing = [asyncio.create_task(store.put(Key("k", "", name), Record(b"", 0.0), b"a")) for name in names]
    await asyncio.sleep(0)
    for task in writing:
        task.cancel()
    ends = await asyncio.gather(*writing, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    assert sorted(await store.names("k", "")) == sorted(names)
    await store.aclose()


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 129, "a\n", "é"])
async def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="1 to 128"):
        await Sessions(MemoryStore(), Clock()).turn(name).__aenter__()


texts = st.text(max_size=20)
parts = st.lists(st.builds(TextPart, texts) | st.builds(OpaquePart, texts, st.dictionaries(texts, st.integers(0, 9))))


@given(
    st.builds(
        Message,
        role=st.sampled_from(Role),
        text=texts,
        name=st.none() | texts,
        recipient=st.none() | texts,
        channel=st.none() | texts,
        content_type=st.none() | texts,
        constrained=st.booleans(),
        call_id=st.none() | texts,
        intent=st.none() | texts,
        end=st.sampled_from(End),
        parts=parts.map(tuple),
    )
)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert unpack(pack(message)) == message


@pytest.mark.parametrize("stored", [b"", b"\xc1", b"\x80", pack(USER)[:-1], b'{"role": "user"}'])
def test_other_bytes_are_not_a_message(stored: bytes) -> None:
    with pytest.raises(StoreError):
        unpack(stored)


WRITER = """
import asyncio, sys
from pathlib import Path
from antiphon.store import Key, Record, SqliteStore
async def main():
    store = SqliteStore(Path(sys.argv[1]))
    for number in range(1_000_000):
        await store.put(Key("session", "", "s"), Record(b"", 0.0), str(number).encode(), b"answer %d" % number)
        print(number, flush=True)
asyncio.run(main())
"""


async def test_killing_the_process_at_any_moment_loses_no_acknowledged_turn(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    for acknowledge in (3, 17, 40):
        path.unlink(missing_ok=True)
        command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path)]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        seen = -1
        while seen < acknowledge:
            seen = int(await process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = (await process.stdout.read()).split()
        await process.wait()
        acknowledged = int(rest[-1]) if rest else seen
        store = SqliteStore(path)
        entries = await store.entries(Key("session", "", "s"))
        await store.aclose()
        assert len(entries) % 2 == 0, "a turn is there whole or not at all"
        assert len(entries) // 2 >= acknowledged + 1
        assert entries[::2] == [str(number).encode() for number in range(len(entries) // 2)]


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.db"
    bad.write_bytes(b"not a database, and long enough to be looked at as one" * 100)
    with pytest.raises(ConfigError, match="cannot be opened"):
        SqliteStore(bad)
    later = tmp_path / "later.db"
    connection = sqlite3.connect(later)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigError, match="version 99"):
        SqliteStore(later)


async def test_a_store_in_memory_lets_go_of_what_was_written_longest_ago() -> None:
    store = MemoryStore(limit=100)
    for name in "abc":
        await store.put(Key("k", "", name), Record(b"x" * 30, 0.0), b"y" * 10)
    assert await store.names("k", "") == ["b", "c"]
    await store.put(Key("k", "", "b"), Record(b"x" * 30, 0.0))
    await store.put(Key("k", "", "d"), Record(b"x" * 30, 0.0))
    assert await store.names("k", "") == ["b", "d"]
    await store.put(Key("k", "", "huge"), Record(b"x" * 200, 0.0))
    assert await store.names("k", "") == ["huge"]


async def test_a_store_in_memory_is_exactly_as_large_as_it_may_be() -> None:
    store = MemoryStore(limit=80)
    for name in "ab":
        await store.put(Key("k", "", name), Record(b"x" * 30, 0.0), b"y" * 4, b"y" * 6)
    assert await store.names("k", "") == ["a", "b"]
    await store.put(Key("k", "", "b"), Record(b"x" * 30, 0.0), b"y")
    assert await store.names("k", "") == ["b"]
    assert MemoryStore().limit == 256 << 20


async def test_a_store_in_memory_has_its_room_back_when_records_go() -> None:
    store = MemoryStore(limit=100)
    for _ in range(5):
        await store.put(Key("k", "", "a"), Record(b"x" * 60, 0.0, 1.0))
        assert await store.delete(Key("k", "", "a"))
        await store.put(Key("k", "", "a"), Record(b"x" * 60, 0.0, 1.0))
        assert await store.expire(1.0) == 1
    await store.put(Key("k", "", "a"), Record(b"x" * 60, 0.0))
    await store.aclose()
    assert await store.names("k", "") == []
    for name in "bc":
        await store.put(Key("k", "", name), Record(b"x" * 50, 0.0))
    assert await store.names("k", "") == ["b", "c"]


async def test_a_history_may_be_exactly_as_long_as_its_limit() -> None:
    turn_of = [Message(role=Role.USER, text="x" * 400)]
    size = len(pack(turn_of[0]))
    sessions = Sessions(MemoryStore(), Clock(), SessionLimits(bytes=3 * size))
    async with sessions.turn("s") as turn:
        await turn.commit(turn_of)
        await turn.commit(turn_of)
    async with sessions.turn("s") as turn:
        await turn.commit(turn_of)
        with pytest.raises(RequestError) as caught:
            await turn.commit([Message(role=Role.USER, text="")])
    error = caught.value
    assert (error.code, error.position and error.position.path) == ("session_too_long", "session_id")


async def test_two_commits_of_one_turn_count_together() -> None:
    turn_of = [Message(role=Role.USER, text="x" * 400)]
    sessions = Sessions(MemoryStore(), Clock(), SessionLimits(bytes=1000))
    async with sessions.turn("s") as turn:
        await turn.commit(turn_of)
        await turn.commit(turn_of)
        assert turn.messages == (*turn_of, *turn_of)
        with pytest.raises(RequestError, match="more than 1,000"):
            await turn.commit(turn_of)


@pytest.mark.parametrize("name", ["x", "x" * 128, "a.b:c-d_E9"])
async def test_a_name_that_can_be_one_is_taken(name: str) -> None:
    async with Sessions(MemoryStore(), Clock()).turn(name) as turn:
        assert turn.key.name == name


async def test_each_refusal_of_a_session_has_its_code_and_names_the_field() -> None:
    sessions = Sessions(MemoryStore(), Clock())
    codes = []
    async with sessions.turn("s"):
        for name, start in (("s", None), ("other", False), ("a b", None)):
            with pytest.raises((ConflictError, NotFoundError, RequestError)) as caught:
                await sessions.turn(name, start=start).__aenter__()
            assert caught.value.position is not None
            codes.append((caught.value.code, caught.value.position.path))
    assert codes == [
        ("session_busy", "session_id"),
        ("session_not_found", "session_id"),
        ("invalid_value", "session_id"),
    ]


async def test_a_turn_that_ends_its_session_is_not_stopped_any_more() -> None:
    sessions = Sessions(MemoryStore(), Clock())
    stops: list[str] = []
    async with sessions.turn("s", stop=lambda: stops.append("stop")) as turn:
        await turn.end()
        cancelling = asyncio.create_task(sessions.cancel("s"))
        await asyncio.sleep(0)
    assert await cancelling
    assert not stops


async def test_a_session_s_affinity_is_below_its_owner() -> None:
    sessions = Sessions(MemoryStore(), Clock())
    async with sessions.turn("s", owner="ann") as turn:
        assert turn.affinity == "ann/s"
    assert (SessionLimits().lifetime, SessionLimits().bytes, SessionLimits().sweep) == (604_800.0, 16_777_216, 60.0)
