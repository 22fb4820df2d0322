"""Tools over POST /v1/openchatml: calls as they come, those that run here, and what cancels them."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from antiphon.api import create_app
from antiphon.api.transcript.write import Gate, TranscriptWriter
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Message, MessageEnded, MessageStarted, OpaquePart, Role
from antiphon.formats.openchatml import EventReader, EventStream, Writer, openchatml, read, validate
from antiphon.generation import Model, StepEvents
from antiphon.http.gate.keys import new_key
from antiphon.tokens import Piece, decode
from antiphon.tools import FunctionToolSet, Toolbox, ToolCall, ToolEnded, ToolOutput, ToolResult
from kit.api import END, THINK, TOKENIZER, UNTHINK, Got, app, call, ids, replies, request, running, served
from kit.waiting import PATIENCE

HEADER = 'version: "2.2"\ngeneration_settings: {builtin_tools: [slow, quick]}\n'
ASKED = HEADER + "<|start|>user<|message|>Both, please.<|end|>\n"
PARALLEL = (*call("slow", '{"seconds": 9}'), *call("quick", '{"word": "hi"}'), END)


def quick(word: str) -> str:
    """At once."""
    return word.upper()


async def slow(seconds: int) -> str:
    """Never."""
    await asyncio.Event().wait()
    return "done"


def tools() -> Toolbox:
    return Toolbox([FunctionToolSet([quick, slow])])


base = served(lambda: app(ids("x", END)))


def whole(base: str, transcript: str, **headers: str) -> Got:
    return request(base, "POST", "/v1/openchatml", transcript.encode(), content_type="text/plain", **headers)


def cancel(base: str, id: str, key: str = "", **fields: Any) -> Got:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = json.dumps(fields).encode() if fields else None
    return request(base, "POST", f"/v1/openchatml/{id}/cancel", body, content_type="application/json", **headers)


def events(base: str, transcript: str, key: str = "") -> Iterator[dict[str, Any]]:
    """The events as they come."""
    headers = {"accept": "text/event-stream", **({"authorization": f"Bearer {key}"} if key else {})}
    with closing(http.client.HTTPConnection(urlsplit(base).netloc, timeout=PATIENCE)) as connection:
        connection.request("POST", "/v1/openchatml", transcript.encode(), headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def frames(happened: Sequence[dict[str, Any]]) -> list[Message]:
    """The messages that the events of a turn are."""
    reader = EventReader()
    return [message for event in happened for message in reader.feed(event)]


def check_every_prefix(transcript: str, messages: Sequence[Message]) -> str:
    """The transcript with the messages behind it, which is valid after each of them."""
    writer = Writer()
    for message in messages:
        transcript += writer.write(message).removeprefix("\n") + "\n"
        assert not [str(found) for found in validate(transcript) if not found.warning]
    return transcript


@pytest.mark.spec("OCM-89", "OCM-92", "OCM-103", "OCM-138", "OCM-166")
def test_of_two_calls_at_once_one_is_cancelled_and_one_is_answered_before_the_answer() -> None:
    (key, alice), (other, bob) = new_key("alice"), new_key("bob")
    with running(app(replies(PARALLEL, ("Only one came.", END)), tools=tools(), keys=[alice, bob])) as base:
        happened: list[dict[str, Any]] = []
        for event in events(base, ASKED, key):
            happened.append(event)
            if event["type"] == "tool.reply" and event["name"] == "functions.quick":
                (given_up,) = (e for e in happened if e["type"] == "tool.call" and "slow" in e["recipient"])
                address = {"id": given_up["message_id"], "call_id": given_up["call_id"]}
                assert cancel(base, key=other, **address).status == 404
                assert cancel(base, key=key, id=address["id"], call_id="another").status == 404
                cancelled = cancel(base, key=key, **address, reason="too slow")
                assert (cancelled.status, cancelled.json["call_id"]) == (200, address["call_id"])
        assert cancel(base, key=key, **address).status == 404
    kinds = [event["type"] for event in happened]
    assert kinds.index("tool.call.delta") < kinds.index("response.done") < kinds.index("tool.reply")
    (announced,) = (event for event in happened if event["type"] == "tool.cancel")
    assert (announced["call_id"], announced["reason"]) == (given_up["call_id"], "too slow")
    assert announced["message_id"] == given_up["message_id"]
    assert [event["seq"] for event in happened] == list(range(len(happened)))
    messages = read(check_every_prefix(ASKED, frames(happened))).messages
    assert [m.text for m in messages if m.is_call] == ['{"seconds": 9}', '{"word": "hi"}']
    right, wrong = (json.loads(m.text) for m in messages if m.role is Role.TOOL)
    assert (right["content"], wrong["ok"], wrong["error"]["code"]) == ("HI", False, "E-TOOL-CANCELLED")
    assert messages[-1].text == "Only one came."


def test_whole_the_transcript_has_the_calls_and_their_replies_and_can_be_gone_on_with() -> None:
    both = (*call("quick", '{"word": "a"}'), *call("quick", '{"word": "b"}'), END)
    engine = replies(both, ("A and B.", END), ("x", END))
    with running(app(engine, tools=tools())) as base:
        answer = whole(base, ASKED).body.decode()
        again = whole(base, answer + "<|start|>user<|message|>More.<|end|>\n")
    assert answer.startswith(ASKED)
    assert not list(validate(answer))
    messages = read(answer).messages
    assert [(m.role.value, m.recipient) for m in messages[1:]] == [
        ("assistant", "functions.quick"),
        ("assistant", "functions.quick"),
        ("tool", "assistant"),
        ("tool", "assistant"),
        ("assistant", None),
    ]
    assert {m.call_id for m in messages[1:3]} == {m.call_id for m in messages[3:5]}
    assert again.status == 200
    assert '"content": "A"' in decode(TOKENIZER, engine.requests[1][0])


def test_the_clients_own_calls_are_handed_back_once_ours_are_answered() -> None:
    declared = '<|start|>developer<|message|># Tools\n\n## functions\n{"name": "mine", "parameters": {}}<|end|>\n'
    asked = HEADER + declared + "<|start|>user<|message|>Go<|end|>\n"
    with running(app(replies((*call("quick", '{"word": "a"}'), *call("mine", "{}"), END)), tools=tools())) as base:
        text = whole(base, asked).body.decode()
    assert not list(validate(text))
    *_, ours, theirs, reply = read(text).messages
    assert [ours.recipient, theirs.recipient, reply.name] == ["functions.quick", "functions.mine", "functions.quick"]


@pytest.mark.parametrize(
    ("header", "declares", "offered"),
    [
        ("", False, False),
        ("generation_settings: {builtin_tools: []}\n", False, False),
        ("generation_settings: {builtin_tools: quick}\n", True, True),
        ("generation_settings: {builtin_tools: [functions.quick]}\n", False, True),
        ("generation_settings: {builtin_tools: [browser]}\n", False, False),
    ],
)
def test_the_tools_that_the_header_names_are_offered(header: str, declares: bool, offered: bool) -> None:
    engine = replies(("plain", END))
    frame = '<|start|>developer<|message|># Tools\n## functions\n{"name": "mine"}<|end|>\n' if declares else ""
    with running(app(engine, tools=tools())) as base:
        whole(base, f'version: "2.2"\n{header}{frame}<|start|>user<|message|>x<|end|>')
    prompt = decode(TOKENIZER, engine.requests[0][0])
    assert ("At once." in prompt, "mine" in prompt) == (offered, declares)


@pytest.mark.parametrize("declares", [False, True])
def test_the_owner_may_offer_all_where_a_transcript_declares_none(declares: bool) -> None:
    engine = replies(("plain", END))
    frame = '<|start|>developer<|message|># Tools\n## functions\n{"name": "mine"}<|end|>\n' if declares else ""
    with running(app(engine, tools=tools(), offer_tools=True)) as base:
        whole(base, f'version: "2.2"\n{frame}<|start|>user<|message|>x<|end|>')
    assert ("At once." in decode(TOKENIZER, engine.requests[0][0])) is not declares


def test_a_call_that_its_tool_does_not_take_is_an_event_and_no_part_of_the_transcript() -> None:
    turns = ((*call("quick", '{"word": 5}'), END), ("Sorry.", END))
    with running(app(replies(*turns), tools=tools())) as base:
        happened = list(events(base, ASKED))
    with running(app(replies(*turns), tools=tools())) as base:
        text = whole(base, ASKED).body.decode()
    (reply,) = (event for event in happened if event["type"] == "tool.reply")
    assert json.loads(reply["content"])["error"]["code"] == "E-CALL-SCHEMA"
    assert [m.text for m in read(text).messages] == ["Both, please.", "Sorry."]


@pytest.mark.spec("OCM-136")
def test_a_call_of_the_clients_tool_that_it_does_not_take_is_an_error() -> None:
    declared = '# Tools\n## functions\n{"name": "mine", "parameters": {"type": "object", "required": ["a"]}}'
    asked = f'version: "2.2"\n<|start|>developer<|message|>{declared}<|end|>\n<|start|>user<|message|>Go<|end|>\n'
    with running(app(ids(*call("mine", "{}"), END))) as base:
        refused = whole(base, asked)
        happened = list(events(base, asked))
    assert (refused.status, refused.error["code"]) == (400, "E-CALL-SCHEMA")
    assert [(event["type"], event.get("code")) for event in happened][-1] == ("error", "E-CALL-SCHEMA")
    assert not frames(happened)


def test_an_openchatml_model_goes_on_with_what_its_tools_say() -> None:
    head = " to=functions.quick call_id=x1<|channel|>commentary<|constrain|>json<|message|>"
    analysis = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    engine = replies((f'{analysis}{head}{{"word": "a"}}<|call|>',), ("<|channel|>final<|message|>A.<|return|>",))
    format = openchatml(TOKENIZER.controls.keys())
    speaking = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=format)
    with running(create_app(StaticCatalog({"small": speaking}), tools=tools())) as base:
        text = whole(base, ASKED).body.decode()
    assert [m.text for m in read(text).messages if m.role is Role.ASSISTANT] == ['{"word": "a"}', "A."]
    assert not list(validate(text))
    assert "Hm." in decode(TOKENIZER, engine.requests[1][0])
    assert "Hm." not in text


@pytest.mark.parametrize("header", ['version: "1.0"', 'version: "2.2"\ncapabilities: {roles: [user, assistant]}'])
def test_where_no_call_or_reply_can_be_written_none_is_made(header: str) -> None:
    asked = f"{header}\ngeneration_settings: {{builtin_tools: [quick]}}\n<|start|>user<|message|>x<|end|>\n"
    engine = replies((*call("quick", '{"word": "a"}'), END))
    with running(app(engine, tools=tools())) as base:
        answer = whole(base, asked)
    assert answer.headers["x-antiphon-ignored"] == "generation_settings.builtin_tools"
    assert "At once." not in decode(TOKENIZER, engine.requests[0][0])
    assert not list(validate(answer.body))
    assert [(m.is_call, m.role) for m in read(answer.body).messages][1:] == [(False, Role.ASSISTANT)]


def test_a_reply_s_pictures_are_left_out_and_reported() -> None:
    notes: list[str] = []
    gate, stream = Gate(read(ASKED), revealed=False), EventStream("msg_1")
    writer = TranscriptWriter(
        gate, ASKED.encode(), stream, continues=False, report=lambda reason, why: notes.extend(why)
    )
    made = ToolCall(call_id="a", recipient="functions.draw", body="{}")
    output = ToolOutput(content="Drawn.", media=(OpaquePart("image", {"data": "aGk="}),))
    head = Message(role=Role.ASSISTANT, recipient=made.recipient, call_id="a", channel="commentary")
    called = (MessageStarted(head), MessageEnded(replace(head, text="{}")))
    writer.add(StepEvents(0, (*called, ToolEnded(ToolResult(call=made, output=output))), 1))
    whole = writer.whole()
    assert "Drawn." in read(whole).messages[-1].text
    assert "functions.draw" in notes[0]


@pytest.mark.spec("OCM-101")
def test_an_answer_that_is_cancelled_says_so_and_ends() -> None:
    with running(app(replies((*call("slow", '{"seconds": 1}'), END)), tools=tools())) as base:
        happened: list[dict[str, Any]] = []
        for event in events(base, ASKED):
            happened.append(event)
            if event["type"] == "response.done":
                id = event["message_id"].partition(".")[0]
                assert cancel(base, id).json == {"id": id, "cancelled": True}
    assert [event["type"] for event in happened][-2:] == ["response.done", "response.cancel"]


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"call": "x"}', b'{"call_id": 5}'])
def test_what_is_to_be_cancelled_must_be_clear(base: str, body: bytes) -> None:
    refused = request(base, "POST", "/v1/openchatml/msg_1/cancel", body, content_type="application/json")
    assert refused.status == 400


@pytest.mark.parametrize(
    ("header", "path"),
    [
        ("model: 5", "model"),
        ("model: [small]", "model"),
        ("generation_settings: [1]", "generation_settings"),
        ("generation_settings: {reasoning_effort: extreme}", "generation_settings.reasoning_effort"),
        ("generation_settings: {temperature: warm}", "generation_settings.temperature"),
        ("generation_settings: {temperature: 3}", "generation_settings.temperature"),
        ("generation_settings: {top_p: 0}", "generation_settings.top_p"),
        ("generation_settings: {top_k: 1.5}", "generation_settings.top_k"),
        ("generation_settings: {min_p: 2}", "generation_settings.min_p"),
        ("generation_settings: {max_tokens: -1}", "generation_settings.max_tokens"),
        ("generation_settings: {seed: yes}", "generation_settings.seed"),
        ("generation_settings: {stop: ['']}", "generation_settings.stop[0]"),
        ("generation_settings: {stop: {a: b}}", "generation_settings.stop"),
        ("generation_settings: {builtin_tools: 5}", "generation_settings.builtin_tools"),
        ("capabilities: {streaming: 5}", "capabilities.streaming"),
        ("capabilities: all", "capabilities"),
        ("profiles: harmony", "profiles"),
    ],
)
def test_a_known_key_is_checked_by_type_and_range(base: str, header: str, path: str) -> None:
    refused = whole(base, f'version: "2.2"\n{header}\n<|start|>user<|message|>x<|end|>')
    assert (refused.status, refused.error["param"]) == (400, path)


@pytest.mark.spec("OCM-25")
def test_unknown_keys_are_ignored_and_reported(base: str) -> None:
    header = "generation_settings: {mirostat: 2, temperature: 0.5, 7: 8}\nx-mine: 1\ncapabilities: {colours: [red]}\n"
    answer = whole(base, f'version: "2.2"\n{header}<|start|>user<|message|>x<|end|>')
    assert answer.status == 200
    ignored = answer.headers["x-antiphon-ignored"]
    assert all(
        key in ignored
        for key in ("generation_settings.mirostat", "generation_settings.7", "x-mine", "capabilities.colours")
    )
    assert "temperature" not in ignored


DECLARED = """version: "2.2"
generation_settings: {builtin_tools: [quick]}
<|start|>developer<|message|># Tools
## functions
{"name": "mine", "parameters": {"type": "object"}}<|end|>
<|start|>user<|message|>Go.<|end|>
"""


def thinking(thought: str, *made: Piece) -> tuple[Piece, ...]:
    return (THINK, thought, UNTHINK, *made, END)


def reply_to(message: Message, text: str) -> str:
    return f"<|start|>tool name={message.recipient} call_id={message.call_id} to=assistant<|message|>{text}<|end|>\n"


@pytest.mark.spec("OCM-80", "OCM-129")
def test_the_model_sees_why_it_called_until_it_answers_and_its_client_never_does() -> None:
    engine = replies(
        thinking("First.", *call("quick", '{"word": 5}')),
        thinking("Second.", *call("mine", '{"a": 1}')),
        thinking("Third.", *call("mine", '{"a": 2}')),
        thinking("Fourth.", "Done."),
        thinking("Fifth.", "Again."),
    )
    with running(app(engine, tools=tools())) as base:
        transcript = DECLARED
        for _ in range(2):
            transcript = whole(base, transcript).body.decode()
            transcript += reply_to(read(transcript).messages[-1], "{}")
        transcript = whole(base, transcript).body.decode()
        whole(base, transcript + "<|start|>user<|message|>More.<|end|>\n")
    prompts = [decode(TOKENIZER, prompt) for prompt, *_ in engine.requests]
    thoughts = ["First.", "Second.", "Third.", "Fourth."]
    assert [[thought in prompt for thought in thoughts] for prompt in prompts] == [
        [False, False, False, False],
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [False, False, False, False],
    ]
    assert not any(thought in transcript for thought in thoughts)
    assert '"word": 5' in prompts[3]
    assert '"word": 5' not in transcript


@pytest.mark.parametrize("change", ["arguments", "owner", "nothing"])
def test_a_turn_that_was_changed_or_is_anothers_is_what_the_transcript_says(change: str) -> None:
    (key, alice), (other, bob) = new_key("alice"), new_key("bob")
    engine = replies(thinking("Why.", *call("mine", '{"a": 1}')), thinking("x", "Done."))
    with running(app(engine, tools=tools(), keys=[alice, bob])) as base:
        text = whole(base, DECLARED, authorization=f"Bearer {key}").body.decode()
        text += reply_to(read(text).messages[-1], "{}")
        text = text.replace('{"a": 1}', '{"a": 3}') if change == "arguments" else text
        whole(base, text, authorization=f"Bearer {other if change == 'owner' else key}")
    assert ("Why." in decode(TOKENIZER, engine.requests[1][0])) is (change == "nothing")
