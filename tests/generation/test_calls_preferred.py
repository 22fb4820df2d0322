"""A reply that must call ends where the model would not call again by itself."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from antiphon.conversation import Conversation, Event, FinishReason, Message, Role, TokenLogprob, ToolChoice
from antiphon.engines import Sampling, ScriptedEngine, Step
from antiphon.generation import Reply, TurnRequest, collect, plan_turn, prepare_turn, reply_of, run_turn
from antiphon.generation.turn import steps
from antiphon.tokens import SampledText
from kit.api import CALL, END, UNCALL, ids, model, token_bytes
from kit.other_calls import TOOLS

HI = Conversation((Message(role=Role.USER, text="Paris and Rome?"),), tools=TOOLS)


class Doubtful(ScriptedEngine):
    """Plays a script, of whose ids some are less probable than others."""

    def __init__(self, said: Sequence[tuple[Sequence[int], float]], **options: Any) -> None:
        super().__init__([id for part, _ in said for id in part], **options)
        self._probabilities = [p ** (1 / len(part)) for part, p in said for _ in part]

    async def generate(self, prompt: Sequence[int], sampling: Sampling, **options: Any) -> AsyncGenerator[Step, None]:
        at = 0
        async with aclosing(super().generate(prompt, sampling, **options)) as steps:
            async for step in steps:
                known = self._probabilities[at : at + len(step.ids)]
                at += len(step.ids)
                if sampling.confidence:
                    logprobs = [
                        TokenLogprob(id, token_bytes(id), math.log(p)) for id, p in zip(step.ids, known, strict=True)
                    ]
                    step = msgspec.structs.replace(step, logprobs=tuple(logprobs))
                yield step


def said(*calls: tuple[str, str, float]) -> list[tuple[Sequence[int], float]]:
    parts: list[tuple[Sequence[int], float]] = []
    for name, arguments, probability in calls:
        parts += [
            (ids(CALL, '\n{"name": "'), 1.0),
            (ids(name), probability),
            (ids(f'", "arguments": {arguments}}}\n', UNCALL, "\n"), 1.0),
        ]
    return [*parts, (ids(END), 1.0)]


async def asked(*calls: tuple[str, str, float], **fields: Any) -> Reply:
    request = TurnRequest(**{"conversation": HI, "tool_choice": ToolChoice("required"), "best_effort": True, **fields})
    (reply,) = await collect(run_turn(await prepare_turn(model(Doubtful(said(*calls))), request)))
    return reply


PARIS, ROME, INVENTED = ("get_weather", '{"city": "Paris"}'), ("get_weather", '{"city": "Rome"}'), ("get_time", "{}")


async def test_further_calls_are_made_while_the_model_prefers_them() -> None:
    reply = await asked((*PARIS, 0.3), (*ROME, 0.98), (*INVENTED, 0.39), (*INVENTED, 0.99))
    assert [call.text for call in reply.messages] == ['{"city": "Paris"}', '{"city": "Rome"}']
    assert reply.reason is FinishReason.TOOL_CALL
    assert [incident.code for incident in reply.incidents] == ["further_call_unsure"]


@pytest.mark.parametrize("choice", [ToolChoice("auto"), ToolChoice("required")])
async def test_calls_that_the_model_is_sure_of_are_all_there(choice: ToolChoice) -> None:
    reply = await asked((*PARIS, 0.9), (*ROME, 0.6), (*INVENTED, 0.51), tool_choice=choice)
    assert len(reply.messages) == 3
    assert not reply.incidents


async def test_a_model_that_may_call_makes_the_calls_that_it_makes() -> None:
    reply = await asked((*PARIS, 0.9), (*ROME, 0.2), tool_choice=ToolChoice("auto"))
    assert len(reply.messages) == 2


async def test_what_was_sampled_behind_the_last_call_is_in_no_later_prompt() -> None:
    answering = model(Doubtful(said((*PARIS, 0.9), (*INVENTED, 0.2))))
    request = TurnRequest(conversation=HI, tool_choice=ToolChoice("required"), best_effort=True, return_token_ids=True)
    (reply,) = await collect(run_turn(await prepare_turn(answering, request)))
    result = Message(role=Role.TOOL, name="functions.get_weather", text="sunny", call_id=reply.messages[0].call_id)
    goes_on = HI.add(*reply.messages).add(result)
    prompts = [
        plan_turn(answering, replace(request, conversation=goes_on, return_token_ids=remembers)).prompt_ids
        for remembers in (True, False)
    ]
    with_ids, without = (b"".join(map(token_bytes, prompt)) for prompt in prompts)
    assert with_ids.count(b"get_time") == without.count(b"get_time")


@pytest.mark.parametrize("chunk", [1, 3, 8, 100])
async def test_the_ids_of_a_reply_have_no_call_that_it_has_not_and_begin_the_next_prompt(chunk: int) -> None:
    answering = model(Doubtful(said((*PARIS, 0.9), (*INVENTED, 0.2)), chunk=chunk))
    request = TurnRequest(conversation=HI, tool_choice=ToolChoice("required"), best_effort=True, return_token_ids=True)
    plan = await prepare_turn(answering, request)
    ids, events = list(plan.prompt_ids), list[Event]()
    async with aclosing(steps(plan)) as turn:
        async for step in turn:
            ids += step.ids
            events += step.events
    (call,) = reply_of(events).messages
    result = Message(role=Role.TOOL, name="functions.get_weather", text="sunny", call_id=call.call_id)
    prompt = plan_turn(answering, replace(request, conversation=HI.add(call, result))).prompt_ids
    assert list(prompt[: len(ids)]) == ids
    assert b"get_time" not in b"".join(map(token_bytes, ids[len(plan.prompt_ids) :]))


def fenced(name: float, argument: float) -> list[tuple[Sequence[int], float]]:
    return [
        (ids('```json\n{"name": "'), 1.0),
        (ids("get_weather"), name),
        (ids('", "arguments": {"city": "'), 1.0),
        (ids("P"), argument),
        (ids('aris"}}\n```'), 0.5),
        (ids(END), 1.0),
    ]


@pytest.mark.parametrize(
    ("name", "argument", "calls"), [(1.0, 0.42, True), (0.7, 0.9, True), (0.6, 1.0, False), (1.0, 0.38, False)]
)
async def test_a_call_in_another_form_of_which_the_model_was_not_sure_is_text(
    name: float, argument: float, calls: bool
) -> None:
    plan = await prepare_turn(model(Doubtful(fenced(name, argument))), TurnRequest(conversation=HI))
    (reply,) = await collect(run_turn(plan))
    assert [message.is_call for message in reply.messages] == [calls]


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("Show me an example of a tool call", False),
        ("What does a function call look like?", False),
        ("Give me a sample function call for Paris.", False),
        ("What does the weather look like in Paris?", True),
        ("Show me what is in example.txt, then call it a day", True),
    ],
)
async def test_who_asks_for_an_example_of_a_call_gets_one_to_read(question: str, calls: bool) -> None:
    asked = replace(HI, messages=(Message(role=Role.USER, text=question),))
    plan = await prepare_turn(model(Doubtful(fenced(1.0, 1.0))), TurnRequest(conversation=asked))
    (reply,) = await collect(run_turn(plan))
    assert [message.is_call for message in reply.messages] == [calls]


@pytest.mark.parametrize(
    ("arguments", "repeats"), [('{"city":"Paris"}', True), ('{"city": "Rome"}', False), ("Paris", False)]
)
async def test_a_call_whose_result_was_just_read_is_told_when_it_is_made_again(arguments: str, repeats: bool) -> None:
    said_before = Message(
        role=Role.ASSISTANT, recipient="functions.get_weather", text=SampledText(arguments, (), "other"), call_id="a"
    )
    result = Message(role=Role.TOOL, name="functions.get_weather", text="sunny", call_id="a")
    reply = await asked((*PARIS, 1.0), conversation=HI.add(said_before, result), tool_choice=ToolChoice("auto"))
    assert [incident.code for incident in reply.incidents] == ["call_repeated"] * repeats
