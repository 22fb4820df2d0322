"""A turn that takes too long: reported before the first token and in mid-stream, and its engine is free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence

import pytest

from antiphon.api import Limits
from antiphon.engines import PlacedImage, Sampling, ScriptedEngine, Step
from antiphon.tenancy import NOBODY, Tenant
from kit.api import Answered, Got, app, ids, in_process, in_process_into, post_in_process
from kit.waiting import LoopClock, until


class Stuck(ScriptedEngine):
    """Says some ids, and then nothing for ever."""

    def __init__(self, first_ids: Sequence[int] = ()) -> None:
        super().__init__([])
        self._ids = first_ids
        self.stuck = asyncio.Event()

    async def generate(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int = 1, grammar: str | None = None,
        tenant: Tenant = NOBODY, images: Sequence[PlacedImage] = (),
    ) -> AsyncGenerator[Step, None]:  # fmt: skip
        self.running += 1
        try:
            for id in self._ids:
                yield Step((id,))
            self.stuck.set()
            await asyncio.Event().wait()
        finally:
            self.running -= 1


FIRST = Limits(first_token_timeout=500, keep_alive=9999)
WHOLE = Limits(turn_timeout=500, keep_alive=9999)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    return LoopClock(monkeypatch)


async def after(seconds: float, clock: LoopClock, engine: Stuck, request: Awaitable[Got]) -> Got:
    """What was answered when the engine had sent nothing for so many seconds."""
    answer = asyncio.ensure_future(request)
    await engine.stuck.wait()
    assert not answer.done()
    await clock.forward(seconds)
    got = await answer
    assert engine.running == 0
    return got


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("limits", "code"), [(FIRST, "first_token_timeout"), (WHOLE, "turn_timeout")], ids=["first", "whole"]
)
async def test_before_the_first_token_it_is_a_real_status(
    limits: Limits, code: str, stream: bool, clock: LoopClock
) -> None:
    engine = Stuck()
    got = await after(500, clock, engine, in_process(app(engine, limits=limits), stream=stream))
    assert (got.status, got.error["code"], got.error["type"]) == (504, code, "server_error")
    assert "500 seconds" in got.error["message"]


async def test_after_a_comment_that_kept_the_stream_alive_it_is_an_event(clock: LoopClock) -> None:
    engine = Stuck()
    sent: Answered = []
    answer = asyncio.ensure_future(
        in_process_into(sent, app(engine, limits=Limits(first_token_timeout=500, keep_alive=50)), stream=True)
    )
    await engine.stuck.wait()
    await clock.forward(60)
    await until(lambda: len(sent) > 1)
    await clock.forward(500)
    got = await answer
    assert got.status == 200
    assert got.body.startswith(b": keep-alive\n\n")
    error, done = got.events
    assert (error["error"]["code"], done) == ("first_token_timeout", "[DONE]")


async def test_in_mid_stream_it_is_the_last_event_before_done(clock: LoopClock) -> None:
    engine = Stuck(ids("Hel"))
    got = await after(500, clock, engine, in_process(app(engine, limits=WHOLE), stream=True))
    *events, last, done = got.events
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == "Hel"
    assert (got.status, last["error"]["code"], done) == (200, "turn_timeout", "[DONE]")


async def test_what_was_said_counts_as_a_first_token(clock: LoopClock) -> None:
    engine = Stuck(ids("Hel"))
    limits = Limits(first_token_timeout=50, turn_timeout=500)
    answer = asyncio.ensure_future(in_process(app(engine, limits=limits)))
    await engine.stuck.wait()
    await clock.forward(300)
    assert not answer.done()
    await clock.forward(200)
    assert (await answer).error["code"] == "turn_timeout"


async def test_other_routes_tell_it_in_their_own_form(clock: LoopClock) -> None:
    engine = Stuck(ids("Hel"))
    application = app(engine, limits=WHOLE)
    got = await after(500, clock, engine, post_in_process(application, "/v1/completions", prompt="Hi"))
    assert got.error["code"] == "turn_timeout"
    engine.stuck.clear()
    got = await after(500, clock, engine, post_in_process(application, "/v1/responses", input="Hi", stream=True))
    streamed = got.body.decode()
    assert streamed.index("event: error\n") < streamed.index("event: response.failed\n")
    assert '"turn_timeout"' in streamed or "not whole after" in streamed
