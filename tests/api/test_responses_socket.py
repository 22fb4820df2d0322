"""The Responses API over a WebSocket: the events of a stream as frames, and a memory as long as it is open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import openai
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from antiphon.api import Limits, create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.errors import EngineError
from antiphon.http.gate.keys import Scope, new_key
from kit.api import END, call, exchange, ids, running, sampled, scripted, serving
from kit.frames import create, event, events, opened, responded
from kit.pictures import TOKENIZER, data_url, picture, seeing_engine, seeing_model
from kit.responses import checked_response, events_of, respond, responses_app, text_of
from kit.waiting import LoopClock, until

ENDLESS = ids("word " * 1500)


def read(prompt: Sequence[int]) -> str:
    return bytes(id for id in prompt if id < 256).decode()


def script(prompt: Sequence[int], sampling: object, choice: int) -> list[int] | EngineError:
    """Counts the words that it reads; says them for ever, or fails, where it is told to."""
    text = read(prompt)
    if text.rstrip().endswith("Fail.<|im_end|>") or "Fail." in text:
        return EngineError("it broke")
    return ENDLESS if "Go on." in text else ids(f"I have read {text.count('word')} of them.", END)


def said(number: int) -> str:
    return f"I have read {number} of them."


@pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")  # How the client uses its library.
def test_the_official_client_talks_over_one_connection() -> None:
    with running(responses_app(small=scripted(script))) as base:
        client = openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0)
        with client, client.responses.connect() as connection:
            got: Any = None
            texts, previous = [], None
            for _ in range(3):
                more: Any = {"previous_response_id": previous} if previous else {}
                connection.response.create(model="small", input="word", store=False, **more)
                for got in connection:
                    if got.type == "response.completed":
                        break
                texts.append(got.response.output_text)
                previous = got.response.id
            connection.response.create(model="small", input="word", previous_response_id="resp_0")
            refused: Any = connection.recv()
    assert texts == [said(1), said(2), said(3)]
    assert refused.type == "error"
    assert (refused.error.code, refused.error.param) == ("previous_response_not_found", "previous_response_id")


async def test_the_official_asynchronous_client_too() -> None:
    async with serving(responses_app(small=scripted(script))) as port:
        client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any", max_retries=0)
        got: Any = None
        async with client, client.responses.connect() as connection:
            await connection.response.create(model="small", input="word")
            async for got in connection:
                if got.type == "response.completed":
                    break
    assert got.response.output_text == said(1)


async def test_frames_are_the_events_of_a_stream() -> None:
    application = responses_app(small=scripted(script))
    with running(application) as base:
        streamed = events_of(respond(base, {"model": "small", "input": "word", "stream": True}))
        async with opened(int(base.rpartition(":")[2])) as socket:
            await create(socket, input="word")
            frames = await events(socket)

    def without_ids(events: list[Any]) -> str:
        text = json.dumps(events)
        for name in ("id", "item_id"):
            for one in {str(value) for value in found(events, name)}:
                text = text.replace(one, name)
        return text

    def found(value: Any, name: str) -> list[Any]:
        if isinstance(value, dict):
            own = [value[name]] if name in value else []
            return own + [one for inner in value.values() for one in found(inner, name)]
        return [one for inner in value for one in found(inner, name)] if isinstance(value, list) else []

    for one in (*streamed, *frames):
        if "response" in one:
            checked_response(one["response"])
            one["response"].update(created_at=0, completed_at=0)
    assert without_ids(frames) == without_ids(streamed)


async def test_only_its_own_latest_response_is_remembered() -> None:
    async with serving(responses_app(small=scripted(script))) as port:
        async with opened(port) as socket, opened(port) as other:
            first = await responded(socket, input="word", store=False)
            second = await responded(socket, input="word", store=False, previous_response_id=first["id"])
            assert text_of(second) == said(2)
            for connection, id in ((socket, first["id"]), (other, second["id"])):
                refused = await responded(connection, input="word", previous_response_id=id)
                assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")
            stored = await responded(socket, input="word", previous_response_id=second["id"])
            assert text_of(stored) == said(3)
            refused = await responded(other, input="word", previous_response_id=stored["id"])
            assert refused["error"]["code"] == "previous_response_not_found"
            assert text_of(await responded(socket, input="word", previous_response_id=stored["id"])) == said(4)
        async with opened(port) as socket:
            refused = await responded(socket, input="word", previous_response_id=second["id"])
            assert refused["error"]["code"] == "previous_response_not_found"


async def test_images_count_for_what_a_connection_remembers() -> None:
    image = {"type": "input_image", "image_url": data_url(picture() + bytes(12_000))}
    asks: dict[str, Any] = {"model": "m", "input": [{"role": "user", "content": [image]}], "store": False}
    engine = seeing_engine(sampled(TOKENIZER, ("Red.", END)))
    application = create_app(StaticCatalog({"m": seeing_model(engine)}), limits=Limits(max_body=40_000))
    async with serving(application) as port, opened(port) as socket:
        last = await responded(socket, **asks)
        last = await responded(socket, **asks, previous_response_id=last["id"])
        assert [image.data for image in engine.images[-1]] == [picture() + bytes(12_000)] * 2
        last = await responded(socket, **asks, previous_response_id=last["id"])
        refused = await responded(socket, **asks, previous_response_id=last["id"])
        assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")


async def test_a_function_s_output_alone_goes_on() -> None:
    def calls(prompt: Sequence[int], sampling: object, choice: int) -> list[int]:
        return ids("It is warm.", END) if "18 degrees" in read(prompt) else ids(*call("f", "{}"), END)

    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    async with serving(responses_app(small=scripted(calls))) as port, opened(port) as socket:
        first = await responded(socket, input="Weather?", store=False, tools=[tool])
        output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "18 degrees"}
        body = {"input": [output], "store": False, "tools": [tool], "previous_response_id": first["id"]}
        assert text_of(await responded(socket, **body)) == "It is warm."


async def test_a_response_that_failed_is_forgotten() -> None:
    async with serving(responses_app(small=scripted(script))) as port, opened(port) as socket:
        first = await responded(socket, input="word", store=False)
        await create(socket, input="Fail.", store=False, previous_response_id=first["id"])
        got = await events(socket)
        assert got[-1].get("status", 500) == 500 or got[-1]["type"] == "response.failed"
        again = await responded(socket, input="word", store=False)
        assert text_of(again) == said(1)


async def test_a_request_that_cannot_go_on_costs_what_is_remembered() -> None:
    async with serving(responses_app(small=scripted(script))) as port, opened(port) as socket:
        first = await responded(socket, input="word", store=False)
        output = {"type": "function_call_output", "call_id": "", "output": "1"}
        for input, code in (([output], "missing_required_parameter"), ("word", "previous_response_not_found")):
            refused = await responded(socket, input=input, store=False, previous_response_id=first["id"])
            assert (refused["status"], refused["error"]["code"]) == (400, code)


async def test_a_result_of_no_call_cannot_go_on() -> None:
    """Its client made a mistake: all that came before is known here, and no call of it had the id."""
    output = {"type": "function_call_output", "call_id": "call_of_nobody", "output": "1"}
    async with serving(responses_app(small=scripted(script))) as port, opened(port) as socket:
        first = await responded(socket, input="word", store=False)
        for code in ("item_not_found", "previous_response_not_found"):
            refused = await responded(socket, input=[output], store=False, previous_response_id=first["id"])
            assert (refused["status"], refused["error"]["code"]) == (400, code)


@pytest.mark.parametrize("store", [True, False])
async def test_a_prompt_that_is_read_in_advance_has_an_id_to_go_on_from(store: bool) -> None:
    engine = scripted(script)
    async with serving(responses_app(small=engine)) as port, opened(port) as socket:
        await create(socket, input="word word", generate=False, store=store)
        got = await events(socket)
        assert [one["type"] for one in got] == ["response.created", "response.in_progress", "response.completed"]
        warm = got[-1]["response"]
        assert (warm["output"], warm["usage"]["output_tokens"]) == ([], 0)
        assert warm["usage"]["input_tokens"] == len(engine.requests[0][0])
        assert engine.requests[0][1].max_tokens == 1
        assert text_of(await responded(socket, input="word", previous_response_id=warm["id"])) == said(3)


async def test_one_response_is_made_at_a_time() -> None:
    engine = scripted(script, delay=0.001)
    async with serving(responses_app(small=engine)) as port, opened(port) as socket:
        await create(socket, input="Go on.", max_output_tokens=1500)
        await event(socket)
        await create(socket, input="word")
        got = await events(socket)
        while "status" not in got[-1]:
            got += await events(socket)
        assert (got[-1]["status"], got[-1]["error"]["code"]) == (400, "response_in_progress")
        assert (await events(socket))[-1]["type"] == "response.incomplete"
        assert text_of(await responded(socket, input="word")) == said(1)


async def test_streams_with_names_go_beside_each_other_and_each_in_its_order() -> None:
    engine = scripted(script, delay=0.001)
    async with serving(responses_app(small=engine)) as port, opened(port) as socket:
        await create(socket, input="Go on.", max_output_tokens=1000, stream_id="slow")
        await until(lambda: engine.running == 1)
        await create(socket, input="word", stream_id="slow")
        await create(socket, input="word word", stream_id="quick")
        ends: list[Any] = []
        while len(ends) < 3:
            got = await event(socket)
            if got["type"] in ("response.completed", "response.incomplete"):
                ends.append((got["stream_id"], text_of(got["response"])[:20]))
    assert ends == [("quick", said(2)[:20]), ("slow", "word word word word "), ("slow", said(1)[:20])]


async def test_streams_that_are_too_many_are_refused() -> None:
    engine = scripted(script, delay=0.001)
    async with serving(responses_app(small=engine)) as port, opened(port) as socket:
        for number in range(9):
            await create(socket, input="Go on.", stream_id=f"s{number}", max_output_tokens=1000)
        for _ in range(17):
            await create(socket, input="word", stream_id="s0")
        refused: list[Any] = []
        while len(refused) < 2:
            got = await event(socket)
            if "status" in got:
                refused.append((got["status"], got["error"]["code"], got["error"]["param"]))
        assert refused == [(400, "response_in_progress", "stream_id")] * 2
    await until(lambda: engine.running == 0)


@pytest.mark.one_process("reads what its process has counted")
async def test_who_hangs_up_stops_the_response() -> None:
    engine = scripted(ENDLESS, delay=0.002)
    application = responses_app(small=engine)
    async with serving(application) as port:
        socket = await opened(port)
        await create(socket, input="Hi")
        await event(socket)
        await until(lambda: engine.running == 1)
        socket.transport.abort()
        context = application.state.context
        await until(lambda: engine.running == 0 and context.admission.running == 0 and not context.lifecycle.works)
        await until(lambda: context.traffic.clients_gone == 1)


@pytest.mark.one_process("changes the keys of its process; a signal does so for all workers")
async def test_each_frame_needs_the_key_its_scope_and_its_rates() -> None:
    (secret, key), (watcher, admin) = new_key("ann", requests_per_minute=2), new_key("ops", [Scope.ADMIN])
    application = responses_app(small=scripted(script), keys=[key, admin])
    async with serving(application) as port:
        wrong: list[tuple[dict[str, Any], int]] = [
            ({}, 401),
            ({"authorization": f"Bearer {watcher}"}, 403),
            ({"x_api_key": "no"}, 401),
        ]
        for headers, status in wrong:
            with pytest.raises(InvalidStatus) as caught:
                await opened(port, **headers)
            assert caught.value.response.status_code == status
            assert json.loads(caught.value.response.body)["error"]["type"] in (
                "authentication_error",
                "permission_error",
            )
        async with opened(port, authorization=f"Bearer {secret}") as socket:
            for _ in range(2):
                assert text_of(await responded(socket, input="word")) == said(1)
            limited = await responded(socket, input="word", stream_id="s")
            assert (limited["status"], limited["error"]["code"]) == (429, "rate_limit_exceeded")
            assert limited["stream_id"] == "s"
            assert int(limited["error"]["headers"]["retry-after"]) > 0
            application.state.context.keys.replace([admin])
            gone = await responded(socket, input="word")
            assert (gone["status"], gone["error"]["code"]) == (401, "invalid_api_key")


async def test_another_key_s_stored_response_is_not_there() -> None:
    (ann, one), (bob, two) = new_key("ann"), new_key("bob")
    async with (
        serving(responses_app(small=scripted(script), keys=[one, two])) as port,
        opened(port, authorization=f"Bearer {ann}") as hers,
        opened(port, x_api_key=bob) as his,
    ):
        stored = await responded(hers, input="word")
        refused = await responded(his, input="word", previous_response_id=stored["id"])
        assert refused["error"]["code"] == "previous_response_not_found"
        assert text_of(await responded(hers, input="word", previous_response_id=stored["id"])) == said(2)


async def test_a_web_page_may_open_a_connection_only_where_it_is_named() -> None:
    application = responses_app(small=scripted(script), origins=["https://good.example"])
    async with serving(application) as port:
        async with opened(port, origin="https://good.example") as socket:
            assert text_of(await responded(socket, input="word")) == said(1)
        with pytest.raises(InvalidStatus) as caught:
            await opened(port, origin="https://evil.example")
        assert caught.value.response.status_code == 403
        assert json.loads(caught.value.response.body)["error"]["code"] == "origin_not_allowed"


@pytest.mark.one_process("sets the clock of its event loop forward")
async def test_a_connection_that_is_open_too_long_is_closed_when_its_response_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = scripted(script, delay=0.001)
    application = responses_app(small=engine)
    async with serving(application) as port, opened(port) as busy, opened(port) as idle:
        clock = LoopClock(monkeypatch)
        await create(busy, input="Go on.", max_output_tokens=300)
        await event(busy)
        await event_of_age(clock, idle)
        assert (await events(busy))[-1]["type"] == "response.incomplete"
        assert (await event(busy))["error"]["code"] == "websocket_connection_limit_reached"
        with pytest.raises(ConnectionClosed) as caught:
            await busy.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1000


async def event_of_age(clock: LoopClock, socket: Any) -> None:
    waiting = asyncio.ensure_future(socket.recv())
    await asyncio.sleep(0)
    await clock.forward(Limits().socket_lifetime + 1)
    got = json.loads(await waiting)
    assert (got["status"], got["error"]["code"]) == (400, "websocket_connection_limit_reached")


async def test_a_server_that_stops_ends_what_it_says_and_closes() -> None:
    engine = scripted(script, delay=0.001)
    async with serving(responses_app(small=engine)) as port:
        busy, idle = await opened(port), await opened(port)
        await create(busy, input="Go on.", max_output_tokens=300)
        await event(busy)
    # The server has stopped.
    assert (await events(busy))[-1]["type"] == "response.incomplete"
    for socket in (busy, idle):
        assert (await event(socket))["error"]["code"] == "draining"
        with pytest.raises(ConnectionClosed) as caught:
            await socket.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1012


@pytest.mark.one_process("stops its process from within")
async def test_a_server_that_stops_takes_no_connection() -> None:
    application = responses_app(small=scripted(script))
    async with serving(application) as port:
        application.state.context.lifecycle.drain()
        with pytest.raises(InvalidStatus) as caught:
            await opened(port)
        assert caught.value.response.status_code == 503


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/metrics", "/v1/nothing", "/v1/chat/completions", "/v1/responses/x"]
)
@pytest.mark.one_process("calls the application itself")
async def test_no_route_is_open_to_a_connection_without_a_key(path: str) -> None:
    application = responses_app(small=scripted(script), keys=[new_key("ann")[1]])
    got = await handshake(application, path)
    assert [message["type"] for message in got] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert got[0]["status"] == 401


async def handshake(application: Any, path: str) -> list[Any]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "websocket", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "ws", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": [], "client": None, "server": None,
        "subprotocols": [], "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    await application(scope, receive, send)
    return sent


async def test_requests_over_a_connection_are_counted_as_requests() -> None:
    application = responses_app(small=scripted(script))
    async with serving(application) as port, opened(port) as socket:
        await responded(socket, input="word")
        await responded(socket, input="word", temperature=9)
        metrics = (await exchange(application, "/metrics", {}, [], method="GET")).body.decode()
    for labels in ('method="GET",route="/responses",status="101"', 'method="POST",route="/responses",status="200"'):
        assert f"antiphon_requests_total{{{labels}}} 1.0" in metrics
    assert 'antiphon_requests_total{method="POST",route="/responses",status="400"} 1.0' in metrics


async def test_errors_are_openai_s_wherever_the_socket_is() -> None:
    async with (
        serving(responses_app(small=scripted(script))) as port,
        opened(port, "/serving-endpoints/responses") as socket,
    ):
        refused = await responded(socket, input="word", previous_response_id="resp_0")
        assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")
        assert text_of(await responded(socket, input="word")) == said(1)
