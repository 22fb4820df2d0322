"""The router: each call exactly one result, whatever its tool does."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from antiphon.conversation import JsonSchema, Message, Role
from antiphon.tools import (
    FunctionTool,
    Router,
    ToolCall,
    ToolCancelled,
    ToolEnded,
    ToolError,
    ToolFailure,
    ToolLimits,
    ToolOutput,
    ToolStarted,
)
from kit.waiting import PATIENCE


class Code:
    """A tool whose body is not JSON, as python's."""

    recipient = "python"
    parameters: JsonSchema | None = None

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        return ToolOutput(content=f"ran {call.body}", plain=True)


async def slow() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return "never"


def quick(x: int = 0) -> int:
    """Answers."""
    return x + 1


def broken() -> None:
    """Raises."""
    raise ZeroDivisionError("division by zero")


def leaver() -> None:
    """Exits."""
    raise SystemExit(3)


def impatient() -> None:
    """Raises the error that a deadline raises."""
    raise TimeoutError("the disk is slow")


def refuse() -> None:
    """Fails with a typed error."""
    raise ToolFailure(ToolError("E-MINE", "not today", retryable=True, details={"day": "Sunday"}))


def router(**limits: Any) -> Router:
    tools = [FunctionTool(f) for f in (slow, quick, broken, leaver, impatient, refuse)]
    return Router([*tools, Code()], ToolLimits(**limits))


def call(name: str, body: str = "{}", call_id: str = "c1", session: str = "") -> ToolCall:
    recipient = name if "." in name or name == "python" else f"functions.{name}"
    return ToolCall(call_id=call_id, recipient=recipient, body=body, session=session)


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("broken", "E-TOOL-FAILED", "ZeroDivisionError"),
        ("leaver", "E-TOOL-FAILED", "SystemExit"),
        ("impatient", "E-TOOL-FAILED", "the disk is slow"),
        ("refuse", "E-MINE", "not today"),
        ("functions.Quick", "E-TOOL-UNKNOWN", "functions.quick"),
        ("browser.search", "E-TOOL-UNKNOWN", "no tool"),
    ],
)
@pytest.mark.spec("OCM-113")
async def test_whatever_a_tool_does_is_a_typed_error_that_the_model_can_read(name: str, code: str, says: str) -> None:
    result = await router().call(call(name))
    envelope = json.loads(result.message().text)
    assert envelope["ok"] is False
    assert envelope["error"]["code"] == code
    assert says in envelope["error"]["message"]


@pytest.mark.spec("OCM-91", "OCM-137")
async def test_a_deadline_in_the_body_is_the_call_s_own_and_never_reaches_the_tool() -> None:
    result = await router().call(call("slow", '{"deadline_ms": 5}'))
    assert result.error is not None
    assert result.error.code == "E-TOOL-TIMEOUT"
    fine = await router().call(call("quick", '{"x": 4, "deadline_ms": 5000}'))
    assert fine.output is not None
    assert fine.output.content == 5


async def test_a_deadline_that_the_schema_declares_belongs_to_the_tool() -> None:
    def keeps(deadline_ms: int) -> int:
        """Has its own."""
        return deadline_ms

    result = await Router([FunctionTool(keeps)]).call(call("keeps", '{"deadline_ms": 1}'))
    assert result.output is not None
    assert result.output.content == 1


@pytest.mark.spec("OCM-89", "OCM-90", "OCM-88", "OCM-166")
async def test_calls_run_at_once_and_each_result_carries_its_call_id() -> None:
    meet = threading.Barrier(8, timeout=PATIENCE)

    def wait_for_the_others(x: int) -> int:
        """Answers only when all eight run."""
        meet.wait()
        return x

    calls = [call("wait_for_the_others", json.dumps({"x": i}), f"c{i}") for i in range(8)]
    ended = {}
    tool = FunctionTool(wait_for_the_others, executor=_pool())
    async for event in Router([tool]).run(calls):
        if isinstance(event, ToolEnded):
            assert event.result.output is not None
            ended[event.result.message().call_id] = event.result.output.content
    assert ended == {f"c{i}": i for i in range(8)}


def _pool() -> Any:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(8)


@pytest.mark.spec("OCM-92", "OCM-103", "OCM-138")
async def test_when_the_time_for_all_tools_is_over_the_rest_is_cancelled_and_answered() -> None:
    now, events = 0.0, []
    timed = Router([FunctionTool(slow), FunctionTool(quick)], clock=lambda: now)
    async for event in timed.run([call("slow", call_id="a"), call("quick", call_id="b")], seconds=500):
        events.append(event)
        if isinstance(event, ToolEnded) and event.result.ok:
            now = 500.0
    assert ToolCancelled("a", "the time for tools is over") in events
    codes = {e.result.call.call_id: e.result.error and e.result.error.code for e in events if isinstance(e, ToolEnded)}
    assert codes == {"a": "E-TOOL-CANCELLED", "b": None}


async def test_closing_the_run_cancels_what_still_runs() -> None:
    stopped = asyncio.Event()

    async def patient() -> None:
        """Waits until it is cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    events = Router([FunctionTool(patient)]).run([call("patient")])
    assert isinstance(await anext(events), ToolStarted)
    await events.aclose()
    assert stopped.is_set()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "c1"] == []


@pytest.mark.spec("OCM-93")
async def test_within_a_session_a_call_is_run_once_however_often_it_is_sent() -> None:
    runs: list[int] = []

    def once() -> int:
        """Counts."""
        runs.append(1)
        return len(runs)

    counting_router = Router([FunctionTool(once)])
    first = await counting_router.call(call("once", session="s"))
    again = await counting_router.call(call("once", session="s"))
    assert first is again
    assert len(runs) == 1
    await counting_router.call(call("once", session="other"))
    await counting_router.call(call("once"))
    await counting_router.call(call("once"))
    assert len(runs) == 4, "another session's call, or one without a session, is another call"


@pytest.mark.spec("OCM-98", "OCM-99", "OCM-96")
async def test_a_tool_gets_the_body_of_its_call_whatever_the_channel() -> None:
    message = Message(role=Role.ASSISTANT, recipient="python", channel="analysis", text="1+1")
    result = await router().call(ToolCall.of(message, fallback_id="x1"))
    reply = result.message()
    assert (reply.text, reply.channel, reply.name, reply.recipient, reply.call_id) == (
        "ran 1+1", "analysis", "python", "assistant", "x1",
    )  # fmt: skip


@pytest.mark.spec("OCM-94", "OCM-114")
async def test_the_envelope_has_the_four_keys_of_the_specification() -> None:
    result = await router().call(call("quick", '{"x": 1}'))
    assert json.loads(result.message(envelope=True).text) == {"ok": True, "content": 2, "error": None, "provenance": {}}
    assert result.message().text == "2"


async def test_a_thousand_calls_with_random_failures_are_each_answered_once() -> None:
    dice = random.Random(7)
    names = ["quick", "broken", "leaver", "refuse", "slow", "nothing"]
    calls = [call(dice.choice(names), call_id=f"c{i}") for i in range(1000)]
    answered: list[str] = []
    async for event in router(deadline=0.01, concurrent=64).run(calls):
        if isinstance(event, ToolEnded):
            answered.append(event.result.call.call_id)
    assert sorted(answered) == sorted(c.call_id for c in calls)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two tools are called 'functions\.quick'"):
        Router([FunctionTool(quick), FunctionTool(quick)])


async def test_a_narrowed_router_has_its_own_tools_and_count_and_the_results_of_the_whole() -> None:
    runs: list[int] = []

    def count(x: int) -> int:
        runs.append(x)
        return x

    whole = Router([FunctionTool(count), FunctionTool(quick)])
    narrowed = whole.only(["functions.count"], most=1)
    assert (narrowed.recipients, whole.recipients) == (["functions.count"], ["functions.count", "functions.quick"])

    def counting(x: int) -> ToolCall:
        return ToolCall(call_id=f"c{x}", recipient="functions.count", body=f'{{"x": {x}}}', session="s")

    assert (await whole.call(counting(1))).ok
    assert (await narrowed.call(counting(1))).ok, "answered before, so it neither runs nor counts"
    assert (await narrowed.call(counting(2))).ok
    refused = await narrowed.call(counting(3))
    assert refused.error is not None
    assert "no more tool calls" in refused.error.message
    assert (await whole.call(counting(4))).ok
    assert (await whole.only(["functions.count"]).call(counting(2))).ok
    assert runs == [1, 2, 4]


async def test_a_narrowed_router_compiles_no_schema_anew() -> None:
    class Once(FunctionTool):
        reads = 0

        @property
        def parameters(self) -> JsonSchema | None:
            Once.reads += 1
            return super().parameters

    whole = Router([Once(quick)])
    before = Once.reads
    assert (await whole.only(["functions.quick"]).call(call("quick", '{"x": 1}'))).ok
    assert Once.reads == before


def test_the_limits_of_a_router_are_those_of_the_documentation() -> None:
    assert ToolLimits() == ToolLimits(
        deadline=30.0, longest=300.0, result=100_000, media=24_000_000, concurrent=16, remembered=1024, abandoned=16
    )


@pytest.mark.parametrize(
    ("name", "body", "retryable"),
    [
        ("broken", "{}", False),
        ("refuse", "{}", True),
        ("nothing", "{}", False),
        ("quick", '{"x": "a"}', True),
        ("slow", '{"deadline_ms": 1}', True),
    ],
)
async def test_a_model_is_told_whether_the_same_call_may_succeed_later(name: str, body: str, retryable: bool) -> None:
    result = await router().call(call(name, body))
    assert result.envelope()["error"]["retryable"] is retryable


async def test_an_error_has_its_details_where_it_has_some() -> None:
    refused, failed = await router().call(call("refuse")), await router().call(call("broken"))
    assert refused.envelope() == {
        "ok": False,
        "content": None,
        "error": {"code": "E-MINE", "message": "not today", "retryable": True, "details": {"day": "Sunday"}},
        "provenance": {},
    }
    assert "details" not in failed.envelope()["error"]


@pytest.mark.parametrize(
    ("given", "longest", "says"),
    [("", 300.0, "no result within 0.02 s"), ('"deadline_ms": 5', 300.0, "no result within 0.005 s"),
     ('"deadline_ms": 5000', 0.01, "no result within 0.01 s"), ('"deadline_ms": 1', 0.001, "no result within 0.001 s")],
)  # fmt: skip
async def test_a_call_that_took_too_long_is_told_how_long_it_had(given: str, longest: float, says: str) -> None:
    result = await router(deadline=0.02, longest=longest).call(call("slow", f"{{{given}}}"))
    assert result.error is not None
    assert result.error.message == says


@pytest.mark.parametrize("concurrent", [1, 3])
async def test_no_more_calls_run_at_once_than_may(concurrent: int) -> None:
    running, most = 0, 0

    async def busy() -> None:
        """Counts who runs."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1

    limited = Router([FunctionTool(busy)], ToolLimits(concurrent=concurrent))
    events = [event async for event in limited.run([call("busy", call_id=f"c{i}") for i in range(8)])]
    assert most == concurrent
    started = [event.call.call_id for event in events if isinstance(event, ToolStarted)]
    assert started == [f"c{i}" for i in range(8)], "in the order in which they came"


async def test_a_result_has_the_seconds_that_its_tool_took_without_the_queue() -> None:
    now = 100.0

    async def takes() -> None:
        """Takes its time."""
        nonlocal now
        now += 7.0

    timed = Router([FunctionTool(takes)], ToolLimits(concurrent=1), clock=lambda: now)
    assert (await timed.call(call("takes"))).seconds == 7.0
    events = [event async for event in timed.run([call("takes", call_id=f"c{i}") for i in range(3)])]
    assert [event.result.seconds for event in events if isinstance(event, ToolEnded)] == [7.0, 7.0, 7.0]
    assert (await timed.call(call("nothing"))).seconds == 0.0


@pytest.mark.parametrize("passed", [4.0, 5.0])
async def test_all_tools_together_have_their_time_to_the_last(passed: float) -> None:
    now = 0.0
    timed = Router([FunctionTool(quick)], clock=lambda: now)
    ended = []
    async for event in timed.run([call("quick", call_id="a"), call("quick", call_id="b")], seconds=5.0):
        if isinstance(event, ToolEnded):
            ended.append(event.result.ok)
            now = passed
    assert ended[0]
    assert len(ended) == 2


async def test_a_call_of_a_message_is_what_the_message_says() -> None:
    message = Message(
        role=Role.ASSISTANT, recipient="python", text="1", call_id="own", content_type="code", channel=None
    )
    made = ToolCall.of(message, fallback_id="other", session="s", owner="ann")
    assert made == ToolCall(
        call_id="own", recipient="python", body="1", content_type="code", channel="commentary", session="s", owner="ann"
    )
    assert made.idempotency_key == ("s", "own")


async def test_what_a_tool_says_plainly_has_no_envelope_and_an_error_always_has_one() -> None:
    plain, wrapped = await router().call(call("python", "1")), await router().call(call("quick"))
    assert plain.text(envelope=True) == plain.text(envelope=False) == "ran 1"
    assert (wrapped.text(envelope=False), json.loads(wrapped.text(envelope=True))["content"]) == ("1", 1)
    failed = await router().call(call("broken"))
    assert failed.text(envelope=False) == failed.text(envelope=True)
    assert json.loads(failed.text(envelope=False))["ok"] is False


def test_a_router_names_what_it_serves() -> None:
    served = router()
    assert served.recipients == sorted(served.recipients)
    assert served.serves("python") is True
    assert served.serves("functions.Quick") is False
