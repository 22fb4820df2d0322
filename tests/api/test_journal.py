"""What is published of an answer: only what is stored, and the end only with what belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.datastructures import Headers

from antiphon.errors import AntiphonError, StoreError
from antiphon.http.context import Context
from antiphon.http.errors import ClientGone
from antiphon.http.exchange import Exchange
from antiphon.http.journal import Journal, Numbered, Recorder, run_key
from antiphon.http.runs import Run
from antiphon.store import Leases, Write
from kit.api import END, app, ids
from kit.waiting import turns

HEAD = "what it takes to make it"


@pytest.fixture
async def context() -> AsyncIterator[Context]:
    made: Context = app(ids(END), gather=0.0).state.context
    yield made
    await made.leases.aclose()


@pytest.fixture
def leases(context: Context) -> Leases:
    return context.leases


@pytest.fixture
def run() -> Run:
    return Run(run_key("alice", "answer"))


@pytest.fixture
async def journal(context: Context, run: Run) -> Journal[str]:
    made = begun(context, run)
    await made.begin(numbered(0, b"created"), "begun")
    return made


def begun(context: Context, run: Run) -> Journal[str]:
    put = context.leases.store.put_all
    return Journal[str](context, run, HEAD, "new", lambda events, state: run.add(events), open=put)


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


class Ending:
    """How an answer ends whose end is stored, or meets an error of the store."""

    def __init__(self, refused: Exception | None = None) -> None:
        self._refused = refused

    async def settle(self) -> None:
        if self._refused:
            raise self._refused

    async def fail(self, error: AntiphonError) -> None:
        await self.settle()


EXCHANGE = Exchange("req_1", "POST", "/v1/responses", Headers())


async def at_once() -> None:
    """All of the answer is made."""


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(
    ("refused", "code"),
    [(StoreError("It is full.", code="store_full"), "store_full"), (OSError("no such device"), "internal_error")],
)
async def test_followers_of_an_answer_whose_end_cannot_be_stored_get_an_error_whatever_the_store_raised(
    context: Context, journal: Journal[str], run: Run, refused: Exception, code: str, recorded: bool
) -> None:
    await Recorder(context, EXCHANGE, run, journal if recorded else None, Ending(refused)).make(at_once)
    with pytest.raises(AntiphonError) as raised:
        [_ async for _ in run.follow()]
    assert raised.value.code == code


@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("stored", [True, False])
async def test_an_answer_outlives_its_client_only_where_it_lasts_and_something_of_it_is_stored(
    context: Context, run: Run, lasting: bool, stored: bool
) -> None:
    journal = begun(context, run)
    made = asyncio.Event()

    async def work() -> None:
        if stored:
            await journal.begin(numbered(0, b"created"), "begun")
        await made.wait()

    async def stream(write: object) -> None:
        await turns(5)
        raise ClientGone

    with pytest.raises(ClientGone):
        await Recorder(context, EXCHANGE, run, journal, Ending(), lasting=lasting).send(work, stream)
    assert run.over is not (lasting and stored)
    assert (await context.stored_runs.state(run.key) is not None) is (lasting and stored)
    made.set()
    await context.runs.aclose()
    assert run.over
