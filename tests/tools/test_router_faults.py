"""What no tool and no call can do to the router: hang it, starve others, or get another call's result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest

from antiphon.conversation import JsonSchema, OpaquePart
from antiphon.tools import (
    FunctionTool,
    Router,
    ToolCall,
    ToolCancelled,
    ToolEnded,
    ToolError,
    ToolEvent,
    ToolFailure,
    ToolLimits,
    ToolOutput,
    ToolResult,
    ToolStarted,
)
from antiphon.tools.call import MAX_BODY
from antiphon.tools.checked import CLEANUP, GRACE
from antiphon.tools.function import THREADS
from kit.waiting import LoopClock, turns, until

PLENTY = 60


class Speechless(Exception):
    """Has no words."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class Strange(BaseException):
    """Is no Exception."""


RAISED = [
    asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit, StopIteration, StopAsyncIteration,
    TimeoutError, RecursionError, Speechless, Strange, lambda: BaseExceptionGroup("both", [Strange(), ValueError()]),
]  # fmt: skip


class Tool:
    """A tool whose body is no JSON, and which does what it is handed."""

    parameters: JsonSchema | None = None

    def __init__(self, does: Callable[[ToolCall], Any], recipient: str = "tool") -> None:
        self.recipient = recipient
        self._does = does

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        output: ToolOutput = await self._does(call)
        return output


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    return LoopClock(monkeypatch)


def call(recipient: str = "tool", body: str = "", call_id: str = "c1", session: str = "") -> ToolCall:
    return ToolCall(call_id=call_id, recipient=recipient, body=body, session=session)


def code(result: ToolResult) -> str | None:
    return None if result.error is None else result.error.code


async def ends(router: Router, *calls: ToolCall) -> list[ToolResult]:
    async with asyncio.timeout(PLENTY), aclosing(router.run(calls)) as events:
        return [event.result async for event in events if isinstance(event, ToolEnded)]


class Stubborn:
    """Swallows every cancellation until it is let go."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.cancelled = 0

    async def run(self, call: ToolCall) -> ToolOutput:
        while not self.free.is_set():
            try:
                await self.free.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        return ToolOutput(content="late")


@asynccontextmanager
async def stubborn(**limits: Any) -> AsyncIterator[tuple[Stubborn, Router]]:
    one = Stubborn()
    router = Router([Tool(one.run), FunctionTool(take)], ToolLimits(**{"deadline": 0.05} | limits))
    try:
        yield one, router
    finally:
        one.free.set()
        await until(lambda: router.abandoned == 0)


async def echo(call: ToolCall) -> ToolOutput:
    return ToolOutput(content=call.body)


def take(text: str) -> int:
    """Takes text."""
    return len(text)


TAKE = call("functions.take", '{"text": "", "deadline_ms": 60000}', "c2")


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("where", ["tool", "task", "function", "thread", "executor"])
async def test_whatever_a_tool_raises_is_the_result_of_its_call_and_of_no_other(
    raised: Callable[[], BaseException], where: str
) -> None:
    async def raises(call: ToolCall) -> None:
        raise raised()

    async def in_a_task(call: ToolCall) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if isinstance(raised(), asyncio.CancelledError):
            future.cancel()
        elif isinstance(raised(), StopIteration):
            raise raised()
        else:
            future.set_exception(raised())
        await future

    async def function() -> None:
        """Raises."""
        raise raised()

    def thread() -> None:
        """Raises."""
        raise raised()

    with ThreadPoolExecutor(1) as pool:
        tools: dict[str, Tool | FunctionTool] = {
            "tool": Tool(raises, "functions.thread"),
            "task": Tool(in_a_task, "functions.thread"),
            "function": FunctionTool(function),
            "thread": FunctionTool(thread),
            "executor": FunctionTool(thread, executor=pool),
        }
        tool = tools[where]
        router = Router([tool, Tool(echo, "echo")], ToolLimits(deadline=PLENTY))
        failed, fine = sorted(await ends(router, call(tool.recipient), call("echo", "x", "c2")), key=lambda r: r.ok)
        assert (code(failed), code(fine)) == ("E-TOOL-FAILED", None)
        assert code(await router.call(call(tool.recipient))) == "E-TOOL-FAILED"
    assert router.abandoned == 0


@pytest.mark.parametrize(
    "made",
    [
        lambda: None,
        lambda: "text",
        lambda: ToolOutput(content={1, 2}, provenance={"x": circle()}),
        lambda: ToolOutput(content=circle()),
        lambda: ToolOutput(content={("a", "b"): 1}),
    ],
)
async def test_what_is_no_output_is_a_failure(made: Callable[[], Any]) -> None:
    async def answers(call: ToolCall) -> Any:
        return made()

    result = await Router([Tool(answers)]).call(call())
    assert code(result) == "E-TOOL-FAILED"
    assert result.message(envelope=True).text.startswith('{"ok": false')


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


async def test_a_typed_error_that_cannot_be_written_is_a_failure() -> None:
    async def refuses(call: ToolCall) -> ToolOutput:
        raise ToolFailure(ToolError("E-MINE", "no", details={"ring": circle()}))

    assert code(await Router([Tool(refuses)]).call(call())) == "E-TOOL-FAILED"


async def test_a_tool_that_swallows_cancellation_does_not_keep_its_caller_beyond_the_deadline() -> None:
    async with stubborn() as (tool, router):
        assert code(await router.call(call())) == "E-TOOL-TIMEOUT"
        assert (tool.cancelled, router.abandoned) == (1, 1), "cancelled, and going on"
        assert [code(r) for r in await ends(router, call(), TAKE)] == [None, "E-TOOL-TIMEOUT"]
        assert router.abandoned == 2


async def test_a_tool_that_goes_on_after_too_many_calls_gets_no_more_until_they_end() -> None:
    async with stubborn(abandoned=2) as (tool, router):
        for _ in range(2):
            assert code(await router.call(call())) == "E-TOOL-TIMEOUT"
        busy = await router.call(call())
        assert busy.error is not None
        assert (busy.error.code, busy.error.retryable, router.abandoned) == ("E-TOOL-BUSY", True, 2)
        assert code(await router.only(["tool"]).call(call())) == "E-TOOL-BUSY", "whichever router they came through"
        assert (await router.call(TAKE)).ok
        tool.free.set()
        await until(lambda: router.abandoned == 0)
        assert (await router.call(call())).ok


async def test_a_tool_that_goes_on_for_too_long_is_closed_where_it_waits(clock: LoopClock) -> None:
    async with stubborn() as (tool, router):
        assert code(await router.call(call())) == "E-TOOL-TIMEOUT"
        await clock.forward(CLEANUP - 1)
        assert router.abandoned == 1
        await clock.forward(2)
        assert (tool.cancelled, router.abandoned) == (1, 0)


async def test_closing_a_run_does_not_wait_for_a_tool_that_goes_on() -> None:
    async with stubborn(deadline=PLENTY) as (_, router):
        events = router.run([call()])
        assert isinstance(await anext(events), ToolStarted)
        async with asyncio.timeout(PLENTY / 2):
            await events.aclose()
        assert router.abandoned == 1


def test_a_tool_that_swallows_every_cancellation_does_not_keep_the_program_from_ending() -> None:
    async def never(call: ToolCall) -> ToolOutput:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def program() -> str | None:
        return code(await Router([Tool(never)], ToolLimits(deadline=0.05)).call(call()))

    assert asyncio.run(program()) == "E-TOOL-TIMEOUT"


async def test_a_tool_has_cleaned_up_before_its_result_is_given_where_that_is_quick() -> None:
    cleaned = []

    async def tidy(call: ToolCall) -> ToolOutput:
        try:
            await asyncio.Event().wait()
        finally:
            await turns(1)
            cleaned.append(call.call_id)
        return ToolOutput(content="never")

    router = Router([Tool(tidy)], ToolLimits(deadline=0.05))
    assert code(await router.call(call())) == "E-TOOL-TIMEOUT"
    assert (cleaned, router.abandoned) == (["c1"], 0)


async def test_hung_threads_of_one_function_starve_no_other_and_are_bounded(clock: LoopClock) -> None:
    free = threading.Event()
    ran: list[int] = []

    def hang(n: int) -> str:
        """Hangs."""
        ran.append(n)
        free.wait()
        return "late"

    router = Router([FunctionTool(hang), FunctionTool(take)], ToolLimits(deadline=PLENTY / 2, concurrent=100))
    hung = [call("functions.hang", f'{{"n": {i}}}', f"c{i}") for i in range(40)]
    try:
        ended = asyncio.create_task(ends(router, *hung))
        await until(lambda: len(ran) == THREADS)
        assert (await router.call(TAKE)).ok
        await clock.forward(PLENTY / 2)
        assert {code(r) for r in await ended} == {"E-TOOL-TIMEOUT"}
        assert (await router.call(TAKE)).ok
        assert code(await router.call(hung[0])) == "E-TOOL-BUSY"
    finally:
        free.set()
    async with asyncio.timeout(PLENTY):
        while code(result := await router.call(hung[39])) == "E-TOOL-BUSY":
            await turns(1)
    assert result.ok
    assert len(ran) == THREADS + 1, "what was given up in the queue never ran"


async def test_calls_beyond_a_function_s_threads_wait_for_one() -> None:
    def count(n: int) -> int:
        """Counts."""
        return n

    router = Router([FunctionTool(count)], ToolLimits(deadline=PLENTY, concurrent=200))
    results = await ends(router, *(call("functions.count", f'{{"n": {i}}}', f"c{i}") for i in range(200)))
    assert sorted(r.output.content for r in results if r.output) == list(range(200))


async def test_waiting_in_the_queue_uses_up_a_call_s_deadline() -> None:
    free, ran = asyncio.Event(), []

    async def wait() -> None:
        """Waits."""
        await free.wait()

    def quick() -> None:
        """Runs."""
        ran.append(1)

    router = Router([FunctionTool(wait), FunctionTool(quick)], ToolLimits(deadline=PLENTY, concurrent=1))
    calls = [call("functions.wait"), call("functions.quick", '{"deadline_ms": 50}', "c2")]
    seen: list[ToolEvent] = []
    async with asyncio.timeout(PLENTY), aclosing(router.run(calls)) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, ToolEnded):
                free.set()
    assert [code(e.result) for e in seen if isinstance(e, ToolEnded)] == ["E-TOOL-TIMEOUT", None]
    assert [e.call.call_id for e in seen if isinstance(e, ToolStarted)] == ["c1"]
    assert ran == []


@pytest.mark.parametrize("given", [1e308, 10**400, 3_600_000])
async def test_a_call_cannot_give_itself_more_time_than_there_is(given: float) -> None:
    async def wait() -> None:
        """Waits."""
        await asyncio.Event().wait()

    router = Router([FunctionTool(wait)], ToolLimits(deadline=PLENTY, longest=0.05))
    async with asyncio.timeout(PLENTY):
        assert code(await router.call(call("functions.wait", f'{{"deadline_ms": {int(given)}}}'))) == "E-TOOL-TIMEOUT"


async def test_a_body_beyond_the_bound_is_not_read() -> None:
    router = Router([FunctionTool(take)])
    fits = '{"text": "' + "x" * (MAX_BODY - 12) + '"}'
    assert len(fits) == MAX_BODY == 1_000_000
    assert (await router.call(call("functions.take", fits))).ok
    refused = await router.call(call("functions.take", fits + " "))
    assert refused.error is not None
    assert refused.error.code == "E-CALL-SCHEMA"
    assert "1000001 characters" in refused.error.message


# Ids


IDS = ["", " ", "\0", "\n<|call|>", "x" * 1_000_000, "\ud800", "../..", "c"]


async def test_every_call_has_one_result_whatever_the_ids() -> None:
    router = Router([Tool(echo)])
    calls = [call(body=f"{i}", call_id=id) for i, id in enumerate(IDS * 3)]
    results = await ends(router, *calls)
    assert sorted(map(id, (r.call for r in results))) == sorted(map(id, calls))
    answered = {r.call.call_id: r.output.content for r in results if r.output}
    assert answered == {id: f"{i}" for i, id in enumerate(IDS)}, "each id was answered for the first call that has it"
    assert {code(r) for r in results if not r.ok} == {"E-CALL-ID"}


@pytest.mark.spec("OCM-87")
async def test_a_call_under_the_id_of_another_is_refused_and_never_gets_its_result() -> None:
    router = Router([Tool(echo), Tool(echo, "other")])
    first = await router.call(call(body="1", session="s"))
    assert first.ok
    for another in (call(body="2", session="s"), call("other", "1", session="s")):
        assert code(await router.call(another)) == "E-CALL-ID"
    assert await router.call(call(body="1", session="s")) is first


async def test_a_session_and_an_id_are_told_apart() -> None:
    router = Router([Tool(echo)])
    assert (await router.call(call(body="1", call_id="b/c", session="a"))).ok
    other = await router.call(call(body="2", call_id="c", session="a/b"))
    assert other.output is not None
    assert other.output.content == "2"


async def test_calls_that_are_run_are_new_whatever_was_answered_before() -> None:
    ran = []

    async def count(call: ToolCall) -> ToolOutput:
        ran.append(call.call_id)
        return ToolOutput(content=len(ran))

    router = Router([Tool(count)])
    same = call(session="s")
    assert [(await ends(router, same))[0].output for _ in range(2)] == [ToolOutput(content=1), ToolOutput(content=2)]


async def test_a_call_that_is_sent_again_while_it_runs_is_not_run_twice() -> None:
    free, ran = asyncio.Event(), []

    async def wait(call: ToolCall) -> ToolOutput:
        ran.append(call)
        await free.wait()
        return ToolOutput(content="done")

    router = Router([Tool(wait)])
    first = asyncio.create_task(router.call(call(session="s")))
    await until(lambda: bool(ran))
    assert code(await router.call(call(session="s"))) == "E-CALL-ID"
    free.set()
    assert (await first).ok
    assert len(ran) == 1


async def test_what_may_be_gone_the_next_time_is_not_remembered(clock: LoopClock) -> None:
    ran = []

    async def third_time(call: ToolCall) -> ToolOutput:
        ran.append(call)
        if len(ran) == 1:
            await asyncio.Event().wait()
        if len(ran) == 2:
            raise ToolFailure(ToolError("E-TOOL-BUSY", "later", retryable=True))
        raise ValueError("for good")

    router = Router([Tool(third_time)], ToolLimits(deadline=PLENTY / 2))
    first = asyncio.create_task(router.call(call(session="s")))
    await until(lambda: bool(ran))
    await clock.forward(PLENTY / 2)
    assert code(await first) == "E-TOOL-TIMEOUT"
    again = [code(await router.call(call(session="s"))) for _ in range(3)]
    assert again == ["E-TOOL-BUSY", "E-TOOL-FAILED", "E-TOOL-FAILED"]
    assert len(ran) == 3, "the last error was remembered"


async def test_as_many_results_are_remembered_as_the_limit_says() -> None:
    ran = []

    async def count(call: ToolCall) -> ToolOutput:
        ran.append(call.call_id)
        return ToolOutput(content="")

    router = Router([Tool(count)], ToolLimits(remembered=3))
    for id in ["a", "b", "c", "d", "d", "c", "b", "a"]:
        await router.call(call(call_id=id, session="s"))
    assert ran == ["a", "b", "c", "d", "a"], "the oldest was forgotten"


async def test_pictures_count_for_what_is_remembered() -> None:
    ran = []

    async def draw(call: ToolCall) -> ToolOutput:
        ran.append(call.call_id)
        return ToolOutput(content="", media=(OpaquePart("image", {"base64": "A" * 20_000_000}),))

    router = Router([Tool(draw)])
    for id in ["a", "b", "c", "d", "d", "c", "b", "a"]:
        await router.call(call(call_id=id, session="s"))
    assert ran == ["a", "b", "c", "d", "a"], "the oldest was forgotten"


# Cancelling one call


@pytest.mark.spec("OCM-92", "OCM-103", "OCM-138", "OCM-166")
async def test_one_call_can_be_cancelled_and_the_others_go_on() -> None:
    free = asyncio.Event()

    async def wait(call: ToolCall) -> ToolOutput:
        await free.wait()
        return ToolOutput(content="done")

    router = Router([Tool(wait)], ToolLimits(concurrent=2))
    calls = [call(call_id=id, session="s") for id in ("runs", "goes", "waits")]
    seen: list[ToolEvent] = []
    async with asyncio.timeout(PLENTY), aclosing(router.run(calls)) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, ToolStarted) and event.call.call_id == "goes":
                assert router.cancel("waits", session="s", reason="too late")
                assert router.cancel("runs", session="s")
                assert not router.cancel("runs", session="s"), "it is cancelled already"
                assert not router.cancel("goes"), "of another session"
            if sum(isinstance(e, ToolEnded) for e in seen) == 2:
                free.set()
    assert {e.result.call.call_id: code(e.result) for e in seen if isinstance(e, ToolEnded)} == {
        "runs": "E-TOOL-CANCELLED", "waits": "E-TOOL-CANCELLED", "goes": None,
    }  # fmt: skip
    assert {(e.call_id, e.reason) for e in seen if isinstance(e, ToolCancelled)} == {
        ("runs", "the call was cancelled"), ("waits", "too late"),
    }  # fmt: skip
    assert len([e for e in seen if isinstance(e, ToolEnded)]) == 3
    assert not router.cancel("goes", session="s"), "it is over"


async def test_a_single_call_can_be_cancelled_though_its_tool_does_not_mind() -> None:
    async with stubborn(deadline=PLENTY) as (_, router):
        task = asyncio.create_task(router.call(call(session="s")))
        await until(lambda: router.cancel("c1", session="s"))
        async with asyncio.timeout(PLENTY / 2):
            assert code(await task) == "E-TOOL-CANCELLED"
        assert router.abandoned == 1


async def test_a_tool_that_cancels_every_task_costs_calls_their_results_and_nothing_else() -> None:
    async def vandal(call: ToolCall) -> ToolOutput:
        for task in asyncio.all_tasks():
            if task.get_name() == "tool":
                task.cancel()
        return ToolOutput(content="done")

    async def wait(call: ToolCall) -> ToolOutput:
        await asyncio.Event().wait()
        return ToolOutput(content="never")

    router = Router([Tool(wait), Tool(vandal, "vandal")], ToolLimits(deadline=PLENTY))
    results = await ends(router, call(), call("vandal", call_id="c2"), call(call_id="c3"))
    assert [code(r) for r in results if r.call.recipient == "tool"] == ["E-TOOL-FAILED"] * 2


SURROGATE = "a\ud800b"


@pytest.mark.parametrize(
    "said",
    [
        ToolOutput(content=SURROGATE),
        ToolOutput(content=SURROGATE, plain=True),
        ToolOutput(content={SURROGATE: [SURROGATE]}),
        ToolOutput(content="", provenance={"url": SURROGATE}),
        ValueError(SURROGATE),
        ToolFailure(ToolError("E-X", SURROGATE)),
    ],
    ids=repr,
)
async def test_what_a_tool_says_can_be_written_whatever_it_is(said: ToolOutput | Exception) -> None:
    """The name of a file, for example, has lone surrogates where it is no UTF-8."""

    async def does(call: ToolCall) -> ToolOutput:
        if isinstance(said, Exception):
            raise said
        return said

    result = await Router([Tool(does)]).call(call())
    assert result.ok is isinstance(said, ToolOutput)
    for envelope in (False, True):
        result.text(envelope=envelope).encode()
    assert result.error is None or result.error.message.encode()


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    "said",
    [
        ToolOutput(content={"a": [NAN, 1], "b": {NAN: -INFINITY}}),
        ToolOutput(content=INFINITY),
        ToolOutput(content="", provenance={"score": NAN}),
        ToolFailure(ToolError("E-X", "no", details={"limit": INFINITY})),
    ],
    ids=repr,
)
async def test_numbers_that_json_does_not_have_are_given_as_text(said: ToolOutput | Exception) -> None:
    async def does(call: ToolCall) -> ToolOutput:
        if isinstance(said, Exception):
            raise said
        return said

    result = await Router([Tool(does)]).call(call())
    assert result.ok is isinstance(said, ToolOutput)
    envelope = msgspec.json.decode(result.text(envelope=True))  # which takes no NaN
    assert "NaN" in str(envelope) or "Infinity" in str(envelope)
    if said == ToolOutput(content=INFINITY):
        assert result.text(envelope=False) == '"Infinity"'


async def test_a_tool_that_was_given_up_has_a_tenth_of_a_second_to_clean_up_and_a_minute_after_that() -> None:
    assert (GRACE, CLEANUP) == (0.1, 60.0)


async def test_a_tool_that_ended_late_is_not_abandoned_any_more(clock: LoopClock) -> None:
    async with stubborn() as (tool, router):
        assert code(await router.call(call())) == "E-TOOL-TIMEOUT"
        tool.free.set()
        await until(lambda: router.abandoned == 0)
        await clock.forward(CLEANUP + 1)
        assert tool.cancelled == 1, "nothing is done to it later"


@pytest.mark.parametrize("limit", [1, 3])
async def test_as_many_calls_of_a_tool_may_be_abandoned_as_the_limit_says(limit: int) -> None:
    async with stubborn(abandoned=limit) as (_, router):
        codes = [code(await router.call(call())) for _ in range(limit + 1)]
        assert codes == ["E-TOOL-TIMEOUT"] * limit + ["E-TOOL-BUSY"]


async def test_a_call_whose_deadline_passed_cannot_be_cancelled_any_more() -> None:
    async with stubborn() as (tool, router):
        task = asyncio.create_task(router.call(call(session="s")))
        await until(lambda: tool.cancelled)
        assert router.cancel("c1", session="s") is False
        assert code(await task) == "E-TOOL-TIMEOUT"


async def test_of_a_call_that_was_cancelled_nothing_stays_behind() -> None:
    async with stubborn(deadline=PLENTY) as (tool, router):
        task = asyncio.create_task(router.call(call(session="s")))
        await until(lambda: router.cancel("c1", session="s"))
        assert code(await task) == "E-TOOL-CANCELLED"
        tool.free.set()
        await until(lambda: router.abandoned == 0)
        assert router.cancel("c1", session="s") is False
        assert (await router.call(call(session="s"))).ok, "it may be gone the next time, so it is run again"
