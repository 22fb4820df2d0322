"""POST /v1/openchatml: a transcript in, a transcript or events out."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Message
from antiphon.engines import ScriptedEngine
from antiphon.formats.openchatml import openchatml, read
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer
from kit.api import END, THINK, UNTHINK, Got, app, call, exchange_bytes, ids, running, scripted, served
from kit.waiting import PATIENCE

TRANSCRIPT = 'version: "2.2"\n<|start|>user<|message|>Hello <<|end|><|end|>\n'
THOUGHT = (THINK, "Hm.", UNTHINK)


server = served(lambda: app(ids(*THOUGHT, "Hi there.\n\nHow are <|end|> you?", END)))


def post(url: str, body: str, *, path: str = "/v1/openchatml", **headers: str) -> tuple[int, str, str]:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
        connection.request("POST", path, body.encode(), {"content-type": "text/plain", **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers["content-type"], answer.read().decode()


def test_a_transcript_comes_back_with_the_answer_and_can_be_gone_on_with(server: str) -> None:
    status, kind, text = post(server, TRANSCRIPT)
    assert (status, kind) == (200, "text/x-openchatml; charset=utf-8")
    assert text.startswith(TRANSCRIPT)
    assert [m.text for m in read(text).messages] == ["Hello <|end|>", "Hi there.\n\nHow are <|end|> you?"]
    assert "Hm." not in text
    again = post(server, text + "<|start|>user<|message|>More<|end|>\n")
    assert len(read(again[2]).messages) == 4


@pytest.mark.spec("OCM-100", "OCM-102")
@pytest.mark.parametrize("requested_by", ["header", "query"])
def test_events_are_sent_to_who_asks_for_them(server: str, requested_by: str) -> None:
    if requested_by == "header":
        status, kind, text = post(server, TRANSCRIPT, accept="text/event-stream")
    else:
        status, kind, text = post(server, TRANSCRIPT, path="/v1/openchatml?stream=true")
    assert (status, kind) == (200, "text/event-stream; charset=utf-8")
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert "".join(e["delta"] for e in events if e["type"] == "response.delta") == "Hi there.\n\nHow are <|end|> you?"
    assert [e["type"] for e in events if e["type"] != "response.delta"][-1] == "response.done"
    assert [e["seq"] for e in events] == list(range(len(events)))
    assert "Hm." not in text


def test_only_the_events_that_the_header_takes_are_sent(server: str) -> None:
    header = 'version: "2.2"\ncapabilities: {streaming: [response.done]}\n<|start|>user<|message|>Hi<|end|>'
    _, _, text = post(server, header, accept="text/event-stream")
    assert [line for line in text.splitlines() if line.startswith("event: ")] == ["event: response.done"]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("<|start|>user<|message|>x<|end|>", "E-PARSE-HEADER", "no header"),
        ('version: "2.2"\n<|start|>user<|message|>x', "E-STREAM-TRUNCATED", "ends inside"),
        ('version: "2.2"\ngeneration_settings: {temperature: 9}\n<|start|>user<|message|>x<|end|>', "", "temperature"),
        ('version: "2.2"\n', "missing_required_parameter", "no messages"),
    ],
)
def test_a_faulty_transcript_is_a_400_with_its_code(server: str, body: str, code: str, message: str) -> None:
    status, _, text = post(server, body)
    error = json.loads(text)["error"]
    assert (status, message in error["message"]) == (400, True)
    assert error["code"] == code or not code


def test_an_unknown_model_is_a_404(server: str) -> None:
    assert post(server, 'version: "2.2"\nmodel: none\n<|start|>user<|message|>x<|end|>')[0] == 404


def test_a_call_is_a_frame_that_its_client_can_answer() -> None:
    with running(app(ids(*call("f", '{"a": 1}'), END))) as url:
        _, _, text = post(url, TRANSCRIPT)
        made = read(text).messages[-1]
        assert (made.recipient, json.loads(made.text), made.end) == ("functions.f", {"a": 1}, "call")
        reply = f"<|start|>tool name=functions.f call_id={made.call_id}<|message|>{{}}<|end|>\n"
        assert post(url, text + reply)[0] == 200


# -- what comes back is valid, whatever the model wrote ---------------------------------------------------------------


HEAD = 'version: "2.2"\n'
QUESTION = "<|start|>user<|message|>Hello<|end|>\n"
SPELLED = ByteTokenizer([])


def speaking(reply: str) -> Starlette:
    """A model whose own format is OpenChatML."""
    engine = ScriptedEngine(SPELLED.encode(reply), token_bytes=lambda id: bytes([id]))
    spoken = Model(name="small", engine=engine, tokenizer=SPELLED, format=openchatml([]))
    return create_app(StaticCatalog({"small": spoken}))


async def asked(application: Starlette, transcript: str, query: str = "") -> Got:
    return await exchange_bytes(application, "/v1/openchatml", transcript.encode(), [], query=query.encode())


def added(got: Got, transcript: str) -> list[Message]:
    """The messages of the turn, of an answer that is valid and has the transcript in front, byte for byte."""
    assert got.status == 200, got.body
    text = got.body.decode()
    assert text.startswith(transcript)
    return list(read(text).messages[len(read(transcript).messages) :])


async def test_an_answer_to_version_1_is_of_version_1() -> None:
    transcript = 'version: "1.0"\n' + QUESTION
    got = await asked(app(ids(*THOUGHT, "Hi <", END)), transcript)
    (answer,) = added(got, transcript)
    assert (answer.text, answer.channel, answer.end) == ("Hi < ", None, "end")
    assert "becomes 'Hi < '" in got.headers["x-antiphon-warning"]


@pytest.mark.parametrize("excluded", ["{tokens: ['<|start|>', '<|message|>', '<|end|>']}", "{channels: [analysis]}"])
async def test_an_answer_does_without_what_the_header_excludes(excluded: str) -> None:
    transcript = f"{HEAD}capabilities: {excluded}\n{QUESTION}"
    got = await asked(app(ids("Hi", END)), transcript)
    assert [(m.text, m.channel) for m in added(got, transcript)] == [("Hi", None)]
    assert "channel: 'final' becomes None" in got.headers["x-antiphon-warning"]


async def test_a_header_that_excludes_every_answer_is_refused_before_anything_is_generated() -> None:
    engine = scripted(ids("Hi", END))
    got = await asked(app(engine), f"{HEAD}capabilities: {{roles: [user]}}\n{QUESTION}")
    assert (got.status, got.error["code"], engine.requests) == (400, "E-PARSE-HEADER", [])


async def test_a_call_is_written_as_the_specification_has_it() -> None:
    got = await asked(app(ids(*call("f", '{"a": 1}'), END)), HEAD + QUESTION)
    (made,) = added(got, HEAD + QUESTION)
    assert (
        f"to=functions.f call_id={made.call_id}<|channel|>commentary<|constrain|>json<|message|>" in got.body.decode()
    )
    assert got.headers["x-antiphon-finish-reason"] == "tool_calls"


CALLED = (
    "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n"
    "<|start|>tool name=functions.f call_id=c1<|message|>1<|end|>\n"
)


@pytest.mark.spec("OCM-65", "OCM-87")
@pytest.mark.parametrize("channel", ["commentary", "final"])
async def test_a_call_gets_an_id_of_its_own_and_its_channel(channel: str) -> None:
    reply = f" to=functions.f call_id=c1<|channel|>{channel}<|constrain|>json<|message|>{{}}<|call|>"
    transcript = HEAD + QUESTION + CALLED
    (made,) = added(await asked(speaking(reply), transcript), transcript)
    assert made.call_id not in (None, "c1")
    assert (made.channel, made.end) == ("commentary", "call")


@pytest.mark.spec("OCM-135")
@pytest.mark.parametrize(
    "reply",
    [
        ' to=functions.f call_id=x<|channel|>commentary<|constrain|>json<|message|>{"a": <|call|>',
        '<|channel|>final<|constrain|>json<|message|>{"a": <|return|>',
    ],
)
async def test_json_that_breaks_its_promise_is_an_error(reply: str) -> None:
    got = await asked(speaking(reply), HEAD + QUESTION)
    assert (got.status, got.error["code"]) == (400, "E-BODY-CONSTRAINT-VIOLATION")
    streamed = (await asked(speaking(reply), HEAD + QUESTION, "stream=true")).body.decode()
    assert '"code": "E-BODY-CONSTRAINT-VIOLATION"' in streamed
    assert "response.done" not in streamed


def limited(tokens: int) -> str:
    return f"{HEAD}generation_settings: {{max_tokens: {tokens}}}\n{QUESTION}"


@pytest.mark.spec("OCM-105")
async def test_an_answer_that_was_cut_says_so_and_can_be_continued() -> None:
    got = await asked(app(ids("Hello there, you", END)), limited(5))
    (answer,) = added(got, limited(5))
    assert (answer.text, answer.end) == ("Hello", "end")
    assert got.headers["x-antiphon-finish-reason"] == "length"
    opened = got.body.decode().removesuffix("<|end|>\n").replace("max_tokens: 5", "max_tokens: 40")
    more = await asked(app(ids(" there.", END)), opened)
    assert more.body.decode() == f"{opened} there.<|return|>\n"
    assert [m.text for m in read(more.body).messages] == ["Hello", "Hello there."]
    assert more.headers["x-antiphon-finish-reason"] == "stop"
    again = await asked(app(ids(" the <|end|> of", END)), opened)
    assert read(again.body).messages[-1].text == "Hello the <|end|> of"


async def test_a_model_of_the_format_itself_continues_an_open_frame() -> None:
    opened = HEAD + QUESTION + "<|start|>assistant<|channel|>final<|message|>Hel"
    got = await asked(speaking("lo <<|end|><|return|>"), opened)
    assert got.body.decode() == f"{opened}lo <<|end|><|return|>\n"


@pytest.mark.parametrize("text", [
    "<|start|>user<|message|>Hel", "<|start|>assistant<|channel|>analysis<|message|>Hm",
    "<|start|>assistant to=functions.f call_id=c<|channel|>commentary<|message|>{", "<|start|>assistant<|channel|>fin",
    "<|start|>assistant<|message|>a <", "<|start|>assistant<|message|>a<|literal|>b",
])  # fmt: skip
async def test_what_nobody_can_continue_is_truncated(text: str) -> None:
    got = await asked(app(ids("x", END)), HEAD + QUESTION + text)
    assert (got.status, got.error["code"]) == (400, "E-STREAM-TRUNCATED")


async def test_a_call_that_was_cut_is_left_out_and_the_answer_says_so() -> None:
    reply = ' to=functions.f call_id=x<|channel|>commentary<|constrain|>json<|message|>{"a": 1, "b": 2}<|call|>'
    got = await asked(speaking(reply), limited(80))
    assert added(got, limited(80)) == []
    assert "was cut and is left out" in got.headers["x-antiphon-warning"]
    assert got.headers["x-antiphon-finish-reason"] == "length"


@pytest.mark.parametrize("reply", [
    "<|channel|>analysis<|message|>Hm.<|end|>", "<|channel|>analysis<|message|>Hm.",
    "<|channel|>finl<|message|>x<|return|>", "<|end|>", "", "<|start|>user<|message|>x<|end|>",
])  # fmt: skip
async def test_a_turn_with_nothing_to_show_leaves_the_transcript_valid_and_says_so(reply: str) -> None:
    got = await asked(speaking(reply), HEAD + QUESTION)
    assert [m.text for m in added(got, HEAD + QUESTION)] in ([], ["x"])
    assert "x-antiphon-warning" in got.headers or got.body.decode() != HEAD + QUESTION


async def test_an_engine_that_stops_without_an_end_token_ends_the_turn_in_both_forms() -> None:
    got = await asked(speaking("<|channel|>final<|message|>Hi"), HEAD + QUESTION)
    (answer,) = added(got, HEAD + QUESTION)
    streamed = (await asked(speaking("<|channel|>final<|message|>Hi"), HEAD + QUESTION, "stream=true")).body
    done = b"response.done" in streamed
    assert (answer.text, answer.end) == ("Hi", "return" if done else "end")
    assert done == (got.headers["x-antiphon-finish-reason"] == "stop")
