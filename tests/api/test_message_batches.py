"""/v1/messages/batches: the batches of this server as Anthropic's clients make, see, read and delete them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from anthropic import Anthropic
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse

from antiphon.api import create_app
from antiphon.config import BatchesConfig
from antiphon.engines import Sampling
from antiphon.engines.scripted import Reply
from antiphon.http.gate.keys import new_key
from kit.api import END, Got, app, exchange, exchange_bytes, ids, running, scripted
from kit.batches import get, jsonl, line, run
from kit.obedient import catalog
from kit.waiting import until_found

PATH = "/v1/messages/batches"
Json = dict[str, Any]


def asked(custom_id: str, text: str = "Hi", **params: Any) -> Json:
    body = {"model": "small", "max_tokens": 50, "messages": [{"role": "user", "content": text}], **params}
    return {"custom_id": custom_id, "params": body}


def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
    """The last word of the prompt's user."""
    text = bytes(id for id in prompt if id < 256).decode()
    return ids(f"You said {text.split('user')[-1].split()[0]}.", END)


async def created(application: Any, *requests: Json, key: str | None = None, path: str = PATH) -> Got:
    return await exchange(application, path, {"requests": list(requests)}, [], key=key)


def checked(batch: Any) -> Any:
    """A batch that the client's own type takes."""
    MessageBatch.model_validate(batch)
    assert batch.keys() == set(MessageBatch.model_fields)
    return batch


async def ended(application: Any, id: str, *, key: str | None = None) -> Json:
    async def look() -> Json | None:
        batch: Json = checked((await get(application, f"{PATH}/{id}", key=key)).json)
        return batch if batch["processing_status"] == "ended" else None

    return await until_found(look)


async def results(application: Any, batch: Json, *, key: str | None = None) -> dict[str, Json]:
    got = await get(application, batch["results_url"], key=key)
    assert got.status == 200, got.body
    lines = [json.loads(one) for one in got.body.splitlines()]
    for one in lines:
        MessageBatchIndividualResponse.model_validate(one)
    return {one["custom_id"]: one["result"] for one in lines}


async def test_each_request_is_answered_as_a_message_is() -> None:
    application = app(scripted(script))
    requests = [asked("a", "one"), asked("b", "two"), asked("c", "three", temperature=9)]
    async with application.router.lifespan_context(application):
        made = checked((await created(application, *requests)).json)
        counts = {"processing": 3, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
        assert (made["request_counts"], made["results_url"], made["ended_at"]) == (counts, None, None)
        batch = await ended(application, made["id"])
        written = await results(application, batch)
        alone = await exchange(application, "/v1/messages", requests[2]["params"], [])
    assert batch["request_counts"] == {"processing": 0, "succeeded": 2, "errored": 1, "canceled": 0, "expired": 0}
    assert {name: one["type"] for name, one in written.items()} == {"a": "succeeded", "b": "succeeded", "c": "errored"}
    assert written["a"]["message"]["content"] == [{"type": "text", "text": "You said one."}]
    assert written["c"]["error"]["type"] == "error"
    assert written["c"]["error"]["error"] == alone.json["error"]


async def test_a_body_that_is_written_over_several_lines_is_one_line() -> None:
    application = app(scripted(script))
    body = json.dumps({"requests": [asked("a", "one\ntwo")]}, indent=2).encode()
    async with application.router.lifespan_context(application):
        made = (await exchange_bytes(application, PATH, body, [])).json
        written = await results(application, await ended(application, made["id"]))
    assert written["a"]["message"]["content"][0]["text"] == "You said one."


async def test_a_model_that_nobody_has_is_the_error_of_every_request() -> None:
    application = app(scripted(script))
    async with application.router.lifespan_context(application):
        made = (await created(application, asked("a"), asked("b", model="nobody"))).json
        batch = await ended(application, made["id"])
        written = await results(application, batch)
    assert batch["request_counts"]["errored"] == 2
    assert {one["error"]["error"]["details"]["error_code"] for one in written.values()} == {"model_not_found"}


async def test_a_batch_that_is_canceled_says_of_each_request_what_became_of_it() -> None:
    application = app(scripted(script))
    async with application.router.lifespan_context(application):
        made = (await created(application, *(asked(f"r{i}") for i in range(300)))).json
        early = await get(application, f"{PATH}/{made['id']}/results")
        refused = await get(application, f"{PATH}/{made['id']}", method="DELETE")
        canceled = checked((await get(application, f"{PATH}/{made['id']}/cancel", method="POST")).json)
        batch = await ended(application, made["id"])
        written = await results(application, batch)
    assert (early.status, refused.status) == (404, 409)
    assert (canceled["processing_status"], canceled["request_counts"]["processing"]) == ("canceling", 300)
    assert canceled["cancel_initiated_at"] is not None
    counts = batch["request_counts"]
    assert counts["canceled"] > 0
    assert counts["canceled"] + counts["succeeded"] == 300
    kinds = [one["type"] for one in written.values()]
    assert {kind: kinds.count(kind) for kind in ("canceled", "succeeded")} == {
        kind: counts[kind] for kind in ("canceled", "succeeded")
    }


async def test_a_batch_is_its_key_s_and_is_gone_with_its_files_when_it_is_deleted() -> None:
    (mine, a), (other, b) = new_key("a"), new_key("b")
    application = app(scripted(script), keys=[a, b])
    async with application.router.lifespan_context(application):
        made = (await created(application, asked("a"), key=mine)).json
        await ended(application, made["id"], key=mine)
        for method, tail in (("GET", ""), ("GET", "/results"), ("POST", "/cancel"), ("DELETE", "")):
            got = await get(application, f"{PATH}/{made['id']}{tail}", key=other, method=method)
            assert (got.status, got.json["error"]["type"]) == (404, "not_found_error")
        assert (await get(application, PATH, key=other)).json["data"] == []
        deleted = await get(application, f"{PATH}/{made['id']}", key=mine, method="DELETE")
        assert deleted.json == {"id": made["id"], "type": "message_batch_deleted"}
        assert (await get(application, f"{PATH}/{made['id']}", key=mine)).status == 404
        assert (await get(application, "/v1/files", key=mine)).json["data"] == []


async def test_pages_go_both_ways_and_other_apis_batches_of_messages_are_there() -> None:
    application = app(scripted(script))
    async with application.router.lifespan_context(application):
        await run(application, jsonl([line("x")]))
        of_files = await run(application, jsonl([line("x", url="/v1/messages", max_tokens=9)]), endpoint="/v1/messages")
        made = [f"msgbatch_{of_files['id'].removeprefix('batch_')}"]
        for i in range(3):
            made.append((await created(application, asked(f"r{i}"))).json["id"])
        newest = made[::-1]

        async def page(query: str) -> tuple[list[str], bool]:
            got = (await get(application, PATH, query=query)).json
            named = [batch["id"] for batch in got["data"]]
            assert (got["first_id"], got["last_id"]) == (named[0] if named else None, named[-1] if named else None)
            return named, got["has_more"]

        assert await page("") == (newest, False)
        assert await page("limit=2") == (newest[:2], True)
        assert await page(f"limit=2&after_id={newest[1]}") == (newest[2:], False)
        assert await page(f"limit=2&before_id={newest[3]}") == (newest[1:3], True)
        assert await page(f"before_id={newest[0]}") == ([], False)


REFUSED: list[tuple[Any, str]] = [
    ([{"custom_id": "a"}], "requests[0]"),
    ([{**asked("a"), "custom_id": "a b"}], "requests[0].custom_id"),
    ([asked(f"r{i}") for i in range(4)], "requests"),
]


@pytest.mark.parametrize(("requests", "field"), REFUSED, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("path", [PATH, f"/anthropic{PATH}"])
async def test_what_is_no_batch_is_refused_by_name(path: str, requests: Any, field: str) -> None:
    application = app(scripted(script), batches=BatchesConfig(max_lines=3))
    got = await exchange(application, path, {"requests": requests}, [])
    assert (got.status, got.json["type"], field in got.json["error"]["message"]) == (400, "error", True)
    assert (await get(application, "/v1/files")).json["data"] == []


async def test_requests_count_among_the_files_of_their_key() -> None:
    application = app(scripted(script), batches=BatchesConfig(quota=100))
    got = await created(application, asked("a"))
    assert (got.status, got.json["error"]["details"]["error_code"]) == (413, "file_quota")


async def test_where_there_are_no_batches_the_path_is_unknown() -> None:
    application = app(scripted(script), batches=BatchesConfig(enabled=False))
    got = await created(application, asked("a"))
    assert (got.status, got.json["error"]["type"]) == (404, "not_found_error")


@pytest.fixture(scope="module")
def client() -> Iterator[Anthropic]:
    with running(create_app(catalog())) as url, Anthropic(base_url=url, api_key="any", max_retries=0) as anthropic:
        yield anthropic


async def test_the_official_client_makes_reads_and_deletes_one(client: Anthropic) -> None:
    requests: Any = [asked("a", "say: Good morning."), asked("b", "say: Good night.")]
    made = await asyncio.to_thread(client.messages.batches.create, requests=requests)

    async def look() -> MessageBatch | None:
        batch = await asyncio.to_thread(client.messages.batches.retrieve, made.id)
        return batch if batch.processing_status == "ended" else None

    assert (await until_found(look)).request_counts.succeeded == 2
    said = {}
    for one in await asyncio.to_thread(lambda: list(client.messages.batches.results(made.id))):
        assert one.result.type == "succeeded"
        said[one.custom_id] = one.result.message.content[0]
    assert {name: getattr(block, "text", "") for name, block in said.items()} == {
        "a": "Good morning.",
        "b": "Good night.",
    }
    assert [batch.id for batch in await asyncio.to_thread(lambda: list(client.messages.batches.list()))] == [made.id]
    assert (await asyncio.to_thread(client.messages.batches.delete, made.id)).id == made.id
