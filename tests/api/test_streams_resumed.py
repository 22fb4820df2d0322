"""Chat completions and completions whose clients want to resume them: read on elsewhere, taken over, deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from antiphon.errors import EngineLostError
from antiphon.http.gate.keys import new_key
from antiphon.store import RunLimits, SessionLimits, SqliteStore
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import CALL, END, UNCALL, app, chat, ids, request, running
from kit.breaking import Breaking
from kit.two_servers import LONG, REPLY, SHORT, TEXT, Cable, Lost, Said, closing_session, two_servers
from kit.waiting import until, until_found

RESUMABLE = {"x-antiphon-resumable": "true"}
HI: list[Any] = [{"role": "user", "content": "Hi"}]
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True)
class Event:
    """One server-sent event, whose data is JSON or ``[DONE]``."""

    id: int | None
    data: Any


class Stream:
    """The events of an answer, one after the other."""

    def __init__(self, got: aiohttp.ClientResponse) -> None:
        self.got = got

    async def next(self) -> Event | None:
        id = None
        async for raw in self.got.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("id: "):
                id = int(line.removeprefix("id: "))
            if line.startswith("data: "):
                data = line.removeprefix("data: ")
                return Event(id, data if data == "[DONE]" else json.loads(data))
        return None

    async def take(self, count: int) -> list[Event]:
        events = [await self.next() for _ in range(count)]
        assert None not in events
        return [event for event in events if event is not None]

    async def rest(self) -> list[Event]:
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


@dataclass
class Servers:
    a: str
    b: str
    cable: Cable
    client: aiohttp.ClientSession

    async def begin(self, path: str = CHAT, **fields: Any) -> Stream:
        body = {"stream": True, **({"messages": HI} if path == CHAT else {}), **fields}
        got = await self.client.post(f"{self.a}{path}", json=body, headers=RESUMABLE)
        assert got.status == 200, await got.text()
        return Stream(got)

    async def follow(self, base: str, id: str, headers: dict[str, str] | None = None, **query: Any) -> Stream:
        got = await self.client.get(f"{base}/v1/streams/{id}", params=query, headers=headers)
        assert got.status == 200, await got.text()
        return Stream(got)

    async def status(self, base: str, id: str) -> int:
        async with self.client.get(f"{base}/v1/streams/{id}", params={"starting_after": "0"}) as got:
            return got.status


@asynccontextmanager
async def servers(folder: Path, one: Any, other: Any, **options: Any) -> AsyncIterator[Servers]:
    async with two_servers(folder, one, other, **options) as (a, b, cable), closing_session() as client:
        yield Servers(a, b, cable, client)


def said(events: Sequence[Event]) -> str:
    choices = [choice for event in events if event.data != "[DONE]" for choice in event.data["choices"]]
    return "".join(choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices)


def are_whole(events: Sequence[Event]) -> bool:
    return [event.id for event in events] == list(range(len(events))) and events[-1].data == "[DONE]"


async def test_the_official_client_reads_the_first_half_and_another_connection_the_rest(tmp_path: Path) -> None:
    engine = Said(free=60)
    async with servers(tmp_path, engine, Said()) as two:
        async with openai.AsyncOpenAI(base_url=f"{two.a}/v1", api_key="any") as client:
            stream = await client.chat.completions.create(
                model="small", messages=HI, stream=True, extra_headers=RESUMABLE
            )
            text, seen, id = "", 0, ""
            async for chunk in stream:
                text, seen, id = text + (chunk.choices[0].delta.content or ""), seen + 1, chunk.id
                if seen == 20:
                    break
            assert stream.response.headers["x-antiphon-resume"] == f"/v1/streams/{id}"
            await stream.close()
        async with openai.AsyncOpenAI(base_url=f"{two.b}/v1", api_key="any") as client:
            rest = await client.get(
                f"/streams/{id}?starting_after={seen - 1}",
                cast_to=ChatCompletionChunk,
                stream=True,
                stream_cls=openai.AsyncStream[ChatCompletionChunk],
            )
            engine.gate.open()
            async for chunk in rest:
                text += chunk.choices[0].delta.content or ""
        assert text == TEXT
        events = await (await two.follow(two.a, id)).rest()
        assert are_whole(events)
        assert await (await two.follow(two.b, id, starting_after=seen - 1)).rest() == events[seen:]
        assert await (await two.follow(two.b, id, headers={"last-event-id": "30"})).rest() == events[31:]
        assert len(engine.requests) == 1, "it went on without its client"


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_another_server_goes_on_from_the_very_token(tmp_path: Path, path: str) -> None:
    """The first server is cut off from the store in mid-reply, and comes back when all is over."""
    one, other = Said(free=60), Said()
    fields: dict[str, Any] = {"temperature": 0, "stream_options": {"include_usage": True}, "max_tokens": 2000}
    async with servers(tmp_path, one, other, lease=SHORT) as two:
        stream = await two.begin(path, **fields, **({} if path == CHAT else {"prompt": "Hi"}))
        begun = await stream.take(30)
        id = begun[0].data["id"]
        two.cable.whole.clear()
        rest = await (await two.follow(two.b, id, starting_after=29)).rest()
        events = begun + rest
        assert are_whole(events)
        assert said(events) == TEXT
        usage = events[-2].data["usage"]
        assert usage["completion_tokens"] == len(REPLY)
        assert usage["prompt_tokens"] == len(one.requests[0][0])
        assert {event.data["created"] for event in events[:-1]} == {begun[0].data["created"]}
        assert 0 < len(other.requests[0][0]) - len(one.requests[0][0]) <= 60
        two.cable.whole.set()
        one.gate.open()
        *late, error, done = await stream.rest()
        assert (error.id, error.data["error"]["code"], done.data) == (None, "lease_lost", "[DONE]")
        assert late == rest[: len(late)], "it says nothing that the other server does not say"


async def test_another_server_goes_on_though_nobody_asks_it(tmp_path: Path) -> None:
    other = Said()
    async with servers(tmp_path, Said(free=60), other, lease=SHORT) as two:
        await (await two.begin()).take(30)
        two.cable.whole.clear()
        await until(lambda: bool(other.requests))


async def test_what_is_stored_of_a_completion_is_there_once_whoever_ended_it(tmp_path: Path) -> None:
    one, other = Said(free=60), Said()
    async with servers(tmp_path, one, other, lease=SHORT) as two:
        stream = await two.begin(store=True)
        id = (await stream.take(5))[0].data["id"]
        two.cable.whole.clear()
        assert said(await (await two.follow(two.b, id)).rest()) == TEXT
        two.cable.whole.set()
        one.gate.open()
        await stream.rest()
        async with two.client.get(f"{two.b}{CHAT}/{id}") as got:
            assert (await got.json())["choices"][0]["message"]["content"] == TEXT


async def test_a_call_of_a_tool_of_the_server_runs_once(tmp_path: Path) -> None:
    ran: list[str] = []

    def look_up(word: str) -> str:
        """What a word means."""
        ran.append(word)
        return "a word"

    asks = ids(CALL, '{"name": "look_up", "arguments": {"word": "x"}}', UNCALL, END)

    def before(prompt: object, sampling: object, choice: int) -> list[int]:
        return [] if ran else asks

    one, other = Said(free=len(asks) + 60, before=before), Said(before=before)
    tools = {"tools": Toolbox([FunctionToolSet([look_up])]), "offer_tools": True}
    async with servers(tmp_path, one, other, lease=SHORT, **tools) as two:
        stream = await two.begin()
        id = (await stream.take(5))[0].data["id"]
        two.cable.whole.clear()
        events = await (await two.follow(two.b, id)).rest()
        assert are_whole(events)
        assert said(events) == TEXT
        assert ran == ["x"]
        two.cable.whole.set()
        one.gate.open()


async def test_another_server_deletes_it_and_the_engine_stops(tmp_path: Path) -> None:
    engine = Said(free=60)
    async with servers(tmp_path, engine, Said()) as two:
        stream = await two.begin()
        id = (await stream.take(5))[0].data["id"]
        async with two.client.delete(f"{two.b}/v1/streams/{id}") as got:
            assert (await got.json()) == {"id": id, "object": "stream.deleted", "deleted": True}
        assert engine.running == 0
        assert (await stream.rest())[-2].data["error"]["code"] == "stream_cancelled"
        for base in (two.a, two.b):
            assert await two.status(base, id) == 404
        async with two.client.delete(f"{two.b}/v1/streams/{id}") as got:
            assert got.status == 404


async def test_one_that_nobody_can_know_ends_with_its_client(tmp_path: Path) -> None:
    engine = Said(free=0)
    async with servers(tmp_path, engine, Said()) as two:
        begun = asyncio.ensure_future(two.begin())
        await until(lambda: engine.running == 1)
        begun.cancel()
        await asyncio.gather(begun, return_exceptions=True)
        await until(lambda: engine.running == 0)
        assert await two.cable.names("stream", "") == []


@pytest.mark.parametrize("fault", [EngineLostError("It is gone."), ZeroDivisionError("Nobody foresaw it.")])
async def test_a_stream_whose_engine_fails_ends_with_the_error_for_whoever_reads_it(
    tmp_path: Path, fault: Exception
) -> None:
    async with servers(tmp_path, Breaking(REPLY[:40], fault), Said()) as two:
        events = await (await two.begin()).rest()
        assert events[-1].data == "[DONE]"
        assert "error" in events[-2].data
        id = events[0].data["id"]
        assert await (await two.follow(two.b, id)).rest() == events


async def test_an_engine_that_is_lost_goes_on_after_its_last_token_when_it_is_there_again(tmp_path: Path) -> None:
    engine = Lost(after=40)
    async with servers(tmp_path, engine, Said()) as two:
        events = await (await two.begin(stream_options={"include_usage": True}, max_tokens=2000)).rest()
        assert said(events) == TEXT
        assert events[-2].data["usage"]["completion_tokens"] == len(REPLY)
        (first, *_), (second, *_) = engine.requests
        assert second == (*first, *REPLY[:40])


async def test_one_that_is_lost_again_is_lost(tmp_path: Path) -> None:
    async with servers(tmp_path, Lost(after=40, times=2), Said()) as two:
        events = await (await two.begin()).rest()
        assert events[-2].data["error"]["code"] == "engine_lost"
        assert said(events[:-2]) == TEXT[:80]


async def test_it_belongs_to_its_key(tmp_path: Path) -> None:
    (secret, mine), (other, theirs) = new_key("mine"), new_key("theirs")
    async with servers(tmp_path, Said(), Said(), keys=[mine, theirs]) as two:
        headers = {**RESUMABLE, "authorization": f"Bearer {secret}"}
        async with two.client.post(f"{two.a}{CHAT}", json={"messages": HI, "stream": True}, headers=headers) as got:
            path = got.headers["x-antiphon-resume"]
            await got.read()
        for key, status in ((secret, 200), (other, 404)):
            async with two.client.get(f"{two.b}{path}", headers={"authorization": f"Bearer {key}"}) as got:
                assert got.status == status
        async with two.client.delete(f"{two.b}{path}", headers={"authorization": f"Bearer {other}"}) as got:
            assert got.status == 404


async def test_where_there_is_no_stream_there_is_an_error_as_ever(tmp_path: Path) -> None:
    async with servers(tmp_path, Breaking([], EngineLostError("It is gone.")), Said()) as two:
        body = {"messages": HI, "stream": True}
        async with two.client.post(f"{two.a}{CHAT}", json=body, headers=RESUMABLE) as got:
            assert (got.status, "x-antiphon-resume" in got.headers) == (503, False)
        assert await two.cable.names("stream", "") == []


def send(base: str, path: str = CHAT, header: str = "true", **fields: Any) -> Any:
    body = json.dumps({"messages": HI, "stream": True, **fields}).encode()
    return request(base, "POST", path, body, content_type="application/json", x_antiphon_resumable=header)


def test_what_cannot_be_resumed_is_refused_and_what_is_not_streamed_is_noted(tmp_path: Path) -> None:
    with running(app(REPLY, store=SqliteStore(tmp_path / "s.db"))) as base:
        whole = send(base, stream=False)
        assert (whole.status, whole.headers["x-antiphon-ignored"]) == (200, "x-antiphon-resumable")
        assert "x-antiphon-resume" not in send(base, header="false").headers
        for got in (
            send(base, header="maybe"),
            send(base, n=2),
            send(base, session_id="s"),
            send(base, "/v1/chat/interactive", prompt="Hi", messages=None),
            send(base, COMPLETIONS, prompt=["a", "b"], messages=None),
        ):
            assert got.status == 400, got.body
            assert got.error["param"] == "x-antiphon-resumable"


@pytest.mark.one_process("about the store in memory")
@pytest.mark.parametrize("events", ["background", "none", None])
def test_a_server_that_stores_no_streams_refuses(tmp_path: Path, events: Any) -> None:
    limits = SessionLimits(runs=RunLimits(events or "streams"))
    store = None if events is None else SqliteStore(tmp_path / "s.db")
    with running(app(REPLY, store=store, session_limits=limits)) as base:
        got = send(base)
        assert (got.status, got.error["code"]) == (400, "unsupported_parameter")
        assert "sessions.events" in got.error["message"]
        assert chat(base, stream=True).status == 200


async def test_events_expire(tmp_path: Path) -> None:
    limits = SessionLimits(lease=LONG, runs=RunLimits(lifetime=0.05))
    async with servers(tmp_path, Said(), Said(), session_limits=limits) as two:
        id = (await (await two.begin()).rest())[0].data["id"]

        async def gone() -> bool | None:
            return await two.status(two.a, id) == 404 or None

        await until_found(gone)
