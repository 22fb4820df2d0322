"""What is published of an answer: only what is stored, and the end only with what belongs to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from antiphon.errors import StoreError
from antiphon.http.journal import Journal, Numbered, run_key
from antiphon.http.runs import Run
from antiphon.store import Leases, MemoryStore, StoredRuns, Write
from kit.waiting import turns

HEAD = "what it takes to make it"


@pytest.fixture
async def leases() -> AsyncIterator[Leases]:
    made = Leases(MemoryStore(), seconds=60.0, every=15.0)
    yield made
    await made.aclose()


@pytest.fixture
def run() -> Run:
    return Run(run_key("alice", "answer"))


@pytest.fixture
async def journal(leases: Leases, run: Run) -> Journal[str]:
    runs = StoredRuns(leases.store, time.time)
    made = Journal[str](
        runs, leases, run, HEAD, "new", lambda events, state: run.add(events), open=leases.store.put_all, gather=0.0
    )
    await made.begin(numbered(0, b"created"), "begun")
    return made


def numbered(first: int, *events: bytes) -> list[Numbered]:
    return list(enumerate(events, first))


async def refusing(write: Write) -> None:
    raise StoreError("It is full.", code="store_full")


@pytest.mark.parametrize("steps", range(6))
async def test_an_end_that_cannot_be_stored_was_never_published_whenever_it_comes(
    journal: Journal[str], run: Run, leases: Leases, steps: int
) -> None:
    """``steps`` of the event loop after other events, which may be waiting, being stored, or stored."""
    journal.publish(numbered(1, b"delta"), "in progress")
    await turns(steps)
    with pytest.raises(StoreError, match="full"):
        await journal.end(numbered(2, b"completed"), "completed", refusing)
    await journal.end(numbered(2, b"failed"), "failed", leases.store.put_all)
    assert run.log == [b"created", b"delta", b"failed"]


@pytest.mark.parametrize("steps", range(6))
async def test_the_end_is_one_write_with_what_is_stored_beside_it(
    journal: Journal[str], run: Run, leases: Leases, steps: int
) -> None:
    written: list[int] = []

    async def counted(write: Write) -> None:
        written.append(len(run.log))
        await asyncio.sleep(0)
        assert b"completed" not in run.log
        await leases.store.put_all(write)

    journal.publish(numbered(1, b"delta"), "in progress")
    await turns(steps)
    await journal.end(numbered(2, b"completed"), "completed", counted)
    assert len(written) == 1
    assert run.log == [b"created", b"delta", b"completed"]
