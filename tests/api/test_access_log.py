"""One line a request, without any content."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import ConfigError, EngineError, EngineLostError
from antiphon.http.gate.keys import new_key
from antiphon.observe.logs import set_up_log
from antiphon.store import SqliteStore
from kit.api import END, START, app, chat, ids, post, request, running, scripted, serving, wire_bytes
from kit.breaking import Breaking
from kit.log import log_of_its_own
from kit.waiting import until

SECRET, ALICE = new_key("alice")
REPLY = "the model said this"
QUESTION = [{"role": "user", "content": "a question of mine"}]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """The file that the process logs to, as JSON."""
    with log_of_its_own():
        set_up_log(form="json", file=str(tmp_path / "log"))
        yield tmp_path / "log"


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def test_a_request_is_one_line_of_who_what_and_how_long(log: Path) -> None:
    with running(app(ids(REPLY, END), keys=[ALICE])) as base:
        body = json.dumps({"messages": QUESTION, "stream": True}).encode()
        got = request(base, "POST", "/v1/chat/completions", body, x_api_key=SECRET, x_request_id="req_mine")
        assert got.status == 200
    (line,) = lines(log)
    times = {name: line.pop(name) for name in ("time", "queue_ms", "ttft_ms", "total_ms")}
    assert line == {
        "level": "info", "id": "req_mine", "method": "POST", "route": "/chat/completions", "status": 200,
        "key": "alice", "model": "small", "stream": True, "prompt_tokens": line["prompt_tokens"],
        "cached_tokens": 0, "completion_tokens": len(REPLY) + 1,
    }  # fmt: skip
    assert line["prompt_tokens"] > len("a question of mine")
    assert 0 <= times["queue_ms"] <= times["ttft_ms"] <= times["total_ms"]
    assert times["time"].endswith("Z")


def test_nothing_that_a_client_or_a_model_says_is_in_the_log(log: Path) -> None:
    private = "private-words"
    engine = scripted(ids(private, END))
    with running(app(engine, keys=[ALICE])) as base:
        sent = {"messages": [{"role": "user", "content": private}], "user": private, "unknown": private}
        for body in (
            sent,
            {**sent, "stream": True},
            {**sent, "model": private},
            {**sent, "n": private},
            [private],
        ):
            request(
                base, "POST", "/v1/chat/completions", json.dumps(body).encode(), user_agent=private, cookie=private,
                x_request_id=f"<{private}>", referer=private, x_api_key=SECRET,
            )  # fmt: skip
        request(base, "POST", "/v1/chat/completions", f'{{"{private}'.encode(), x_api_key=SECRET)
        for path in (f"/{private}", f"/v1/models/{private}", f"/v1/responses/{private}", f"/v1/models?{private}"):
            request(base, "GET", path, x_api_key=SECRET)
        request(base, private.upper(), "/v1/models", x_api_key=SECRET)
        request(base, "GET", "/v1/models", x_api_key=private)
        request(base, "GET", "/v1/models", authorization=f"Bearer {private}")
    logged = log.read_text("utf-8")
    assert private not in logged.lower()
    assert SECRET not in logged
    assert len(lines(log)) >= 12
    errors = {line["error"] for line in lines(log) if "error" in line}
    assert errors >= {"model_not_found", "unknown_url", "invalid_api_key"}


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_is_reported_by_its_code_in_mid_stream_too(log: Path, stream: bool) -> None:
    with running(app(Breaking(ids("Hel"), EngineLostError("private words")))) as base:
        chat(base, stream=stream)
    (line,) = lines(log)
    assert (line["status"], line["error"]) == (200 if stream else 503, "engine_lost")
    assert line["completion_tokens"] == 3


def test_an_error_of_a_stream_that_can_be_resumed_is_reported_by_its_code_too(log: Path, tmp_path: Path) -> None:
    engine, store = Breaking(ids("Hel"), EngineError("private words")), SqliteStore(tmp_path / "s.db")
    body = b'{"messages": [{"role": "user", "content": "Hi"}], "stream": true}'
    with running(app(engine, store=store)) as base:
        request(base, "POST", "/v1/chat/completions", body, x_antiphon_resumable="true")
    (line,) = lines(log)
    assert (line["status"], line["error"]) == (200, "engine_error")


@pytest.mark.one_process("looks for the engine's own frames in the report")
def test_a_fault_of_the_server_is_reported_without_what_it_says(log: Path) -> None:
    with running(app(Breaking([], ZeroDivisionError("private words")))) as base:
        chat(base, x_request_id="x")
    fault, line = lines(log)
    assert "ZeroDivisionError" in fault["fault"]
    assert "breaking.py" in fault["fault"]
    assert "private" not in log.read_text()
    assert (line["status"], line["error"]) == (500, "internal_error")


async def test_a_client_that_hangs_up_is_reported_as_gone_with_what_was_spent_on_it(log: Path) -> None:
    engine = scripted(ids("word " * 1000, END), delay=0.01)
    async with serving(app(engine)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(wire_bytes("/v1/chat/completions", {"messages": QUESTION, "stream": True}))
        await reader.readuntil(b"data: ")
        writer.transport.abort()
        await until(lambda: bool(log.read_text()))
    (line,) = lines(log)
    assert (line["status"], line["gone"]) == (499, True)
    assert 0 < line["completion_tokens"] < 1000


def test_a_scrape_and_a_look_at_tokens_have_their_lines(log: Path) -> None:
    with running(app(ids(END))) as base:
        post(base, "/v1/tokenize", text="abc", model="small")
        request(base, "GET", "/metrics")
    assert [(line["method"], line["route"]) for line in lines(log)] == [("POST", "/tokenize"), ("GET", "/metrics")]


@pytest.mark.one_process("a line says how long it waited, and here the queue is another process's")
def test_lines_for_people_are_one_line_each_and_without_colour(tmp_path: Path, log: Path) -> None:
    set_up_log(file=str(tmp_path / "text"))
    logging.getLogger("antiphon.test").warning("two\nlines \x1b[31m%s", START.spelling)
    with running(app(ids("ok", END))) as base:
        chat(base)
    warned, served = (tmp_path / "text").read_text().splitlines()
    assert warned.endswith("WARNING: two?lines ?[31m<|im_start|>")
    assert "POST /chat/completions 200  small  " in served
    assert re.search(r"\+3 tok  queue \d+ms  ", served)


def test_the_access_log_can_be_off(tmp_path: Path, log: Path) -> None:
    set_up_log(access=False, file=str(tmp_path / "quiet"))
    with running(app(ids("ok", END))) as base:
        chat(base)
    assert (tmp_path / "quiet").read_text() == ""


def test_a_file_that_was_moved_away_is_opened_anew(log: Path) -> None:
    for name in ("log.1", "log.2"):
        with running(app(ids("ok", END))) as base:
            chat(base)
        log.rename(log.with_name(name))
    assert len(lines(log.with_name("log.1"))) == len(lines(log.with_name("log.2"))) == 1


def test_a_log_that_cannot_be_written_is_reported_at_once(tmp_path: Path, log: Path) -> None:
    with pytest.raises(ConfigError):
        set_up_log(file=str(tmp_path / "no folder" / "log"))
