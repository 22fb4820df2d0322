"""A process that died holds nothing, and one that is stopped, or cannot be seen, does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from antiphon.store import Key, SqliteStore
from antiphon.store.leases import is_gone, process_name

KEY = Key("session", "ann", "s")
NAMED = (
    "import sys; from antiphon.store.leases import process_name; print(process_name(), flush=True); sys.stdin.read()"
)


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process, and its name."""
    process = subprocess.Popen([sys.executable, "-c", NAMED], stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "sessions.db")
    yield store
    await store.aclose()


async def test_what_a_killed_process_held_is_free_at_once(
    store: SqliteStore, other: tuple[subprocess.Popen[str], str]
) -> None:
    process, name = other
    assert await store.claim(KEY, name, 3600) is not None
    assert await store.claim(KEY, process_name(), 3600) is None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # It is dead, and nobody has asked how it ended.
    assert await store.lease(KEY) is None
    assert await store.abandoned("session") == [KEY]
    process.wait()
    assert await store.abandoned("session") == [KEY]
    assert await store.claim(KEY, process_name(), 3600) is not None
    assert await store.abandoned("session") == []


async def test_what_a_stopped_process_held_is_its_own(
    store: SqliteStore, other: tuple[subprocess.Popen[str], str]
) -> None:
    process, name = other
    assert await store.claim(KEY, name, 3600) is not None
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert await store.claim(KEY, process_name(), 3600) is None
    process.send_signal(signal.SIGCONT)


def test_a_later_process_of_the_same_number_is_another_one() -> None:
    pid, begun, *rest = process_name().split("/")
    assert not is_gone("/".join((pid, begun, *rest)))
    assert is_gone("/".join((pid, str(int(begun) + 1), *rest)))


@pytest.mark.parametrize("name", ["", "abc", "1/2/3", "x/y/z/t", "1/2/pid:[7]/t", "99999999999999999999/1/pid:[7]/t"])
def test_what_is_not_seen_from_here_may_be_there(name: str) -> None:
    assert not is_gone(name)
