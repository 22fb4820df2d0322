"""POST /v1/openchatml: a transcript in, a transcript or events out."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from antiphon.formats.openchatml import read
from kit.api import END, THINK, UNTHINK, app, call, ids, running
from kit.waiting import PATIENCE

TRANSCRIPT = 'version: "2.2"\n<|start|>user<|message|>Hello <<|end|><|end|>\n'
THOUGHT = (THINK, "Hm.", UNTHINK)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running(app(ids(*THOUGHT, "Hi there.\n\nHow are <|end|> you?", END))) as url:
        yield url


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
        ('version: "2.2"\ngeneration_settings: {magic: 9}\n<|start|>user<|message|>x<|end|>', "", "magic"),
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
