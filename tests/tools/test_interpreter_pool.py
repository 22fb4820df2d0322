"""Who gets an interpreter: none is taken while it works, owners have shares, and what is lost is said."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing

import pytest

from antiphon.tools import Router, ToolCall, ToolLimits, ToolResult
from antiphon.tools.pool import Borrowed, Session, SessionPool
from antiphon.tools.python import Bubblewrap, Interpreter, PoolLimits, PythonTool, SandboxLimits
from kit.sandbox import inside, interpreters
from kit.waiting import turns, until

Open = Callable[[PoolLimits], "Calls"]
ENDLESS = "while True: pass"
PATIENT = 100.0


class Calls:
    """Calls to a python tool of so many interpreters."""

    def __init__(self, tool: PythonTool) -> None:
        self.tool = tool
        self.router = Router([tool], ToolLimits(deadline=200.0))
        self.count = 0

    async def result(self, body: str, session: str, owner: str = "") -> ToolResult:
        self.count += 1
        call = ToolCall(call_id=f"c{self.count}", recipient="python", body=body, session=session, owner=owner)
        return await self.router.call(call)

    async def text(self, body: str, session: str, owner: str = "") -> str:
        return (await self.result(body, session, owner)).text(envelope=False)

    def start(self, body: str, session: str, owner: str = "") -> asyncio.Task[ToolResult]:
        return asyncio.create_task(self.result(body, session, owner))


@pytest.fixture(scope="module")
def sandbox() -> Bubblewrap:
    return Bubblewrap(SandboxLimits(seconds=150))


@pytest.fixture
async def opened(sandbox: Bubblewrap) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        def opened(limits: PoolLimits) -> Calls:
            calls = Calls(PythonTool(sandbox, limits))
            stack.push_async_exit(aclosing(calls.tool))
            return calls

        yield opened
    assert inside() == []


async def at_work(count: int) -> None:
    """Until as many interpreters run their cells."""
    await until(lambda: sum(one.cpu_times().user > 0.2 for one in interpreters()) == count)


async def cancelled(*tasks: asyncio.Task[ToolResult]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_more_sessions_than_interpreters_wait_and_all_are_answered(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=2, wait=PATIENT))
    texts = await asyncio.gather(*(calls.text(f"{number}", f"s{number}") for number in range(12)))
    assert texts == [f"{number}\n" for number in range(12)]
    assert len(interpreters()) <= 2


async def test_calls_without_a_session_wait_for_room_too(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=1, wait=PATIENT))
    texts = await asyncio.gather(*(calls.text(f"{number}", "") for number in range(5)))
    assert texts == [f"{number}\n" for number in range(5)]
    assert inside() == []


async def test_an_interpreter_at_work_is_not_taken_away(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=1, wait=0.1))
    busy = calls.start(ENDLESS, "one")
    await at_work(1)
    refused = await calls.result("1", "two")
    assert refused.error is not None
    assert refused.error.code == "E-TOOL-BUSY"
    assert refused.error.retryable
    assert not busy.done(), "it goes on"
    await cancelled(busy)
    assert await calls.text("1", "two") == "1\n", "there is room when it is over"


async def test_a_session_waits_for_its_own_interpreter_as_long_as_its_cell_takes(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=1, wait=0.01))
    assert await calls.text("x = 1", "s") == ""
    first = calls.start("import time; time.sleep(0.5); x = 2", "s")
    second = calls.start("x", "s")
    assert (await first).ok
    assert (await second).text(envelope=False) == "2\n"


async def test_variables_that_are_lost_to_others_are_said_to_be(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=1, wait=PATIENT))
    assert await calls.text("x = 1", "one") == ""
    assert await calls.text("2", "two") == "2\n", "a new session has lost nothing"
    answer = await calls.text("x", "one")
    assert answer.startswith("[a fresh interpreter: there was no room for it")
    assert "variables are lost]\n" in answer
    assert "NameError" in answer
    assert await calls.text("3", "one") == "3\n", "it is said once"


async def test_variables_that_are_lost_with_a_call_that_was_given_up_are_said_to_be(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=1, wait=PATIENT))
    assert await calls.text("x = 1", "s") == ""
    given_up = calls.start(ENDLESS, "s")
    await at_work(1)
    await cancelled(given_up)
    assert "variables are lost" in await calls.text("2", "s")


async def test_an_owner_has_a_share_and_leaves_the_rest(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=2, per_owner=1, wait=0.1))
    busy = calls.start(ENDLESS, "one", "alice")
    await at_work(1)
    refused = await calls.result("1", "two", "alice")
    assert refused.error is not None
    assert refused.error.code == "E-TOOL-BUSY"
    assert await calls.text("1", "one", "bob") == "1\n", "there is room for another owner at once"
    await cancelled(busy)


async def test_an_owner_s_new_session_takes_its_own_old_one_s_place(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=3, per_owner=2, wait=PATIENT))
    assert await calls.text("x = 'bob'", "s", "bob") == ""
    for number in range(5):
        assert await calls.text("x = 'alice'", f"s{number}", "alice") == ""
    assert await calls.text("x", "s", "bob") == "'bob'\n"


async def test_sessions_of_one_name_are_apart_by_owner(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=2, per_owner=1))
    await calls.text("x = 'alice'", "s", "alice")
    assert "NameError" in await calls.text("x", "s", "bob")


async def test_who_has_less_at_work_is_served_before_who_came_first(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=2, per_owner=2, wait=PATIENT))
    order: list[str] = []
    busy = [calls.start(ENDLESS, f"busy {number}", "alice") for number in range(2)]
    await at_work(2)

    async def answered(session: str, owner: str) -> None:
        await calls.text("1", session, owner)
        order.append(owner)

    waiting = [asyncio.create_task(answered(f"waiting {i}", who)) for i, who in enumerate(("alice", "alice", "bob"))]
    await turns(20)
    await cancelled(busy[0])
    await asyncio.gather(*waiting)
    assert order[0] == "bob"
    await cancelled(busy[1])


async def test_who_gives_up_waiting_leaves_no_trace(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=1, wait=PATIENT))
    busy = calls.start(ENDLESS, "busy")
    await at_work(1)
    waiting = calls.start("1", "waiting")
    await turns(20)
    await cancelled(waiting)
    await cancelled(busy)
    assert await calls.text("2", "next") == "2\n"
    assert len(interpreters()) == 1


@pytest.mark.parametrize("rounds", range(12))
async def test_a_call_that_is_given_up_at_any_moment_leaves_room_for_the_next(opened: Open, rounds: int) -> None:
    calls = opened(PoolLimits(interpreters=1, wait=PATIENT))
    await calls.text("1", "before")
    given_up = calls.start("1", "given up")
    await turns(rounds * rounds)
    await cancelled(given_up)
    assert (await calls.text("2", "next")).endswith("2\n")
    assert len(interpreters()) == 1


async def test_a_call_that_is_closed_while_it_gives_its_interpreter_back_takes_no_place_with_it(
    sandbox: Bubblewrap,
) -> None:
    pool = SessionPool(sandbox.start, PoolLimits(interpreters=1, wait=PATIENT).size, busy="")
    borrowed: list[Borrowed[Interpreter]] = []

    async def borrow() -> None:
        async with pool.borrow(Session("", "")) as one:
            borrowed.append(one)
            await asyncio.Event().wait()

    call = borrow()
    while not borrowed:
        awaited = call.send(None)
        if awaited is not None and not borrowed:
            awaited._asyncio_future_blocking = False  # as a task does with what it is given
            await asyncio.wait([awaited])
    with contextlib.suppress(asyncio.CancelledError):
        call.throw(asyncio.CancelledError())
    with contextlib.suppress(RuntimeError):  # it waits once more while it is closed
        call.close()
    async with pool.borrow(Session("", "next")) as one:
        assert one.resource.alive
    await pool.aclose()


async def test_a_session_that_goes_on_while_its_interpreter_ends_keeps_what_it_gets(opened: Open) -> None:
    calls = opened(PoolLimits(interpreters=2, wait=PATIENT))
    await calls.text("x = 1", "s")
    end = asyncio.create_task(calls.tool.end("s"))
    await turns(1)
    assert await calls.text("y = 2\n'x' in dir()", "s") == "False\n"
    await end
    assert await calls.text("y", "s") == "2\n"
