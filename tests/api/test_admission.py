"""Who waits, who is sent away, and what a server that stops says."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import pytest

from antiphon.api import Limits, create_app
from antiphon.errors import ModelError, OverloadedError
from antiphon.generation import Model, ModelFacts
from antiphon.http.gate.admission import Admission
from antiphon.http.lifecycle import Work
from antiphon.http.rules import Rules
from antiphon.http.server.server import Server
from kit.api import END, Answered, app, ids, in_process, in_process_into, scripted
from kit.api import model as model_of
from kit.waiting import PATIENCE, turns, until

SLOW = ids("word " * 200, END)


async def started(application: object, count: int) -> None:
    """Waits until ``count`` requests run."""
    admission = application.state.context.admission  # type: ignore[attr-defined]  # any application of this package
    await until(lambda: admission.running + admission.waiting >= count)


@pytest.mark.one_process("requests at two workers come to the queue in either order")
async def test_with_the_room_and_the_queue_full_the_next_is_refused_and_the_queue_is_served_in_order() -> None:
    engine = scripted(ids("ok", END), delay=0.01)
    application = app(engine, limits=Limits(max_concurrent=1, max_queue=2))
    running_now = [
        asyncio.ensure_future(in_process(application, messages=[{"role": "user", "content": str(i)}])) for i in range(3)
    ]
    await started(application, 3)
    refused = await in_process(application)
    assert (refused.status, refused.error["code"], refused.error["type"]) == (429, "queue_full", "engine_overloaded")
    assert refused.headers["retry-after"] == "1"
    assert [got.status for got in await asyncio.gather(*running_now)] == [200, 200, 200]
    order = [chr(ids_[len("user\n") + 1]) for ids_, _, _ in engine.requests]
    assert order == ["0", "1", "2"]


def admission(**limits: Any) -> Admission:
    return Admission(Rules(Limits(**limits)))


async def in_slot(room: Admission, owner: str, entered: list[str], end: asyncio.Event) -> None:
    async with room.slot(owner):
        entered.append(owner)
        await end.wait()


async def test_whoever_comes_when_room_and_queue_are_full_is_sent_away_and_nobody_enters_beside_them() -> None:
    room, entered, end = admission(max_concurrent=1, max_queue=2), list[str](), asyncio.Event()
    inside, *queue = [asyncio.create_task(in_slot(room, "ann", entered, end)) for _ in range(3)]
    await turns(3)
    assert (room.running, room.waiting) == (1, 2)
    with pytest.raises(OverloadedError) as full:
        room.check("ann")
    assert full.value.code == "queue_full"
    with pytest.raises(OverloadedError) as full:
        await in_slot(room, "ann", entered, end)
    assert full.value.message == "1 requests run and 2 wait, which is all that this server takes."
    room.check("bob")
    bob = asyncio.create_task(in_slot(room, "bob", entered, end))
    await turns(3)
    assert queue[1].done()
    with pytest.raises(OverloadedError) as displaced:
        queue[1].result()
    assert displaced.value.code == "queue_full"
    assert entered == ["ann"]
    end.set()
    await asyncio.gather(inside, queue[0], bob)
    assert (entered, room.running, room.waiting) == (["ann", "bob", "ann"], 0, 0)


async def test_a_server_without_a_queue_takes_as_many_as_run() -> None:
    room, entered, end = admission(max_concurrent=2, max_queue=0), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(in_slot(room, "ann", entered, end)) for _ in range(2)]
    await turns(3)
    with pytest.raises(OverloadedError):
        room.check("ann")
    end.set()
    await asyncio.gather(*tasks)
    room.check("ann")


async def test_a_request_that_waited_too_long_is_a_408_and_leaves_no_trace() -> None:
    engine = scripted(SLOW, delay=0.01)
    application = app(engine, limits=Limits(max_concurrent=1, queue_timeout=0.02))
    first = asyncio.ensure_future(in_process(application))
    await started(application, 1)
    late = await in_process(application)
    assert (late.status, late.error["code"]) == (408, "queue_timeout")
    assert application.state.context.admission.waiting == 0
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await until(lambda: (application.state.context.admission.running, engine.running) == (0, 0))


@pytest.mark.one_process("stops its process from within")
async def test_a_server_that_drains_takes_nothing_new() -> None:
    application = app(ids("ok", END))
    application.state.context.lifecycle.drain()
    got = await in_process(application)
    assert (got.status, got.error["code"], got.headers["retry-after"]) == (503, "draining", "5")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.one_process("stops its process from within")
async def test_at_the_deadline_what_still_runs_ends_with_an_error_that_can_be_read(stream: bool) -> None:
    engine = scripted(SLOW, delay=0.01)
    application = app(engine)
    sent: Answered = []
    answering = asyncio.ensure_future(in_process_into(sent, application, stream=stream))
    await until(lambda: len(sent) > 1 if stream else engine.running)
    application.state.context.lifecycle.stop()
    got = await answering
    error = got.events[-2]["error"] if stream else got.error
    assert (got.status, error["code"]) == (200 if stream else 503, "draining")
    assert engine.running == 0


async def test_work_that_was_stopped_before_it_began_never_begins() -> None:
    work, begun = Work(), list[str]()

    async def answer() -> None:
        begun.append("the answer")

    work.stop(OverloadedError("The server stopped.", code="draining"))
    work.stop(OverloadedError("Too late.", code="queue_timeout"))
    answering = answer()
    with pytest.raises(OverloadedError) as stopped:
        await work.run(answering)
    assert (stopped.value.code, begun, inspect.getcoroutinestate(answering)) == ("draining", [], inspect.CORO_CLOSED)


class Unloadable:
    """A source whose one model cannot be loaded the first time, or is slow to come."""

    names: Sequence[str] = ("small",)
    default: str | None = "small"
    embedding: str | None = None
    ranking: str | None = None
    loaded: Mapping[str, Model] = {}

    def __init__(self, model: Model | None) -> None:
        self._model = model
        self.may_come = asyncio.Event()
        self.may_come.set()

    def created(self, name: str) -> int:
        return 0

    def aliases(self, name: str) -> Sequence[str]:
        return ()

    def facts(self, name: str) -> ModelFacts | None:
        return None

    async def describe(self, name: str) -> ModelFacts | None:
        return None

    async def get(self, name: str) -> Model:
        await self.may_come.wait()
        if self._model is None:
            raise ModelError("The file is broken.")
        return self._model

    async def aclose(self) -> None:
        return None


async def test_a_model_that_cannot_be_loaded_is_an_error_with_a_body_and_no_wish_for_retries() -> None:
    got = await in_process(create_app(Unloadable(None)))
    assert (got.status, got.error["code"], got.headers["x-should-retry"]) == (500, "model_error", "false")


@pytest.mark.one_process("looks at what its process loads")
async def test_a_model_that_is_slow_to_load_is_a_503_and_goes_on_loading() -> None:
    source = Unloadable(model_of(scripted(ids("ok", END))))
    source.may_come.clear()
    application = create_app(source, limits=Limits(load_timeout=0.01))
    got = await in_process(application)
    assert (got.status, got.error["code"]) == (503, "loading")
    (load,) = application.state.context.loads
    assert not load.done()
    load.cancel()
    await asyncio.gather(load, return_exceptions=True)


class Late(Unloadable):
    """Its model runs on a server that is up at the third question."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.requested = 0

    async def get(self, name: str) -> Model:
        self.requested += 1
        if self.requested < 3:
            raise OverloadedError("It cannot be reached.", code="engine_unreachable", retry_after=0.001)
        return await super().get(name)


@pytest.mark.one_process("looks at what its process loads")
async def test_a_default_model_whose_server_is_not_up_yet_is_asked_for_until_it_is() -> None:
    source = Late(model_of(scripted(ids("ok", END))))
    application = create_app(source, preload=True)
    lifecycle = application.state.context.lifecycle
    async with application.router.lifespan_context(application):
        await turns(1)
        assert lifecycle.loading
        await until(lambda: not lifecycle.loading)
        assert source.requested == 3


@pytest.mark.one_process("serves within the process of the test")
async def test_a_default_model_that_fails_before_the_server_listens_is_its_error_and_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    application = create_app(Unloadable(None), preload=True)
    context = application.state.context

    @contextlib.asynccontextmanager
    async def until_it_failed() -> AsyncIterator[None]:
        await until(lambda: not context.loads)
        await turns(1)
        yield

    context.beside.append(until_it_failed)
    with pytest.raises(ModelError, match="The file is broken"):
        await Server(application).serve_to_end()
    assert not caplog.records


@pytest.mark.one_process("changes the limits of its process; a signal does so for all workers")
async def test_those_who_wait_enter_when_the_room_grows() -> None:
    engine = scripted(SLOW, delay=0.01)
    application = app(engine, limits=Limits(max_concurrent=1))
    answers = [asyncio.ensure_future(in_process(application, max_tokens=20)) for _ in range(3)]
    await started(application, 3)
    context = application.state.context
    assert (context.admission.running, context.admission.waiting) == (1, 2)
    context.rules.limits = Limits(max_concurrent=2)
    context.admission.let_in()
    assert (context.admission.running, context.admission.waiting) == (2, 1)
    assert [got.status for got in await asyncio.gather(*answers)] == [200, 200, 200]
    assert (context.admission.running, context.admission.waiting) == (0, 0)


PROGRAM = """
import sys
from kit.api import app, ids, scripted, END
from antiphon.api import serve
engine = scripted(ids("word " * int(sys.argv[1]), END), delay=0.02)
serve(app(engine), port=0, drain=5, on_ready=lambda url: print(url, flush=True))
print("ended", engine.running, flush=True)
"""


@contextlib.contextmanager
def streaming(words: int) -> Iterator[tuple[subprocess.Popen[str], http.client.HTTPResponse, str]]:
    """A server in a process of its own, in the middle of a stream."""
    path = os.pathsep.join([*sys.path, os.path.dirname(os.path.dirname(__file__))])
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(words)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert program.stdout is not None
    try:
        address = program.stdout.readline().strip().removeprefix("http://")
        with contextlib.closing(http.client.HTTPConnection(address, timeout=PATIENCE)) as connection:
            body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "stream": True})
            connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            response = connection.getresponse()
            assert response.readline().startswith(b"data: ")
            yield program, response, address
        assert program.stdout.read() == "ended 0\n"
        assert program.wait(PATIENCE) == 0
    finally:
        program.kill()
        program.communicate()


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return False
    return True


def test_sigterm_lets_a_stream_end_and_the_program_exits_with_0() -> None:
    with streaming(20) as (program, response, _):
        program.send_signal(signal.SIGTERM)
        assert response.read().endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_stream_at_once_with_an_error(second: signal.Signals) -> None:
    with streaming(1000) as (program, response, address):
        program.send_signal(signal.SIGTERM)
        while response.readline() and listens(address):
            pass  # two signals of one kind that come before the first is seen are one
        program.send_signal(second)
        *_, last, done = response.read().rstrip().split(b"data: ")
    assert json.loads(last)["error"]["code"] == "draining"
    assert done == b"[DONE]"
