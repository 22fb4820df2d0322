"""What a stream does when things go wrong, slow, or byte by byte."""

from __future__ import annotations

import asyncio
import weakref

import pytest

from antiphon.api import Limits
from antiphon.errors import AntiphonError, EngineError, EngineLostError, OverloadedError, TokenError
from antiphon.http.sse import Outbox
from kit.api import END, Answered, app, chat, ids, in_process, in_process_into, request, running, scripted
from kit.breaking import Breaking
from kit.waiting import LoopClock

ERRORS: list[tuple[Exception, int, str]] = [
    (EngineLostError("The engine died."), 503, "engine_lost"),
    (EngineError("The engine failed."), 500, "engine_error"),
    (OverloadedError("Too much.", retry_after=7), 503, "overloaded"),
    (TokenError("No such token.", code="unknown_control"), 500, "unknown_control"),
    (ZeroDivisionError("secret text"), 500, "internal_error"),
]


@pytest.mark.parametrize(("error", "status", "code"), ERRORS, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_the_first_token_is_a_real_status(
    error: Exception, status: int, code: str, stream: bool
) -> None:
    with running(app(Breaking([], error))) as base:
        got = chat(base, stream=stream)
    assert (got.status, got.error["code"]) == (status, code)
    assert b"secret" not in got.body
    assert got.headers["x-request-id"]
    wait = {"overloaded": ("7", "7000"), "engine_lost": ("1", "1000")}.get(code, (None, None))
    assert (got.headers.get("retry-after"), got.headers.get("retry-after-ms")) == wait


@pytest.mark.parametrize(("error", "status", "code"), ERRORS, ids=lambda value: str(value)[:30])
def test_an_error_in_mid_stream_is_an_event_before_done(error: Exception, status: int, code: str) -> None:
    with running(app(Breaking(ids("Hel"), error))) as base:
        got = chat(base, stream=True)
    assert got.status == 200
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in got.events[:-2]) == "Hel"
    assert got.events[-2]["error"]["code"] == code
    assert got.events[-1] == "[DONE]"
    assert b"secret" not in got.body


@pytest.mark.one_process("sets the clock of its event loop forward")
async def test_a_silent_engine_is_bridged_by_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, engine = LoopClock(monkeypatch), scripted(ids("ab", END), delay=1000)
    limits = Limits(keep_alive=500, first_token_timeout=1e6, turn_timeout=1e6)
    answer = asyncio.ensure_future(in_process(app(engine, limits=limits), stream=True))
    while not answer.done():
        await clock.forward(100)
    got = await answer
    assert got.body.count(b": keep-alive\n\n") >= 3
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in got.events[:-1]) == "ab"


def test_every_event_is_one_line_of_whole_utf8_whatever_the_cut() -> None:
    text = "a\u2028b\n¶ 漢字 🜂 é"
    for chunk in (1, 2, 3, 5):
        with running(app(scripted(ids(text, END), chunk=chunk))) as base:
            got = chat(base, stream=True)
        assert "\ufffd" not in got.body.decode()
        assert all(part.startswith(b"data: ") and b"\n" not in part for part in got.body[:-2].split(b"\n\n"))
        assert "".join(e["choices"][0]["delta"].get("content", "") for e in got.events[:-1]) == text


def test_bytes_that_are_no_character_become_one_replacement_and_never_an_error() -> None:
    with running(app([0x41, 0xFF, 0xC3, *ids(END)])) as base:
        whole = chat(base).json["choices"][0]["message"]["content"]
        events = chat(base, stream=True).events[:-1]
    assert whole == "A\ufffd\ufffd"
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events) == whole


@pytest.mark.one_process("looks at what its process loads")
def test_an_antiphon_error_on_another_route_has_the_body_too() -> None:
    application = app(ids(END))
    application.state.context.lifecycle.loading = True
    with running(application) as base:
        for path in ("/health", "/readyz"):
            got = request(base, "GET", path)
            assert (got.status, got.error["code"], got.headers["retry-after"]) == (503, "loading", "2")
        assert request(base, "GET", "/livez").status == 200


async def test_what_waits_in_the_outbox_is_taken_as_one_and_the_writer_waits_when_it_is_full() -> None:
    outbox = Outbox(limit=4, patience=60, gather=60)
    outbox.write(b"a")
    outbox.write(b"b")
    await outbox.room()
    outbox.write(b"cde")
    room = asyncio.ensure_future(outbox.room())
    await asyncio.sleep(0)
    assert not room.done()
    assert await outbox.take() == b"abcde"
    await room
    outbox.close(AntiphonError("x"))
    assert await outbox.take() is None


async def writes_of(gather: float) -> int:
    """How often a stream of ten tokens is written to, its start and its end among them."""
    answered: Answered = []
    engine = scripted(ids("0123456789", END), delay=0.001)
    await in_process_into(answered, app(engine, gather=gather), stream=True)
    return sum(message["type"] == "http.response.body" for message in answered)


async def test_the_operator_says_how_long_a_stream_gathers_before_it_is_written_again() -> None:
    assert await writes_of(0.0) > 8
    assert await writes_of(1.0) < 5


async def test_a_silent_outbox_says_a_comment_and_goes_on() -> None:
    outbox = Outbox(limit=100, patience=0.01, gather=0)
    assert await outbox.take() == await outbox.take() == b": keep-alive\n\n"
    outbox.write(b"a")
    assert await outbox.take() == b"a"
    outbox.close()


async def test_the_first_token_goes_at_once_and_those_that_follow_it_closely_go_together() -> None:
    outbox = Outbox(limit=100, patience=60, gather=60)
    outbox.write(b"a")
    assert await outbox.take() == b"a"
    second = asyncio.ensure_future(outbox.take())
    for letter in (b"b", b"c"):
        outbox.write(letter)
        await asyncio.sleep(0)
        assert not second.done()
    outbox.close()
    assert await second == b"bc"


async def test_a_full_outbox_is_taken_before_its_time() -> None:
    outbox = Outbox(limit=3, patience=60, gather=60)
    outbox.write(b"a")
    assert await outbox.take() == b"a"
    second = asyncio.ensure_future(outbox.take())
    outbox.write(b"bcd")
    await asyncio.gather(outbox.room(), second)
    assert second.result() == b"bcd"
    outbox.close()


async def test_an_outbox_is_full_at_its_limit_and_empty_when_it_was_taken() -> None:
    outbox = Outbox(limit=4, patience=60, gather=0)
    for _ in range(3):
        full = [outbox.full]
        assert outbox.write(b"abc") is None
        full.append(outbox.full)
        waits = outbox.write(b"d")
        assert waits is not None
        full.append(outbox.full)
        done = [waits.done()]
        assert await outbox.take() == b"abcd"
        assert [*done, waits.done()] == [False, True]
        assert [*full, outbox.full] == [False, False, True, False]
    outbox.close()
    assert await outbox.take() is None


async def test_an_outbox_lets_go_of_who_waited() -> None:
    outbox = Outbox(limit=1, patience=60, gather=0)
    waits = outbox.write(b"a")
    assert waits is not None
    waited = weakref.ref(waits)
    del waits
    assert await outbox.take() == b"a"
    assert waited() is None
    outbox.close()
