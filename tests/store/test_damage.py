"""A store whose file was damaged: what it says is what was written, or an error; never something else."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from antiphon.conversation import Message, Role
from antiphon.errors import ConfigError, StoreError
from antiphon.store import Key, Record, Sessions, SqliteStore
from antiphon.store.sqlite_file import VERSION

BLOCK = 512
DAMAGES = 30
"""Blocks that are overwritten, one in each copy of the store."""

Written = dict[Key, tuple[Record, list[bytes]]]


async def filled(path: Path, chance: random.Random) -> Written:
    """A store with records and entries of very different sizes, several of them deleted again."""
    store, written = SqliteStore(path), Written()
    for number in range(120):
        owner, name = ("ann", "bob")[number % 3 == 0], f"name-{chance.randrange(10**9)}"
        key = Key(("session", "response")[number % 2], owner, name)
        record = Record(chance.randbytes(chance.choice((0, 20, 900, 9000))), float(number), 1e9 + number)
        entries = [chance.randbytes(chance.choice((0, 30, 700, 6000))) for _ in range(chance.randrange(6))]
        await store.put(key, record, *entries)
        written[key] = (record, entries)
    for key in chance.sample(list(written), 30):
        await store.delete(key)
        del written[key]
    await store.aclose()
    return written


def damage(path: Path, chance: random.Random) -> None:
    """Overwrites one block with noise, with zeros, or with another block."""
    blocks = path.stat().st_size // BLOCK
    with path.open("r+b") as file:
        file.seek(chance.randrange(blocks) * BLOCK)
        other = file.read(BLOCK)
        file.seek(chance.randrange(blocks) * BLOCK)
        file.write(chance.choice((chance.randbytes(BLOCK), bytes(BLOCK), other)))


async def read_all(store: SqliteStore, written: Written) -> Counter[str]:
    """How each record is answered: right, as damaged, or wrong."""
    outcomes: Counter[str] = Counter()
    for key, (record, entries) in written.items():
        try:
            right = await store.get(key) == record and await store.entries(key) == entries
            outcomes["right" if right else "WRONG"] += 1
        except StoreError as error:
            outcomes[error.code] += 1
    return outcomes


async def test_content_that_was_damaged_is_never_shown_as_right(tmp_path: Path) -> None:
    chance = random.Random(12)
    whole, copy = tmp_path / "whole.db", tmp_path / "copy.db"
    written = await filled(whole, chance)
    outcomes: Counter[str] = Counter()
    for _ in range(DAMAGES):
        shutil.copy(whole, copy)
        damage(copy, chance)
        try:
            store = SqliteStore(copy)
        except ConfigError as error:
            outcomes[error.code] += 1
            continue
        outcomes += await read_all(store, written)
        await store.aclose()
    assert set(outcomes) <= {"right", "store_corrupt", "store_unusable"}, outcomes
    assert outcomes["store_corrupt"] > DAMAGES // 2
    assert outcomes["right"] > outcomes["store_corrupt"], "the others go on"


async def test_what_is_written_to_a_damaged_store_is_never_mixed_with_something_else(tmp_path: Path) -> None:
    chance = random.Random(21)
    whole, copy = tmp_path / "whole.db", tmp_path / "copy.db"
    written = await filled(whole, chance)
    outcomes: Counter[str] = Counter()
    for _ in range(DAMAGES // 3):
        shutil.copy(whole, copy)
        damage(copy, chance)
        with contextlib.suppress(ConfigError):
            store = SqliteStore(copy)
            longer = dict(written)
            for key, (record, entries) in written.items():
                with contextlib.suppress(StoreError):
                    await store.put(key, record, b"one more")
                    longer[key] = (record, [*entries, b"one more"])
            outcomes += await read_all(store, longer)
            await store.aclose()
    assert set(outcomes) <= {"right", "store_corrupt"}, outcomes


async def test_a_session_that_was_damaged_says_so_and_can_be_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    sessions = Sessions(store, lambda: 0.0)
    for name in ("hurt", "well"):
        async with sessions.turn(name) as turn:
            await turn.commit([Message(role=Role.USER, text=f"this is {name}")])
    other = sqlite3.connect(path)
    with other:
        other.execute("UPDATE entry SET value = replace(value, CAST('hurt' AS BLOB), CAST('fine' AS BLOB))")
    other.close()
    with pytest.raises(StoreError, match="damaged") as caught:
        await sessions.turn("hurt").__aenter__()
    assert caught.value.code == "store_corrupt"
    async with sessions.turn("well") as turn:
        assert [message.text for message in turn.messages] == ["this is well"]
    async with sessions.turn("hurt", start=True) as turn:
        await turn.commit([Message(role=Role.USER, text="anew")])
    async with sessions.turn("hurt") as turn:
        assert [message.text for message in turn.messages] == ["anew"]
    await store.aclose()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE record SET expires = 1 WHERE name = 'a'",
        "UPDATE record SET name = 'c' WHERE name = 'a'",
        "UPDATE record SET value = 'text' WHERE name = 'a'",
        "UPDATE entry SET number = 10 - number",
        "DELETE FROM entry WHERE number = 2",
    ],
)
async def test_no_column_of_a_record_can_change_unseen(tmp_path: Path, change: str) -> None:
    path, key = tmp_path / "sessions.db", Key("k", "", "a")
    store = SqliteStore(path)
    await store.put(key, Record(b"value", 1.0, 2.0), b"one", b"two")
    await store.put(Key("k", "", "b"), Record(b"other", 1.0))
    other = sqlite3.connect(path)
    with other:
        other.execute(change)
    other.close()
    with pytest.raises(StoreError, match="damaged"):
        await store.entries(key)
    assert await store.get(Key("k", "", "b")) == Record(b"other", 1.0)
    await store.aclose()


async def test_a_damaged_time_deletes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    for name, expires in (("a", 1000.0), ("b", 1000.0), ("c", 5.0)):
        await store.put(Key("k", "", name), Record(b"", 0.0, expires))
    other = sqlite3.connect(path)
    with other:
        other.execute("UPDATE record SET expires = 1 WHERE name = 'a'")
    other.close()
    assert await store.expire(10.0) == 1
    other = sqlite3.connect(path)
    assert [name for (name,) in other.execute("SELECT name FROM record ORDER BY name")] == ["a", "b"]
    other.close()
    await store.aclose()


FIRST = """
CREATE TABLE record (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,
    value BLOB NOT NULL, created REAL NOT NULL, expires REAL, UNIQUE (kind, owner, name)
);
CREATE INDEX record_expires ON record (expires) WHERE expires IS NOT NULL;
CREATE TABLE entry (
    record INTEGER NOT NULL REFERENCES record ON DELETE CASCADE, number INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (record, number)
) WITHOUT ROWID;
PRAGMA user_version = 1;
INSERT INTO record VALUES (7, 'session', 'ann', 's', x'', 1.5, 9.5);
INSERT INTO record VALUES (8, 'conversation', '', 'é', x'7b7d', 2.5, NULL);
INSERT INTO entry VALUES (7, 1, x'61');
INSERT INTO entry VALUES (7, 2, x'');
INSERT INTO entry VALUES (7, 3, x'62');
"""


async def test_a_store_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    path, key = tmp_path / "old.db", Key("session", "ann", "s")
    old = sqlite3.connect(path)
    old.executescript(FIRST)
    old.close()
    store = SqliteStore(path)
    assert await store.get(key) == Record(b"", 1.5, 9.5)
    assert await store.entries(key) == [b"a", b"", b"b"]
    assert await store.get(Key("conversation", "", "é")) == Record(b"{}", 2.5)
    await store.put(key, Record(b"new", 3.0, 10.0), b"c")
    await store.aclose()
    store = SqliteStore(path)
    assert await store.get(key) == Record(b"new", 1.5, 10.0)
    assert await store.entries(key) == [b"a", b"", b"b", b"c"]
    await store.aclose()
    again = sqlite3.connect(path)
    assert again.execute("PRAGMA user_version").fetchone() == (VERSION,)
    again.close()


async def test_damage_is_in_the_log_from_the_start_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "sessions.db"
    await filled(path, random.Random(3))
    pages = path.read_bytes()
    damaged = (bytes(8) + pages[at + 8 : at + 4096] for at in range(4096, len(pages), 4096))
    path.write_bytes(pages[:4096] + b"".join(damaged))
    store = SqliteStore(path)
    await store.aclose()
    assert "store_corrupt" in caplog.text
    assert str(tmp_path) not in caplog.text


async def test_a_store_that_cannot_be_written_is_read_and_says_why(tmp_path: Path) -> None:
    """SQLite's own refusal: file modes do not stop a superuser, who tests may be."""
    store, key = SqliteStore(tmp_path / "sessions.db"), Key("k", "", "a")
    await store.put(key, Record(b"value", 1.0))
    await store._read(lambda connection: connection.execute("PRAGMA query_only = ON"))
    assert await store.get(key) == Record(b"value", 1.0)
    with pytest.raises(StoreError) as caught:
        await store.put(key, Record(b"other", 1.0))
    assert caught.value.code == "store_readonly"
    await store.put(key, Record(b"other", 1.0))
    assert await store.get(key) == Record(b"other", 1.0), "it is tried anew each time"
    await store.aclose()


async def test_a_file_that_became_another_program_s_is_not_used_any_more(tmp_path: Path) -> None:
    """After damage the file is opened anew, and what is found there then is no configuration's fault."""
    path, key = tmp_path / "sessions.db", Key("k", "", "a")
    store = SqliteStore(path)
    await store.put(key, Record(b"value", 1.0))
    other = sqlite3.connect(path)
    with other:
        other.execute("UPDATE record SET value = x'00'")
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError) as caught:
        await store.get(key)
    assert caught.value.code == "store_corrupt"
    with pytest.raises(StoreError) as caught:
        await store.get(key)
    assert caught.value.code == "store_failed"
    assert "version" not in str(caught.value)
    with other:
        other.execute("UPDATE record SET value = ?", (b"value",))
        other.execute(f"PRAGMA user_version = {VERSION}")
    other.close()
    assert await store.get(key) == Record(b"value", 1.0), "it works again once the cause is gone"
    await store.aclose()
