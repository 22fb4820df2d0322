"""Calls of the SQLite store that are made together: few transactions, an outcome each, none acknowledged early."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.conversation import Message, Role
from antiphon.errors import StoreError
from antiphon.store import Delete, Key, Record, SqliteStore, TurnLimits, UnfinishedTurns, Write
from antiphon.store.sqlite_file import TOGETHER
from kit.waiting import PATIENCE

KEY = Key("k", "ann", "a")
ONE = Record(b"one", 0.0)
MANY = 192


def key(number: int) -> Key:
    return Key("k", "ann", f"{number:04}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.aclose()


@pytest.fixture
async def statements(store: SqliteStore) -> list[str]:
    """What SQLite is told from now on."""
    traced: list[str] = []
    await store._read(lambda connection: connection.set_trace_callback(traced.append))
    return traced


def fail_commits(connection: sqlite3.Connection) -> None:
    """As a broken disk does, until the file is opened anew."""
    last = ""

    def trace(statement: str) -> None:
        nonlocal last
        last = statement

    connection.set_trace_callback(trace)
    connection.set_progress_handler(lambda: last.startswith("COMMIT"), 1)


async def test_writes_that_wait_are_few_transactions(store: SqliteStore, statements: list[str]) -> None:
    await asyncio.gather(*(store.put(key(number), ONE, b"x") for number in range(MANY)))
    commits = [statement for statement in statements if statement.startswith("COMMIT")]
    assert MANY / TOGETHER <= len(commits) <= MANY / 10
    assert len(await store.names("k", "ann")) == MANY


async def test_a_turn_that_needs_the_room_of_another_is_one_transaction(
    store: SqliteStore, statements: list[str]
) -> None:
    turns = UnfinishedTurns(store, lambda: 1e9, TurnLimits(count=1), lambda: 0.0)
    for name in "ab":
        del statements[:]
        await turns.put("ann", [name, f"same-{name}"], [Message(role=Role.ASSISTANT, text="Hm.")])
    assert [statement for statement in statements if statement.startswith(("BEGIN", "COMMIT"))] == [
        "BEGIN IMMEDIATE", "COMMIT",
    ]  # fmt: skip
    assert await store.names("turn", "ann") == ["b", "same-b"]


async def test_leases_that_wait_are_claimed_together_and_the_disk_is_waited_for_only_where_something_is_written(
    store: SqliteStore, statements: list[str]
) -> None:
    await store.put(KEY, ONE)
    assert not [statement for statement in statements if "synchronous" in statement]
    leases = await asyncio.gather(*(store.claim(key(number), "a", 60.0) for number in range(MANY)))
    assert len({lease.fence for lease in leases if lease}) == MANY
    levels = [statement.split()[-1] for statement in statements if "synchronous" in statement]
    assert set(levels[::2]) == {"NORMAL"}
    assert set(levels[1::2]) == {"FULL"}
    assert len(levels) <= 2 * MANY / 10
    del statements[:]
    released = [store.release(lease) for lease in leases if lease]
    await asyncio.gather(store.put(KEY, ONE), *released, store.put(KEY, ONE))
    assert statements[-1].startswith("COMMIT"), "with a write among them, the disk is waited for"


async def test_one_that_is_refused_fails_alone(store: SqliteStore) -> None:
    await store.put(KEY, ONE)
    lost = await store.claim(KEY, "a", 60.0)
    assert lost is not None
    await store.release(lost)
    outcomes = await asyncio.gather(
        store.put(key(0), ONE),
        store.put(key(1), ONE, expected=7),
        store.put_all(Write(key(2), ONE), Write(KEY, ONE, expected=0)),
        store.put(key(3), ONE, lease=lost),
        store.put_all(Delete(KEY), Write(Key("k", "ann", "\ud800"), ONE)),
        store.put(key(4), ONE),
        store.claim(key(5), "a", 60.0),
        return_exceptions=True,
    )
    assert [getattr(one, "code", type(one).__name__) for one in outcomes] == [
        "NoneType", "write_conflict", "write_conflict", "lease_lost", "UnicodeEncodeError", "NoneType", "Lease",
    ]  # fmt: skip
    assert await store.names("k", "ann") == ["0000", "0004", "a"]


async def test_a_damaged_record_is_an_error_of_its_own_call(store: SqliteStore, path: Path) -> None:
    await store.put(KEY, ONE)
    other = sqlite3.connect(path)
    with other:
        other.execute("UPDATE record SET value = x'00'")
    other.close()
    calls = [store.put(key(0), ONE), store.put(KEY, ONE), store.put(key(1), ONE), store.get(KEY), store.get(key(1))]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(one, "code", one) for one in outcomes] == [None, "store_corrupt", None, "store_corrupt", ONE]


async def test_a_fault_of_the_commit_fails_all_of_them_and_writes_nothing(store: SqliteStore) -> None:
    await store._read(fail_commits)
    queued = threading.Event()  # so that the file is busy until all of them are there
    busy = asyncio.ensure_future(store._read(lambda _: queued.wait(PATIENCE)))
    puts = [asyncio.ensure_future(store.put(key(number), ONE)) for number in range(8)]
    await asyncio.sleep(0)
    queued.set()
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    await busy
    assert [type(outcome) for outcome in outcomes] == [StoreError] * 8
    assert len({id(outcome) for outcome in outcomes}) == 8, "each is raised in a task of its own"
    assert await store.names("k", "ann") == []
    await store.put(KEY, ONE)
    assert await store.get(KEY) == ONE, "it works again once the cause is gone"


async def test_calls_see_what_earlier_ones_wrote(store: SqliteStore) -> None:
    """Of tasks that start in order, none waits for another."""
    puts, gets, reads = [], [], []
    for number in range(MANY):
        value = str(number).encode()
        puts.append(asyncio.ensure_future(store.put(KEY, Record(value, 0.0), value)))
        gets.append(asyncio.ensure_future(store.get(KEY)))
        reads.append(asyncio.ensure_future(store.entries(KEY, after=number)))
    await asyncio.gather(*puts)
    for number, (found, entries) in enumerate(zip(gets, reads, strict=True)):
        record = await found
        assert record is not None
        assert int(record.value) >= number
        assert (await entries)[0] == str(number).encode()
    assert await store.entries(KEY) == [str(number).encode() for number in range(MANY)]


async def test_a_call_whose_caller_goes_away_is_done_as_the_others_are(store: SqliteStore) -> None:
    tasks = [asyncio.create_task(store.put(key(number), ONE, b"x", b"y")) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError, type(None)] * 10
    assert await store.names("k", "ann") == [key(number).name for number in range(20)]
    assert await store.entries(key(0)) == [b"x", b"y"]


def test_a_store_is_used_from_several_event_loops(path: Path) -> None:
    store = SqliteStore(path)

    async def some(first: int) -> None:
        await asyncio.gather(*(store.put(key(number), ONE) for number in range(first, first + 20)))

    async def left() -> None:
        asyncio.ensure_future(store.put(key(99), ONE))  # noqa: RUF006 - the loop ends before it does
        await asyncio.sleep(0)

    asyncio.run(some(0))
    asyncio.run(left())
    asyncio.run(some(20))

    async def end() -> list[str]:
        names = await store.names("k", "ann")
        await store.aclose()
        return names

    assert len(asyncio.run(end())) == 41


async def test_a_store_is_written_to_the_end_before_it_is_closed_and_then_refuses(path: Path) -> None:
    for _ in range(2):
        store = SqliteStore(path)
        tasks = [asyncio.create_task(store.put(key(number), ONE, b"x")) for number in range(MANY)]
        await asyncio.sleep(0)
        await store.aclose()
        await asyncio.gather(*tasks)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                await store.get(KEY)
    store = SqliteStore(path)
    assert [await store.entries(key(number)) for number in (0, MANY - 1)] == [[b"x", b"x"]] * 2
    await store.aclose()


ACKNOWLEDGES = """
import asyncio, sys
from pathlib import Path
from antiphon.store import Key, Record, SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]))

    async def writer(number):
        for time in range(10_000):
            await store.put(Key("k", "ann", f"{number}-{time}"), Record(b"one", 0.0), b"x", b"y")
            print(f"{number}-{time}", flush=True)

    await asyncio.gather(*map(writer, range(16)))

asyncio.run(main())
"""


async def test_what_was_acknowledged_is_there_after_kill_9(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", ACKNOWLEDGES, str(path)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert writer.stdout is not None
    acknowledged = [writer.stdout.readline().strip() for _ in range(100)]
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate(timeout=PATIENCE)
    acknowledged += [line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    store = SqliteStore(path)
    assert set(acknowledged) <= set(await store.names("k", "ann"))
    for name in await store.names("k", "ann"):
        assert await store.entries(Key("k", "ann", name)) == [b"x", b"y"]
    await store.aclose()
