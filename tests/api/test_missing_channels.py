"""Text on no channel: reasoning never reaches a user, and no answer is lost, in every route, streamed or not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.api.dialects import databricks, lmdeploy, mindie
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Conversation, Message, Role, TextDelta
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.engines.scripted import Script
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS
from antiphon.formats.openchatml import openchatml
from antiphon.generation import Model, TurnRequest, prepare_turn
from antiphon.generation.turn import steps as turn_steps
from antiphon.tokens import ControlScanner, encode_pieces, o200k_harmony
from antiphon.wire.dialect import Dialect
from kit.api import Got, exchange_bytes, post_in_process, scripted
from kit.missing_channels import (
    ANALYSIS,
    ANSWER,
    ARGUMENTS,
    CALL,
    FINAL,
    HARMONY_80,
    PREAMBLE,
    THOUGHT,
    UNMARKED,
    Shape,
    grouped,
)
from kit.responses import VOCABULARY, events_of

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
ASK = Conversation((Message(role=Role.USER, text="Hi"),))
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}],
    },
    RESPONSES: {
        "input": "Hi",
        "tools": [{"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}],
    },
}
WAYS = tuple(product(ASKED, (False, True)))
"""Whole and streamed on each route."""
Seen = tuple[str, tuple[str, ...], str, str]
"""What a client gets: text, the arguments of calls, reasoning, why it ended."""


def ways(first: int = 0) -> Iterator[tuple[str, bool]]:
    """One way after the other, again and again, for cases that come each in one of them."""
    return islice(cycle(WAYS), first % len(WAYS), None)


def sampled(text: str) -> list[int]:
    """The ids of a reply, its controls as controls."""
    scanner = ControlScanner(CONTROLS)
    return encode_pieces([*scanner.feed(text), *scanner.close()], VOCABULARY)


def model_of(script: Script | Sequence[int], *, spelled: bool = False, chunk: int = 3) -> Model:
    engine = ScriptedEngine(script, chunk=chunk, context=200_000, token_bytes=spelled_id)
    return Model(name="oss", engine=engine, tokenizer=VOCABULARY, format=Harmony(spelled=spelled))


def spelled_id(id: int) -> bytes:
    piece = VOCABULARY.piece(id)
    return piece if isinstance(piece, bytes) else piece.spelling.encode()


def app(script: Script | Sequence[int], *, spelled: bool = False, chunk: int = 3, **options: Any) -> Starlette:
    return create_app(StaticCatalog({"oss": model_of(script, spelled=spelled, chunk=chunk)}), **options)


async def ask(application: Starlette, route: str, *, stream: bool, **fields: Any) -> Seen:
    got = await post_in_process(application, route, **{**ASKED[route], **fields}, stream=stream)
    assert got.status == 200, got.body
    if route == RESPONSES:
        return response_seen(events_of(got)[-1]["response"] if stream else got.json)
    return chat_seen([choice["delta"] | choice for choice in choices_of(got)] if stream else choices_of(got))


def choices_of(got: Got) -> list[dict[str, Any]]:
    if got.body.startswith(b"{"):
        return [choice["message"] | choice for choice in got.json["choices"]]
    return [choice for event in got.events if event != "[DONE]" for choice in event["choices"]]


def chat_seen(parts: Iterable[dict[str, Any]]) -> Seen:
    text, reasoning, ended = "", "", ""
    calls: dict[int, str] = {}
    for part in parts:
        text += part.get("content") or ""
        reasoning += part.get("reasoning") or ""
        ended = part.get("finish_reason") or ended
        for i, call in enumerate(part.get("tool_calls") or ()):
            index = call.get("index", i)
            calls[index] = calls.get(index, "") + (call["function"].get("arguments") or "")
    return text, tuple(calls.values()), reasoning, ended


def response_seen(response: dict[str, Any]) -> Seen:
    items = response["output"]
    texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    thoughts = [part["text"] for item in items if item["type"] == "reasoning" for part in item.get("content") or ()]
    calls = tuple(item["arguments"] for item in items if item["type"] == "function_call")
    assert {item.get("status", "completed") for item in items} <= {"completed", response["status"]}
    return "\n\n".join(texts), calls, "\n\n".join(thoughts), response["status"]


class Reply:
    """A model that says what the test sets."""

    def __init__(self) -> None:
        self.ids: Sequence[int] = ()

    def __call__(self, prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
        return self.ids


@pytest.mark.spec("HAR-15", "HAR-67")
@pytest.mark.parametrize("shapes", grouped().values(), ids=grouped())
async def test_reasoning_is_in_no_content_and_no_answer_is_lost(shapes: Mapping[str, Shape]) -> None:
    reply = Reply()
    application = app(reply)
    for (name, shape), (route, stream) in zip(shapes.items(), ways(), strict=False):
        reply.ids = sampled(shape.reply)
        text, calls, reasoning, ended = await ask(application, route, stream=stream)
        assert (text.strip(), calls, reasoning) == (shape.content, shape.calls, ""), name
        assert ended == ("completed" if route == RESPONSES else "tool_calls" if shape.calls else "stop"), name


@pytest.mark.spec("HAR-15")
async def test_what_was_no_answer_is_reasoning_for_those_who_may_see_it() -> None:
    reply = Reply()
    application = app(reply, expose_reasoning=True)
    for header in UNMARKED:
        for rest in ("final", "call"):
            reply.ids = sampled(grouped()[header][rest].reply)
            for route in ASKED:
                _, _, reasoning, _ = await ask(application, route, stream=route == CHAT)
                assert THOUGHT in reasoning


@pytest.mark.spec("HAR-15", "HAR-67")
async def test_the_refusal_of_a_bug_report_is_its_answer_alone() -> None:
    """openai/harmony#80: the ids that a server logged."""
    o200k = o200k_harmony()
    reply = [*HARMONY_80, *o200k.encode(ANSWER), 200002]
    model = Model(name="oss", engine=scripted(reply), tokenizer=o200k, format=Harmony())
    application = create_app(StaticCatalog({"oss": model}))
    for route in ASKED:
        for stream in (False, True):
            assert (await ask(application, route, stream=stream))[0] == ANSWER


@pytest.mark.parametrize("header", sorted(UNMARKED.keys() - {"thought"}))
async def test_a_reply_that_its_limit_cuts_shows_what_it_was_cut_in(header: str) -> None:
    """A text that others followed was not the answer: one may still have come."""
    answer = UNMARKED[header].format(ANSWER)
    cuts = (
        (answer, ANSWER),
        (f"{answer}<|end|>", ANSWER),
        (f"{answer}<|end|>{ANALYSIS.removesuffix('<|end|>')}", ""),
        (f"{answer}<|end|>{ANALYSIS}", ""),
        (f"{answer}<|end|><|start|>assistant<|channel|>final<|message|>", ""),
    )
    for (reply, text), (route, stream) in zip(cuts, ways(len(header)), strict=False):
        ids = sampled(reply)
        limit = {CHAT: "max_tokens", RESPONSES: "max_output_tokens"}[route]
        seen, _, _, ended = await ask(app([*ids, *ids]), route, stream=stream, **{limit: len(ids)})
        assert ended == {CHAT: "length", RESPONSES: "incomplete"}[route]
        assert text in seen if text else seen == ""


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_is_found_in_an_answer_on_no_channel_and_in_no_reasoning(stream: bool) -> None:
    fields = {"stop": ["can't"], "tools": None}
    answer = sampled(f"<|channel|>response<|message|>{ANSWER}<|return|>")
    assert await ask(app(answer), CHAT, stream=stream, **fields) == ("Sorry, I ", (), "", "stop")
    thought = sampled(f"I can't answer: SECRET.<|end|>{FINAL}")
    assert (await ask(app(thought), CHAT, stream=stream, **fields))[0] == "Sorry, I "
    announced = sampled(f"SECRET<|end|><|start|>assistant<|channel|>commentary<|message|>I can't.<|end|>{CALL}")
    assert (await ask(app(announced), CHAT, stream=stream, **fields))[0] == "I "


async def test_a_text_that_waits_is_no_silence_and_its_log_probabilities_wait_with_it() -> None:
    """A limit of time to the first token is about the model, which writes; and a stream goes on as soon as it may."""
    reply = sampled(f"<|message|>{ANSWER}<|return|>")
    plan = await prepare_turn(model_of(reply), TurnRequest(conversation=ASK, logprobs=0))
    steps = [step async for step in turn_steps(plan)]
    assert steps[0].completion_tokens < 5, "it is noticed when it begins"
    (text,) = [event for step in steps for event in step.events if isinstance(event, TextDelta)]
    assert text.text == ANSWER
    assert b"".join(one.data for one in text.logprobs).decode() == ANSWER


@pytest.mark.parametrize("stream", [False, True])
async def test_a_very_long_text_on_no_channel_is_held_to_its_end(stream: bool) -> None:
    """Its bound is the reply's: to show it sooner could show reasoning."""
    thought, most = "SECRET " * 3_000, {"max_tokens": 25_000}
    answered = sampled(f"{thought}<|end|>{FINAL}")
    assert (await ask(app(answered, chunk=500), CHAT, stream=stream, **most))[0] == ANSWER
    text, *_ = await ask(app(sampled(f"{thought}<|return|>"), chunk=500), CHAT, stream=stream, **most)
    assert text == thought


@pytest.mark.parametrize("reply", [f"<|channel|>response<|message|>{ANSWER}<|return|>", f"{THOUGHT}<|end|>{FINAL}"])
async def test_the_history_is_what_was_shown(reply: str) -> None:
    """As the template writes it, an answer is ``final`` and reasoning is not there, though the model said neither."""
    prompts: list[str] = []

    def script(prompt: Sequence[int], sampling: object, choice: int) -> Sequence[int]:
        prompts.append(spelling(prompt))
        return sampled(reply)

    application = app(script)
    first = (await post_in_process(application, RESPONSES, input="Hi")).json
    behind = {"previous_response_id": first["id"], "prefix_policy": "template"}
    again = await post_in_process(application, RESPONSES, input="So?", **behind)
    assert again.status == 200
    assert f"<|start|>assistant<|channel|>final<|message|>{ANSWER}<|end|>" in prompts[1]
    assert "SECRET" not in prompts[1]


def spelling(ids: Iterable[int]) -> str:
    return b"".join(map(spelled_id, ids)).decode()


async def test_before_a_call_it_is_reasoning_in_the_history_too() -> None:
    prompts: list[str] = []

    def script(prompt: Sequence[int], sampling: object, choice: int) -> Sequence[int]:
        prompts.append(spelling(prompt))
        return sampled(f"{THOUGHT}<|end|>{CALL}" if len(prompts) == 1 else FINAL.removeprefix("<|start|>assistant"))

    application = app(script)
    first = (await post_in_process(application, RESPONSES, **ASKED[RESPONSES])).json
    (call,) = [item for item in first["output"] if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Rain."}
    body = {**ASKED[RESPONSES], "input": [result], "previous_response_id": first["id"]}
    assert (await ask(application, RESPONSES, stream=False, **body))[0] == ANSWER
    assert prompts[1].startswith(f"{prompts[0]}{THOUGHT}<|end|>{CALL}")


async def test_in_a_loop_of_chat_completions_it_stands_before_the_call_until_the_answer() -> None:
    prompts: list[str] = []
    replies = (f"{THOUGHT}<|end|>{CALL}", f"{THOUGHT}<|end|>{FINAL}", FINAL.removeprefix("<|start|>assistant"))

    def script(prompt: Sequence[int], sampling: object, choice: int) -> Sequence[int]:
        prompts.append(spelling(prompt))
        return sampled(replies[len(prompts) - 1])

    application = app(script)
    messages = [*ASKED[CHAT]["messages"]]
    for turn in range(3):
        got = await post_in_process(application, CHAT, **{**ASKED[CHAT], "messages": messages})
        message = got.json["choices"][0]["message"]
        assert "SECRET" not in got.body.decode()
        messages.append(message)
        if turn == 0:
            messages.append({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "Rain."})
        else:
            assert message["content"] == ANSWER
            messages.append({"role": "user", "content": "So?"})
    assert [THOUGHT in prompt for prompt in prompts] == [False, True, False]
    assert prompts[1].startswith(f"{prompts[0]}{replies[0]}")


async def test_other_routes_show_the_same() -> None:
    shape = grouped()["marks"]["analysis, final"]
    application = app(sampled(shape.reply))
    fields: Any = {"prompt": "Hi", "use_raw_prompt": False}
    completed = await post_in_process(application, "/v1/completions", **fields)
    assert completed.json["choices"][0]["text"] == ANSWER
    said = await post_in_process(application, "/v1/chat/interactive", prompt="Hi", session_id="s")
    assert said.json["text"] == ANSWER
    parsed = (await post_in_process(application, "/v1/parse", model="oss", text=shape.reply)).json
    assert parsed["message"]["content"] == ANSWER
    assert [message.get("channel") for message in parsed["messages"]] == ["analysis", "analysis", "final"]
    assert "channel-inferred" in {one["code"] for one in parsed["incidents"]}


WIRES: dict[str, dict[str, Any] | str] = {
    CHAT: {"messages": [{"role": "user", "content": "Hi"}]},
    RESPONSES: {"input": "Hi"},
    "/v1/messages": {"model": "oss", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]},
    "/api/chat": {"model": "oss", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/chat/interactive": {"prompt": "Hi", "session_id": "s"},
    "/v1/openchatml": 'version: "2.2"\n<|start|>user<|message|>Hi<|end|>\n',
}


@pytest.mark.spec("HAR-15", "OCM-144")
@pytest.mark.parametrize("format", [Harmony(), openchatml(VOCABULARY.controls)], ids=["harmony", "openchatml"])
@pytest.mark.parametrize("path", WIRES)
async def test_text_on_a_channel_that_there_is_not_is_shown_by_no_wire(path: str, format: Format) -> None:
    for channel, end, stream in (
        ("thinking", "<|return|>", False),
        ("comentary", "<|end|>", True),
        ("scratchpad", "<|call|>", False),
        ("思考", "", True),
    ):
        ids = sampled(f"<|channel|>{channel}<|message|>SECRET{end}")
        engine = ScriptedEngine(ids, token_bytes=spelled_id)
        model = Model(name="oss", engine=engine, tokenizer=VOCABULARY, format=format)
        application, asked = create_app(StaticCatalog({"oss": model})), WIRES[path]
        if isinstance(asked, str):
            got = await exchange_bytes(application, path, asked.encode(), [], query=b"stream=%d" % stream)
        else:
            got = await post_in_process(application, path, **asked, stream=stream)
        assert got.status == 200
        assert b"SECRET" not in got.body
        assert stream or "channel-hidden" in got.headers["x-antiphon-incidents"]


async def test_openchatml_reads_a_missing_channel_as_final_and_holds_one_that_there_is_not() -> None:
    """A-O01. Of a channel that the specification does not have it says nothing."""
    for reply, shown in (
        (f"<|channel|>response<|message|>{ANSWER}<|return|>", ANSWER),
        (f"<|channel|>response<|message|>SECRET<|end|>{FINAL}", ANSWER),
        (f"<|message|>A part.<|end|>{FINAL}", f"A part.\n\n{ANSWER}"),
    ):
        model = Model(
            name="m", engine=scripted(sampled(reply)), tokenizer=VOCABULARY, format=openchatml(VOCABULARY.controls)
        )
        application = create_app(StaticCatalog({"m": model}))
        for route in ASKED:
            for stream in (False, True):
                assert (await ask(application, route, stream=stream))[0] == shown


# What nobody offered, and how a call ends

UNOFFERED = {
    "browser": '<|channel|>analysis to=browser.search code<|message|>{"query": "x"}<|call|>',
    "python": "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
    "function": '<|channel|>commentary to=functions.other <|constrain|>json<|message|>{"a": 1}<|call|>',
    "own namespace": '<|channel|>commentary to=docs.size<|message|>{"a": 1}<|call|>',
    "order": " to=python<|channel|>analysis code<|message|>print(1)<|call|>",
}


@pytest.mark.parametrize("name", UNOFFERED)
async def test_what_nobody_offered_is_no_call(name: str) -> None:
    call = UNOFFERED[name]
    body = call.partition("<|message|>")[2].removesuffix("<|call|>")
    ends = (("<|call|>", ""), ("<|end|>", body), ("<|return|>", body), (f"<|end|>{FINAL}", ANSWER))
    asked = ways(len(name))
    for (end, shown), offered in product(ends, (False, True, False)):
        route, stream = next(asked)
        tools = ASKED[route]["tools"] if offered else []
        said = sampled(call.replace("<|call|>", end))
        text, calls, _, ended = await ask(app(said), route, stream=stream, tools=tools)
        assert (text, calls) == (shown, ())
        assert ended in ("stop", "completed")


@pytest.mark.spec("HAR-37")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("channel", ["analysis", "commentary", "final"])
async def test_a_call_of_what_is_offered_is_a_call_on_any_channel(channel: str, stream: bool) -> None:
    for end in ("<|call|>", "<|end|>", "<|return|>", ""):
        reply = f"<|channel|>{channel} to=functions.weather json<|message|>{ARGUMENTS}{end}"
        for route in ASKED:
            text, calls, _, ended = await ask(app(sampled(reply)), route, stream=stream)
            assert (text, calls) == ("", (ARGUMENTS,))
            assert ended in ("tool_calls", "completed")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_that_its_limit_cuts_is_cut(stream: bool) -> None:
    reply = sampled(f"<|channel|>commentary to=functions.weather json<|message|>{ARGUMENTS}")
    fields = {"max_tokens": len(reply)}
    assert (await ask(app([*reply, *reply]), CHAT, stream=stream, **fields))[3] == "length"
    half = reply[:-4]
    assert (await ask(app(half), CHAT, stream=stream))[3] == "tool_calls", "the model stopped in its arguments"


@pytest.mark.parametrize("dialect", [databricks(), mindie(), lmdeploy()], ids=lambda dialect: dialect.name)
async def test_every_dialect_says_that_the_model_called(dialect: Dialect) -> None:
    reply = sampled(CALL.removeprefix("<|start|>assistant").removesuffix("<|call|>"))
    got = await post_in_process(app(reply, dialect=dialect), CHAT, **{**ASKED[CHAT], "model": "oss", "stream": False})
    assert got.status == 200, got.body
    (choice,) = got.json["choices"]
    assert choice["finish_reason"] == ("eos_token" if dialect.name == "mindie" else "tool_calls")
    assert [call["function"]["arguments"] for call in choice["message"]["tool_calls"]] == [ARGUMENTS]


# Controls that came as text, or not at all

PLAIN_TEXT = {
    "spelled": Shape(f"<|channel|>analysis<|message|>SECRET<|end|>{FINAL}", ANSWER),
    "spelled, no channel": Shape(f"{THOUGHT}<|end|>{FINAL}", ANSWER),
    "spelled call": Shape(f"<|channel|>analysis<|message|>SECRET<|end|>{CALL}", "", (ARGUMENTS,)),
    "lost": Shape(f"analysisWe need to answer: SECRET.assistantfinal{ANSWER}", ANSWER),
    "lost, small": Shape('analysisWe need to answer "What is 2+2?" SECRET.assistantfinalfour', "four"),
    "lost, final only": Shape(f"final{ANSWER}", ANSWER),
    "lost, with a preamble": Shape(f"analysisSECRETassistantcommentary{PREAMBLE}assistantfinal{ANSWER}",
                                   f"{PREAMBLE}\n\n{ANSWER}"),
    "lost call": Shape(f"analysisSECRETassistantcommentary to=functions.weather json{ARGUMENTS}", "", (ARGUMENTS,)),
    "lost call, other spelling": Shape(f"analysis to=functions.weather code{ARGUMENTS}", "", (ARGUMENTS,)),
    "lost call, joined": Shape(f"commentary to=functions.weatherjson{ARGUMENTS}", "", (ARGUMENTS,)),
    "text": Shape("finally, it rains. The assistantship is mine.", "finally, it rains. The assistantship is mine."),
    "more text": Shape("analysis of the weather: rain.", "analysis of the weather: rain."),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN_TEXT)
async def test_controls_that_come_as_text_or_not_at_all_are_read_where_the_model_s_table_says_so(name: str) -> None:
    shape = PLAIN_TEXT[name]
    for (route, stream), chunk in zip(WAYS, (1, 7, 7, 1), strict=True):
        application = app(VOCABULARY.encode(shape.reply), spelled=True, chunk=chunk)
        text, calls, _, _ = await ask(application, route, stream=stream)
        assert (text, calls) == (shape.content, shape.calls)


@pytest.mark.parametrize("name", PLAIN_TEXT)
async def test_elsewhere_they_are_text(name: str) -> None:
    said = PLAIN_TEXT[name].reply
    reply = [*sampled("<|channel|>final<|message|>"), *VOCABULARY.encode(said), *sampled("<|return|>")]
    for stream in (False, True):
        assert (await ask(app(reply), CHAT, stream=stream))[0] == said


# The law

HEADERS = [
    "",
    "<|message|>",
    "<|channel|>??<|message|>",
    "<|channel|>response<|message|>",
    "<|channel|>analysis<|message|>",
    "<|channel|>commentary<|message|>",
    "<|channel|>final<|message|>",
    "<|channel|>commentary to=functions.weather<|message|>",
    "<|channel|>analysis to=python<|message|>",
    "<|channel|>commentary to=functions.weather",
]
messages = st.lists(st.sampled_from(HEADERS), min_size=1, max_size=6)


@given(messages, st.sampled_from(["<|end|>", "<|return|>", ""]), st.lists(st.integers(1, 60), min_size=2, max_size=2))
def test_however_messages_follow_each_other_and_are_cut_all_clients_see_the_same(
    headers: list[str], end: str, chunks: list[int]
) -> None:
    """The text of a ``final`` is always seen; with one, or with a call, nothing that is on no channel is."""
    parts = [f"{header}w{i}." for i, header in enumerate(headers)]
    ids = sampled("<|end|><|start|>assistant".join(parts) + end)

    async def all_seen() -> dict[str, set[tuple[str, tuple[str, ...]]]]:
        seen: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
        for (route, stream), chunk in zip(WAYS, (*chunks, *reversed(chunks)), strict=True):
            text, calls, _, _ = await ask(app(ids, chunk=chunk), route, stream=stream)
            seen.setdefault(route, set()).add((text, calls))
        return seen

    seen = asyncio.run(all_seen())
    assert all(len(same) == 1 for same in seen.values()), "streamed, whole, and however it was cut"
    assert seen[CHAT] == seen[RESPONSES]
    ((text, calls),) = seen[CHAT]
    finals = [f"w{i}." for i, header in enumerate(headers) if "final" in header]
    called = [f"w{i}." for i, header in enumerate(headers) if "to=functions.weather<|message|>" in header]
    nowhere = [f"w{i}." for i, header in enumerate(headers) if header in HEADERS[:4]]
    assert all(word in text for word in finals)
    assert not any(f"w{i}." in text for i, header in enumerate(headers) if header == HEADERS[4])
    assert all(word in calls for word in called)
    if finals or called:
        assert not any(word in text for word in nowhere)
    elif nowhere:
        assert sum(word in text for word in nowhere) <= 1
