"""What a write of a store costs where several are made at once: processor time, and how many are made in a second.

``python bench/store_writes.py [--store FILE|postgresql://…] [--writers 16] [--writes 200]``: so many tasks each store
one unfinished turn after another, as whole answers with calls do, read them, and claim and release leases. A figure of
another release comes of the same command with ``PYTHONPATH`` at its source; alternate the two.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from antiphon.conversation import End, Message, Role
from antiphon.store import Key, Store, TurnLimits, UnfinishedTurns, store_at

TURN = [
    Message(role=Role.ASSISTANT, channel="analysis", text="The user asks for the weather, so I look it up. " * 4),
    Message(role=Role.ASSISTANT, channel="commentary", recipient="functions.get", text='{"a": 1}', end=End.CALL),
]


async def timed(label: str, writers: int, times: int, one: Callable[[int, int], Awaitable[object]]) -> None:
    async def writer(number: int) -> None:
        for time_ in range(times):
            await one(number, time_)

    began, busy = time.perf_counter(), time.process_time()
    await asyncio.gather(*(writer(number) for number in range(writers)))
    busy, took = time.process_time() - busy, time.perf_counter() - began
    count = writers * times
    print(f"{label:30} {busy / count * 1e6:8.0f} µs of processor time, {count / took:8.0f} a second", flush=True)


async def measure(store: Store, writers: int, times: int) -> None:
    turns = UnfinishedTurns(store, time.time, TurnLimits(count=100))

    async def lease(number: int, turn: int) -> None:
        held = await store.claim(Key("k", "", f"{number}-{turn}"), "bench", 60.0)
        assert held is not None
        await store.release(held)

    await timed("a turn under one name", writers, times, lambda n, t: turns.put("ann", [f"{n}-{t}"], TURN))
    await timed("a turn under two", writers, times, lambda n, t: turns.put("bob", [f"{n}-{t}", f"call-{n}-{t}"], TURN))
    await timed("a turn that is read", writers, times, lambda n, t: turns.find("ann", [f"{n}-{t}"]))
    await timed("a lease, claimed and released", writers, times, lease)
    await store.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store")
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--writes", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = store_at(arguments.store or str(Path(folder) / "store.db"))
        asyncio.run(measure(store, arguments.writers, arguments.writes))


if __name__ == "__main__":
    main()
