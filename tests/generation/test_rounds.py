"""Rounds: turn → calls → results → turn, over every format, until an answer, a caller's function, or a limit."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from antiphon.conversation import (
    Channel,
    Conversation,
    FinishReason,
    Incident,
    Message,
    Role,
    TextDelta,
    ToolChoice,
    TurnEnded,
)
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.errors import UnsupportedError
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS
from antiphon.formats.openchatml import OpenChatML, openchatml
from antiphon.formats.template import template_format
from antiphon.formats.template.format import HERMES
from antiphon.generation import Model, TurnRequest, plan_turn, prepare_turn
from antiphon.generation.rounds import RoundEvent, RoundLimits, Rounds, run_rounds
from antiphon.tokens import ByteTokenizer, Control, decode
from antiphon.tools import FunctionTool, Router, ToolCancelled, ToolEnded, ToolLimits, ToolStarted

CHATML = [Control("<|im_start|>"), Control("<|im_end|>")]
Say = Callable[[Sequence[int], int], str]
"""(prompt, round) → what the model says, controls spelled out."""


def get_current_weather(location: str) -> dict[str, Any]:
    """Tells the weather.

    Args:
        location: A city.
    """
    return {"sunny": True, "temperature": 20, "place": location}


def harmony() -> tuple[Format, ByteTokenizer]:
    return Harmony(), ByteTokenizer(CONTROLS)


def openchat() -> tuple[Format, ByteTokenizer]:
    return openchatml(CONTROLS), ByteTokenizer(CONTROLS)


def chatml() -> tuple[Format, ByteTokenizer]:
    return template_format("chatml", CHATML, replies=HERMES), ByteTokenizer(CHATML)


REPLIES = {
    harmony: (
        "<|channel|>analysis<|message|>Ask the tool.<|end|><|start|>assistant to=functions.get_current_weather"
        '<|channel|>commentary <|constrain|>json<|message|>{"location": "Tokyo"}<|call|>',
        "<|channel|>final<|message|>Sunny, 20 degrees.<|return|>",
    ),
    openchat: (
        "<|channel|>analysis<|message|>Ask the tool.<|end|><|start|>assistant to=functions.get_current_weather"
        ' call_id=wx1<|channel|>commentary<|constrain|>json<|message|>{"location": "Tokyo"}<|call|>',
        "<|channel|>final<|message|>Sunny, 20 degrees.<|return|>",
    ),
    chatml: (
        '<tool_call>\n{"name": "get_current_weather", "arguments": {"location": "Tokyo"}}\n</tool_call><|im_end|>',
        "Sunny, 20 degrees.<|im_end|>",
    ),
}  # fmt: skip


def model(made: tuple[Format, ByteTokenizer], say: Say) -> tuple[Model, ScriptedEngine]:
    format, tokenizer = made
    engine: ScriptedEngine

    def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> list[int]:
        return ids(tokenizer, say(prompt, len(engine.requests) - 1))

    engine = ScriptedEngine(script, chunk=3, context=100_000)
    return Model(name="m", engine=engine, tokenizer=tokenizer, format=format), engine


def ids(tokenizer: ByteTokenizer, text: str) -> list[int]:
    """The text with each control's spelling as its id, as a model samples it."""
    sampled: list[int] = []
    while text:
        control = next((c for c in tokenizer.controls if text.startswith(c.spelling)), None)
        sampled += [tokenizer.controls[control]] if control else tokenizer.encode(text[0])
        text = text[len(control.spelling) :] if control else text[1:]
    return sampled


QUESTION = "What is the weather in Tokyo?"


def ask(text: str = QUESTION, *tools: FunctionTool) -> TurnRequest:
    specs = tuple(tool.spec for tool in tools)
    return TurnRequest(conversation=Conversation((Message(role=Role.USER, text=text),), tools=specs))


def offering(*functions: Callable[..., Any]) -> TurnRequest:
    return ask(QUESTION, *map(FunctionTool, functions))


async def run(rounds: Rounds) -> list[RoundEvent]:
    async with aclosing(rounds.steps()) as steps:
        return [event async for step in steps for event in step.events]


@pytest.mark.parametrize("made", REPLIES, ids=lambda made: made.__name__)
@pytest.mark.spec("OCM-81", "OCM-82", "OCM-83", "OCM-84", "OCM-85", "HAR-61")
async def test_the_weather_example_of_both_specifications_runs_to_its_answer(made: Any) -> None:
    format, tokenizer = made()
    tool = FunctionTool(get_current_weather)
    served, engine = model((format, tokenizer), lambda prompt, number: REPLIES[made][number])
    envelope = isinstance(format, OpenChatML)
    plan = await prepare_turn(served, ask("What is the weather in Tokyo?", tool))
    rounds = Rounds(plan, Router([tool]), envelope=envelope)
    events = await run(rounds)

    kinds = [type(event) for event in events]
    assert kinds.index(ToolStarted) < kinds.index(ToolEnded) < kinds.index(TurnEnded) == len(kinds) - 1
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.reason is FinishReason.STOP_EOS
    assert ended.usage.prompt_tokens == sum(len(prompt) for prompt, *_ in engine.requests)

    messages = rounds.request.conversation.messages
    assert messages[-1].text == "Sunny, 20 degrees."
    call, reply = (next(m for m in messages if m.is_call), next(m for m in messages if m.role is Role.TOOL))
    assert call.text == '{"location": "Tokyo"}'
    assert call.call_id == reply.call_id
    assert call.call_id == "wx1" if envelope else re.fullmatch(r"call_[0-9A-Za-z]{16}", call.call_id or "")
    second = decode(tokenizer, engine.requests[1][0])
    assert '"temperature": 20' in second, "the result is in the next prompt"
    assert ("Ask the tool." in second) == (made is not chatml), "the open turn's reasoning stays"
    third = plan_turn(served, TurnRequest(conversation=rounds.request.conversation.add(ask().conversation.messages[0])))
    assert "Ask the tool." not in decode(tokenizer, third.prompt_ids), "and dropped after the final answer"


@pytest.mark.parametrize("header", ["bash", "assistant to=bash", "assistant<|channel|>commentary bash"])
async def test_a_model_that_calls_a_tool_by_its_bare_name_reaches_it(header: str) -> None:
    def bash(command: str) -> str:
        """Runs here."""
        return f"ran {command}"

    tool = FunctionTool(bash)
    call = f'<|channel|>analysis<|message|>Hm.<|end|><|start|>{header}<|message|>{{"command": "ls"}}<|call|>'
    served, engine = model(harmony(), lambda prompt, number: (call, REPLIES[harmony][1])[number])
    rounds = Rounds(await prepare_turn(served, ask("List.", tool)), Router([tool]))
    await run(rounds)
    answered = next(m for m in rounds.request.conversation.messages if m.role is Role.TOOL)
    assert (answered.name, "ran ls" in answered.text, len(engine.requests)) == ("functions.bash", True, 2)


async def test_a_caller_s_own_function_goes_back_to_the_caller_once_ours_are_answered() -> None:
    reply = (
        "".join(f'<tool_call>{{"name": "{n}", "arguments": {{}}}}</tool_call>' for n in ("ours", "theirs"))
        + "<|im_end|>"
    )

    def ours() -> str:
        """Runs here."""
        return "mine"

    def theirs() -> str:
        """Runs elsewhere."""
        return "never"

    served, engine = model(chatml(), lambda prompt, number: reply)
    rounds = Rounds(await prepare_turn(served, offering(ours, theirs)), Router([FunctionTool(ours)]))
    events = await run(rounds)
    assert [e.result.text(envelope=False) for e in events if isinstance(e, ToolEnded)] == ["mine"]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].reason is FinishReason.TOOL_CALL
    assert len(engine.requests) == 1
    open_calls = {m.call_id for m in rounds.request.conversation.messages if m.is_call}
    answered = {m.call_id for m in rounds.request.conversation.messages if m.role is Role.TOOL}
    assert len(open_calls - answered) == 1


@pytest.mark.spec("OCM-157")
async def test_two_calls_of_one_turn_are_answered_in_the_order_of_the_calls_whatever_order_they_end_in() -> None:
    gate = asyncio.Event()

    async def slow() -> str:
        """Ends last."""
        await gate.wait()
        return "slow"

    async def fast() -> str:
        """Ends first."""
        gate.set()
        return "fast"

    both = "".join(f'<tool_call>{{"name": "{n}", "arguments": {{}}}}</tool_call>' for n in ("slow", "fast"))
    replies = [both + "<|im_end|>", "done<|im_end|>"]
    served, _ = model(chatml(), lambda prompt, number: replies[number])
    rounds = Rounds(await prepare_turn(served, offering(slow, fast)), Router([FunctionTool(slow), FunctionTool(fast)]))
    events = await run(rounds)
    assert [e.result.text(envelope=False) for e in events if isinstance(e, ToolEnded)] == ["fast", "slow"]
    results = [m for m in rounds.request.conversation.messages if m.role is Role.TOOL]
    calls = [m.call_id for m in rounds.request.conversation.messages if m.is_call]
    assert [(m.call_id, m.text) for m in results] == [(calls[0], "slow"), (calls[1], "fast")]


@pytest.mark.spec("OCM-158")
async def test_a_call_that_breaks_its_schema_is_given_back_so_that_the_model_can_repair_it() -> None:
    replies = [
        '<tool_call>{"name": "get_current_weather", "arguments": {"city": "Tokyo"}}</tool_call><|im_end|>',
        '<tool_call>{"name": "get_current_weather", "arguments": {"location": "Tokyo"}}</tool_call><|im_end|>',
        "ok<|im_end|>",
    ]
    served, _ = model(chatml(), lambda prompt, number: replies[number])
    plan = await prepare_turn(served, offering(get_current_weather))
    rounds = Rounds(plan, Router([FunctionTool(get_current_weather)]))
    ended = [e.result for e in await run(rounds) if isinstance(e, ToolEnded)]
    assert [result.ok for result in ended] == [False, True]
    assert ended[0].error is not None
    assert ended[0].error.code == "E-CALL-SCHEMA"


async def test_a_model_that_calls_for_ever_is_stopped_with_a_clear_finish() -> None:
    served, engine = model(
        chatml(), lambda prompt, number: '<tool_call>{"name": "loop", "arguments": {}}</tool_call><|im_end|>'
    )

    def loop() -> int:
        """Counts."""
        return 1

    plan = await prepare_turn(served, offering(loop))
    events = await run(Rounds(plan, Router([FunctionTool(loop)]), RoundLimits(rounds=5)))
    assert len(engine.requests) == 5
    codes = [e.code for e in events if isinstance(e, Incident)]
    assert codes == [*["call_repeated"] * 4, "tool_rounds_exceeded"]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].reason is FinishReason.LENGTH_OUTPUT


async def test_the_time_for_all_tools_of_a_request_is_limited() -> None:
    replies = ['<tool_call>{"name": "wait", "arguments": {}}</tool_call><|im_end|>', "late<|im_end|>"]

    async def wait() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    served, _ = model(chatml(), lambda prompt, number: replies[number])
    plan = await prepare_turn(served, offering(wait))
    rounds = Rounds(plan, Router([FunctionTool(wait)]), RoundLimits(tool_seconds=0.05))
    events = await run(rounds)
    assert any(isinstance(e, ToolCancelled) for e in events)
    assert rounds.request.conversation.messages[-1].text == "late"


async def test_calls_beside_each_other_use_up_the_time_for_all_tools_once() -> None:
    call = '<tool_call>{"name": "wait", "arguments": {}}</tool_call>'
    replies = [f"{call}{call}<|im_end|>", f"{call}<|im_end|>", "done<|im_end|>"]
    served, _ = model(chatml(), lambda prompt, number: replies[number])
    now, running, both = 0.0, 0, asyncio.Event()

    async def wait() -> str:
        """Takes forty seconds, beside the other of its turn."""
        nonlocal now, running
        running += 1
        if running == 2:
            now += 40
            both.set()
        await both.wait()
        return "waited"

    router = Router([FunctionTool(wait)], clock=lambda: now)
    events = await run(Rounds(await prepare_turn(served, offering(wait)), router, RoundLimits(tool_seconds=60)))
    results = [event.result for event in events if isinstance(event, ToolEnded)]
    assert [(result.ok, result.seconds) for result in results] == [(True, 40), (True, 40), (True, 0)]


async def test_closing_the_rounds_stops_the_engine_and_the_tools() -> None:
    stopped = asyncio.Event()

    async def wait() -> None:
        """Waits to be cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    served, engine = model(chatml(), lambda p, n: '<tool_call>{"name": "wait", "arguments": {}}</tool_call><|im_end|>')
    steps = Rounds(await prepare_turn(served, offering(wait)), Router([FunctionTool(wait)])).steps()
    async for step in steps:
        if isinstance(step.events[0], ToolStarted):
            break
    await steps.aclose()
    assert stopped.is_set()
    assert engine.running == 0


async def test_several_choices_with_server_side_tools_are_refused() -> None:
    served, _ = model(chatml(), lambda prompt, number: "x<|im_end|>")
    request = TurnRequest(conversation=ask().conversation, n=2)
    with pytest.raises(UnsupportedError, match="n = 1"):
        await run(Rounds(await prepare_turn(served, request), Router([])))


async def test_two_hundred_turns_of_failing_tools_end_with_every_call_answered_once() -> None:
    dice = random.Random(11)

    async def flaky(kind: str) -> str:
        """Does what the test sets."""
        match kind:
            case "raise":
                raise RuntimeError("no")
            case "hang":
                await asyncio.Event().wait()
            case "exit":
                raise SystemExit(1)
        return kind

    def say(prompt: Sequence[int], number: int) -> str:
        kinds = [dice.choice(["fine", "raise", "hang", "exit", 7]) for _ in range(dice.randint(0, 4))]
        calls = "".join(f'<tool_call>{{"name": "flaky", "arguments": {{"kind": {k!r}}}}}</tool_call>' for k in kinds)
        return calls.replace("'", '"') + ("" if kinds else "the end") + "<|im_end|>"

    router = Router([FunctionTool(flaky)], ToolLimits(deadline=0.002))
    turns = 0
    while turns < 200:
        served, engine = model(chatml(), say)
        limits = RoundLimits(rounds=dice.randint(1, 6), tool_seconds=0.05)
        rounds = Rounds(await prepare_turn(served, offering(flaky)), router, limits)
        events = await run(rounds)
        turns += len(engine.requests)
        messages = rounds.request.conversation.messages
        called = [m.call_id for m in messages if m.is_call]
        answered = [m.call_id for m in messages if m.role is Role.TOOL]
        on_the_wire = [e.result.call.call_id for e in events if isinstance(e, ToolEnded)]
        assert sorted(map(str, called)) == sorted(map(str, answered)) == sorted(on_the_wire)
        assert len(set(called)) == len(called)
        assert sum(isinstance(e, TurnEnded) for e in events) == 1
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_tools_never_get_what_was_thought() -> None:
    seen: list[str] = []

    def note(text: str) -> str:
        """Keeps what it gets."""
        seen.append(text)
        return "noted"

    first = (
        "<|channel|>analysis<|message|>secret thought<|end|><|start|>assistant to=functions.note<|channel|>commentary"
        '<|message|>{"text": "open"}<|call|>'
    )
    replies = [first, "<|channel|>final<|message|>ok<|return|>"]
    served, _ = model(harmony(), lambda prompt, number: replies[number])
    events = await run(Rounds(await prepare_turn(served, offering(note)), Router([FunctionTool(note)])))
    assert seen == ["open"]
    assert [e.text for e in events if isinstance(e, TextDelta)][-1:] != []
    assert all(e.result.call.channel != Channel.ANALYSIS for e in events if isinstance(e, ToolEnded))


def number(n: int) -> str:
    """Says a number."""
    return f"number {n}"


def numbered(made: Any, n: int, call_id: str) -> str:
    """A call of `number` as the format writes it, under the model's own id where the format has ids."""
    if made is harmony:
        return f'<|start|>assistant to=functions.number<|channel|>commentary<|message|>{{"n": {n}}}<|call|>'
    if made is openchat:
        head = f"assistant to=functions.number call_id={call_id}<|channel|>commentary<|constrain|>json"
        return f'<|start|>{head}<|message|>{{"n": {n}}}<|call|>'
    return f'<tool_call>{{"name": "number", "id": "{call_id}", "arguments": {{"n": {n}}}}}</tool_call>'


def after_role(made: Any, *parts: str) -> str:
    """The reply's text behind the role that the prompt wrote."""
    if made is chatml:
        return "".join(parts) + "<|im_end|>"
    return "".join(parts).removeprefix("<|start|>assistant")


def in_turn(*replies: str) -> Say:
    return lambda prompt, round: replies[round]


def last(made: Any) -> str:
    return "done<|im_end|>" if made is chatml else "<|channel|>final<|message|>done<|return|>"


@pytest.mark.parametrize("made", REPLIES, ids=lambda made: made.__name__)
@pytest.mark.parametrize("id", ["x1", "call_0", "call_1", "x" * 300, "%00", "%20"])
@pytest.mark.spec("OCM-65", "OCM-87", "OCM-88")
async def test_a_call_id_that_the_model_writes_again_is_another_call_s_and_is_renamed(made: Any, id: str) -> None:
    def say(prompt: Sequence[int], round: int) -> str:
        return last(made) if round == 3 else after_role(made, numbered(made, round, id))

    tool = FunctionTool(number)
    served, engine = model(made(), say)
    rounds = Rounds(await prepare_turn(served, ask("Count.", tool)), Router([tool]), session="s")
    ended = [event.result for event in await run(rounds) if isinstance(event, ToolEnded)]
    assert [result.text(envelope=False) for result in ended] == ["number 0", "number 1", "number 2"]
    said = rounds.request.conversation.messages
    ids = [message.call_id for message in said if message.is_call]
    assert len(set(ids)) == 3
    assert [(m.call_id, m.text) for m in said if m.role is Role.TOOL] == [
        (id, f"number {n}") for n, id in enumerate(ids)
    ]
    if made is openchat:
        prompt = decode(served.tokenizer, engine.requests[-1][0])
        # A random id may begin with a short one of the model's.
        found = [len(re.findall(rf"call_id={re.escape(str(id))}(?![0-9A-Za-z])", prompt)) for id in ids]
        assert found == [2, 2, 2], "in the prompt too: the call and its reply"


async def test_two_calls_of_one_turn_under_one_id_are_both_answered() -> None:
    calls = after_role(chatml, *(numbered(chatml, n, "x1") for n in range(3)))
    served, _ = model(chatml(), lambda prompt, round: last(chatml) if round else calls)
    tool = FunctionTool(number)
    rounds = Rounds(await prepare_turn(served, ask("Count.", tool)), Router([tool]))
    assert len([event for event in await run(rounds) if isinstance(event, ToolEnded)]) == 3
    said = rounds.request.conversation.messages
    calls_of = {message.call_id: message.text for message in said if message.is_call}
    assert "x1" in calls_of
    assert {m.call_id: m.text for m in said if m.role is Role.TOOL} == {
        id: f"number {text[-2]}" for id, text in calls_of.items()
    }


async def test_a_second_conversation_of_a_session_gets_no_result_of_the_first() -> None:
    tool, router = FunctionTool(number), Router([FunctionTool(number)])
    ids: set[str] = set()
    for n in (1, 2):
        served, _ = model(harmony(), in_turn(after_role(harmony, numbered(harmony, n, "")), last(harmony)))
        rounds = Rounds(await prepare_turn(served, ask("Say it.", tool)), router, session="chat")
        (ended,) = [event.result for event in await run(rounds) if isinstance(event, ToolEnded)]
        assert ended.text(envelope=False) == f"number {n}"
        ids.add(ended.call.call_id)
    assert len(ids) == 2, "no two conversations have an id in common"


async def test_the_time_of_earlier_rounds_is_taken_from_that_for_all_tools() -> None:
    now = 0.0

    def work() -> None:
        """Takes 500 s."""
        nonlocal now
        now += 500

    async def wait() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    calls = ('{"name": "work", "arguments": {}}', '{"name": "wait", "arguments": {"deadline_ms": 5000}}')
    replies = [*(f"<tool_call>{call}</tool_call><|im_end|>" for call in calls), "done<|im_end|>"]
    served, _ = model(chatml(), lambda prompt, round: replies[round])
    router = Router([FunctionTool(work), FunctionTool(wait)], clock=lambda: now)
    plan = await prepare_turn(served, offering(work, wait))
    ended = []
    async with aclosing(run_rounds(plan, router, limits=RoundLimits(tool_seconds=600))) as events:
        async for event in events:
            if isinstance(event, ToolStarted) and event.call.recipient == "functions.wait":
                now += 200
            if isinstance(event, ToolEnded):
                ended.append(event.result.error and event.result.error.code)
    assert ended == [None, "E-TOOL-CANCELLED"], "600 s are over after 500 in one round and 200 in the next"


async def test_one_call_of_a_request_can_be_cancelled_and_the_model_reads_so() -> None:
    async def wait() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    replies = ['<tool_call>{"name": "wait", "arguments": {}}</tool_call><|im_end|>', "done<|im_end|>"]
    served, _ = model(chatml(), lambda prompt, round: replies[round])
    rounds = Rounds(await prepare_turn(served, offering(wait)), Router([FunctionTool(wait)]), session="s")
    events: list[RoundEvent] = []
    async with aclosing(rounds.steps()) as steps:
        async for step in steps:
            events += step.events
            if isinstance(step.events[0], ToolStarted):
                cancelled = step.events[0].call.call_id
                assert rounds.cancel(cancelled, "not needed")
                assert not rounds.cancel("call_7")
    assert [e for e in events if isinstance(e, ToolCancelled)] == [ToolCancelled(cancelled, "not needed")]
    assert [m.text for m in rounds.request.conversation.messages][-1] == "done"
    assert '"E-TOOL-CANCELLED"' in rounds.request.conversation.messages[-2].text


MISCALLS = {
    harmony: "<|channel|>analysis to=container.exec code<|message|>{}<|call|>",
    openchat: "<|channel|>analysis to=container.exec call_id=wx1<|message|>{}<|call|>",
    chatml: '<tool_call>\n{"name": "container.exec", "arguments": {}}\n</tool_call><|im_end|>',
}


@pytest.mark.parametrize("made", MISCALLS, ids=lambda made: made.__name__)
async def test_a_call_of_what_is_not_there_is_answered_twice_and_then_read_as_text(made: Any) -> None:
    small, engine = model(made(), lambda prompt, number: MISCALLS[made].replace("wx1", f"wx{number}"))
    plan = await prepare_turn(small, offering(get_current_weather))
    events = await run(Rounds(plan, Router([FunctionTool(get_current_weather)])))
    results = [event.result for event in events if isinstance(event, ToolEnded)]
    assert [result.error.code for result in results if result.error] == ["E-TOOL-UNKNOWN"] * 2
    assert "there are" in results[0].text(envelope=False)
    assert [event.code for event in events if isinstance(event, Incident)].count("call_not_allowed") == 3
    assert isinstance(events[-1], TurnEnded)
    assert (events[-1].reason, len(engine.requests)) == (FinishReason.STOP_EOS, 3)


@pytest.mark.parametrize("made", REPLIES, ids=lambda made: made.__name__)
async def test_a_tool_that_the_choice_rules_out_is_not_there_and_does_not_run(made: Any) -> None:
    ran: list[str] = []

    def other() -> str:
        """Says nothing."""
        return ""

    def get_current_weather(location: str) -> str:
        """Tells the weather."""
        ran.append(location)
        return location

    small, _ = model(made(), lambda prompt, number: REPLIES[made][number])
    request = offering(get_current_weather, other)
    request = replace(request, tool_choice=ToolChoice("auto", ("functions.other",)), best_effort=True)
    plan = await prepare_turn(small, request)
    events = await run(Rounds(plan, Router([FunctionTool(get_current_weather), FunctionTool(other)])))
    (result,) = [event.result for event in events if isinstance(event, ToolEnded)]
    assert result.error is not None
    assert "there are" in result.error.message
    assert "other" in result.error.message.partition("there are")[2]
    assert ran == []


def chatml_calls(*names: str) -> str:
    made = (f'<tool_call>\n{{"name": "{name}", "arguments": {{"location": "Tokyo"}}}}\n</tool_call>' for name in names)
    return "\n".join(made) + "<|im_end|>"


@pytest.mark.parametrize(("beside", "turns"), [("get_current_weather", 2), ("mine", 1)])
async def test_calls_beside_one_of_what_is_not_there_are_whose_they_are(beside: str, turns: int) -> None:
    """Results stand in the order of the calls; a call of the caller's has none and ends the turn."""
    small, engine = model(
        chatml(), lambda prompt, number: ("Done.<|im_end|>", chatml_calls("whisper", beside))[not number]
    )

    def mine(location: str) -> str:
        """Is the caller's."""
        raise AssertionError("ran")

    plan = await prepare_turn(small, offering(get_current_weather, mine))
    rounds = Rounds(plan, Router([FunctionTool(get_current_weather)]))
    events = await run(rounds)
    calls = [message for message in rounds.turn if message.is_call]
    results = [message for message in rounds.turn if message.role is Role.TOOL]
    assert [message.recipient for message in calls] == ["functions.whisper", f"functions.{beside}"]
    assert [message.call_id for message in results] == [message.call_id for message in calls][:turns]
    assert "there are get_current_weather, mine" in results[0].text
    assert len(engine.requests) == turns
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].reason is (FinishReason.STOP_EOS if turns == 2 else FinishReason.TOOL_CALL)
