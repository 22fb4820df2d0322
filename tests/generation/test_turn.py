"""A turn: what is planned, what is read, what ends it, what is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from antiphon.conversation import (
    Channel,
    Conversation,
    FinishReason,
    Message,
    ResponseFormat,
    Role,
    TextPart,
    ToolChoice,
    ToolSpec,
    Usage,
)
from antiphon.conversation.calls import make_answer, make_call
from antiphon.engines import SAMPLING, EngineEnd, ScriptedEngine, Step
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError
from antiphon.formats.raw import RawFormat
from antiphon.formats.template import template_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import (
    Model,
    Overflow,
    Reply,
    TurnRequest,
    collect,
    merge_usage,
    plan_turn,
    prepare_turn,
    run_rounds,
    run_turn,
)
from antiphon.generation.reader import ChoiceReader
from antiphon.tokens import ByteTokenizer, Control, Piece

START, END = Control("<|im_start|>"), Control("<|im_end|>")
THINK, UNTHINK = Control("<think>"), Control("</think>")
CALL, UNCALL = Control("<tool_call>"), Control("</tool_call>")
EOS = Control("<|endoftext|>")
TOKENIZER = ByteTokenizer([START, END, THINK, UNTHINK, CALL, UNCALL, EOS])
FORMAT = template_format(
    "chatml", [START, END, THINK, UNTHINK, CALL, UNCALL],
    replies=QWEN,
)  # fmt: skip
HI = Conversation((Message(role=Role.USER, text="Hi"),))
WITH_TOOLS = replace(HI, tools=(ToolSpec("f"), ToolSpec("g")))
PROMPT = len("user\nHi\nassistant\n") + 3


def ids(*pieces: Piece) -> list[int]:
    sampled: list[int] = []
    for piece in pieces:
        sampled += [TOKENIZER.controls[piece]] if isinstance(piece, Control) else TOKENIZER.encode(piece)
    return sampled


def call(name: str, arguments: str = "{}") -> tuple[Piece, ...]:
    return (CALL, f'{{"name": "{name}", "arguments": {arguments}}}', UNCALL)


def model(engine: ScriptedEngine) -> Model:
    return Model(name="m", engine=engine, tokenizer=TOKENIZER, format=FORMAT)


async def turn(
    reply: Sequence[int], *, chunk: int = 1, context: int = 8192, conversation: Conversation = HI, **fields: Any
) -> Reply:
    engine = ScriptedEngine(
        reply, chunk=chunk, context=context, end_ids=frozenset({TOKENIZER.controls[EOS]}),
        token_bytes=lambda id: piece if isinstance(piece := TOKENIZER.piece(id), bytes) else b"?",
    )  # fmt: skip
    plan = await prepare_turn(model(engine), TurnRequest(conversation=conversation, **fields))
    (answer,) = await collect(run_turn(plan))
    assert engine.running == 0
    return answer


def text(reply: Reply) -> str:
    return "".join(message.text for message in reply.messages)


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
async def test_counts_do_not_depend_on_how_the_engine_cuts_its_steps(chunk: int) -> None:
    reply = ids(THINK, "hmm", UNTHINK, "so: the stop is here", END)
    answer = await turn(reply, chunk=chunk, stop=(" stop",))
    assert (answer.reason, answer.matched) == (FinishReason.STOP_SEQUENCE, " stop")
    assert [message.text for message in answer.messages] == ["hmm", "so: the"]
    assert answer.usage.completion_tokens == len(ids(THINK, "hmm", UNTHINK, "so: the stop"))
    assert answer.usage.reasoning_tokens == len("hmm")
    assert answer.usage.prompt_tokens == PROMPT


def test_the_usage_of_several_choices_has_the_prompt_once() -> None:
    one, two = Usage(9, 4, cached_tokens=5, reasoning_tokens=1), Usage(9, 6, reasoning_tokens=2)
    assert merge_usage([one, two]) == Usage(9, 10, cached_tokens=5, reasoning_tokens=3)


async def test_the_first_token_of_an_answer_has_its_log_probability_too() -> None:
    answer = await turn(ids("Hé", END), logprobs=0)
    assert b"".join(entry.data for entry in answer.logprobs) == "Hé".encode()


async def test_hidden_tokens_have_no_log_probabilities_to_show() -> None:
    reply = ids(THINK, "hmm", UNTHINK, "open", *call("f"), END)
    answer = await turn(reply, conversation=WITH_TOOLS, logprobs=0, chunk=4)
    assert b"".join(entry.data for entry in answer.logprobs) == b"open"


@pytest.mark.parametrize("chunk", [1, 100])
async def test_without_parallel_calls_the_turn_ends_at_its_first_call(chunk: int) -> None:
    reply = ids(*call("f"), *call("g"), END)
    both = await turn(reply, chunk=chunk, conversation=WITH_TOOLS)
    one = await turn(reply, chunk=chunk, conversation=WITH_TOOLS, parallel_tool_calls=False)
    assert [message.recipient for message in both.messages] == ["functions.f", "functions.g"]
    assert [message.recipient for message in one.messages] == ["functions.f"]
    assert both.reason is one.reason is FinishReason.TOOL_CALL


async def test_a_call_cut_by_the_limit_ends_for_length_and_not_as_a_call() -> None:
    answer = await turn(ids(*call("f", '{"a": 1}'), END), conversation=WITH_TOOLS, max_tokens=35)
    assert answer.reason is FinishReason.LENGTH_OUTPUT
    assert answer.messages[-1].text.startswith('{"')


async def test_ignoring_the_end_only_the_limit_ends() -> None:
    reply = ids("a", END, "b", EOS, "c" * 50)
    answer = await turn(reply, max_tokens=10, ignore_eos=True)
    assert (answer.reason, answer.usage.completion_tokens) == (FinishReason.LENGTH_OUTPUT, 10)
    assert text(answer) == "abcccccc"


async def test_an_end_token_that_the_format_does_not_know_ends_the_reply_and_is_no_part_of_it() -> None:
    answer = await turn(ids("done", EOS, "never"))
    assert (text(answer), answer.reason) == ("done", FinishReason.STOP_EOS)


async def test_a_full_context_is_another_reason_than_a_reached_limit() -> None:
    assert (await turn(ids("x" * 99), context=PROMPT + 5)).reason is FinishReason.LENGTH_CONTEXT
    assert (await turn(ids("x" * 99), max_tokens=5)).reason is FinishReason.LENGTH_OUTPUT


async def test_a_limit_of_nothing_says_nothing_and_needs_no_engine() -> None:
    answer = await turn(ids("x"), max_tokens=0)
    assert (text(answer), answer.reason) == ("", FinishReason.LENGTH_OUTPUT)


ID = re.compile(r"call_[0-9A-Za-z]{16}")


async def called(conversation: Conversation = WITH_TOOLS, **fields: Any) -> list[str]:
    """The ids of the calls of all choices, of which each makes two."""
    engine = ScriptedEngine(ids(*call("f"), *call("f"), END))
    request = TurnRequest(conversation=conversation, **fields)
    answers = await collect(run_turn(await prepare_turn(model(engine), request)), request.n)
    found = [str(message.call_id) for answer in answers for message in answer.messages]
    assert len(found) == 2 * request.n
    assert all(map(ID.fullmatch, found))
    return found


async def test_no_two_calls_of_any_requests_or_choices_have_one_id() -> None:
    found = [id for _ in range(20) for id in await called(n=3)]
    assert len(set(found)) == len(found)


async def test_the_ids_of_one_request_are_the_same_however_often_it_is_read_and_none_of_them_is_taken() -> None:
    first = await called(call_key="k")
    assert await called(call_key="k") == first
    before = [
        Message(role=Role.ASSISTANT, recipient="functions.f", channel="commentary", call_id=id, text="{}")
        for id in (first[0], (await called(WITH_TOOLS.add(HI.messages[0]), call_key="k"))[1])
    ]
    assert not {*first} & {*await called(WITH_TOOLS.add(*before), call_key="k")}


def test_an_engine_that_gives_text_is_read_like_one_that_gives_ids() -> None:
    plan = plan_turn(model(ScriptedEngine([])), TurnRequest(conversation=HI))
    reader = ChoiceReader(plan)
    events = [*reader.read(Step(text="Hel")), *reader.read(Step(text="lo<|im_", end=None))]
    events += reader.read(Step(text="end|>", end=EngineEnd.STOP))
    assert "".join(getattr(event, "text", "") for event in events) == "Hello"
    assert reader.over


async def test_a_long_turn_is_planned_beside_the_event_loop_and_is_the_same_plan() -> None:
    answering, request = model(ScriptedEngine([])), TurnRequest(conversation=HI)
    assert await prepare_turn(answering, request, off_loop=True) == await prepare_turn(answering, request)


async def test_closing_a_turn_stops_the_engine() -> None:
    engine = ScriptedEngine(ids("x" * 100))
    events = run_turn(await prepare_turn(model(engine), TurnRequest(conversation=HI)))
    await anext(events)
    assert engine.running == 1
    await events.aclose()
    assert engine.running == 0


def test_a_prompt_that_leaves_no_room_is_refused_with_both_numbers_and_one_token_is_room() -> None:
    with pytest.raises(ContextError, match=rf"{PROMPT}.*{PROMPT}") as caught:
        plan_turn(model(ScriptedEngine([], context=PROMPT)), TurnRequest(conversation=HI))
    assert caught.value.param == "messages"
    for overflow in Overflow:
        request = TurnRequest(conversation=HI, overflow=overflow)
        assert plan_turn(model(ScriptedEngine([], context=PROMPT + 1)), request).sampling.max_tokens == 1


def exchange(*texts: str) -> Conversation:
    """A system text, then questions and answers by turns."""
    roles = [Role.SYSTEM, *[Role.USER, Role.ASSISTANT] * len(texts)]
    return Conversation(tuple(Message(role=role, text=text) for role, text in zip(roles, texts, strict=False)))


class Unrendered(RawFormat):
    """A format that must not be reached."""

    def render(self, *args: object, **options: object) -> Iterator[Piece]:
        raise AssertionError("rendered")


def test_tools_that_cannot_fit_are_refused_before_anything_is_rendered() -> None:
    model = Model(name="m", engine=ScriptedEngine([1], context=50), tokenizer=TOKENIZER, format=Unrendered())
    conversation = replace(HI, tools=(ToolSpec("f", "x" * 20), ToolSpec("g", "y" * 30)))
    with pytest.raises(ContextError, match="more than 49 tokens") as caught:
        plan_turn(model, TurnRequest(conversation=conversation))
    assert caught.value.position == Position(path="tools")
    with pytest.raises(AssertionError, match="rendered"):
        plan_turn(model, TurnRequest(conversation=HI))


def test_a_prompt_that_is_too_long_has_an_empty_answer_or_loses_its_oldest_turns_where_the_request_says_so() -> None:
    conversation = exchange("Be brief.", "a" * 400, "b" * 400, "c" * 400, "d" * 400, "last")
    small = model(ScriptedEngine([], context=1_000))
    empty = plan_turn(small, TurnRequest(conversation=conversation, overflow=Overflow.EMPTY_ANSWER))
    assert (empty.sampling.max_tokens, len(empty.request.conversation.messages)) == (0, 6)
    shorter = plan_turn(small, TurnRequest(conversation=conversation, overflow=Overflow.DROP_OLDEST))
    remaining = [message.text[:5] for message in shorter.request.conversation.messages]
    assert remaining == ["Be br", "ccccc", "ddddd", "last"]
    with pytest.raises(ContextError):
        plan_turn(small, TurnRequest(conversation=exchange("Be brief.", "a" * 2_000), overflow=Overflow.DROP_OLDEST))


def looped(*results: str, together: bool = False) -> list[Message]:
    """A question, and calls with their reasons and results: one after the other, or the first two of them at once."""
    rounds = [
        [
            Message(role=Role.ASSISTANT, channel=Channel.ANALYSIS, text=f"why {i}"),
            make_call("functions.f", "{}", f"c{i}"),
            make_answer("functions.f", f"c{i}", (TextPart(result),)),
        ]
        for i, result in enumerate(results)
    ]
    if together:
        first, second = rounds[:2]
        rounds[:2] = [[*first[:2], second[1], *first[2:], second[2]]]
    return [Message(role=Role.USER, text="Go."), *(one for each in rounds for one in each)]


@pytest.mark.parametrize(
    ("messages", "left"),
    [
        (looped(*(str(i) * 200 for i in range(5))), ["Go.", "why 3", "c3", "33333", "why 4", "c4", "44444"]),
        (looped("0" * 200, "1" * 200, "2" * 300, together=True), ["Go.", "why 2", "c2", "22222"]),
        (
            [Message(role=Role.USER, text="x" * 500), Message(role=Role.ASSISTANT, text="y"), *looped("0" * 400, "1")],
            ["Go.", "why 0", "c0", "00000", "why 1", "c1", "1"],
        ),
        ([make_call("functions.f", "{}", "never"), *looped("0" * 600, "1")], ["Go.", "why 1", "c1", "1"]),
        (looped("0" * 600, "1")[1:], ["why 1", "c1", "1"]),
    ],
)
def test_where_one_turn_is_the_whole_chat_its_oldest_calls_go_with_their_reasons_and_results(
    messages: list[Message], left: list[str]
) -> None:
    small = model(ScriptedEngine([], context=750))
    request = TurnRequest(conversation=Conversation(tuple(messages)), overflow=Overflow.DROP_OLDEST)
    shorter = plan_turn(small, request)
    assert [one.call_id if one.is_call else one.text[:5] for one in shorter.request.conversation.messages] == left
    assert [incident.code for incident in shorter.incidents] == ["history_left_out"]


def test_what_was_answered_last_is_never_left_out() -> None:
    small = model(ScriptedEngine([], context=750))
    request = TurnRequest(conversation=Conversation(tuple(looped("0", "1" * 900))), overflow=Overflow.DROP_OLDEST)
    with pytest.raises(ContextError):
        plan_turn(small, request)


async def test_an_error_of_planning_has_the_names_of_the_request_s_wire() -> None:
    def reword(error: RequestError) -> None:
        error.position = Position(path="input")

    request = TurnRequest(conversation=HI, reword=reword)
    with pytest.raises(ContextError) as caught:
        await prepare_turn(model(ScriptedEngine([], context=PROMPT)), request)
    assert caught.value.param == "input"


async def test_a_raw_prompt_is_no_copy_of_its_model_and_its_reply_is_text() -> None:
    engine = ScriptedEngine(ids(THINK, "not a thought", END))
    answering = model(engine)
    raw = RawFormat(TOKENIZER.controls, stops=[END], spelled=True)
    plan = await prepare_turn(answering, TurnRequest(conversation=HI, raw=raw))
    assert plan.model is answering
    assert (plan.format, plan.prompt_ids) == (raw, tuple(TOKENIZER.encode("Hi")))
    (answer,) = await collect(run_turn(plan))
    assert text(answer) == "<think>not a thought"
    with pytest.raises(UnsupportedError) as caught:
        plan_turn(answering, TurnRequest(conversation=WITH_TOOL, raw=raw, tool_choice=ToolChoice("required")))
    assert caught.value.param == "tool_choice"


async def test_rounds_without_a_router_are_the_turn_itself() -> None:
    engine = ScriptedEngine(ids("Let me see.", *call("f"), END))
    plan = await prepare_turn(model(engine), TurnRequest(conversation=WITH_TOOL))
    assert [event async for event in run_rounds(plan)] == [happened.event async for happened in run_turn(plan)]


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"type": "object", "description": "x" * 5_000}, "tools"),
        ({"type": "array", "minItems": 10**9, "description": "x" * 5_000}, "tools[0].function.parameters.minItems"),
    ],
)
def test_tools_that_overflow_the_context_are_named(parameters: dict[str, Any], place: str) -> None:
    conversation = replace(HI, tools=(ToolSpec("f", parameters=parameters),))
    with pytest.raises(RequestError) as caught:
        plan_turn(model(ScriptedEngine([], context=1_000)), TurnRequest(conversation=conversation))
    assert caught.value.param == place


WITH_TOOL = replace(HI, tools=(ToolSpec("f"),))
UNKEPT = [
    ("tool_choice", TurnRequest(conversation=WITH_TOOL, tool_choice=ToolChoice("required"))),
    ("tool_choice", TurnRequest(conversation=WITH_TOOL, tool_choice=ToolChoice("auto", ("f",)))),
    ("response_format", TurnRequest(conversation=replace(HI, response_format=ResponseFormat("json_object")))),
]


@pytest.mark.parametrize(("param", "request_"), UNKEPT)
def test_what_only_a_grammar_can_promise_is_refused_without_one(param: str, request_: TurnRequest) -> None:
    with pytest.raises(UnsupportedError) as caught:
        plan_turn(model(ScriptedEngine([])), request_)
    assert caught.value.param == param


def test_what_the_engine_cannot_do_is_refused_by_name() -> None:
    engine = ScriptedEngine([], honours=SAMPLING - {"top_k"})
    plan_turn(model(engine), TurnRequest(conversation=HI, top_p=0.5))
    with pytest.raises(UnsupportedError) as caught:
        plan_turn(model(engine), TurnRequest(conversation=HI, top_k=5))
    assert caught.value.param == "top_k"


@pytest.mark.parametrize("temperature", [-0.1, 2.1, float("nan"), float("inf")])
def test_a_temperature_out_of_range_is_refused(temperature: float) -> None:
    with pytest.raises(RequestError) as caught:
        plan_turn(model(ScriptedEngine([])), TurnRequest(conversation=HI, temperature=temperature))
    assert caught.value.param == "temperature"
