"""What a conversation costs in PostgreSQL: rows are written until there are a million, then every query is timed.

``python bench/store_scale.py --store postgresql://… [--conversations 100000] [--turns 10]`` fills the schema
``antiphon`` of that database, which should be empty, by COPY with the rows that the store writes (each turn: a user's
message and the model's). Then it times the store's own calls, from ``--clients`` tasks, and prints medians, the 99th
percentile, the sizes of tables and indexes, and what a conversation has of them.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable

import psycopg

from antiphon.store import Key, Record, store_at
from antiphon.store.postgres import open_tables
from antiphon.store.postgres_address import parse_address
from antiphon.store.rows import Change, change, key_id

TEXT = random.Random(1).randbytes(1 << 16).hex().encode()
COLUMNS = "value, created, expires, version, entries, chain, checksum, id, kind, owner, name"
LIFETIME = 7 * 86400.0


def key(number: int) -> Key:
    return Key("session", f"key-{number % 1000}", f"conversation-{number:012}")


def messages(chance: random.Random, turns: int) -> list[bytes]:
    """Of a user and a model in turn; half of what they write compresses as hexadecimal digits do."""
    sizes = [size for _ in range(turns) for size in (chance.randrange(60, 400), chance.randrange(200, 1400))]
    starts = [chance.randrange(len(TEXT) - size) for size in sizes]
    return [TEXT[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def fill(address: str, conversations: int, turns: int) -> None:
    open_tables(address)
    began = time.monotonic()
    with psycopg.connect(parse_address(address).conninfo) as connection, connection.cursor() as cursor:
        for first in range(0, conversations, 10_000):
            batch = some(first, conversations, turns)
            with cursor.copy(f"COPY antiphon.record ({COLUMNS}) FROM STDIN") as copy:
                for one, done in batch:
                    copy.write_row((*done.columns, key_id(one), one.kind, one.owner.encode(), one.name.encode()))
            with cursor.copy("COPY antiphon.entry (record, number, value, chain) FROM STDIN") as copy:
                for one, done in batch:
                    for entry in done.appended:
                        copy.write_row((key_id(one), *entry))
            connection.commit()
    with psycopg.connect(parse_address(address).conninfo, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE antiphon.record")
        connection.execute("VACUUM ANALYZE antiphon.entry")
    print(
        f"filled: {conversations:,} records, {conversations * turns * 2:,} entries in {time.monotonic() - began:.0f} s"
    )


def some(first: int, conversations: int, turns: int) -> list[tuple[Key, Change]]:
    chance = random.Random(first)
    made = []
    for number in range(first, min(first + 10_000, conversations)):
        now = 1.7e9 + number
        record = Record(b"", now, now + LIFETIME)
        made.append((key(number), change(key(number), None, record, messages(chance, turns))))
    return made


def sizes(address: str, conversations: int) -> None:
    query = """
        SELECT c.relname, c.relkind::text, pg_relation_size(c.oid)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'antiphon' AND c.relkind IN ('r', 'i') ORDER BY c.relname
    """
    with psycopg.connect(parse_address(address).conninfo) as connection:
        whole = 0
        for name, kind, size in connection.execute(query):
            whole += size
            print(f"{'table' if kind == 'r' else 'index'} {name:20} {_share(size, conversations)}")
        print(f"together {'':17} {_share(whole, conversations)}")


def _share(size: int, conversations: int) -> str:
    return f"{size / 1e6:9.1f} MB  {size / conversations:8.0f} B a conversation"


async def timed(name: str, call: Callable[[int], Awaitable[object]], *, times: int, clients: int) -> None:
    taken: list[float] = []
    numbers = iter(range(times))

    async def client() -> None:
        for number in numbers:
            began = time.perf_counter()
            await call(number)
            taken.append((time.perf_counter() - began) * 1000)

    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(clients)))
    rate = times / (time.monotonic() - began)
    taken.sort()
    p99 = taken[int(len(taken) * 0.99) - 1]
    print(f"{name:34} median {statistics.median(taken):7.2f} ms   p99 {p99:7.2f} ms   {rate:8.0f} a second")


async def measure(address: str, conversations: int, *, times: int, clients: int) -> None:
    store, chance = store_at(address), random.Random(3)
    drawn = [key(chance.randrange(conversations)) for _ in range(times)]
    now = 1.7e9 + conversations

    async def turn(number: int) -> None:
        lease = await store.claim(drawn[number], "bench", 15.0)
        known = await store.get(drawn[number])
        await store.entries(drawn[number])
        if known is not None and lease is not None:
            await store.put(drawn[number], Record(b"", now, now + LIFETIME), *messages(chance, 1), lease=lease)
            await store.release(lease)

    async def claimed(number: int) -> None:
        lease = await store.claim(drawn[number], "bench", 15.0)
        if lease is not None:
            await store.renew([lease], 15.0)
            await store.release(lease)

    def new(number: int) -> Key:
        return Key("session", "new", f"{number:09}-{now}")

    async def expire(number: int) -> None:
        await store.expire(1.7e9 + LIFETIME + number)

    calls: list[tuple[str, Callable[[int], Awaitable[object]], int]] = [
        ("get a record", lambda number: store.get(drawn[number]), times),
        ("a record that is not there", lambda number: store.get(new(number)), times),
        ("all entries", lambda number: store.entries(drawn[number]), times),
        ("entries after the 18th", lambda number: store.entries(drawn[number], after=18), times),
        ("a new record with two entries", lambda n: store.put(new(n), Record(b"", now), *messages(chance, 1)), times),
        ("append two entries", lambda n: store.put(drawn[n], Record(b"", now), *messages(chance, 1)), times),
        ("claim, renew and release", claimed, times),
        ("a turn: claim, read, append, release", turn, times),
        ("names of one owner", lambda number: store.names("session", f"key-{number % 1000}"), times // 10),
        ("abandoned leases", lambda _: store.abandoned("session"), times // 10),
        ("delete with its entries", lambda number: store.delete(new(number)), times),
        ("expire one record", expire, times // 10),
    ]
    for name, call, count in calls:
        await timed(name, call, times=count, clients=1 if name == "expire one record" else clients)
    await store.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--conversations", type=int, default=60_000)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    fill(given.store, given.conversations, given.turns)
    sizes(given.store, given.conversations)
    asyncio.run(measure(given.store, given.conversations, times=given.times, clients=given.clients))


if __name__ == "__main__":
    main()
