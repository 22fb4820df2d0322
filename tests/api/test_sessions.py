"""Interactive sessions: the client sends its new turn, the history is the server's."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from antiphon.engines import Sampling
from antiphon.engines.scripted import Reply
from antiphon.store import Key, Lease, MemoryStore, Record, SessionLimits, SqliteStore
from antiphon.store.clock import GRACE
from antiphon.tokens import decode
from kit.api import END, TOKENIZER, Got, app, call, ids, in_process, scripted, serving, wire_bytes
from kit.waiting import until


def echo(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
    """Says how many users spoke."""
    count = decode(TOKENIZER, prompt).count("<|im_start|>user")
    return ids(f"answer {count}", END)


def says(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def content(got: Got) -> str:
    assert got.status == 200, got.body
    text: str = got.json["choices"][0]["message"]["content"]
    return text


@pytest.mark.spec("LMD-25", "LMD-26", "LMD-27")
async def test_a_session_s_prompt_is_the_one_that_its_whole_history_gives() -> None:
    engine = scripted(echo)
    application = app(engine)
    history: list[dict[str, str]] = [{"role": "system", "content": "Be brief."}]
    for turn, question in enumerate(["One?", "Two?", "Three?"]):
        new = [*(history if turn == 0 else []), *says(question)]
        history += says(question)
        stored = await in_process(application, messages=new, session_id="s")
        alone = await in_process(application, messages=history)
        assert content(stored) == content(alone) == f"answer {turn + 1}"
        history.append({"role": "assistant", "content": content(alone)})
        assert engine.requests[-1][0] == engine.requests[-2][0]


@pytest.mark.spec("LMD-28")
async def test_the_guiding_text_is_said_in_the_first_round_only() -> None:
    engine = scripted(echo)
    application = app(engine)
    first = [{"role": "system", "content": "Be brief."}, *says("One?")]
    await in_process(application, messages=first, session_id="s")
    await in_process(application, messages=says("Two?"), session_id="s")
    prompt = decode(TOKENIZER, engine.requests[-1][0])
    assert prompt.count("Be brief.") == 1
    assert prompt.startswith("<|im_start|>system\nBe brief.")


@pytest.mark.spec("LMD-24", "LMD-34")
async def test_sequence_start_begins_anew_and_without_it_a_session_must_be_there_on_request() -> None:
    application = app(echo)
    missing = await in_process(application, session_id="s", sequence_start=False)
    assert (missing.status, missing.error["code"]) == (404, "session_not_found")
    assert content(await in_process(application, session_id="s", sequence_start=True)) == "answer 1"
    assert content(await in_process(application, session_id="s", sequence_start=False)) == "answer 2"
    assert content(await in_process(application, session_id="s")) == "answer 3"
    assert content(await in_process(application, session_id="s", sequence_start=True)) == "answer 1"


@pytest.mark.parametrize("stream", [False, True])
async def test_sequence_end_forgets_the_session_with_its_answer(stream: bool) -> None:
    application = app(echo)
    await in_process(application, session_id="s")
    await in_process(application, session_id="s", sequence_end=True, stream=stream)
    assert (await in_process(application, session_id="s", sequence_start=False)).status == 404


@pytest.mark.parametrize("nobody", [None, "", -1])
async def test_a_request_without_a_session_leaves_nothing(nobody: object) -> None:
    store = MemoryStore()
    application = app(echo, store=store)
    assert content(await in_process(application, session_id=nobody)) == "answer 1"
    assert content(await in_process(application, session_id=nobody)) == "answer 1"
    assert await store.names("session", "") == []


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"sequence_start": True}, "sequence_start"),
        ({"sequence_end": False}, "sequence_end"),
        ({"session_id": "s", "n": 2}, "n"),
        ({"session_id": "a b"}, "session_id"),
        ({"session_id": 1.5}, "session_id"),
        ({"session_id": -2}, "session_id"),
        ({"session_id": 10**40}, "session_id"),
        ({"session_id": "s", "continue_final_message": True, "messages": [{"role": "assistant", "content": "x"}]},
         "continue_final_message"),
    ],
)  # fmt: skip
async def test_what_a_session_cannot_do_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    got = await in_process(app(echo), **fields)
    assert (got.status, got.error["param"]) == (400, named)


async def test_a_call_of_an_earlier_turn_is_answered_by_its_id() -> None:
    replies = [ids(*call("f", '{"x": 1}'), END), ids("It is 2.", END), ids("As I said.", END)]
    engine = scripted(lambda prompt, sampling, choice: replies.pop(0))
    application = app(engine)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    got = await in_process(application, session_id="s", tools=[tool])
    (called,) = got.json["choices"][0]["message"]["tool_calls"]
    result = {"role": "tool", "tool_call_id": called["id"], "content": "2"}
    assert content(await in_process(application, session_id="s", tools=[tool], messages=[result])) == "It is 2."
    assert '"arguments": {"x": 1}' in decode(TOKENIZER, engine.requests[-1][0])
    assert content(await in_process(application, session_id="s", tools=[tool], messages=[result])) == "As I said."


async def test_an_answer_that_its_limit_cut_is_history_too() -> None:
    engine = scripted(lambda prompt, sampling, choice: ids("a long answer", END))
    application = app(engine)
    await in_process(application, session_id="s", max_tokens=6)
    await in_process(application, session_id="s")
    assert "assistant\na long<|im_end|>" in decode(TOKENIZER, engine.requests[-1][0])


async def test_two_requests_on_one_session_are_a_conflict_and_its_end_frees_it() -> None:
    engine = scripted(ids("word " * 400), delay=0.001)
    application = app(engine)
    first = asyncio.create_task(in_process(application, session_id="s", stream=True))
    await until(lambda: engine.running == 1)
    second = await in_process(application, session_id="s")
    assert (second.status, second.error["code"]) == (409, "session_busy")
    await first
    assert (await in_process(application, session_id="s", max_tokens=1)).status == 200


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_hangs_up_leaves_the_history_as_it_was(stream: bool) -> None:
    def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
        rendered = decode(TOKENIZER, prompt)
        return ids("word " * 1500) if "endless" in rendered else echo(prompt, sampling, choice)

    engine = scripted(script, delay=0.001)
    application = app(engine)
    async with serving(application) as port:
        await in_process(application, session_id="s")
        fields = {"messages": says("endless"), "session_id": "s", "stream": stream}
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(wire_bytes("/v1/chat/completions", fields))
        await until(lambda: engine.running == 1)
        writer.transport.abort()
        await until(lambda: application.state.context.admission.running == 0)
        assert content(await in_process(application, session_id="s")) == "answer 2"


async def test_an_engine_that_fails_leaves_the_history_as_it_was() -> None:
    replies: list[Reply] = [ids("one", END), RuntimeError("broken"), ids("two", END)]
    engine = scripted(lambda prompt, sampling, choice: replies.pop(0))
    application = app(engine)
    await in_process(application, session_id="s")
    assert (await in_process(application, session_id="s", messages=says("lost"))).status == 500
    await in_process(application, session_id="s")
    assert "lost" not in decode(TOKENIZER, engine.requests[-1][0])


async def test_a_restart_keeps_the_history_and_expiry_takes_it(tmp_path: Path) -> None:
    now = 1000.0
    for turn in (1, 2):
        store = SqliteStore(tmp_path / "sessions.db")
        application = app(echo, store=store, clock=lambda: now, session_limits=SessionLimits(lifetime=60))
        assert content(await in_process(application, session_id="s")) == f"answer {turn}"
        await store.aclose()
    now += 61
    store = SqliteStore(tmp_path / "sessions.db")
    application = app(echo, store=store, clock=lambda: now, session_limits=SessionLimits(lifetime=60, sweep=0.001))
    async with serving(application):
        now += GRACE
        await until(lambda: not _names(tmp_path / "sessions.db"))


def _names(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT name FROM record").fetchall()
    finally:
        connection.close()


async def test_a_history_that_has_no_room_is_reported_and_stays() -> None:
    application = app(echo, session_limits=SessionLimits(bytes=400))
    await in_process(application, session_id="s")
    got = await in_process(application, session_id="s", messages=says("x" * 400))
    assert (got.status, got.error["code"]) == (400, "session_too_long")
    assert content(await in_process(application, session_id="s")) == "answer 2"


@pytest.mark.parametrize("stream", [True, False])
async def test_the_end_of_an_answer_is_reported_only_when_the_turn_is_stored(stream: bool) -> None:
    order: list[bytes] = []

    class Watched(MemoryStore):
        async def put(
            self, key: Key, record: Record, *entries: bytes, expected: int | None = None, lease: Lease | None = None
        ) -> None:
            order.append(b"kept")
            await super().put(key, record, *entries, expected=expected, lease=lease)

    application = app(echo, store=Watched())

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: AsgiMessage) -> None:
            order.append(message.get("body", b""))
            await send(message)

        await application(scope, receive, note)

    await in_process(watched, session_id="s", stream=stream)
    end = next(i for i, sent in enumerate(order) if b'"finish_reason":"stop"' in sent)
    assert order.index(b"kept") < end
    assert sum(b"answer" in sent for sent in order[end + 1 :]) == 0
