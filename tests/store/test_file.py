"""The store's file: who may read it, how long another process is waited for, and how an old one becomes a new one."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.errors import ConfigError
from antiphon.store import Key, Record, SqliteStore
from antiphon.store.sqlite_file import CHECK_SECONDS, VERSION, open_file

FIRST_VERSION = """
CREATE TABLE record (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,
    value BLOB NOT NULL, created REAL NOT NULL, expires REAL, UNIQUE (kind, owner, name)
);
CREATE TABLE entry (
    record INTEGER NOT NULL REFERENCES record ON DELETE CASCADE, number INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (record, number)
) WITHOUT ROWID;
PRAGMA user_version = 1;
INSERT INTO record VALUES (1, 'session', '', 'a', x'', 1.5, NULL);
INSERT INTO record VALUES (2, 'session', '', CAST(x'ff' AS TEXT), x'', 1.5, NULL);
"""


def modes(path: Path) -> tuple[int, int]:
    """Of the file, and of its folder."""
    return stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)


def schema(path: Path) -> tuple[int, list[str]]:
    """The version of a file and its definitions, as SQLite itself tells them."""
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    definitions = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY name")]
    connection.close()
    return version, definitions


async def test_a_new_store_makes_its_folder_and_both_are_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "above" / "mine" / "sessions.db"
    store = SqliteStore(path)
    await store.put(Key("k", "", "a"), Record(b"", 0.0))
    assert modes(path) == (0o600, 0o700)
    await store.aclose()


def test_a_new_file_is_opened_by_many_at_once(tmp_path: Path) -> None:
    """As servers over one store are that are started together."""
    for number in range(40):
        path, start = tmp_path / f"{number}.db", threading.Barrier(6)

        def opened(path: Path = path, start: threading.Barrier = start) -> None:
            start.wait()
            open_file(path, check=True).close()

        with ThreadPoolExecutor(6) as threads:
            for one in [threads.submit(opened) for _ in range(6)]:
                one.result()
        assert schema(path)[0] == VERSION


def test_a_folder_that_is_there_already_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o750)
    open_file(folder / "sessions.db", check=True).close()
    assert modes(folder / "sessions.db") == (0o600, 0o750)


def test_another_process_is_waited_for_for_half_a_minute_and_the_pages_are_checked_for_two_seconds(
    tmp_path: Path,
) -> None:
    connection = open_file(tmp_path / "sessions.db", check=True)
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
    connection.close()
    assert CHECK_SECONDS == 2.0


def test_a_file_of_another_version_is_closed_again_and_named(tmp_path: Path) -> None:
    path = tmp_path / "later.db"
    later = sqlite3.connect(path)
    later.execute("PRAGMA user_version = 4")
    later.close()
    with pytest.raises(ConfigError, match="version 4; this program knows 3") as caught:
        open_file(path, check=True)
    assert caught.value.code == "store_unusable"
    assert [file.name for file in tmp_path.iterdir()] == ["later.db"], "SQLite's other files go with the connection"


def test_an_old_store_becomes_a_new_one_whole_or_not_at_all(tmp_path: Path) -> None:
    """The second record's name is no text, so that its checksum cannot be made."""
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    old.executescript(FIRST_VERSION)
    old.close()
    before = schema(path)
    assert before[0] == 1
    for _ in range(2):
        with pytest.raises((UnicodeDecodeError, ConfigError)):
            open_file(path, check=True)
        assert schema(path) == before
    mend = sqlite3.connect(path)
    with mend:
        mend.execute("UPDATE record SET name = 'b' WHERE id = 2")
    mend.close()
    open_file(path, check=True).close()
    assert schema(path)[0] == VERSION


async def test_a_store_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    old.executescript(FIRST_VERSION.replace("CAST(x'ff' AS TEXT)", "'b'"))
    old.close()
    opened: list[sqlite3.Connection] = []
    openers = [threading.Thread(target=lambda: opened.append(open_file(path, check=True))) for _ in range(8)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join()
    assert len(opened) == 8
    for connection in opened:
        connection.close()
    store = SqliteStore(path)
    assert await store.names("session", "") == ["a", "b"]
    await store.aclose()


def test_a_store_that_is_whole_is_opened_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "sessions.db"
    with caplog.at_level(logging.DEBUG, "antiphon.store"):
        for _ in range(2):
            open_file(path, check=True).close()
        shutil.copy(path, tmp_path / "copy.db")
        open_file(tmp_path / "copy.db", check=True).close()
    assert not caplog.records


def test_damaged_pages_are_looked_for_when_the_server_starts_and_not_each_time_that_the_file_is_opened_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sessions.db"
    connection = open_file(path, check=True)
    connection.execute("PRAGMA foreign_keys = OFF")
    with connection:
        entries = "INSERT INTO entry (record, number, value) VALUES (1, ?, zeroblob(900))"
        connection.executemany(entries, [(number,) for number in range(100)])
    connection.close()
    with path.open("r+b") as file:
        file.seek(-2048, 2)
        file.write(b"\xff" * 1024)
    open_file(path, check=False).close()
    assert not caplog.records
    open_file(path, check=True).close()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


KEPT = """
import asyncio, sys
from contextlib import suppress
from pathlib import Path
import psutil
from antiphon.store import Key, Record, SqliteStore
from kit.waiting import until

def megabytes():
    return psutil.Process().memory_info().rss >> 20

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.put(Key("k", "", "small"), Record(b"a", 0.0), b"b")
    before = megabytes()
    for name, value, entry in (("value", 48 << 20, 1), ("entry", 1, 48 << 20)):
        await store.put(Key("k", "", name), Record(b"x" * value, 0.0), b"y" * entry)
        with suppress(TimeoutError):  # the store's thread lets go of it a moment later
            async with asyncio.timeout(10):
                await until(lambda: megabytes() - before < 24)
        print(megabytes() - before)
    await store.aclose()

asyncio.run(main())
"""


def test_of_a_large_value_that_was_written_nothing_stays_in_memory(tmp_path: Path) -> None:
    """In a process of its own: how memory is allocated is a setting of the process."""
    command = [sys.executable, "-c", KEPT, str(tmp_path / "sessions.db")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert all(int(kept) < 24 for kept in printed.split()), f"MB, of 48: {printed}"
