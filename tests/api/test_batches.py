"""Batches: checked whole, run line by line by the routes themselves, and each line of them answered once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import Limits
from antiphon.config import BatchesConfig
from antiphon.engines import Sampling
from antiphon.engines.scripted import Reply
from antiphon.errors import EngineLostError, StoreError
from antiphon.http.gate.keys import new_key
from antiphon.store import Delete, Key, MemoryStore, Record, SqliteStore, Store, Write
from kit.api import END, app, exchange, ids, in_process, post_in_process, scripted
from kit.batches import CHAT, begin, content, ended, get, jsonl, line, outcome, run, upload
from kit.obliging import chatting_and_embedding
from kit.waiting import until, until_found


def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
    """The last word of the prompt's user."""
    text = bytes(id for id in prompt if id < 256).decode()
    return ids(f"You said {text.split('user')[-1].split()[0]}.", END)


@asynccontextmanager
async def alive(application: Starlette) -> AsyncIterator[Starlette]:
    """The application as it is between its start and its end."""
    async with application.router.lifespan_context(application):
        yield application


async def test_each_line_is_answered_by_the_route_that_answers_requests() -> None:
    lines = [
        line("a", "one"),
        line("b", "two", n=2),
        line("c", "three", temperature=9),
        line("d", "four", max_tokens=3),
    ]
    async with alive(app(scripted(script))) as application:
        batch = await run(application, jsonl(lines), metadata={"run": "7"})
        written = await outcome(application, batch)
        for one in lines:
            alone = await post_in_process(application, CHAT, **one["body"])
            answer = written[one["custom_id"]]["response"]
            assert answer["status_code"] == alone.status
            assert without_ids(answer["body"]) == without_ids(alone.json)
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": 4, "completed": 3, "failed": 1}
    assert batch["metadata"] == {"run": "7"}
    assert (batch["model"], batch["endpoint"], batch["errors"]) == ("small", CHAT, None)
    assert all(batch[f"{step}_at"] for step in ("in_progress", "finalizing", "completed", "created", "expires"))
    assert not any(batch[f"{step}_at"] for step in ("failed", "expired", "cancelling", "cancelled"))
    usage = [
        answer["response"]["body"]["usage"] for answer in written.values() if "usage" in answer["response"]["body"]
    ]
    assert batch["usage"]["input_tokens"] == sum(one["prompt_tokens"] for one in usage)
    assert batch["usage"]["output_tokens"] == sum(one["completion_tokens"] for one in usage)
    assert batch["usage"]["total_tokens"] == sum(one["total_tokens"] for one in usage)


def without_ids(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key not in ("id", "created")}


async def test_lines_without_a_failure_have_no_error_file_and_those_without_a_success_no_output_file() -> None:
    async with alive(app(scripted(script))) as application:
        well = await run(application, jsonl([line("a")]))
        ill = await run(application, jsonl([line("a", temperature=9)]))
    assert (well["error_file_id"], ill["output_file_id"]) == (None, None)
    assert well["output_file_id"].startswith("file-")
    assert ill["error_file_id"].startswith("file-")


ROUTES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"prompt": ["Hi", "Ho"]},
    "/v1/embeddings": {"input": ["Hi", "Ho"], "model": "minilm"},
    "/v1/messages": {"model": "smollm2", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99},
    "/v1/responses": {"input": "Hi"},
}


@pytest.mark.parametrize("url", ROUTES)
async def test_every_endpoint_has_batches(url: str) -> None:
    lines = [{"custom_id": str(i), "method": "POST", "url": url, "body": ROUTES[url]} for i in range(3)]
    async with alive(chatting_and_embedding()) as application:
        batch = await run(application, jsonl(lines), endpoint=url)
        written = await outcome(application, batch)
    assert batch["request_counts"] == {"total": 3, "completed": 3, "failed": 0}
    assert {one["response"]["status_code"] for one in written.values()} == {200}
    assert batch["usage"]["input_tokens"] > 0


async def test_errors_have_the_shape_of_the_endpoint() -> None:
    bad = {"custom_id": "a", "method": "POST", "url": "/v1/messages", "body": {"messages": [], "max_tokens": 9}}
    async with alive(chatting_and_embedding()) as application:
        batch = await run(application, jsonl([bad]), endpoint="/v1/messages")
        written = await outcome(application, batch)
    assert written["a"]["response"]["status_code"] == 400
    assert written["a"]["response"]["body"]["type"] == "error"


GOOD = json.dumps(line("a")).encode()
REFUSED: dict[str, tuple[bytes, str, int | None, str | None]] = {
    "no JSON": (GOOD + b"\nHello\n", "invalid_json_line", 2, None),
    "half an object": (GOOD + b'\n{"custom_id": "b"', "invalid_json_line", 2, None),
    "a list": (b"[]\n", "invalid_json_line", 1, None),
    "deep JSON": (b'{"custom_id":"a","method":"POST","url":"x","body":' + b"[" * 9000, "invalid_json_line", 1, None),
    "bytes": (b"\xff\xfe\n", "invalid_json_line", 1, None),
    "a blank line": (GOOD + b"\n\n" + jsonl([line("b")]), "invalid_json_line", 2, None),
    "a name twice": (jsonl([line("a"), line("b"), line("a")]), "duplicate_custom_id", 3, "custom_id"),
    "no name": (jsonl([{"method": "POST", "url": CHAT, "body": {}}]), "invalid_custom_id", 1, "custom_id"),
    "an empty name": (jsonl([line("")]), "invalid_custom_id", 1, "custom_id"),
    "a long name": (jsonl([line("x" * 600)]), "invalid_custom_id", 1, "custom_id"),
    "a name that is a number": (jsonl([line("a") | {"custom_id": 1}]), "invalid_custom_id", 1, "custom_id"),
    "another method": (jsonl([line("a") | {"method": "GET"}]), "invalid_method", 1, "method"),
    "another endpoint": (jsonl([line("a", url="/v1/completions")]), "invalid_url", 1, "url"),
    "another server": (jsonl([line("a", url="http://127.0.0.1/v1/chat/completions")]), "invalid_url", 1, "url"),
    "a stream": (jsonl([line("a"), line("b", stream=True)]), "invalid_body", 2, "body.stream"),
    "in the background": (jsonl([line("a", background=True)]), "invalid_body", 1, "body.background"),
    "a body that is a text": (jsonl([line("a") | {"body": "Hi"}]), "invalid_body", 1, "body"),
    "an unknown field": (jsonl([line("a") | {"priority": 1}]), "invalid_json_line", 1, "priority"),
    "an unknown model": (jsonl([line("a"), line("b", model="none")]), "model_not_found", 2, "body.model"),
    "a line too long": (jsonl([line("a", "x" * 20_000)]), "line_too_long", 1, None),
    "a line without end": (b"x" * 200_000, "line_too_long", 1, None),
    "too many lines": (jsonl(line(str(i)) for i in range(9)), "too_many_lines", 9, None),
    "nothing": (b"", "empty_file", None, None),
    "only a blank": (b" \n", "invalid_json_line", 1, None),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
async def test_a_batch_with_one_line_that_cannot_be_run_is_refused_whole(what: str) -> None:
    data, code, number, param = REFUSED[what]
    engine = scripted(script)
    bounds = {"limits": Limits(max_body=8192), "batches": BatchesConfig(max_lines=8)}
    async with alive(app(engine, **bounds)) as application:
        batch = await run(application, data)
    assert (batch["status"], batch["output_file_id"], batch["error_file_id"]) == ("failed", None, None)
    fault = batch["errors"]["data"][0]
    assert (fault["code"], fault["line"], fault["param"]) == (code, number, param), fault
    assert batch["errors"]["object"] == "list"
    assert batch["failed_at"]
    assert len(json.dumps(batch)) < 4000
    assert engine.requests == []


async def test_every_line_that_is_wrong_is_reported_up_to_a_hundred() -> None:
    async with alive(app(scripted(script))) as application:
        few = await run(application, jsonl([line("a"), line("a"), line("b"), line("b", stream=True)]))
        many = await run(application, b"?\n" * 5000)
    assert [(fault["line"], fault["code"]) for fault in few["errors"]["data"]] == [
        (2, "duplicate_custom_id"),
        (4, "duplicate_custom_id"),
    ]
    assert len(many["errors"]["data"]) == 100


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("endpoint", {"endpoint": "/v1/moderations"}), ("endpoint", {"endpoint": 1}),
        ("completion_window", {"completion_window": "1h"}), ("completion_window", {"completion_window": None}),
        ("input_file_id", {"input_file_id": "file-0"}), ("input_file_id", {"input_file_id": "../x"}),
        ("input_file_id", {"input_file_id": 7}), ("metadata", {"metadata": {str(i): "" for i in range(17)}}),
        ("metadata", {"metadata": {"k" * 65: ""}}), ("metadata.k", {"metadata": {"k": 1}}),
        ("output_expires_after.seconds", {"output_expires_after": {"anchor": "created_at", "seconds": 1}}),
        ("output_expires_after.anchor", {"output_expires_after": {"anchor": "now", "seconds": 3600}}),
    ],
)  # fmt: skip
async def test_what_no_batch_can_be_made_of_is_refused_at_once(param: str, fields: dict[str, Any]) -> None:
    async with alive(app(scripted(script))) as application:
        file = (await upload(application, jsonl([line("a")]))).json["id"]
        good = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
        got = await post_in_process(application, "/v1/batches", **{**good, **fields})
        listed = (await get(application, "/v1/batches")).json
    assert got.status == 400, got.body
    assert got.error["param"].startswith(param.partition(".")[0])
    assert listed["data"] == []


async def test_a_file_for_another_purpose_is_no_batch() -> None:
    async with alive(app(scripted(script))) as application:
        file = (await upload(application, jsonl([line("a")]), purpose="user_data")).json["id"]
        got = await post_in_process(
            application, "/v1/batches", input_file_id=file, endpoint=CHAT, completion_window="24h"
        )
    assert (got.status, got.error["param"]) == (400, "input_file_id")


async def test_a_cancelled_batch_has_what_was_answered_and_says_so_of_the_rest() -> None:
    engine = scripted(script, delay=0.005)
    async with alive(app(engine, limits=Limits(max_concurrent=2))) as application:
        batch = await begin(application, jsonl(line(str(i)) for i in range(500)))
        await until(lambda: len(engine.requests) > 3)
        cancelled = (await get(application, f"/v1/batches/{batch['id']}/cancel", method="POST")).json
        assert cancelled["status"] in ("cancelling", "cancelled"), "another worker may have ended it by then"
        assert cancelled["cancelling_at"]
        batch = await ended(application, batch["id"])
        written = await outcome(application, batch)
        again = await get(application, f"/v1/batches/{batch['id']}/cancel", method="POST")
    assert (batch["status"], again.status, again.json["status"]) == ("cancelled", 200, "cancelled")
    assert batch["cancelled_at"] >= batch["cancelling_at"]
    counts = batch["request_counts"]
    assert counts["total"] == counts["completed"] + counts["failed"] == len(written) == 500
    answered = [one for one in written.values() if one["response"]]
    assert 0 < len(answered) == counts["completed"] == len(engine.requests) < 500
    assert {one["error"]["code"] for one in written.values() if not one["response"]} == {"batch_cancelled"}


async def test_a_batch_that_is_not_through_in_its_window_expires() -> None:
    now = [1_800_000_000.0]

    def late(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
        now[0] += 3600.0
        return script(prompt, sampling, choice)

    async with alive(app(scripted(late), clock=lambda: now[0], limits=Limits(max_concurrent=2))) as application:
        batch = await run(application, jsonl(line(str(i)) for i in range(100)))
        written = await outcome(application, batch)
        kept = await get(application, f"/v1/batches/{batch['id']}")
        now[0] += 40 * 24 * 3600.0
        gone = await get(application, f"/v1/batches/{batch['id']}")
        file = await get(application, f"/v1/files/{batch['output_file_id']}")
    assert batch["status"] == "expired"
    assert batch["expires_at"] - batch["created_at"] == 24 * 3600
    assert batch["expired_at"] >= batch["expires_at"]
    assert batch["request_counts"] == {"total": 100, "completed": 24, "failed": 76}
    assert {one["error"]["code"] for one in written.values() if one["error"]} == {"batch_expired"}
    assert (kept.status, gone.status, file.status) == (200, 404, 404)


@pytest.mark.one_process("sweeps the store of its process")
@pytest.mark.parametrize("seconds", [7200, 10 * 24 * 3600])
async def test_output_files_are_there_until_they_expire_as_the_batch_said(seconds: int) -> None:
    now = [1_800_000_000.0]
    after = {"anchor": "created_at", "seconds": seconds}
    async with alive(app(scripted(script), clock=lambda: now[0])) as application:
        batch = await run(application, jsonl([line("a")]), output_expires_after=after)
        file = (await get(application, f"/v1/files/{batch['output_file_id']}")).json
        got = []
        for passed in (seconds - 1, 2):
            now[0] += passed
            await application.state.context.archive.store.expire(now[0])
            got.append((await get(application, f"/v1/files/{batch['output_file_id']}/content")).status)
    assert (file["expires_at"] - file["created_at"], file["purpose"]) == (seconds, "batch_output")
    assert got == [200, 404]


@pytest.mark.one_process("sweeps the store of its process")
async def test_a_batch_outlives_the_file_that_it_was_made_of() -> None:
    now, engine = [1_800_000_000.0], scripted(script, delay=0.002)
    async with alive(app(engine, clock=lambda: now[0], limits=Limits(max_concurrent=2))) as application:
        fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
        file = (await upload(application, jsonl(line(str(i)) for i in range(50)), **fields)).json
        request = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
        made = (await post_in_process(application, "/v1/batches", **request)).json
        await until(lambda: engine.requests)
        now[0] += 7200
        await application.state.context.archive.store.expire(now[0])
        batch = await ended(application, made["id"])
        gone = await get(application, f"/v1/files/{file['id']}")
    assert batch["request_counts"] == {"total": 50, "completed": 50, "failed": 0}
    assert gone.status == 404


async def test_a_file_that_a_batch_reads_is_not_deleted() -> None:
    engine = scripted(script, delay=0.01)
    async with alive(app(engine)) as application:
        batch = await begin(application, jsonl(line(str(i)) for i in range(200)))
        path = f"/v1/files/{batch['input_file_id']}"
        refused = await get(application, path, method="DELETE")
        await get(application, f"/v1/batches/{batch['id']}/cancel", method="POST")
        await ended(application, batch["id"])
        deleted = await get(application, path, method="DELETE")
    assert (refused.status, refused.error["code"]) == (409, "conflict")
    assert deleted.status == 200


async def test_the_batches_of_one_key_are_not_there_for_another() -> None:
    secrets = {name: new_key(name) for name in ("ann", "bob")}
    ann, bob = (secret for secret, _ in secrets.values())
    async with alive(app(scripted(script), keys=[key for _, key in secrets.values()])) as application:
        batch = await ended(application, (await begin(application, jsonl([line("a")]), key=ann))["id"], key=ann)
        output = f"/v1/files/{batch['output_file_id']}"
        for path in (f"/v1/batches/{batch['id']}", output, f"{output}/content", f"/v1/files/{batch['input_file_id']}"):
            assert (await get(application, path, key=bob)).status == 404
            assert (await get(application, path, key=ann)).status == 200
        stolen = {"input_file_id": batch["input_file_id"], "endpoint": CHAT, "completion_window": "24h"}
        assert (await exchange(application, "/v1/batches", stolen, [], key=bob)).status == 400
        assert (await get(application, f"/v1/batches/{batch['id']}/cancel", key=bob, method="POST")).status == 404
        assert (await get(application, f"/v1/files/{batch['input_file_id']}", key=bob, method="DELETE")).status == 404
        for path in ("/v1/files", "/v1/batches"):
            assert (await get(application, path, key=bob)).json["data"] == []
            assert (await get(application, path)).status == 401
        assert len((await get(application, "/v1/files", key=ann)).json["data"]) == 2


@pytest.mark.one_process("changes the keys of its process; a signal does so for all workers")
async def test_a_key_that_was_removed_runs_no_more_lines() -> None:
    (secret, ann), (_, bob) = new_key("ann"), new_key("bob")
    engine = scripted(script, delay=0.005)
    async with alive(app(engine, keys=[ann, bob], limits=Limits(max_concurrent=2))) as application:
        batch = await begin(application, jsonl(line(str(i)) for i in range(300)), key=secret)
        await until(lambda: len(engine.requests) > 2)
        application.state.context.keys.replace([bob])
        await until_found(lambda: empty(application.state.context.archive.store))
        application.state.context.keys.replace([ann, bob])
        batch = await ended(application, batch["id"], key=secret)
    assert batch["status"] == "cancelled"
    assert 0 < batch["request_counts"]["completed"] < 300


async def empty(store: Store) -> bool | None:
    """Whether no batch of the store is to be gone on with."""
    return not await store.names("batch_queue", "") or None


async def test_a_key_has_no_more_batches_than_it_may() -> None:
    engine = scripted(script, delay=0.01)
    async with alive(app(engine, batches=BatchesConfig(max_batches=2))) as application:
        first = await begin(application, jsonl(line(str(i)) for i in range(100)))
        await begin(application, jsonl(line(str(i)) for i in range(100)))
        request = {"input_file_id": first["input_file_id"], "endpoint": CHAT, "completion_window": "24h"}
        refused = await post_in_process(application, "/v1/batches", **request)
    assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")


async def test_what_is_not_through_when_the_server_stops_goes_on_with_the_next(tmp_path: Path) -> None:
    engine = scripted(script, delay=0.002)
    async with alive(app(engine, store=SqliteStore(tmp_path / "s.db"), limits=Limits(max_concurrent=2))) as application:
        batch = await begin(application, jsonl(line(str(i)) for i in range(60)))
        await until(lambda: len(engine.requests) > 5)
    assert engine.running == 0
    done = len(engine.requests)
    assert done < 60
    store = SqliteStore(tmp_path / "s.db")
    async with alive(app(engine, store=store)) as application:
        batch = await ended(application, batch["id"])
        written = await outcome(application, batch)
        queued = await store.names("batch_queue", "")
    assert batch["request_counts"] == {"total": 60, "completed": 60, "failed": 0}
    assert set(written) == {str(i) for i in range(60)}
    assert len(engine.requests) <= 60 + 2  # those that ran when the first server stopped
    assert queued == []


async def test_a_server_that_never_ran_a_batch_stops_as_any_other() -> None:
    async with alive(app(scripted(script))) as application:
        assert (await get(application, "/v1/models")).status == 200


async def test_a_server_without_batches_has_none() -> None:
    async with alive(app(scripted(script), batches=BatchesConfig(enabled=False))) as application:
        assert (await get(application, "/v1/batches")).status == 404
        assert (await upload(application, b"x")).status == 404


async def test_pages_of_batches() -> None:
    async with alive(app(scripted(script))) as application:
        made = [(await run(application, b""))["id"] for _ in range(21)][::-1]
        usual = (await get(application, "/v1/batches")).json
        first = (await get(application, "/v1/batches", query="limit=2")).json
        second = (await get(application, "/v1/batches", query=f"limit=2&after={first['last_id']}")).json
        last = (await get(application, "/v1/batches", query=f"limit=100&after={second['last_id']}")).json
        odd = [
            await get(application, "/v1/batches", query=one) for one in ("limit=0", "limit=101", "limit=x", "after=x")
        ]
    assert [[one["id"] for one in page["data"]] for page in (first, second, last)] == [made[:2], made[2:4], made[4:]]
    assert [page["has_more"] for page in (usual, first, second, last)] == [True, True, True, False]
    assert [one["id"] for one in usual["data"]] == made[:20]
    assert (first["first_id"], first["last_id"]) == (made[0], made[1])
    assert [(got.status, got.error["param"]) for got in odd] == [(400, "limit")] * 3 + [(400, "after")]


async def test_a_line_whose_engine_is_lost_is_run_again() -> None:
    lost = [EngineLostError("gone")]

    def flaky(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
        return lost.pop() if lost else script(prompt, sampling, choice)

    async with alive(app(scripted(flaky))) as application:
        batch = await run(application, jsonl([line("a")]))
    assert batch["request_counts"]["completed"] == 1


class FullOnce(MemoryStore):
    """A store that has no room for one write."""

    full = False

    async def put_all(self, *writes: Write | Delete) -> None:
        if self.full:
            self.full = False
            raise StoreError("There is no room.", code="store_full")
        await super().put_all(*writes)


@pytest.mark.one_process
async def test_a_line_that_the_store_has_no_room_for_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.api.batches.run._WATCH", 0.01)  # seconds until the store is tried again
    store, answered = FullOnce(), list[str]()

    def filling(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
        store.full = True
        answered.append("a line")
        return script(prompt, sampling, choice)

    async with alive(app(scripted(filling), store=store)) as application:
        batch = await run(application, jsonl([line("a")]))
    assert (batch["status"], batch["request_counts"]["completed"], len(answered)) == ("completed", 1, 1)
    assert not store.full


async def test_a_store_that_lost_the_input_ends_the_batch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon.batches")
    store = SqliteStore(tmp_path / "s.db")
    async with alive(app(scripted(script), store=store)) as application:
        file = (await upload(application, jsonl([line("a")]))).json["id"]
        await store.delete(Key("file_part", "", f"{file}/000000"))
        request = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
        made = (await post_in_process(application, "/v1/batches", **request)).json
        batch = await ended(application, made["id"])
        lost = await content(application, None)
        await until_found(lambda: let_go(store, batch["id"], caplog))
    assert (batch["status"], batch["errors"]["data"][0]["code"], lost) == ("failed", "store_corrupt", [])
    assert AGAIN not in caplog.text, "what is damaged is not tried again"


AGAIN = "goes on from where it is"


async def let_go(store: SqliteStore, id: str, caplog: pytest.LogCaptureFixture) -> bool | None:
    """Whether no server has the batch any more, or one tries it again."""
    return True if AGAIN in caplog.text or await store.lease(Key("batch", "", id)) is None else None


async def test_a_batch_that_ended_as_its_server_died_is_not_looked_for_again(tmp_path: Path) -> None:
    """Its end is written before it leaves the queue."""
    engine, store = scripted(script), SqliteStore(tmp_path / "s.db")
    async with alive(app(engine, store=store)) as application:
        batch = await run(application, jsonl([line("a")]))
        await until_found(lambda: empty(store))
        await store.put(Key("batch_queue", "", batch["id"]), Record(b"", batch["created_at"]))
    store = SqliteStore(tmp_path / "s.db")
    async with alive(app(engine, store=store)) as application:
        await until_found(lambda: empty(store))
        assert (await get(application, f"/v1/batches/{batch['id']}")).json == batch
    assert len(engine.requests) == 1


async def test_requests_go_before_the_lines_of_a_batch() -> None:
    """Whatever waits, the next request has a slot at once, and a line waits while a request does."""
    order: list[str] = []

    def noting(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
        text = bytes(id for id in prompt if id < 256).decode()
        order.append("request" if "now" in text else "line")
        return ids("word " * 5, END)

    engine = scripted(noting, slots=1, delay=0.001)
    async with alive(app(engine, limits=Limits(max_concurrent=1))) as application:
        batch = await begin(application, jsonl(line(str(i)) for i in range(30)))
        await until(lambda: order)
        asked = [in_process(application, messages=[{"role": "user", "content": "now"}]) for _ in range(5)]
        assert {got.status for got in await asyncio.gather(*asked)} == {200}
        await ended(application, batch["id"])
    begun = order.index("request")
    assert begun <= 4
    assert order[begun : begun + 5] == ["request"] * 5
