"""What was acknowledged stays stored: over restarts, over ``kill -9``, until it expires."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from antiphon.store import Key, MemoryStore, Record, SqliteStore
from kit.api import END as CHATML_END
from kit.api import ids, request, running, scripted
from kit.responses import events_of, respond, responses_app

HELLO = ids("Hello there.", CHATML_END)
ROOT = Path(__file__).parent.parent


@contextmanager
def crashing(folder: Path) -> Iterator[str]:
    """A server in a process of its own, which is killed in the end."""
    command = [sys.executable, "-m", "kit.crashing_server", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_server_that_is_killed_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    with crashing(tmp_path) as base:
        talk = request(base, "POST", "/v1/conversations", b"{}", content_type="application/json").json["id"]
        whole = respond(base, {"conversation": talk}).json
        streamed = events_of(respond(base, {"stream": True, "conversation": talk}))[-1]["response"]
        background = respond(base, {"background": True}).json
    with running(responses_app(small=scripted(HELLO), store=SqliteStore(tmp_path / "responses.db"))) as base:
        for made in (whole, streamed):
            assert request(base, "GET", f"/v1/responses/{made['id']}").json == made
        items = request(base, "GET", f"/v1/conversations/{talk}/items?order=asc").json["data"]
        assert [item["role"] for item in items] == ["user", "assistant"] * 2
        assert items[1] == whole["output"][0]
        left = request(base, "GET", f"/v1/responses/{background['id']}").json
        assert left["status"] in ("completed", "failed")


def test_a_response_expires_unless_it_is_gone_on_from() -> None:
    now = 1e9
    store = MemoryStore()
    day = 24 * 3600
    with running(responses_app(small=scripted(HELLO), store=store, clock=lambda: now)) as base:
        first = respond(base).json["id"]
        other = respond(base).json["id"]
        now += 20 * day
        second = respond(base, {"previous_response_id": first}).json["id"]
        now += 20 * day
        assert respond(base, {"previous_response_id": second}).status == 200
        assert request(base, "GET", f"/v1/responses/{other}").status == 404


@pytest.mark.parametrize("value", [b"", b"null", msgspec.json.encode({"thread": 1})])
def test_a_store_that_was_damaged_is_our_fault_and_not_the_clients(value: bytes) -> None:
    store = MemoryStore()
    store._records[Key("response", "", "resp_0")] = (Record(value, 0.0), [])
    with running(responses_app(small=scripted(HELLO), store=store)) as base:
        got = request(base, "GET", "/v1/responses/resp_0")
        assert (got.status, got.error["type"]) == (500, "server_error")
        assert respond(base).status == 200
