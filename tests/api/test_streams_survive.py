"""Responses over one store: read, followed and cancelled at another server, and gone on with there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from antiphon.engines import ScriptedEngine
from antiphon.store import MemoryStore, RunLimits, SessionLimits, SqliteStore
from antiphon.store.runs import Recorded
from kit.api import END, call, ids, serving
from kit.responses import FINAL, THOUGHT, WEATHER_TOOL, checked_event, harmony_ids, responses_app
from kit.two_servers import LONG, REPLY, SHORT, TEXT, Cable, Said, closing_session, two_servers
from kit.waiting import until, until_found


@dataclass
class Servers:
    """Two servers over one file."""

    a: str
    b: str
    cable: Cable
    client: aiohttp.ClientSession

    async def create(self, **fields: Any) -> dict[str, Any]:
        async with self.client.post(f"{self.a}/v1/responses", json={"input": "Hi", **fields}) as got:
            assert got.status == 200, await got.text()
            answer: dict[str, Any] = await got.json()
            return answer

    async def get(self, base: str, id: str) -> dict[str, Any] | None:
        async with self.client.get(f"{base}/v1/responses/{id}") as got:
            return await got.json() if got.status == 200 else None

    async def ended(self, base: str, id: str) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            response = await self.get(base, id)
            return response if response is not None and response["status"] not in ("queued", "in_progress") else None

        return await until_found(look)

    async def begin(self, **fields: Any) -> Stream:
        """A streamed response of the first server."""
        got = await self.client.post(f"{self.a}/v1/responses", json={"input": "Hi", "stream": True, **fields})
        assert got.status == 200, await got.text()
        return Stream(got)

    async def follow(self, base: str, id: str, **query: Any) -> Stream:
        got = await self.client.get(f"{base}/v1/responses/{id}", params={"stream": "true", **query})
        assert got.status == 200, await got.text()
        return Stream(got)


class Stream:
    """The events of an answer, each checked; what comes after the last of them is ``[DONE]``."""

    def __init__(self, got: aiohttp.ClientResponse) -> None:
        self._got = got

    async def next(self) -> dict[str, Any] | None:
        id = ""
        async for raw in self._got.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("id: "):
                id = line.removeprefix("id: ")
            if line == "data: [DONE]":
                return None
            if line.startswith("data: "):
                event: dict[str, Any] = json.loads(line.removeprefix("data: "))
                if event["type"] != "error":
                    assert id == str(event["sequence_number"])
                    checked_event(event)
                return event
        return None

    async def take(self, count: int) -> list[dict[str, Any]]:
        events = [await self.next() for _ in range(count)]
        assert None not in events
        return [event for event in events if event is not None]

    async def rest(self) -> list[dict[str, Any]]:
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        self.close()
        return events

    def close(self) -> None:
        self._got.close()


@asynccontextmanager
async def servers(
    folder: Path,
    one: ScriptedEngine,
    other: ScriptedEngine,
    *,
    model: str = "small",
    lease: float = LONG,
    **options: Any,
) -> AsyncIterator[Servers]:
    pair = two_servers(folder, one, other, model=model, lease=lease, **options)
    async with pair as (a, b, cable), closing_session() as client:
        yield Servers(a, b, cable, client)


def written(events: Sequence[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def numbers(events: Sequence[dict[str, Any]]) -> list[int]:
    return [event["sequence_number"] for event in events]


async def test_a_response_is_in_progress_at_every_server(tmp_path: Path) -> None:
    engine = Said(free=20)
    async with servers(tmp_path, engine, Said()) as two:
        queued = await two.create(background=True)
        await until(lambda: engine.running == 1)
        for base in (two.a, two.b):
            seen = await two.get(base, queued["id"])
            assert seen is not None
            assert seen["status"] in ("queued", "in_progress")
        engine.gate.open()
        here, there = await two.ended(two.a, queued["id"]), await two.ended(two.b, queued["id"])
        assert here == there
        assert here["output"][0]["content"][0]["text"] == TEXT


async def test_events_are_followed_at_another_server_live_and_afterwards(tmp_path: Path) -> None:
    engine = Said(free=40)
    async with servers(tmp_path, engine, Said()) as two:
        stream = await two.begin()
        begun = await stream.take(10)
        id = begun[0]["response"]["id"]
        elsewhere = await two.follow(two.b, id, starting_after=3)
        assert numbers(await elsewhere.take(5)) == [4, 5, 6, 7, 8]
        engine.gate.open()
        events, followed = begun + await stream.rest(), await elsewhere.rest()
        assert events[9:] == followed
        assert numbers(events) == list(range(len(events)))
        assert written(events) == TEXT
        for base in (two.a, two.b):
            assert await (await two.follow(base, id)).rest() == events
            assert await (await two.follow(base, id, starting_after=20)).rest() == events[21:]
        async with two.client.get(
            f"{two.b}/v1/responses/{id}", params={"stream": "true"}, headers={"last-event-id": "20"}
        ) as got:
            assert await Stream(got).rest() == events[21:]


async def test_another_server_cancels_and_deletes(tmp_path: Path) -> None:
    engine = Said(free=20)
    async with servers(tmp_path, engine, Said()) as two:
        stream = await two.begin()
        id = (await stream.take(5))[0]["response"]["id"]
        async with two.client.post(f"{two.b}/v1/responses/{id}/cancel") as got:
            assert (await got.json())["status"] == "cancelled"
        assert (await stream.rest())[-1]["response"]["status"] == "cancelled"
        assert engine.running == 0
        queued = await two.create(background=True)
        await until(lambda: engine.running == 1)
        async with two.client.delete(f"{two.b}/v1/responses/{queued['id']}") as got:
            assert (await got.json())["deleted"] is True
        assert await two.get(two.a, queued["id"]) is None
        assert engine.running == 0


async def test_another_server_goes_on_from_the_very_token(tmp_path: Path) -> None:
    """The first server is cut off from the store in mid-reply, and comes back when all is over."""
    one, other = Said(free=60), Said()
    async with servers(tmp_path, one, other, lease=SHORT) as two:
        stream = await two.begin(temperature=0)
        begun = await stream.take(30)
        id = begun[0]["response"]["id"]
        two.cable.whole.clear()
        rest = await (await two.follow(two.b, id, starting_after=29)).rest()
        events = begun + rest
        assert numbers(events) == list(range(len(events)))
        assert written(events) == TEXT
        last = events[-1]["response"]
        assert last["usage"]["output_tokens"] == len(REPLY)
        assert last["usage"]["input_tokens"] == len(one.requests[0][0])
        assert last["created_at"] == begun[0]["response"]["created_at"]
        prompt, sampling, _ = other.requests[0]
        sampled = len(prompt) - len(one.requests[0][0])
        assert 0 < sampled <= 60
        assert sampling.max_tokens == one.requests[0][1].max_tokens - sampled
        two.cable.whole.set()
        one.gate.open()
        *late, error = await stream.rest()
        assert (error["type"], error["code"]) == ("error", "lease_lost")
        assert late == rest[: len(late)], "it says nothing that the other server does not say"
        assert error["sequence_number"] == 29 + len(late), "who goes on after it misses nothing"
        assert await two.get(two.a, id) == last == await two.get(two.b, id)


async def test_a_call_has_one_id_whichever_server_goes_on_with_it(tmp_path: Path) -> None:
    reply = ids(*call("weather", '{"city": "Bern"}'), END)
    one, other = Said(reply, free=len(reply) - 5), Said(reply)
    async with servers(tmp_path, one, other, lease=SHORT) as two:
        stream = await two.begin(tools=[WEATHER_TOOL])
        begun: list[dict[str, Any]] = []
        while not begun or begun[-1]["type"] != "response.output_item.added":
            begun += await stream.take(1)
        two.cable.whole.clear()
        rest = await (await two.follow(two.b, begun[0]["response"]["id"])).rest()
        assert other.requests, "the other server took over"
        (item,) = rest[-1]["response"]["output"]
        assert (item["id"], item["call_id"]) == (begun[-1]["item"]["id"], begun[-1]["item"]["call_id"])


async def test_a_server_that_stops_hands_over(tmp_path: Path) -> None:
    one, other = Said(free=30), Said()
    store = SqliteStore(tmp_path / "responses.db")
    async with AsyncExitStack() as second, closing_session() as client:
        app = responses_app(small=other, store=store, session_limits=SessionLimits(lease=LONG))
        first = responses_app(
            small=one, store=SqliteStore(tmp_path / "responses.db"), session_limits=SessionLimits(lease=LONG)
        )
        b = f"http://127.0.0.1:{await second.enter_async_context(serving(app))}"
        async with serving(first) as a:
            two = Servers(f"http://127.0.0.1:{a}", b, Cable(tmp_path / "responses.db"), client)
            queued = await two.create(background=True)
            await until(lambda: one.running == 1)
        followed = await (await two.follow(b, queued["id"])).rest()
        assert written(followed) == TEXT
        assert followed[-1]["response"]["status"] == "completed"


async def test_nothing_stays_of_a_stream_whose_client_hangs_up(tmp_path: Path) -> None:
    engine = Said(free=30)
    async with servers(tmp_path, engine, Said()) as two:
        stream = await two.begin()
        id = (await stream.take(5))[0]["response"]["id"]
        assert await two.get(two.b, id) is not None
        stream.close()
        await until(lambda: engine.running == 0)

        async def gone() -> bool | None:
            return await two.get(two.b, id) is None or None

        await until_found(gone)
        assert await two.cable.names("run", "") == []


async def test_a_conversation_has_a_response_once_whoever_ended_it(tmp_path: Path) -> None:
    one, other = Said(free=40), Said()
    async with servers(tmp_path, one, other, lease=SHORT) as two:
        async with two.client.post(f"{two.a}/v1/conversations", json={}) as got:
            talk = (await got.json())["id"]
        stream = await two.begin(conversation=talk)
        id = (await stream.take(20))[0]["response"]["id"]
        two.cable.whole.clear()
        assert (await (await two.follow(two.b, id)).rest())[-1]["type"] == "response.completed"
        two.cable.whole.set()
        one.gate.open()
        assert (await stream.rest())[-1]["type"] == "error"
        async with two.client.get(f"{two.b}/v1/conversations/{talk}/items", params={"order": "asc"}) as got:
            items = (await got.json())["data"]
        assert [item["role"] for item in items] == ["user", "assistant"]
        assert items[1]["content"][0]["text"] == TEXT
        async with two.client.post(f"{two.b}/v1/responses", json={"input": "More", "conversation": talk}) as got:
            assert got.status == 200


async def test_a_response_that_nobody_makes_is_cancelled_where_that_is_requested(tmp_path: Path) -> None:
    one, other = Said(free=30), Said(free=0)
    async with servers(tmp_path, one, other, lease=SHORT) as two:
        queued = await two.create(background=True)
        await until(lambda: one.running == 1)
        two.cable.whole.clear()
        async with two.client.post(f"{two.b}/v1/responses/{queued['id']}/cancel") as got:
            assert (await got.json())["status"] == "cancelled"
        assert other.running == 0
        two.cable.whole.set()
        one.gate.open()
        await until(lambda: one.running == 0)
        assert (await two.ended(two.a, queued["id"]))["status"] == "cancelled"


async def test_a_streamed_request_that_comes_again_under_its_key_follows_the_first(tmp_path: Path) -> None:
    engine = Said(free=30)
    async with servers(tmp_path, engine, Said()) as two:
        body, headers = {"input": "Hi", "stream": True}, {"idempotency-key": "once"}
        got = await two.client.post(f"{two.a}/v1/responses", json=body, headers=headers)
        begun = await Stream(got).take(10)
        again = Stream(await two.client.post(f"{two.b}/v1/responses", json=body, headers=headers))
        engine.gate.open()
        assert begun + await Stream(got).rest() == await again.rest()
        assert len(engine.requests) == 1


async def test_encrypted_reasoning_is_the_same_in_every_event(tmp_path: Path) -> None:
    """Encrypting makes another text each time; what clients were told once stays so."""
    reply = harmony_ids(*THOUGHT, *FINAL)
    one, other = Said(reply, free=len(reply) - 5), Said(reply)
    async with servers(tmp_path, one, other, lease=SHORT, model="oss", reasoning_key=bytes(32)) as two:
        stream = await two.begin(include=["reasoning.encrypted_content"])
        begun: list[dict[str, Any]] = []
        while not begun or begun[-1]["type"] != "response.output_item.done":
            begun += await stream.take(1)
        two.cable.whole.clear()
        id, last = begun[0]["response"]["id"], begun[-1]["sequence_number"]
        rest = await (await two.follow(two.b, id, starting_after=last)).rest()
        assert other.requests, "the other server took over"
        assert begun[-1]["item"]["encrypted_content"]
        assert rest[-1]["response"]["output"][0] == begun[-1]["item"]


async def test_events_expire_and_the_response_stays(tmp_path: Path) -> None:
    now = 1e9
    limits = SessionLimits(runs=RunLimits(lifetime=60))
    store = SqliteStore(tmp_path / "responses.db")
    app = responses_app(small=Said(), store=store, session_limits=limits, clock=lambda: now)
    async with serving(app) as port, closing_session() as client:
        base = f"http://127.0.0.1:{port}"
        two = Servers(base, base, Cable(tmp_path / "responses.db"), client)
        events = await (await two.begin()).rest()
        id = events[0]["response"]["id"]
        assert await (await two.follow(base, id, starting_after=3)).rest() == events[4:]
        now += 61
        async with client.get(f"{base}/v1/responses/{id}", params={"stream": "true", "starting_after": "3"}) as got:
            assert got.status == 400
        got = await client.get(f"{base}/v1/responses/{id}", params={"stream": "true"})
        assert b"response.completed" in await got.read()
        assert (await two.get(base, id) or {})["output"] == events[-1]["response"]["output"]


@pytest.mark.parametrize(
    ("recorded", "fields", "expected"),
    [
        ("streams", {"stream": True}, True),
        ("streams", {"background": True}, True),
        ("streams", {"stream": True, "store": False}, False),
        ("streams", {}, False),
        ("background", {"stream": True}, False),
        ("background", {"background": True}, True),
        ("none", {"background": True}, False),
    ],
)
async def test_what_is_recorded(tmp_path: Path, recorded: Recorded, fields: dict[str, Any], *, expected: bool) -> None:
    store = SqliteStore(tmp_path / "responses.db")
    app = responses_app(small=Said(), store=store, session_limits=SessionLimits(runs=RunLimits(recorded)))
    async with serving(app) as port, closing_session() as client:
        base = f"http://127.0.0.1:{port}"
        two = Servers(base, base, Cable(tmp_path / "responses.db"), client)
        async with client.post(f"{base}/v1/responses", json={"input": "Hi", **fields}) as got:
            answer = await got.read()
        if fields.get("background"):
            await two.ended(base, json.loads(answer)["id"])
        assert bool(await two.cable.names("run", "")) is expected


@pytest.mark.one_process("is about a store in memory, which several workers have not")
async def test_nothing_is_recorded_in_memory() -> None:
    store = MemoryStore()
    async with serving(responses_app(small=Said(), store=store)) as port, closing_session() as client:
        async with client.post(f"http://127.0.0.1:{port}/v1/responses", json={"input": "Hi", "stream": True}) as got:
            assert b"id: " not in await got.read()
        assert await store.names("run", "") == []


async def test_a_response_whose_conversation_is_gone_fails(tmp_path: Path) -> None:
    one, other = Said(free=30), Said()
    async with servers(tmp_path, one, other, lease=SHORT) as two:
        async with two.client.post(f"{two.a}/v1/conversations", json={}) as got:
            talk = (await got.json())["id"]
        stream = await two.begin(conversation=talk)
        begun = await stream.take(10)
        two.cable.whole.clear()

        async def deleted() -> bool | None:
            async with two.client.delete(f"{two.b}/v1/conversations/{talk}") as got:
                return got.status in (200, 404) or None

        await until_found(deleted)
        events = begun + await (await two.follow(two.b, begun[0]["response"]["id"], starting_after=9)).rest()
        if events[-1]["type"] == "response.failed":  # Else it was taken over before the conversation was deleted.
            assert numbers(events) == list(range(len(events)))
            assert await two.get(two.b, begun[0]["response"]["id"]) == events[-1]["response"]
