"""The PostgreSQL store: its address, its versions, what it does when the server fails, and what writers do at once."""

from __future__ import annotations

import asyncio
import builtins
import itertools
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from antiphon.errors import ConfigError, ConflictError, StoreError
from antiphon.store import Key, Record, Store, Write, hidden_password, store_at
from antiphon.store.postgres import _TRIES, LARGEST, VERSION, PostgresStore, open_tables
from antiphon.store.postgres_address import parse_address
from antiphon.store.postgres_records import Connection
from kit.postgres import Postgres, running_postgres
from kit.waiting import PATIENCE, until

KEY = Key("k", "ann", "a")


@pytest.fixture
def address(postgres: Postgres) -> Iterator[str]:
    with postgres.database() as name:
        yield postgres.address(name)


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    store = PostgresStore(address)
    yield store
    await store.aclose()


def run(address: str, statement: str) -> list[tuple[Any, ...]]:
    """A statement of somebody else's."""
    with psycopg.connect(address, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


async def test_one_who_appends_while_another_deletes_leaves_no_entry_behind(address: str, store: Store) -> None:
    async def both(number: int) -> None:
        for _ in range(10):
            await (store.delete(KEY) if number % 2 else store.put(KEY, Record(b"", 0.0), b"x"))

    await asyncio.gather(*(both(number) for number in range(8)))
    await store.delete(KEY)
    assert run(address, "SELECT count(*) FROM antiphon.entry") == [(0,)]


async def test_writes_of_the_same_records_in_another_order_do_not_block_each_other(store: Store) -> None:
    keys = [Key("k", "", str(number)) for number in range(6)]
    orders = [keys, keys[::-1], keys[3:] + keys[:3]] * 6
    await asyncio.gather(*(store.put_all(*(Write(key, Record(b"", 0.0), [b"x"]) for key in order)) for order in orders))
    for key in keys:
        assert await store.entries(key) == [b"x"] * len(orders)


async def test_a_write_under_a_lease_is_done_before_another_can_claim(address: str, store: Store) -> None:
    """A lease whose time is over may be written under, but not while somebody takes it."""
    lease = await store.claim(KEY, "a", 0.0)
    assert lease is not None
    with psycopg.connect(address) as other:
        other.execute("SELECT 1 FROM antiphon.lease FOR UPDATE")
        writing = asyncio.ensure_future(store.put(KEY, Record(b"late", 0.0), lease=lease))
        await until(lambda: run(address, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        other.execute("UPDATE antiphon.lease SET fence = fence + 1")
    with pytest.raises(ConflictError) as caught:
        await writing
    assert caught.value.code == "lease_lost"
    assert await store.get(KEY) is None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE antiphon.record SET expires = 1",
        "UPDATE antiphon.record SET name = 'c'",
        "UPDATE antiphon.record SET value = 'other'",
        "UPDATE antiphon.record SET entries = 1",
        "UPDATE antiphon.entry SET number = 10 - number",
        "UPDATE antiphon.entry SET value = 'other' WHERE number = 2",
        "DELETE FROM antiphon.entry WHERE number = 2",
        "DELETE FROM antiphon.entry WHERE number = 1",
    ],
)
async def test_no_column_can_change_unseen(address: str, store: Store, change: str) -> None:
    await store.put(KEY, Record(b"value", 1.0, 2.0), b"one", b"two")
    other = Key("k", "ann", "z")
    run(address, change)
    await store.put(other, Record(b"well", 1.0), b"one")
    for after in (0, 1):
        with pytest.raises(StoreError) as caught:
            await store.entries(KEY, after=after)
        assert caught.value.code == "store_corrupt"
    assert await store.entries(other) == [b"one"]
    assert await store.delete(KEY)


async def test_a_damaged_record_does_not_expire_and_stops_no_sweep(address: str, store: Store) -> None:
    for number in range(250):
        await store.put(Key("k", "", f"{number:03}"), Record(b"x", 0.0, float(number % 2)), b"e")
    run(address, "UPDATE antiphon.record SET value = 'other' WHERE name < '120'")
    assert await store.expire(1.0) == 130
    assert len(await store.names("k", "")) == 120
    assert run(address, "SELECT count(*) FROM antiphon.entry") == [(120,)]


async def test_a_server_that_was_restarted_is_used_again(caplog: pytest.LogCaptureFixture) -> None:
    """Of what was not begun nothing is lost, and nothing is done twice."""
    with running_postgres() as server, server.database() as name:
        store, hasty = PostgresStore(server.address(name)), PostgresStore(server.address(name) + "?pool_timeout=0.3")
        async with aclosing(store), aclosing(hasty):
            await asyncio.gather(*(store.put(KEY, Record(b"", 0.0), b"x") for _ in range(20)))
            await asyncio.to_thread(server.stop)
            with pytest.raises(StoreError) as caught:
                await hasty.put(KEY, Record(b"", 0.0), b"lost")
            assert caught.value.code == "store_failed"
            for _ in range(3):
                await asyncio.to_thread(server.start)
                await asyncio.gather(*(store.put(KEY, Record(b"", 0.0), b"y") for _ in range(10)))
                await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            assert await store.entries(KEY) == [b"x"] * 20 + [b"y"] * 30
            assert await store.claim(KEY, "a", 60.0)
    assert "postgresql://" not in caplog.text


async def test_a_transaction_whose_connection_is_lost_is_not_done_again(address: str, store: Store) -> None:
    """Nobody knows whether it was done."""
    backends = list[int]()

    async def lose(connection: Connection) -> None:
        backends.append(connection.info.backend_pid)
        run(address, f"SELECT pg_terminate_backend({backends[-1]})")
        await connection.execute("SELECT 1")

    assert isinstance(store, PostgresStore)
    with pytest.raises(StoreError) as caught:
        await store._write(lose)
    assert (len(backends), caught.value.code) == (1, "store_failed")


@pytest.mark.parametrize(("disturbed", "outcome"), [(_TRIES, "done"), (_TRIES + 1, "store_busy")])
async def test_a_transaction_that_others_are_in_the_way_of_is_tried_so_often(
    store: Store, disturbed: int, outcome: str
) -> None:
    async def write(connection: Connection) -> str:
        if next(tries) < disturbed:
            raise psycopg.errors.SerializationFailure
        return "done"

    assert isinstance(store, PostgresStore)
    tries, got = itertools.count(), ""
    try:
        got = await store._write(write)
    except StoreError as error:
        got = error.code
    assert (got, next(tries)) == (outcome, _TRIES + 1)


async def test_a_database_that_is_read_only_is_read_and_says_why(address: str, store: Store) -> None:
    await store.put(KEY, Record(b"value", 1.0))
    run(address, f"ALTER DATABASE {address.rpartition('/')[2]} SET default_transaction_read_only = on")
    second = PostgresStore(address)
    assert await second.get(KEY) == Record(b"value", 1.0)
    with pytest.raises(StoreError) as caught:
        await second.put(KEY, Record(b"other", 1.0))
    assert caught.value.code == "store_readonly"
    await second.aclose()


async def test_a_process_that_stands_still_in_the_middle_of_a_write_blocks_nobody_for_long(address: str) -> None:
    """A blocked event loop is a paused process."""
    store, locked, got = PostgresStore(f"{address}?pool_timeout=2"), threading.Event(), threading.Event()
    await store.put(KEY, Record(b"value", 1.0))

    def other() -> None:
        locked.wait(PATIENCE)
        run(address, "UPDATE antiphon.record SET expires = 7")
        got.set()

    async def stand_still(connection: Connection) -> None:
        await connection.execute("UPDATE antiphon.record SET expires = 5")
        locked.set()
        assert got.wait(PATIENCE)
        await connection.execute("UPDATE antiphon.record SET expires = 6")

    waiting = asyncio.ensure_future(asyncio.to_thread(other))
    await asyncio.sleep(0)
    with pytest.raises(StoreError):
        await store._write(stand_still)
    await waiting
    assert run(address, "SELECT expires FROM antiphon.record") == [(7.0,)]
    await store.aclose()


async def test_who_is_waited_for_too_long_is_not_waited_for(address: str, caplog: pytest.LogCaptureFixture) -> None:
    store = PostgresStore(f"{address}?pool_timeout=2&connection_limit=1")
    await store.put(KEY, Record(b"value", 1.0))
    with psycopg.connect(address) as other:
        other.execute("SELECT 1 FROM antiphon.record FOR UPDATE")
        outcomes = await asyncio.gather(
            *(store.put(KEY, Record(b"late", 1.0)) for _ in range(2)), return_exceptions=True
        )
    codes = {outcome.code for outcome in outcomes if isinstance(outcome, StoreError)}
    assert codes <= {"store_busy", "store_failed"}
    assert len([outcome for outcome in outcomes if outcome]) == 2
    await store.put(KEY, Record(b"after", 1.0))
    assert await store.get(KEY) == Record(b"after", 1.0)
    assert "FOR UPDATE" not in str(outcomes)
    await store.aclose()


async def test_what_is_larger_than_postgresql_takes_is_refused_and_nothing_of_it_is_there(store: Store) -> None:
    with pytest.raises(StoreError) as caught:
        await store.put(KEY, Record(b"", 0.0), bytes(LARGEST), b"x")
    assert caught.value.code == "store_full"
    assert await store.get(KEY) is None


async def test_tables_that_were_partitioned_as_the_page_says_are_tables_like_others(address: str) -> None:
    """A page of the documentation has the statements."""
    open_tables(address)
    page = (Path(__file__).parents[2] / "docs" / "internals" / "measured" / "scale.md").read_text("utf-8")
    run(address, page.partition("```sql\n")[2].partition("```")[0])
    store = PostgresStore(address)
    keys = [Key("k", "ann", f"{number:02}") for number in range(20)]
    await store.put_all(*(Write(key, Record(b"x", 0.0, 5.0), [b"a", b"b"]) for key in keys))
    await asyncio.gather(*(store.put(keys[0], Record(b"y", 0.0), b"c") for _ in range(5)))
    assert await store.entries(keys[0], after=1) == [b"b", *[b"c"] * 5]
    assert await store.names("k", "ann") == [key.name for key in keys]
    assert await store.expire(5.0) == 19
    assert await store.delete(keys[0])
    assert run(address, "SELECT count(*) FROM antiphon.entry") == [(0,)]
    await store.aclose()


def test_tables_of_another_version_are_not_used(address: str) -> None:
    assert open_tables(address) == 0
    run(address, f"UPDATE antiphon.schema_version SET version = {VERSION + 1}")
    for migrate in (False, True):
        with pytest.raises(ConfigError, match=f"version {VERSION + 1}; this program knows {VERSION}") as caught:
            open_tables(address, migrate=migrate)
        assert caught.value.code == "store_unusable"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:secret@host/db", "postgresql://ann:***@host/db"),
        ("postgresql://ann:se:cr@et@host/db", "postgresql://ann:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgres://ann@host/db?a=b&password=secret&c=d", "postgres://ann@host/db?a=b&password=***&c=d"),
        ("postgres://host/db?sslpassword=secret#x", "postgres://host/db?sslpassword=***#x"),
        ("postgresql://ann:sec/ret@host/db", "postgresql://ann:***@host/db"),
        ("theirs://ann:secret@host", "theirs://ann:***@host"),
        ("postgresql://ann@host:5432/db", "postgresql://ann@host:5432/db"),
        ("/home/ann:x@y/sessions.db", "/home/ann:x@y/sessions.db"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert hidden_password(address) == shown


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:sec@ret@host/db",
        "postgresql://ann:sec/ret@host/db",
        "postgresql://ann:sec?ret@host/db",
        "postgresql://ann:sec#ret@host/db",
        "postgresql://ann:secret%zz@host/db",
        "postgresql://ann:secret",
        "postgresql://ann:secret@[host/db",
        "postgresql://ann:secret@host/db?connection_limit=0",
        "postgresql://ann:secret@host/db?connection_limit=many",
        "postgresql://ann:secret@host/db?pool_timeout=nan",
        "postgresql://ann:secret@host/db?pool_timeout=inf",
        "postgresql://ann:secret@host/db?nothing",
    ],
)
def test_an_address_that_is_not_clear_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store_at(address)
    assert caught.value.code == "store_unusable"
    assert "sec" not in str(caught.value).replace("seconds", "")
    assert "ret" not in str(caught.value)


def test_an_address_has_the_pool_s_settings_and_libpq_s() -> None:
    parsed = parse_address("postgres://a:b%40c@h1:1,h2:2/db?connection_limit=3&pool_timeout=0.5&sslmode=require")
    assert (parsed.connection_limit, parsed.pool_timeout) == (3, 0.5)
    assert parsed.conninfo == "postgres://a:b%40c@h1:1,h2:2/db?sslmode=require"
    assert "b%40c" not in repr(parsed)
    assert (parse_address("postgresql:///db").connection_limit, parse_address("postgresql:///db").pool_timeout) == (
        10,
        30,
    )


def test_without_the_extra_an_address_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith(("psycopg", "antiphon.store.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    found = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("psycopg"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match="psycopg") as caught:
        store_at("postgresql://host/db")
    assert caught.value.hint == "pip install 'antiphon[postgres]'"


async def test_nothing_of_a_password_is_logged(caplog: pytest.LogCaptureFixture, postgres: Postgres) -> None:
    with postgres.database() as name, caplog.at_level(logging.DEBUG):
        address = postgres.address(name).replace("postgres@", "postgres:verysecret@")
        store = PostgresStore(address)
        await store.put(KEY, Record(b"", 0.0))
        assert "verysecret" not in repr(vars(store))
        await store.aclose()
        with pytest.raises(ConfigError) as caught:
            PostgresStore(address.replace(name, "nowhere"))
    assert "verysecret" not in caplog.text + str(caught.value)
