"""What was acknowledged stays stored: over restarts, over ``kill -9``, until it expires."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from antiphon.store import Key, MemoryStore, Record, SqliteStore
from antiphon.store.archive import DAY
from kit.api import END as CHATML_END
from kit.api import ids, request, running, scripted
from kit.crashing import crashing
from kit.responses import events_of, respond, responses_app

HELLO = ids("Hello there.", CHATML_END)


def test_a_server_that_is_killed_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    with crashing("responses", tmp_path) as base:
        talk = request(base, "POST", "/v1/conversations", b"{}", content_type="application/json").json["id"]
        whole = respond(base, {"conversation": talk}).json
        streamed = events_of(respond(base, {"stream": True, "conversation": talk}))[-1]["response"]
        background = respond(base, {"background": True}).json
    with running(responses_app(small=scripted(HELLO), store=SqliteStore(tmp_path / "store.db"))) as base:
        for made in (whole, streamed):
            assert request(base, "GET", f"/v1/responses/{made['id']}").json == made
        items = request(base, "GET", f"/v1/conversations/{talk}/items?order=asc").json["data"]
        assert [item["role"] for item in items] == ["user", "assistant"] * 2
        assert items[1] == whole["output"][0]
        left = request(base, "GET", f"/v1/responses/{background['id']}").json
        assert left["status"] in ("queued", "in_progress", "completed")


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


def test_what_expired_leaves_the_store_when_another_response_is_stored() -> None:
    now, store = 1e9, MemoryStore()
    with running(responses_app(small=scripted(HELLO), store=store, clock=lambda: now)) as base:
        first = respond(base).json["id"]
        now += 29 * DAY
        respond(base)
        assert Key("response", "", first) in store._records
        now += 2 * DAY
        respond(base)
        assert Key("response", "", first) not in store._records
        assert len(store._records) == 2


def test_an_idempotency_key_is_for_a_day() -> None:
    now = 1e9
    with running(responses_app(small=scripted(HELLO), clock=lambda: now)) as base:
        ids_made = []
        for hours in (0, 23, 2, 0):
            now += hours * 3600.0
            ids_made.append(respond(base, idempotency_key="k").json["id"])
    first, same, other, again = ids_made
    assert first == same != other == again


def test_a_response_of_a_conversation_is_not_gone_on_from_by_itself() -> None:
    with running(responses_app(small=scripted(HELLO))) as base:
        talk = request(base, "POST", "/v1/conversations", b"{}", content_type="application/json").json["id"]
        made = respond(base, {"conversation": talk}).json["id"]
        got = respond(base, {"previous_response_id": made})
    assert (got.status, got.error["param"]) == (400, "previous_response_id")
    assert talk in got.error["message"]


@pytest.mark.parametrize("value", [b"", b"null", msgspec.json.encode({"thread": 1})])
def test_a_store_that_was_damaged_is_our_fault_and_not_the_clients(value: bytes) -> None:
    store = MemoryStore()
    store._records[Key("response", "", "resp_0")] = (Record(value, 0.0), [])
    with running(responses_app(small=scripted(HELLO), store=store)) as base:
        got = request(base, "GET", "/v1/responses/resp_0")
        assert (got.status, got.error["type"]) == (500, "server_error")
        assert respond(base).status == 200
