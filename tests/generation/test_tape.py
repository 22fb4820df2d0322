"""A reply that is gone on with after any of its ids is the reply that it would have been."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from antiphon.conversation import (
    Conversation,
    Event,
    Message,
    ResponseFormat,
    Role,
    TextDelta,
    TokenLogprob,
    ToolChoice,
    ToolSpec,
    TurnEnded,
)
from antiphon.engines import SAMPLING, EngineEnd, EngineInfo, PlacedImage, Sampling, ScriptedEngine, Step
from antiphon.errors import EngineLostError
from antiphon.generation import Model, Plan, TurnRequest, prepare_turn, turns_of
from antiphon.generation.compile import ReplyCompiler
from antiphon.generation.meter import UNLIMITED, Deadline
from antiphon.generation.resume.tape import Called, Input, ReplayLog, Sampled
from antiphon.generation.turn import steps
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import ByteTokenizer
from antiphon.tools import FunctionTool, Router, ToolEnded
from kit.api import CALL, END, TOKENIZER, UNCALL, ids, model, scripted
from kit.masked import FORMATS, EngineTokens, allowed

IMAGES = 7
"""What an engine writes of a prompt's images beside its ids."""
HURRY = 30
"""After so many ids a model closes what it can."""


class Preferring(ScriptedEngine):
    """Has an order of preference at each place, which follows from all ids so far, and takes the first that may be."""

    def __init__(self, tokenizer: ByteTokenizer, end: int, begins: int) -> None:
        super().__init__([])
        self._tokenizer = tokenizer
        self._tokens = LLTokenizer(TokenizerWrapper(EngineTokens(tokenizer, end)))
        self._end = end
        self._begins = begins
        self.grammars: list[str | None] = []

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            name="preferring",
            context=8192,
            slots=4,
            end_ids=frozenset({self._end}),
            grammar=True,
            logprobs=20,
            honours=SAMPLING,
        )

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        tenant: Tenant = NOBODY,
        images: Sequence[PlacedImage] = (),
    ) -> AsyncGenerator[Step, None]:
        self.grammars.append(grammar)
        matcher = None if grammar is None else LLMatcher(self._tokens, grammar, log_level=0)
        said = list(prompt)
        for left in reversed(range(sampling.max_tokens)):
            may = set(range(self._tokenizer.size))
            if matcher is not None:
                may = {*allowed(matcher.compute_bitmask(), self._tokenizer.size)}
            id = next(id for id in self._preferred(said) if id in may)
            said.append(id)
            if matcher is not None:
                assert matcher.consume_token(id)
            end = EngineEnd.STOP if id == self._end else None if left else EngineEnd.LENGTH_OUTPUT
            logprobs = () if sampling.logprobs is None else (TokenLogprob(id, b"x", -float(len(said))),)
            yield Step(
                (id,),
                logprobs=logprobs,
                end=end,
                cached_tokens=len(prompt) - 1 if len(said) == len(prompt) + 1 else None,
                prompt_tokens=len(prompt) + IMAGES,
            )
            if end is not None:
                return

    def _preferred(self, said: Sequence[int]) -> list[int]:
        order = list(range(self._tokenizer.size))
        Random(str(tuple(said[self._begins :]))).shuffle(order)
        closers = [*b'"}]0,:', self._end, *sorted(self._tokenizer.controls.values())]
        return [*closers, *order] if len(said) - self._begins > HURRY else order


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
WEATHER = ToolSpec(name="weather", description="The weather.", parameters={
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False,
})  # fmt: skip


def formatted(**more: Any) -> TurnRequest:
    format = ResponseFormat(kind="json_schema", schema=SCHEMA, strict=True)
    return TurnRequest(conversation=Conversation((hi(),), response_format=format), max_tokens=200, call_key="k", **more)


def calling(**more: Any) -> TurnRequest:
    return TurnRequest(
        conversation=Conversation((hi(),), tools=(WEATHER,)), tool_choice=ToolChoice("required"), max_tokens=200,
        call_key="k", **more,
    )  # fmt: skip


def hi() -> Message:
    return Message(role=Role.USER, text="Hi")


async def planned(name: str, request: TurnRequest) -> tuple[Plan, Preferring]:
    format, tokenizer, end = FORMATS[name]
    id = tokenizer.controls[end]
    compiler = ReplyCompiler(format, tokenizer, {id}, seconds=60)

    def of(begins: int) -> Model:
        return Model(name=name, engine=Preferring(tokenizer, id, begins), tokenizer=tokenizer, format=format,
                     compiler=compiler, thinking_budget=20)  # fmt: skip

    first = await prepare_turn(of(0), request)
    plan = await prepare_turn(of(len(first.prompt_ids)), request)
    assert isinstance(plan.model.engine, Preferring)
    return plan, plan.model.engine


async def made(plan: Plan, recorded: Sequence[Input] = ()) -> tuple[list[Event], list[Input]]:
    """The events of a reply of which so much is on record, and what is on record then."""
    inputs = list(recorded)
    events: list[Event] = []
    async with aclosing(steps(plan, log=ReplayLog(inputs.append, tuple(recorded)))) as turn:
        async for step in turn:
            events += step.events
    return events, inputs


def joined(events: Sequence[Event]) -> list[Event]:
    """With texts that follow each other as one: how an engine cuts its steps is its own affair."""
    whole: list[Event] = []
    for event in events:
        last = whole[-1] if whole else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            whole[-1] = TextDelta(last.text + event.text, last.logprobs + event.logprobs)
        else:
            whole.append(event)
    return whole


@pytest.mark.parametrize(
    ("name", "request_of"), [("chatml", formatted), ("harmony", calling), ("openchatml", formatted)]
)
async def test_a_constrained_reply_goes_on_within_its_grammar(
    name: str, request_of: Callable[..., TurnRequest]
) -> None:
    plan, engine = await planned(name, request_of())
    whole, inputs = await made(plan)
    assert isinstance(whole[-1], TurnEnded)
    assert engine.grammars == [plan.grammar]
    for cut in range(2, len(inputs), max(1, len(inputs) // 6)):
        again, recorded = await made(plan, inputs[:cut])
        assert joined(again) == joined(whole), cut
        assert [one for one in recorded if isinstance(one, Sampled)][-1].end is EngineEnd.STOP
    assert None in engine.grammars, "what fits is sampled freely"


async def test_log_probabilities_of_a_constrained_reply_are_of_what_fits() -> None:
    plan, engine = await planned("chatml", formatted(logprobs=0))
    whole, inputs = await made(plan)
    again, _ = await made(plan, inputs[: len(inputs) - 9])
    assert joined(again) == joined(whole)
    assert None not in engine.grammars


TEXT = "The first sentence is here. STOP and this is never said."


async def free(**fields: Any) -> tuple[Plan, ScriptedEngine]:
    """A plan whose model says `TEXT`, and goes on with it wherever the prompt ends in it."""

    def rest(prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
        return ids(TEXT, END)[len(prompt) - begins :]

    engine = scripted(rest, grammar=False)
    begins = 0
    plan = await prepare_turn(model(engine), TurnRequest(conversation=Conversation((hi(),)), call_key="k", **fields))
    begins = len(plan.prompt_ids)
    return plan, engine


@pytest.mark.parametrize("fields", [{}, {"stop": ("STOP",)}, {"logprobs": 2}, {"max_tokens": 20}, {"seed": 7}])
async def test_a_reply_goes_on_after_any_of_its_ids(fields: dict[str, Any]) -> None:
    plan, engine = await free(**fields)
    whole, inputs = await made(plan)
    sampled = [one.ids for one in inputs if isinstance(one, Sampled)]
    for cut in range(len(inputs) + 1):
        again, recorded = await made(plan, inputs[:cut])
        assert joined(again) == joined(whole)
        assert [one.ids for one in recorded if isinstance(one, Sampled)] == sampled
    prompts = [(len(prompt) - len(plan.prompt_ids), sampling) for prompt, sampling, _ in engine.requests]
    most = plan.sampling.max_tokens
    assert all(sampling.max_tokens == most - sampled for sampled, sampling in prompts)
    if "seed" in fields:
        assert len({sampling.seed for _, sampling in prompts}) == len({sampled for sampled, _ in prompts})


async def test_the_prompt_that_was_first_is_the_prompt() -> None:
    """What would be another today, as a prompt with a date in it, is not made anew."""
    plan, _ = await free()
    _, inputs = await made(plan)
    other, other_engine = await free()
    longer = replace(other, prompt_ids=(*other.prompt_ids, 65))
    await made(longer, inputs[:5])
    assert other_engine.requests[0][0][: len(plan.prompt_ids)] == plan.prompt_ids
    assert len(other_engine.requests[0][0]) == len(plan.prompt_ids) + 4


async def test_what_the_cache_had_is_reported_once() -> None:
    plan, _ = await planned("chatml", formatted())
    whole, inputs = await made(plan)
    again, _ = await made(plan, inputs[:1])
    later, _ = await made(plan, inputs[:20])
    ends = [events[-1] for events in (whole, again, later)]
    assert len({end.usage for end in ends if isinstance(end, TurnEnded)}) == 1


async def test_a_reply_without_ids_ends_where_its_server_did() -> None:
    plan, _ = await free()
    _, inputs = await made(plan)
    with pytest.raises(EngineLostError, match="no token ids"):
        await made(plan, [inputs[0], Sampled((), text="The fi")])


async def test_a_record_of_another_reply_is_not_gone_on_with() -> None:
    plan, _ = await free()
    _, inputs = await made(plan)
    with pytest.raises(EngineLostError, match="not made here as it was"):
        await made(plan, [inputs[0], inputs[1], inputs[0]])


ANSWER = ids("It is sunny.", END)
CALLS = ids(CALL, '{"name": "weather", "arguments": {"city": "Bern"}}', UNCALL, END)


async def with_tool(recorded: Sequence[Input], runs: list[str]) -> tuple[list[object], list[Input]]:
    """All events of a reply with a call of a tool, which notes that it ran."""

    def weather(city: str) -> str:
        """The weather.

        Args:
            city: where.
        """
        runs.append(city)
        return "sunny"

    def said(prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
        text = b"".join(piece if isinstance(piece, bytes) else b"|" for piece in map(TOKENIZER.piece, prompt))
        reply = ANSWER if b"sunny" in text else CALLS
        return next(
            reply[n:] for n in range(len(reply), -1, -1) if tuple(prompt[len(prompt) - n :]) == tuple(reply[:n])
        )

    tool = FunctionTool(weather)
    request = TurnRequest(conversation=Conversation((hi(),), tools=(tool.spec,)), call_key="k", max_tokens=200)
    plan = await prepare_turn(model(scripted(said, grammar=False)), request)
    inputs, events = list(recorded), list[object]()
    source = turns_of(plan, Router([tool]), log=ReplayLog(inputs.append, tuple(recorded)))
    async with aclosing(source(Deadline(UNLIMITED))) as turns:
        async for step in turns:
            events += step.events
    return events, inputs


async def test_a_result_that_is_there_is_not_asked_for_again() -> None:
    runs: list[str] = []
    whole, inputs = await with_tool((), runs)
    answered = next(i for i, one in enumerate(inputs) if isinstance(one, Called) and one.result is not None)
    for cut in range(len(inputs) + 1):
        runs.clear()
        again, recorded = await with_tool(inputs[:cut], runs)
        assert runs == ([] if cut > answered else ["Bern"])
        assert without_seconds(again) == without_seconds(whole)
        assert len(recorded) == len(inputs)


def without_seconds(events: Sequence[object]) -> list[object]:
    return [
        msgspec.structs.replace(event, result=replace(event.result, seconds=0.0))
        if isinstance(event, ToolEnded)
        else event
        for event in events
    ]
