"""Several processes over one store: no write is lost, nothing is done twice, and who was silent too long writes not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from antiphon.store import Key, Record, store_at
from kit.postgres import Postgres
from kit.store_worker import COUNTER, HELD
from kit.waiting import PATIENCE, until_found

PROCESSES, TIMES, JOBS = 3, 25, 12


@pytest.fixture(params=["sqlite", "pgbouncer"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "shared" / "store.db")
        return
    postgres: Postgres = request.getfixturevalue("postgres")
    with postgres.database() as name:
        yield postgres.bounced(name)


def started(address: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "kit.store_worker", address, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def ended(processes: Sequence[subprocess.Popen[str]]) -> list[int]:
    for process in processes:
        process.communicate(timeout=PATIENCE)
    return [process.returncode for process in processes]


async def test_what_several_processes_add_is_the_exact_sum_and_what_they_claim_is_done_once_and_by_one_at_a_time(
    address: str, tmp_path: Path
) -> None:
    arguments = (str(TIMES), str(JOBS), str(tmp_path))
    processes = [started(address, "work", *arguments) for _ in range(PROCESSES)]
    assert await asyncio.to_thread(ended, processes) == [0] * PROCESSES
    store = store_at(address)
    assert await store.get(COUNTER) == Record(str(PROCESSES * TIMES).encode(), 0.0)
    assert await store.entries(COUNTER) == [b"x"] * (PROCESSES * TIMES)
    assert await store.names("done", "") == sorted(map(str, range(JOBS)))
    for name in await store.names("done", ""):
        assert len(await store.entries(Key("done", "", name))) == 1
    assert await store.abandoned("job") == []
    await store.aclose()


async def test_who_was_paused_for_longer_than_its_lease_does_not_write(address: str) -> None:
    holder = started(address, "hold")
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert await asyncio.to_thread(holder.stdout.readline) == "held\n"
    store = store_at(address)
    assert await store.claim(HELD, "other", 60.0) is None
    holder.send_signal(signal.SIGSTOP)
    lease = await until_found(lambda: store.claim(HELD, "other", 60.0))
    await store.put(COUNTER, Record(b"of the second", 0.0), b"first", lease=lease)
    holder.send_signal(signal.SIGCONT)
    printed, _ = await asyncio.to_thread(holder.communicate, "write\n", PATIENCE)
    assert printed.splitlines() == ["lease_lost", "lost"]
    assert await store.get(COUNTER) == Record(b"of the second", 0.0)
    assert await store.entries(COUNTER) == [b"first"]
    assert await store.lease(HELD) == lease
    await store.aclose()
