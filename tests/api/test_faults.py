"""The server's disk is full, its store is broken, it may open no more files: clients are told, and all recovers."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.errors import EngineLostError, ModelError
from antiphon.generation import Model
from antiphon.http.errors import without_paths
from antiphon.store import RunLimits, SessionLimits, SqliteStore
from kit.api import END, Got, app, chat, ids, model, post, request, running, scripted, serving
from kit.breaking import Breaking
from kit.responses import events_of, respond, responses_app
from kit.two_servers import TEXT, Said

HELLO = ids("Hello there.", END)
UNRECORDED = SessionLimits(runs=RunLimits("none"))


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process takes a further byte: what a disk without room is to SQLite, without a disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    """A server over a store in a file, which stores responses when they are whole."""
    store = SqliteStore(tmp_path / "store.db")
    with running(responses_app(small=scripted(lambda *_: HELLO), store=store, session_limits=UNRECORDED)) as url:
        yield url


def test_a_full_disk_ends_every_stream_with_what_is_wrong_and_goes_by(base: str) -> None:
    assert respond(base).status == 200
    with full_disk():
        *_, error, failed = events_of(respond(base, {"stream": True}))
        assert (error["type"], error["code"]) == ("error", "store_full")
        assert failed["type"] == "response.failed"
        assert failed["response"]["status"] == "failed"
        assert failed["response"]["output"][0]["content"][0]["text"] == "Hello there."

        refused = chat(base, session_id="s", stream=True)
        assert (refused.status, refused.error["code"]) == (507, "store_full"), "a session that nobody can claim"

        *_, told, done = chat(base, store=True, stream=True).events
        assert (told["error"]["code"], done) == ("store_full", "[DONE]")

        wholes = respond(base), respond(base, {"background": True}), chat(base, session_id="s"), chat(base, store=True)
        for whole in wholes:
            assert (whole.status, whole.error["code"]) == (507, "store_full")
            assert whole.headers["x-should-retry"] == "false"
            assert "store.db" not in whole.error["message"]
        assert post(base, "/v1/conversations").status == 507

        assert chat(base).status == 200, "who stores nothing is served"
        assert respond(base, {"store": False}).status == 200
        assert events_of(respond(base, {"store": False, "stream": True}))[-1]["type"] == "response.completed"
    assert respond(base).status == 200
    assert request(base, "GET", "/v1/chat/completions").json["data"] == []
    assert chat(base, session_id="s", sequence_start=True).status == 200
    assert chat(base, session_id="s", sequence_start=False).status == 200


def test_the_items_of_a_stream_that_could_not_be_stored_are_all_closed(base: str) -> None:
    with full_disk():
        events = [event["type"] for event in events_of(respond(base, {"stream": True}))]
    assert events.count("response.output_item.added") == events.count("response.output_item.done") == 1
    assert events[-2:] == ["error", "response.failed"]
    assert "response.completed" not in events


async def followed_on_a_full_disk(file: Path, limits: SessionLimits, **later: str) -> tuple[Got, Got]:
    """A response that is followed while the disk fills up in the middle of it, and what is there ``later``."""
    engine = Said(free=3)
    application = responses_app(small=engine, store=SqliteStore(file), session_limits=limits)
    async with serving(application) as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        body = {"model": "small", "input": "Hi", "background": True}
        async with client.post("/v1/responses", json=body) as answer:
            path = f"/v1/responses/{(await answer.json())['id']}"
        async with client.get(path, params={"stream": "true"}) as followed:
            with full_disk():
                engine.gate.open()
                told = Got(followed.status, {}, await followed.read())
        async with client.get(path, params=later) as answer:
            return told, Got(answer.status, {}, await answer.read())


@pytest.mark.one_process("breaks the files of its process")
async def test_a_background_response_that_cannot_be_stored_ends_for_who_follows_it(tmp_path: Path) -> None:
    told, later = await followed_on_a_full_disk(tmp_path / "store.db", UNRECORDED)
    assert [event["type"] for event in events_of(told)[-2:]] == ["error", "response.failed"]
    assert later.json["status"] == "failed"


def test_a_stream_that_is_recorded_is_refused_where_it_cannot_be(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    with running(responses_app(small=scripted(lambda *_: HELLO), store=store)) as base:
        with full_disk():
            refused = respond(base, {"stream": True})
            assert (refused.status, refused.error["code"]) == (507, "store_full")
        assert events_of(respond(base, {"stream": True}))[-1]["type"] == "response.completed"


@pytest.mark.one_process("breaks the files of its process")
async def test_a_recorded_response_waits_for_room(tmp_path: Path) -> None:
    """Its clients are told of the full disk; when there is room again, it is gone on with."""
    told, later = await followed_on_a_full_disk(tmp_path / "store.db", SessionLimits(lease=1.0), stream="true")
    assert b'"type":"error"' in told.body
    assert b"store_full" in told.body
    assert b"response.failed" not in told.body
    events = events_of(later)
    assert events[-1]["response"]["status"] == "completed"
    assert "".join(event.get("delta", "") for event in events) == TEXT


@pytest.mark.parametrize("kind", ["run", "conversation"])
def test_a_recorded_turn_of_a_conversation_is_stored_with_its_response_or_not_at_all(tmp_path: Path, kind: str) -> None:
    store = SqliteStore(tmp_path / "store.db")
    with running(responses_app(small=scripted(lambda *_: HELLO), store=store)) as base:
        talk = post(base, "/v1/conversations").json["id"]
        with refused_writes(tmp_path / "store.db", kind):
            got = respond(base, {"conversation": talk, "stream": True})
        if kind == "run":
            assert got.status == 500
        else:
            failed = events_of(got)[-1]
            assert failed["type"] == "response.failed"
            assert request(base, "GET", f"/v1/responses/{failed['response']['id']}").json == failed["response"]
        assert request(base, "GET", f"/v1/conversations/{talk}/items").json["data"] == []


def test_nothing_of_a_turn_that_could_not_be_stored_is_there_later(base: str) -> None:
    talk = post(base, "/v1/conversations").json["id"]
    assert respond(base, {"conversation": talk}).status == 200
    with full_disk():
        assert respond(base, {"conversation": talk}).status == 507
    items = request(base, "GET", f"/v1/conversations/{talk}/items").json["data"]
    assert len(items) == 2
    assert respond(base, {"conversation": talk}).status == 200
    assert len(request(base, "GET", f"/v1/conversations/{talk}/items").json["data"]) == 4


@pytest.mark.parametrize("kind", ["response", "conversation"])
def test_a_turn_of_a_conversation_is_stored_with_its_response_or_not_at_all(
    base: str, tmp_path: Path, kind: str
) -> None:
    talk = post(base, "/v1/conversations").json["id"]
    assert respond(base, {"conversation": talk}).status == 200
    with refused_writes(tmp_path / "store.db", kind):
        assert respond(base, {"conversation": talk}).status == 500
        events = events_of(respond(base, {"conversation": talk, "stream": True}))
    assert events[-1]["type"] == "response.failed"
    id = events[-1]["response"]["id"]
    stored = request(base, "GET", f"/v1/responses/{id}")
    assert stored.status == 404 or stored.json["status"] == "failed"
    assert len(request(base, "GET", f"/v1/conversations/{talk}/items").json["data"]) == 2
    assert respond(base, {"conversation": talk}).status == 200
    assert respond(base, {"conversation": talk, "store": False}).status == 200
    assert len(request(base, "GET", f"/v1/conversations/{talk}/items").json["data"]) == 6


@contextmanager
def refused_writes(path: Path, kind: str) -> Iterator[None]:
    """The file takes no record of the kind, new or replaced; others it takes."""
    when = f"WHEN CAST(NEW.kind AS TEXT) = '{kind}' BEGIN SELECT RAISE(ABORT, 'no'); END"
    with sqlite3.connect(path) as other:
        for what in ("INSERT", "UPDATE"):
            other.execute(f"CREATE TRIGGER no_{what} BEFORE {what} ON record {when}")
    yield
    with sqlite3.connect(path) as other:
        for what in ("INSERT", "UPDATE"):
            other.execute(f"DROP TRIGGER no_{what}")
    other.close()


def damage(path: Path, table: str, column: str) -> None:
    with sqlite3.connect(path) as other:
        other.execute(f"UPDATE {table} SET {column} = CAST(upper({column}) || 'X' AS BLOB)")
    other.close()


def test_what_was_damaged_is_the_server_s_fault_and_others_go_on(base: str, tmp_path: Path) -> None:
    first = respond(base).json["id"]
    assert chat(base, session_id="hurt").status == 200
    damage(tmp_path / "store.db", "record", "value")
    damage(tmp_path / "store.db", "entry", "value")
    broken: list[Any] = [
        request(base, "GET", f"/v1/responses/{first}"),
        request(base, "GET", f"/v1/responses/{first}/input_items"),
        respond(base, {"previous_response_id": first}),
        respond(base, {"previous_response_id": first, "stream": True}),
        chat(base, session_id="hurt"),
        chat(base, session_id="hurt", stream=True),
    ]
    for got in broken:
        assert (got.status, got.error["code"]) == (500, "store_corrupt"), got.body
        assert "copy" in got.error["message"]
    assert chat(base, session_id="well").status == 200
    assert respond(base).status == 200
    assert chat(base, session_id="hurt", sequence_start=True).status == 200
    assert chat(base, session_id="hurt").status == 200
    assert request(base, "DELETE", f"/v1/responses/{first}").status == 200


def test_a_streamed_error_ends_with_done_where_openai_s_streams_do() -> None:
    with running(app(Breaking(ids("Hello"), EngineLostError("the engine died")))) as base:
        for got in (chat(base, stream=True), post(base, "/v1/completions", prompt="Hi", stream=True)):
            *_, error, done = got.events
            assert error["error"]["code"] == "engine_lost"
            assert done == "[DONE]"


class Unreadable(StaticCatalog):
    """A catalog whose models' files are broken."""

    async def get(self, name: str) -> Model:
        raise ModelError("/srv/models/x.gguf is not a GGUF file", code="not_gguf", hint="Look at ~/models/x.gguf.")


@pytest.mark.parametrize("stream", [True, False])
def test_no_client_hears_where_the_server_s_files_are(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    catalog = Unreadable({"small": model(scripted(HELLO))})
    with running(create_app(catalog)) as base:
        answers = chat(base, stream=stream), respond(base, {"stream": stream}), post(base, "/v1/embeddings", input="a")
        for got in answers:
            assert got.status == 500
            assert "/srv" not in got.body.decode()
            assert "x.gguf" in got.error["message"], "the name of the file helps, and gives nothing away"
    assert "/srv/models/x.gguf" in caplog.text, "the operator hears it"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/srv/models/x.gguf is cut", "x.gguf is cut"),
        ("cannot read '/a/b.jinja': [Errno 2] '/a/b.jinja'", "cannot read 'b.jinja': [Errno 2] 'b.jinja'"),
        ("no answer from http://127.0.0.1:9/v1/x", "no answer from http://127.0.0.1:9/v1/x"),
        ("the model 'org/name' is 3/4 there", "the model 'org/name' is 3/4 there"),
        ("~/models/a.gguf and ./b/c.json", "a.gguf and c.json"),
    ],
)
def test_a_path_is_told_by_its_last_name(text: str, told: str) -> None:
    assert without_paths(ModelError(text)).message == told
