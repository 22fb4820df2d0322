"""POST /v1/chat/interactive: LMDeploy's way to speak with a session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.api import Limits
from antiphon.engines import Sampling
from antiphon.engines.scripted import Reply
from antiphon.store import MemoryStore
from antiphon.tokens import decode
from kit.api import END, TOKENIZER, Got, app, ids, post_in_process, scripted, stopping
from kit.waiting import until

SYSTEM = "You are brief."


def echo(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
    return ids(f"answer {decode(TOKENIZER, prompt).count('<|im_start|>user')}", END)


async def interactive(application: Any, **fields: Any) -> Got:
    return await post_in_process(application, "/v1/chat/interactive", **fields)


async def turn(application: Any, prompt: object = "Hi", **fields: Any) -> Any:
    got = await interactive(application, **{"prompt": prompt, "session_id": 7, "interactive_mode": True, **fields})
    assert got.status == 200, got.body
    return got.json


@pytest.mark.spec("LMD-27")
async def test_only_the_new_turn_is_sent_and_the_answer_counts_what_came_before() -> None:
    engine = scripted(echo)
    application = app(engine)
    answers = [await turn(application, prompt) for prompt in ("One?", "Two?", "Three?")]
    assert [answer["text"] for answer in answers] == ["answer 1", "answer 2", "answer 3"]
    assert [answer["tokens"] for answer in answers] == [len(ids("answer 1", END))] * 3
    assert answers[0]["history_tokens"] == 0
    for (prompt, _, _), before, answer in zip(engine.requests[1:], answers[:-1], answers[1:], strict=True):
        tokens_before = before["history_tokens"] + before["input_tokens"] + before["tokens"]
        assert answer["history_tokens"] == tokens_before + len(ids("\n"))
        assert answer["history_tokens"] + answer["input_tokens"] == len(prompt)
    assert {answer["finish_reason"] for answer in answers} == {"stop"}
    assert {answer["session_id"] for answer in answers} == {7}


@pytest.mark.parametrize("nobody", [None, "", -1])
async def test_a_new_session_gets_its_name_and_can_be_gone_on_with(nobody: object) -> None:
    application = app(echo)
    first = await turn(application, session_id=nobody)
    assert first["text"] == "answer 1"
    assert (await turn(application, session_id=first["session_id"]))["text"] == "answer 2"
    assert (await turn(application, session_id=nobody))["text"] == "answer 1"


@pytest.mark.spec("LMD-32")
async def test_lmdeploy_s_endpoints_are_all_here() -> None:
    application = app(echo)
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
        "/v1/completions": {"prompt": "Hi"},
        "/v1/chat/interactive": {"prompt": "Hi"},
    }
    for path, fields in bodies.items():
        assert (await post_in_process(application, path, **fields)).status == 200


@pytest.mark.spec("LMD-28", "LMD-34")
async def test_guiding_text_comes_with_the_first_round_and_not_again() -> None:
    engine = scripted(echo)
    application = app(engine)
    await turn(application, [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "One?"}])
    await turn(application, "Two?")
    assert decode(TOKENIZER, engine.requests[-1][0]).count(SYSTEM) == 1


async def test_without_interactive_mode_the_session_ends_with_its_answer() -> None:
    store = MemoryStore()
    application = app(echo, store=store)
    await turn(application)
    assert (await turn(application, interactive_mode=False))["text"] == "answer 2"
    assert (await turn(application, session_id=-1, interactive_mode=False))["text"] == "answer 1"
    assert await store.names("session", "") == []


async def test_no_prompt_and_no_tokens_requested_ends_the_session_once_and_again() -> None:
    engine = scripted(echo)
    application = app(engine)
    await turn(application)
    for _ in range(2):
        answer = await turn(application, "", request_output_len=0, interactive_mode=False)
        assert (answer["text"], answer["tokens"], answer["finish_reason"]) == ("", 0, None)
    assert len(engine.requests) == 1
    assert (await turn(application))["text"] == "answer 1"


def lines(got: Got) -> list[Any]:
    assert got.status == 200
    assert got.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    return [json.loads(line) for line in got.body.splitlines() if line]


async def test_a_stream_is_lines_of_json_whose_texts_are_the_whole_answer() -> None:
    application = app(echo)
    whole = await turn(application)
    events = lines(await interactive(application, prompt="Hi", session_id=8, interactive_mode=True, stream=True))
    assert "".join(line["text"] for line in events) == whole["text"]
    assert [line["finish_reason"] for line in events] == [None] * (len(events) - 1) + ["stop"]
    assert events[-1] == {**whole, "text": "", "session_id": 8}
    assert [line["tokens"] for line in events] == sorted(line["tokens"] for line in events)
    assert (await turn(application, session_id=8))["text"] == "answer 2"


async def test_a_silent_stream_says_empty_lines() -> None:
    application = app(scripted(ids("late", END), delay=0.1), limits=Limits(keep_alive=0.01))
    got = await interactive(application, prompt="Hi", stream=True)
    assert b"\n\n" in got.body
    assert "".join(line["text"] for line in lines(got)) == "late"


@pytest.mark.one_process("stops its process from within")
async def test_what_goes_wrong_in_mid_stream_is_reported_in_the_last_line() -> None:
    application = stopping(app(scripted(ids("word " * 100), delay=0.001)))
    events = lines(await interactive(application, prompt="Hi", session_id="s", stream=True))
    assert events[0]["text"].startswith("w")
    assert events[-1]["finish_reason"] == "error"
    assert events[-1]["error"]["code"] == "draining"


@pytest.mark.parametrize("stream", [True, False])
async def test_cancelling_ends_the_request_and_keeps_nothing_of_its_turn(stream: bool) -> None:
    replies = [ids("one", END), ids("word " * 1000), ids("two", END)]
    engine = scripted(lambda prompt, sampling, choice: replies.pop(0), delay=0.0005)
    application = app(engine)
    await turn(application)
    fields = {"prompt": "lost", "session_id": 7, "interactive_mode": True, "stream": stream}
    task = asyncio.create_task(interactive(application, **fields))
    await until(lambda: engine.running == 1)
    answer = await turn(application, "", cancel=True)
    assert (answer["text"], answer["finish_reason"]) == ("", None)
    assert engine.running == 0
    got = await task
    if stream and got.status == 200:
        assert lines(got)[-1]["error"]["code"] == "session_cancelled"
    else:
        assert (got.status, got.error["code"]) == (409, "session_cancelled")
    assert (await turn(application, "Two?"))["text"] == "two"
    assert "lost" not in decode(TOKENIZER, engine.requests[-1][0])


async def test_a_request_that_waits_for_its_turn_can_be_cancelled() -> None:
    engine = scripted(ids("word " * 1500), delay=0.001)
    application = app(engine, limits=Limits(max_concurrent=1))
    admission = application.state.context.admission
    first = asyncio.create_task(interactive(application, prompt="Hi", session_id=1, stream=True))
    await until(lambda: engine.running == 1)
    second = asyncio.create_task(interactive(application, prompt="Hi", session_id=2))
    await until(lambda: admission.waiting == 1)
    await turn(application, "", session_id=2, cancel=True)
    assert (await second).error["code"] == "session_cancelled"
    assert admission.waiting == 0
    await turn(application, "", session_id=1, cancel=True)
    await first
    assert admission.running == 0


async def test_cancelling_where_nothing_runs_is_no_error_but_somebody_must_be_named() -> None:
    application = app(echo)
    await turn(application, "", cancel=True)
    got = await interactive(application, cancel=True)
    assert (got.status, got.error["param"]) == (400, "session_id")


async def test_a_busy_session_is_a_conflict() -> None:
    engine = scripted(ids("word " * 1500), delay=0.001)
    application = app(engine)
    first = asyncio.create_task(interactive(application, prompt="Hi", session_id=7, interactive_mode=True))
    await until(lambda: engine.running == 1)
    got = await interactive(application, prompt="Hi", session_id="7")
    assert (got.status, got.error["code"]) == (409, "session_busy")
    await turn(application, "", cancel=True)
    await first


@pytest.mark.spec("LMD-04")
async def test_settings_reach_the_engine_and_a_stop_ends_the_answer() -> None:
    engine = scripted(echo)
    answer = await turn(
        app(engine), temperature=0.5, top_p=0.7, top_k=9, min_p=0.1, repetition_penalty=1.2, seed=3,
        request_output_len=5, stop="sw",
    )  # fmt: skip
    (_, sampling, _) = engine.requests[0]
    assert answer["text"] == "an"
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.7, 9, 0.1)
    assert (sampling.repetition_penalty, sampling.seed, sampling.max_tokens) == (1.2, 3, 5)


async def test_an_answer_that_its_limit_cut_says_length() -> None:
    assert (await turn(app(echo), request_output_len=3))["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "prompt"),
        ({"prompt": "x", "temperature": -1}, "temperature"),
        ({"prompt": "", "session_id": -2, "request_output_len": 0}, "session_id"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    store = MemoryStore()
    got = await interactive(app(echo, store=store), **{"interactive_mode": True, **fields})
    assert (got.status, got.error["param"]) == (400, named)
    assert await store.names("session", "") == []
