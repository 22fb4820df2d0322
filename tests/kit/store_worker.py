"""One of several processes that work on one store: ``python -m kit.store_worker ADDRESS work|hold …``."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from antiphon.errors import ConflictError
from antiphon.store import Key, Leases, Record, Store, store_at
from kit.waiting import until

COUNTER, HELD = Key("k", "", "counter"), Key("k", "", "held")


async def count(store: Store, times: int) -> None:
    """Adds one to the counter, so many times."""
    while times:
        known = await store.get(COUNTER)
        number = int(known.value) if known else 0
        try:
            record = Record(str(number + 1).encode(), 0.0)
            await store.put(COUNTER, record, b"x", expected=known.version if known else 0)
        except ConflictError as error:
            if error.code != "write_conflict":
                raise
            continue
        times -= 1


async def work(store: Store, jobs: int, folder: Path) -> None:
    """Does the jobs that nobody else does or has done, each alone; a file says that somebody is at one."""
    leases = Leases(store)
    for number in range(jobs):
        job = Key("job", "", str(number))
        while await store.get(job) is None:
            async with leases.hold(job) as lease:
                if lease is not None and await store.get(job) is None:
                    busy = folder / f"busy{number}"
                    os.close(os.open(busy, os.O_CREAT | os.O_EXCL))
                    await store.put(Key("done", "", str(number)), Record(b"", 0.0), str(os.getpid()).encode())
                    busy.unlink()
                    await store.put(job, Record(b"done", 0.0), expected=0, lease=lease)
            await leases.until_free(job)
    await leases.aclose()


async def hold(store: Store) -> None:
    """Claims, and writes when it is told to, whatever became of its lease."""
    lost = asyncio.Event()
    leases = Leases(store, seconds=1.0, every=0.1)
    lease = await leases.acquire(HELD, lost=lost.set)
    print("held" if lease else "taken", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    try:
        await store.put(COUNTER, Record(b"of the first", 0.0), b"late", lease=lease)
        print("written", flush=True)
    except ConflictError as error:
        print(error.code, flush=True)
    await until(lost.is_set)
    print("lost", flush=True)
    await leases.aclose()


async def main(address: str, what: str, *arguments: str) -> None:
    store = store_at(address)
    match what:
        case "work":
            await count(store, int(arguments[0]))
            await work(store, int(arguments[1]), Path(arguments[2]))
        case "hold":
            await hold(store)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
