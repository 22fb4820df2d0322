"""A turn that takes too long: told before the first token and in mid-stream, and its engine is free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from antiphon.api import Limits
from antiphon.engines import Sampling, ScriptedEngine, Step
from kit.api import app, chat, ids, post, running


class Stuck(ScriptedEngine):
    """Says some ids, and then nothing for ever."""

    def __init__(self, said: Sequence[int] = ()) -> None:
        super().__init__([])
        self._said = said

    async def generate(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int = 1, grammar: str | None = None,
        affinity: str | None = None,
    ) -> AsyncGenerator[Step, None]:  # fmt: skip
        self.running += 1
        try:
            for id in self._said:
                yield Step((id,))
            await asyncio.Event().wait()
        finally:
            self.running -= 1


FIRST = Limits(first_token_timeout=0.05)
WHOLE = Limits(turn_timeout=0.05)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("limits", "code"), [(FIRST, "first_token_timeout"), (WHOLE, "turn_timeout")], ids=["first", "whole"]
)
def test_before_the_first_token_it_is_a_real_status(limits: Limits, code: str, stream: bool) -> None:
    engine = Stuck()
    with running(app(engine, limits=limits)) as base:
        got = chat(base, stream=stream)
    assert (got.status, got.error["code"], got.error["type"]) == (504, code, "server_error")
    assert "0.05 seconds" in got.error["message"]
    assert engine.running == 0


def test_after_a_comment_that_kept_the_stream_alive_it_is_an_event() -> None:
    engine = Stuck()
    with running(app(engine, limits=Limits(first_token_timeout=0.2, keep_alive=0.02))) as base:
        got = chat(base, stream=True)
    assert got.status == 200
    assert got.body.startswith(b": keep-alive\n\n")
    assert [event["error"]["code"] for event in got.events] == ["first_token_timeout"]


def test_in_mid_stream_it_is_the_last_event_and_there_is_no_done() -> None:
    engine = Stuck(ids("Hel"))
    with running(app(engine, limits=WHOLE)) as base:
        got = chat(base, stream=True)
    *said, last = got.events
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in said) == "Hel"
    assert (got.status, last["error"]["code"]) == (200, "turn_timeout")
    assert engine.running == 0


def test_what_was_said_counts_as_a_first_token() -> None:
    with running(app(Stuck(ids("Hel")), limits=Limits(first_token_timeout=0.05, turn_timeout=0.2))) as base:
        assert chat(base).error["code"] == "turn_timeout"


def test_other_routes_tell_it_in_their_own_form() -> None:
    with running(app(Stuck(ids("Hel")), limits=WHOLE)) as base:
        assert post(base, "/v1/completions", prompt="Hi").error["code"] == "turn_timeout"
        streamed = post(base, "/v1/responses", input="Hi", stream=True).body.decode()
    assert streamed.index("event: error\n") < streamed.index("event: response.failed\n")
    assert '"turn_timeout"' in streamed or "not whole after" in streamed
