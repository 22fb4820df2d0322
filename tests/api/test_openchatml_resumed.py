"""Streams of POST /v1/openchatml that can be resumed: read on elsewhere, gone on with by another server, cancelled."""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from antiphon.conversation import Message, Role
from antiphon.engines import EngineInfo
from antiphon.formats.openchatml import EventReader, Writer, read
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import CALL, END, UNCALL, app, ids, request, running
from kit.several_servers import WORDS, server
from kit.two_servers import REPLY, SHORT, TEXT, Said, closing_session, two_servers
from kit.waiting import PATIENCE

PATH = "/v1/openchatml"
ASKED = 'version: "2.2"\n<|start|>user<|message|>Hi<|end|>\n'
RESUMABLE = {"x-antiphon-resumable": "true"}
Numbered = tuple[int, dict[str, Any]]
"""An event, with the number that is its id."""


async def numbered(got: aiohttp.ClientResponse) -> AsyncIterator[Numbered]:
    assert got.status == 200, await got.text()
    number = -1
    async for line in got.content:
        if line.startswith(b"id: "):
            number = int(line[4:])
        if line.startswith(b"data: "):
            yield number, json.loads(line[6:])


def whole(events: Sequence[Numbered]) -> list[Message]:
    """The frames of a stream, of which no event is missing or there twice."""
    assert [number for number, _ in events] == [event["seq"] for _, event in events] == list(range(len(events)))
    reader = EventReader()
    messages = [message for _, event in events for message in reader.feed(event)]
    writer, text = Writer(), ASKED
    for message in messages:
        text += writer.write(message).removeprefix("\n") + "\n"
    assert list(read(text).messages[1:]) == messages
    return messages


async def test_another_server_goes_on_from_the_very_token_and_sends_the_rest(tmp_path: Path) -> None:
    """The first, whose client requested events by the address, is cut off from the store in mid-reply."""
    one, other = Said(free=60), Said()
    async with two_servers(tmp_path, one, other, lease=SHORT) as (a, b, cable), closing_session() as client:
        got = await client.post(f"{a}{PATH}?stream=true", data=ASKED, headers=RESUMABLE)
        stream = numbered(got)
        begun = [await anext(stream) for _ in range(30)]
        resume = got.headers["x-antiphon-resume"]
        assert resume == f"/v1/streams/{begun[0][1]['message_id'].partition('.')[0]}"
        cable.whole.clear()
        rest = [event async for event in numbered(await client.get(f"{b}{resume}", headers={"last-event-id": "29"}))]
        (answer,) = whole(begun + rest)
        assert (answer.text, answer.end) == (TEXT, "return")
        assert rest[-1][1]["type"] == "response.done"
        assert 0 < len(other.requests[0][0]) - len(one.requests[0][0]) <= 60


async def test_a_call_of_a_tool_of_the_server_runs_once_and_is_a_frame_with_its_reply(tmp_path: Path) -> None:
    ran: list[str] = []

    def look_up(word: str) -> str:
        """What a word means."""
        ran.append(word)
        return "a word"

    asks = ids("Wait.", CALL, '{"name": "look_up", "arguments": {"word": "x"}}', UNCALL, END)

    def before(prompt: object, sampling: object, choice: int) -> list[int]:
        return [] if ran else asks

    one, other = Said(free=len(asks) + 60, before=before), Said(before=before)
    tools: dict[str, Any] = {"tools": Toolbox([FunctionToolSet([look_up])]), "offer_tools": True}
    async with two_servers(tmp_path, one, other, lease=SHORT, **tools) as (a, b, cable), closing_session() as client:
        got = await client.post(f"{a}{PATH}?stream=true", data=ASKED, headers=RESUMABLE)
        stream = numbered(got)
        begun = [await anext(stream)]
        while begun[-1][1]["type"] != "tool.reply":
            begun.append(await anext(stream))
        begun += [await anext(stream) for _ in range(5)]
        cable.whole.clear()
        resume = f"{b}{got.headers['x-antiphon-resume']}?starting_after={begun[-1][0]}"
        rest = [event async for event in numbered(await client.get(resume))]
        text, call, reply, answer = whole(begun + rest)
        assert (text.text, call.recipient, answer.text) == ("Wait.", "functions.look_up", TEXT)
        assert (reply.role, reply.call_id, json.loads(reply.text)["content"]) == (Role.TOOL, call.call_id, "a word")
        assert ran == ["x"]


class Small(Said):
    """A model whose context no prompt fits into."""

    @property
    def info(self) -> EngineInfo:
        return replace(super().info, context=8)


async def test_where_no_server_can_go_on_its_last_event_is_an_error_of_this_wire(tmp_path: Path) -> None:
    one = Said(free=60)
    async with two_servers(tmp_path, one, Small(), lease=SHORT) as (a, b, cable), closing_session() as client:
        got = await client.post(f"{a}{PATH}?stream=true", data=ASKED, headers=RESUMABLE)
        stream = numbered(got)
        begun = [await anext(stream) for _ in range(10)]
        cable.whole.clear()
        resume = f"{b}{got.headers['x-antiphon-resume']}?starting_after=9"
        *_, (number, error) = [event async for event in numbered(await client.get(resume))]
        assert number > begun[-1][0]
        assert (error["type"], error["code"]) == ("error", "context_length_exceeded")


async def test_it_goes_on_without_its_client_who_may_cancel_it_and_read_that(tmp_path: Path) -> None:
    one = Said(free=60)
    async with two_servers(tmp_path, one, Said()) as (a, b, _), closing_session() as client:
        got = await client.post(f"{a}{PATH}?stream=true", data=ASKED, headers=RESUMABLE)
        stream = numbered(got)
        begun = [await anext(stream) for _ in range(10)]
        got.close()
        id = begun[0][1]["message_id"]
        async with client.post(f"{a}{PATH}/{id}/cancel", json={}) as cancelled:
            assert cancelled.status == 200, await cancelled.text()
        rest = await client.get(f"{b}{got.headers['x-antiphon-resume']}?starting_after=9")
        events = begun + [event async for event in numbered(rest)]
        assert events[-1][1]["type"] == "response.cancel"
        assert whole(events) == []
        assert TEXT.startswith("".join(event["delta"] for _, event in events if event["type"] == "response.delta"))
        assert one.running == 0


def test_an_answer_that_is_not_streamed_is_one_as_ever() -> None:
    with running(app(REPLY)) as base:
        got = request(base, "POST", PATH, ASKED.encode(), x_antiphon_resumable="true")
        assert (got.status, got.headers["x-antiphon-ignored"]) == (200, "x-antiphon-resumable")
        refused = request(base, "POST", f"{PATH}?stream=true", ASKED.encode(), x_antiphon_resumable="true")
        assert (refused.status, refused.error["param"]) == (400, "x-antiphon-resumable")


# A server that is killed


@contextmanager
def opened(base: str, method: str, path: str, body: str | None = None, **headers: str) -> Iterator[Any]:
    with closing(http.client.HTTPConnection(urlsplit(base).netloc, timeout=PATIENCE)) as connection:
        connection.request(method, path, body, headers)
        yield connection.getresponse()


def lines(answer: Iterable[bytes]) -> Iterator[Numbered]:
    number = -1
    for line in answer:
        if line.startswith(b"id: "):
            number = int(line[4:])
        if line.startswith(b"data: "):
            yield number, json.loads(line[6:])


def test_a_stream_whose_server_is_killed_is_gone_on_with_and_is_the_whole_answer(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    with server(file, "streams") as one, server(file, "streams") as other:
        asked = {**RESUMABLE, "accept": "text/event-stream"}
        with opened(one.base, "POST", PATH, ASKED, **asked) as answer:
            begun, resume = list(islice(lines(answer), 8)), answer.headers["x-antiphon-resume"]
            one.kill()
        last = {"last-event-id": str(begun[-1][0])}
        with opened(other.base, "GET", resume, **last) as answer:
            rest = list(lines(answer))
        with opened(other.base, "POST", PATH, ASKED) as answer:
            (said,) = read(answer.read()).messages[1:]
    assert whole(begun + rest) == [said]
    assert said.text == "word " * WORDS
