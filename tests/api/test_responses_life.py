"""A response's life: in the background, cancelled, broken, left, sent twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from antiphon.api import Limits
from antiphon.engines import ScriptedEngine
from antiphon.errors import EngineLostError
from antiphon.store import MemoryStore
from kit.api import END as CHATML_END
from kit.api import Got, ids, request, running, scripted, serving
from kit.breaking import Losing
from kit.responses import events_of, respond, responses_app, text_of
from kit.waiting import until, until_found

HELLO = ids("Hello there, friend.", CHATML_END)
ENDLESS = ids("word " * 1500)


def endless() -> ScriptedEngine:
    return scripted(ENDLESS, delay=0.002)


@asynccontextmanager
async def client_of(application: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        serving(application) as port,
        openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any", max_retries=0) as client,
    ):
        yield client


async def finished(client: openai.AsyncOpenAI, id: str) -> Any:
    async def response() -> Any:
        response = await client.responses.retrieve(id)
        return None if response.status in ("queued", "in_progress") else response

    return await until_found(response)


async def test_a_response_is_made_in_the_background() -> None:
    async with client_of(responses_app(small=scripted(HELLO))) as client:
        queued = await client.responses.create(model="small", input="Hi", background=True)
        assert (queued.status, queued.background) == ("queued", True)
        done = await finished(client, queued.id)
        assert (done.status, done.output_text) == ("completed", "Hello there, friend.")


async def test_background_events_are_followed_from_any_number_on() -> None:
    async with client_of(responses_app(small=scripted(HELLO, delay=0.005))) as client:
        stream = await client.responses.create(model="small", input="Hi", background=True, stream=True)
        first = [await anext(stream) for _ in range(4)]
        assert [event.type for event in first[:3]] == ["response.created", "response.queued", "response.in_progress"]
        await stream.close()
        id = first[0].response.id  # response.created
        followed = await client.responses.retrieve(id, stream=True, starting_after=3)
        numbers = [event.sequence_number async for event in followed]
        assert numbers == list(range(4, 4 + len(numbers)))
        done = await finished(client, id)
        assert (done.status, done.output_text) == ("completed", "Hello there, friend.")


async def test_in_the_background_it_is_said_when_the_queue_is_over_before_the_engine_says_anything() -> None:
    silent = scripted(HELLO, delay=3600)
    async with client_of(responses_app(small=silent, limits=Limits(max_concurrent=1))) as client:
        streams = [await client.responses.create(model="small", input="Hi", background=True, stream=True) for _ in "ab"]
        events = [await anext(streams[0]) for _ in range(3)]
        assert [event.type for event in events] == ["response.created", "response.queued", "response.in_progress"]
        waiting = [await anext(streams[1]) for _ in range(2)]
        made, queued = [first[0].response.id for first in (events, waiting)]  # response.created
        assert [(await client.responses.retrieve(id)).status for id in (made, queued)] == ["in_progress", "queued"]
        await client.responses.delete(made)
        assert (await anext(streams[1])).type == "response.in_progress"
        await client.responses.delete(queued)


async def test_cancelling_in_the_background_stops_the_engine() -> None:
    engine = endless()
    async with client_of(responses_app(small=engine)) as client:
        made = await client.responses.create(model="small", input="Hi", background=True)
        await until(lambda: engine.running == 1)
        cancelled = await client.responses.cancel(made.id)
        assert (cancelled.status, engine.running) == ("cancelled", 0)
        assert (await client.responses.retrieve(made.id)).status == "cancelled"
        assert (await client.responses.cancel(made.id)).status == "cancelled"


@pytest.mark.parametrize("background", [False, True])
async def test_cancelling_a_stream_ends_it_with_its_text_so_far(background: bool) -> None:
    engine = endless()
    async with client_of(responses_app(small=engine)) as client:
        stream = await client.responses.create(model="small", input="Hi", stream=True, background=background)
        created = await anext(stream)
        event = await anext(stream)
        while event.type != "response.output_text.delta":
            event = await anext(stream)
        cancelled = await client.responses.cancel(created.response.id)
        rest = [event async for event in stream]
        assert rest[-1].type == "response.incomplete"
        assert rest[-1].response.status == cancelled.status == "cancelled"
        assert ENDLESS[0] == ids(rest[-1].response.output_text)[0]
        assert engine.running == 0


@pytest.mark.one_process("looks for the response in its process")
async def test_cancelling_a_whole_answer_gives_it_as_far_as_it_came() -> None:
    engine = endless()
    application = responses_app(small=engine)
    async with client_of(application) as client:
        pending = asyncio.ensure_future(client.responses.create(model="small", input="Hi"))
        await until(lambda: engine.running == 1)
        (run,) = application.state.context.runs._runs.values()
        await client.responses.cancel(run.id)
        assert (await pending).status == "cancelled"


async def test_a_queued_response_can_be_cancelled() -> None:
    engine = endless()
    async with client_of(responses_app(small=engine, limits=Limits(max_concurrent=1))) as client:
        first = await client.responses.create(model="small", input="Hi", background=True)
        await until(lambda: engine.running == 1)
        second = await client.responses.create(model="small", input="Hi", background=True)
        assert (await client.responses.cancel(second.id)).status == "cancelled"
        assert engine.running == 1
        await client.responses.cancel(first.id)


async def test_deleting_stops_what_is_being_made() -> None:
    engine = endless()
    async with client_of(responses_app(small=engine)) as client:
        made = await client.responses.create(model="small", input="Hi", background=True)
        await until(lambda: engine.running == 1)
        await client.responses.delete(made.id)
        assert engine.running == 0
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(made.id)


@pytest.mark.one_process("looks at what its process makes")
async def test_a_client_that_hangs_up_stops_its_engine_and_keeps_nothing() -> None:
    engine, store = endless(), MemoryStore()
    application = responses_app(small=engine, store=store)
    async with client_of(application) as client:
        stream = await client.responses.create(model="small", input="Hi", stream=True)
        created = await anext(stream)
        await stream.close()
        await until(lambda: engine.running == 0)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(created.response.id)
        context = application.state.context
        await until(lambda: not (context.runs._runs or context.lifecycle.works))


@pytest.mark.one_process("about the store in memory, which records nothing")
def test_an_engine_that_dies_in_mid_stream_is_an_error_and_a_failed_response() -> None:
    with running(responses_app(small=Losing(HELLO))) as base:
        events = events_of(respond(base, {"stream": True}))
    assert [event["type"] for event in events[-3:]] == ["response.output_item.done", "error", "response.failed"]
    error, failed = events[-2], events[-1]["response"]
    assert error["code"] == "engine_lost"
    assert failed["status"] == "failed"
    assert failed["error"]["code"] == "server_error"
    assert text_of(failed) == "Hel"


def test_an_engine_that_dies_at_once_is_a_status() -> None:
    engine = scripted(lambda prompt, sampling, choice: EngineLostError("the engine died"))
    with running(responses_app(small=engine)) as base:
        for stream in (False, True):
            got = respond(base, {"stream": stream})
            assert (got.status, got.error["code"]) == (503, "engine_lost")
            assert "retry-after" in got.headers


async def test_an_engine_that_dies_in_the_background_fails_the_response() -> None:
    async with client_of(responses_app(small=Losing(HELLO))) as client:
        made = await client.responses.create(model="small", input="Hi", background=True)
        done = await finished(client, made.id)
        assert done.status == "failed"
        assert done.error is not None


@pytest.mark.one_process("is about a store in memory, which several workers have not")
async def test_a_server_that_stops_fails_what_it_makes() -> None:
    engine, store = endless(), KeptStore()
    async with client_of(responses_app(small=engine, store=store)) as client:
        made = await client.responses.create(model="small", input="Hi", background=True)
        await until(lambda: engine.running == 1)
    async with client_of(responses_app(small=engine, store=store)) as client:
        assert (await client.responses.retrieve(made.id)).status == "failed"


class KeptStore(MemoryStore):
    """Outlives its application, as a file does."""

    async def aclose(self) -> None:
        pass


def twice(base: str, body: dict[str, Any], **headers: str) -> tuple[Got, Got]:
    return respond(base, body, **headers), respond(base, body, **headers)


def test_a_request_that_is_sent_twice_under_one_key_is_done_once() -> None:
    engine = scripted(HELLO)
    with running(responses_app(small=engine)) as base:
        first, second = twice(base, {}, idempotency_key="k1")
        assert first.json == second.json
        assert len(engine.requests) == 1
        streamed, again = twice(base, {"stream": True}, idempotency_key="k2")
        assert events_of(streamed)[-1]["response"] == events_of(again)[-1]["response"]
        assert len(engine.requests) == 2
        other = respond(base, {"input": "Something else"}, idempotency_key="k1")
        assert (other.status, other.error["code"], other.error["param"]) == (
            400,
            "idempotency_key_reused",
            "idempotency-key",
        )
        unstored = twice(base, {"store": False}, idempotency_key="k3")
        assert unstored[0].json["id"] != unstored[1].json["id"]


@pytest.mark.one_process("is about a store in memory, where streams are not recorded: here the second reads the first")
async def test_the_same_key_while_the_first_request_is_answered_is_a_conflict() -> None:
    engine = endless()
    async with client_of(responses_app(small=engine)) as client:
        headers = {"idempotency-key": "k"}
        stream = await client.responses.create(model="small", input="Hi", stream=True, extra_headers=headers)
        await anext(stream)
        with pytest.raises(openai.ConflictError) as caught:
            await client.responses.create(model="small", input="Hi", stream=True, extra_headers=headers)
        assert caught.value.code == "idempotency_in_progress"
        await stream.close()
        await until(lambda: engine.running == 0)


async def test_a_conversation_is_gone_on_with_by_one_response_at_a_time() -> None:
    engine = endless()
    async with client_of(responses_app(small=engine)) as client:
        conversation = await client.conversations.create()
        made = await client.responses.create(model="small", input="Hi", conversation=conversation.id, background=True)
        with pytest.raises(openai.ConflictError) as caught:
            await client.responses.create(model="small", input="Hi", conversation=conversation.id)
        assert (caught.value.code, caught.value.param) == ("conversation_locked", "conversation")
        await client.responses.cancel(made.id)
        assert not (await client.conversations.items.list(conversation.id)).data


def test_a_finished_response_is_read_as_events() -> None:
    with running(responses_app(small=scripted(HELLO))) as base:
        made = respond(base).json
        got = request(base, "GET", f"/v1/responses/{made['id']}?stream=true")
        events = events_of(got)
        assert events[-1]["response"] == made
        late = request(base, "GET", f"/v1/responses/{made['id']}?stream=true&starting_after=3")
        assert (late.status, late.error["param"]) == (400, "starting_after")
    assert json.dumps(events).count("Hello there, friend.") == 5


async def test_what_runs_in_the_background_takes_its_place_in_the_room_and_in_the_queue() -> None:
    engine = endless()
    application = responses_app(small=engine, limits=Limits(max_concurrent=1, max_queue=1))
    admission = application.state.context.admission
    async with client_of(application) as client:
        first = await client.responses.create(model="small", input="Hi", background=True)
        await until(lambda: engine.running == 1)
        second = await client.responses.create(model="small", input="Hi", background=True)
        await until(lambda: admission.waiting == 1)
        with pytest.raises(openai.RateLimitError) as refused:
            await client.responses.create(model="small", input="Hi", background=True)
        assert refused.value.code == "queue_full"
        assert (await client.responses.retrieve(second.id)).status == "queued"
        await client.responses.cancel(first.id)
        await until(lambda: engine.running == 1)
        await client.responses.cancel(second.id)
    assert (admission.running, admission.waiting, engine.running) == (0, 0, 0)


@pytest.mark.one_process("of what a key used the workers tell each other once a second")
async def test_a_key_that_may_have_one_request_at_once_has_it_in_the_background_and_can_still_look_at_it() -> None:
    engine = endless()
    application = responses_app(small=engine, limits=Limits(concurrent_per_key=1))
    async with client_of(application) as client:
        made = await client.responses.create(model="small", input="Hi", background=True)
        for background in (True, False):
            with pytest.raises(openai.RateLimitError) as refused:
                await client.responses.create(model="small", input="Hi", background=background)
            assert refused.value.code == "rate_limit_exceeded"
            assert refused.value.response.headers["retry-after"]
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(model="small", messages=[{"role": "user", "content": "Hi"}])
        assert (await client.responses.retrieve(made.id)).status in ("queued", "in_progress")
        assert (await client.responses.cancel(made.id)).status == "cancelled"
        short = await client.responses.create(model="small", input="Hi", max_output_tokens=3)
        assert short.status == "incomplete"
