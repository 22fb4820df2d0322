"""Several servers over one store: what one works on no other does, and what one knows all know."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from starlette.applications import Starlette

from antiphon.api import Limits
from antiphon.config import BatchesConfig
from antiphon.errors import OverloadedError
from antiphon.http.gate.keys import Keyring
from antiphon.http.gate.rates import SKEW, Rates, SharedRates
from antiphon.http.rules import Rules
from antiphon.store import Key, Lease, Leases, MemoryStore, Record, RunLimits, SessionLimits, SqliteStore, Store
from antiphon.store.files import PART
from kit.api import END, Got, app, exchange_bytes, ids, post_in_process, scripted
from kit.batches import begin, ended, get, jsonl, line, outcome, upload
from kit.responses import events_of
from kit.waiting import Clock, until

pytestmark = pytest.mark.one_process("has two servers of its own")

SAY = ids(*["word "] * 30, END)
SHORT = SessionLimits(lease=1.0)


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Sequence[Store]:
    """What two servers open: the same place."""
    if request.param == "memory":
        return [MemoryStore()] * 2
    return [SqliteStore(tmp_path / "s.db"), SqliteStore(tmp_path / "s.db")]


@pytest.fixture
async def servers(stores: Sequence[Store]) -> AsyncIterator[list[Starlette]]:
    """Two servers, whose batches are not run."""
    yield [app(scripted(SAY, delay=0.002), store=store) for store in stores]
    for store in stores:
        await store.aclose()


@asynccontextmanager
async def alive(*applications: Starlette) -> AsyncIterator[None]:
    """The applications with what runs beside their requests."""
    async with AsyncExitStack() as stack:
        for application in applications:
            await stack.enter_async_context(application.router.lifespan_context(application))
        yield


async def at_once(servers: Sequence[Starlette], path: str, **fields: Any) -> list[Got]:
    """Six requests, three at each server."""
    return await asyncio.gather(*(post_in_process(servers[i % 2], path, **fields) for i in range(6)))


def codes(answers: Sequence[Got]) -> Counter[str]:
    return Counter("" if got.status == 200 else got.error["code"] for got in answers)


def slow_and_other(servers: Sequence[Starlette]) -> tuple[Starlette, Starlette]:
    """The same two, the first of which speaks so slowly that the other is through before."""
    store = servers[0].state.context.archive.store
    return app(scripted(ids(*["word "] * 300, END), delay=0.05), store=store), servers[1]


# Sessions


async def test_turns_of_one_session_at_both_servers_are_one_after_the_other(servers: list[Starlette]) -> None:
    turn: dict[str, Any] = {"prompt": "Hi", "session_id": 7, "interactive_mode": True}
    answers = await at_once(servers, "/v1/chat/interactive", **turn)
    found = codes(answers)
    assert set(found) == {"", "session_busy"}
    histories = sorted(got.json["history_tokens"] for got in answers if got.status == 200)
    assert len(set(histories)) == len(histories), "no two turns saw the same history"
    assert histories[0] == 0
    for server in servers:
        after = (await post_in_process(server, "/v1/chat/interactive", **turn)).json
        histories.append(after["history_tokens"])
    assert histories == sorted(set(histories))


async def test_a_session_s_request_is_cancelled_from_the_other_server(servers: list[Starlette]) -> None:
    slow, other = slow_and_other(servers)
    turn: dict[str, Any] = {"prompt": "Hi", "session_id": 7, "interactive_mode": True}
    running = asyncio.ensure_future(post_in_process(slow, "/v1/chat/interactive", **turn))
    await until(lambda: slow.state.context.admission.running)
    cancelled = await post_in_process(other, "/v1/chat/interactive", session_id=7, prompt="", cancel=True)
    stopped = await running
    assert (cancelled.status, stopped.status, stopped.error["code"]) == (200, 409, "session_cancelled")
    again = await post_in_process(other, "/v1/chat/interactive", **turn)
    assert (again.status, again.json["history_tokens"]) == (200, 0)


# Conversations and responses


async def conversation(server: Starlette) -> str:
    id: str = (await post_in_process(server, "/v1/conversations")).json["id"]
    return id


async def items(server: Starlette, id: str) -> list[Any]:
    listed: list[Any] = (await get(server, f"/v1/conversations/{id}/items", query="limit=100")).json["data"]
    return listed


async def test_responses_go_on_with_a_conversation_one_after_the_other(servers: list[Starlette]) -> None:
    id = await conversation(servers[0])
    answers = await at_once(servers, "/v1/responses", model="small", input="Hi", conversation=id)
    found = codes(answers)
    assert set(found) == {"", "conversation_locked"}
    inputs = sorted(got.json["usage"]["input_tokens"] for got in answers if got.status == 200)
    assert len(set(inputs)) == len(inputs), "each saw what came before"
    for server in servers:
        assert len(await items(server, id)) == 2 * found[""]


async def test_metadata_and_items_that_are_written_at_once_are_both_there(servers: list[Starlette]) -> None:
    one, other = servers
    id = await conversation(one)
    message = {"items": [{"type": "message", "role": "user", "content": "Hi"}]}
    for number in range(20):
        got = await asyncio.gather(
            post_in_process(one, f"/v1/conversations/{id}/items", **message),
            post_in_process(other, f"/v1/conversations/{id}", metadata={"number": str(number)}),
        )
        assert [answer.status for answer in got] == [200, 200]
        assert (await get(one, f"/v1/conversations/{id}")).json["metadata"] == {"number": str(number)}
    assert len(await items(other, id)) == 20


async def test_what_one_server_deleted_is_not_there_again_by_a_write_of_the_other(
    stores: Sequence[Store],
) -> None:
    one, other = (app(SAY, store=store) for store in stores)
    for _ in range(10):
        id = await conversation(one)
        deleted, _ = await asyncio.gather(
            get(one, f"/v1/conversations/{id}", method="DELETE"),
            post_in_process(other, f"/v1/conversations/{id}", metadata={"a": "b"}),
        )
        assert deleted.status == 200
        assert (await get(other, f"/v1/conversations/{id}")).status == 404
    for store in stores:
        await store.aclose()


async def test_one_idempotency_key_at_both_servers_makes_one_response(servers: list[Starlette]) -> None:
    body = json.dumps({"model": "small", "input": "Hi"}).encode()

    async def send(server: Starlette) -> Got:
        return await exchange_bytes(server, "/v1/responses", body, [], headers=[(b"idempotency-key", b"k")])

    answers = await asyncio.gather(*(send(servers[i % 2]) for i in range(6)))
    assert set(codes(answers)) <= {"", "idempotency_in_progress"}
    made = {got.json["id"] for got in answers if got.status == 200}
    again = {(await send(server)).json["id"] for server in servers}
    assert len(made) == 1
    assert again == made
    assert await servers[0].state.context.archive.store.names("response", "") == [*made]


async def test_a_response_whose_conversation_another_server_took_is_not_stored(servers: list[Starlette]) -> None:
    """As after a pause that was too long: the lease ran out, and another has it."""
    one, other = slow_and_other(servers)
    id = await conversation(one)
    fields: dict[str, Any] = {"model": "small", "input": "Hi", "conversation": id}
    running = asyncio.ensure_future(post_in_process(one, "/v1/responses", **fields))
    await until(lambda: one.state.context.admission.running)
    key, store = Key("conversation", "", id), one.state.context.archive.store
    lease = await store.lease(key)
    assert lease is not None
    await store.release(lease)
    taken = await post_in_process(other, "/v1/responses", **fields)
    lost = await running
    assert (taken.status, lost.status, lost.error["code"]) == (200, 409, "lease_lost")
    assert len(await items(other, id)) == 2


async def test_pairs_of_a_completion_that_are_changed_at_both_servers_are_one_of_the_two(
    servers: list[Starlette],
) -> None:
    chat = {"messages": [{"role": "user", "content": "Hi"}], "store": True}
    id = (await post_in_process(servers[0], "/v1/chat/completions", **chat)).json["id"]
    pairs = [{"by": str(number)} for number in range(6)]
    await asyncio.gather(
        *(post_in_process(servers[i % 2], f"/v1/chat/completions/{id}", metadata=pairs[i]) for i in range(6))
    )
    found = [(await get(server, f"/v1/chat/completions/{id}")).json["metadata"] for server in servers]
    assert found[0] == found[1]
    assert found[0] in pairs


async def test_a_background_response_that_is_not_recorded_is_known_at_the_other_server(stores: Sequence[Store]) -> None:
    limits = SessionLimits(lease=1.0, runs=RunLimits("none"))
    reply = scripted(ids(*["word "] * 60, END), delay=0.004)
    one, other = (app(reply, store=store, session_limits=limits) for store in stores)
    async with alive(one):
        first = (await post_in_process(one, "/v1/responses", input="Hi", background=True)).json
        assert (await get(other, f"/v1/responses/{first['id']}")).json["status"] in ("queued", "in_progress")
        made = await exchange_bytes(other, f"/v1/responses/{first['id']}", b"", [], method="GET", query=b"stream=true")
        assert events_of(made)[-1]["response"]["status"] == "completed"
        second = (await post_in_process(one, "/v1/responses", input="Hi", background=True)).json
        cancelled = await get(other, f"/v1/responses/{second['id']}/cancel", method="POST")
        assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
        third = (await post_in_process(one, "/v1/responses", input="Hi", background=True)).json
        gone = await get(other, f"/v1/responses/{third['id']}", method="DELETE")
        assert (gone.status, reply.running) == (200, 0)
        assert (await get(one, f"/v1/responses/{third['id']}")).status == 404
    await stores[1].aclose()


class SlowToRelease(SqliteStore):
    """Leases are released at once, which is said when ``say`` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.say = asyncio.Event()

    async def release(self, lease: Lease) -> None:
        await super().release(lease)
        await self.say.wait()


@pytest.mark.parametrize("events", ["none", "background"])
async def test_a_response_that_was_deleted_elsewhere_is_gone_where_it_was_made(
    events: Literal["none", "background"], tmp_path: Path
) -> None:
    """Also before the server that made it knows that its lease is released."""
    store = SlowToRelease(tmp_path / "s.db")
    limits = SessionLimits(lease=1.0, runs=RunLimits(events))
    reply = scripted(ids(*["word "] * 60, END), delay=0.004)
    one, other = (app(reply, store=store, session_limits=limits) for _ in range(2))
    async with alive(one):
        path = f"/v1/responses/{(await post_in_process(one, '/v1/responses', input='Hi', background=True)).json['id']}"
        assert (await get(other, path, method="DELETE")).status == 200
        for query in ("", "stream=true"):
            assert [(await get(server, path, query=query)).status for server in (one, other)] == [404, 404]
        assert [(await get(server, path, method="DELETE")).status for server in (one, other)] == [404, 404]
        store.say.set()


async def test_a_streamed_response_that_is_deleted_elsewhere_is_gone_where_it_was_made(tmp_path: Path) -> None:
    store = SlowToRelease(tmp_path / "s.db")
    reply = scripted(ids(*["word "] * 60, END), delay=0.004)
    one, other = (app(reply, store=store, session_limits=SHORT) for _ in range(2))
    async with alive(one):
        streaming = asyncio.ensure_future(post_in_process(one, "/v1/responses", input="Hi", stream=True))
        await until(lambda: reply.running == 1)
        [key] = [run.key for run in one.state.context.runs._runs.values()]
        path = f"/v1/responses/{key.name}"
        await until(lambda: one.state.context.runs.followed(key) is not None)
        assert (await get(other, path, method="DELETE")).status == 200
        for query in ("", "stream=true"):
            assert [(await get(server, path, query=query)).status for server in (one, other)] == [404, 404]
        store.say.set()
        assert (await streaming).status == 200


# Files and batches


async def test_uploads_at_both_servers_share_the_quota(stores: Sequence[Store]) -> None:
    config = BatchesConfig(quota=2 * PART, max_files=10)
    servers = [app(SAY, store=store, batches=config) for store in stores]
    answers = await asyncio.gather(*(upload(servers[i % 2], b"x" * PART) for i in range(8)))
    listed = (await get(servers[0], "/v1/files")).json["data"]
    assert sum(one["bytes"] for one in listed) <= 2 * PART
    assert codes(answers) == {"": len(listed), "file_quota": 8 - len(listed)}
    for one in listed:
        await get(servers[1], f"/v1/files/{one['id']}", method="DELETE")
    assert [(await upload(server, b"x" * PART)).status for server in (*servers, servers[0])] == [200, 200, 413]
    assert await stores[0].names("file_coming", "") == []
    for store in stores:
        await store.aclose()


async def test_no_more_files_than_a_key_may_have_come_at_once(stores: Sequence[Store]) -> None:
    servers = [app(SAY, store=store, batches=BatchesConfig(max_files=3)) for store in stores]
    answers = await asyncio.gather(*(upload(servers[i % 2], b"x") for i in range(8)))
    assert codes(answers) == {"": 3, "file_quota": 5}
    for store in stores:
        await store.aclose()


async def test_room_that_a_dead_server_had_taken_is_there_again() -> None:
    store = MemoryStore()
    server = app(SAY, store=store, batches=BatchesConfig(quota=PART))
    files, dead = server.state.context.leases, Leases(store, seconds=1e-9)
    key = Key("file_coming", "", "file-dead")
    await dead.acquire(key)
    await store.put(key, Record(b"%d" % PART, 0.0))
    assert (await upload(server, b"x" * PART)).status == 200
    assert await store.names("file_coming", "") == []
    await dead.aclose()
    await files.aclose()


async def test_a_batch_is_cancelled_from_the_other_server(stores: Sequence[Store]) -> None:
    engine = scripted(SAY, delay=0.01)
    one, other = (app(engine, store=store, session_limits=SHORT, limits=Limits(max_concurrent=2)) for store in stores)
    async with alive(one, other):
        batch = await begin(one, jsonl(line(str(i)) for i in range(100)))
        await until(lambda: engine.requests)
        cancelled = (await get(other, f"/v1/batches/{batch['id']}/cancel", method="POST")).json
        assert cancelled["status"] in ("cancelling", "cancelled")
        batch = await ended(other, batch["id"])
        assert batch["status"] == "cancelled"
        written = await outcome(other, batch)
        again = await get(other, f"/v1/batches/{batch['id']}/cancel", method="POST")
    assert set(written) == {str(i) for i in range(100)}
    assert again.json["status"] == "cancelled"


async def test_a_file_that_a_batch_of_the_other_server_reads_is_not_deleted(stores: Sequence[Store]) -> None:
    engine = scripted(SAY, delay=0.01)
    one, other = (app(engine, store=store, limits=Limits(max_concurrent=2)) for store in stores)
    async with alive(one, other):
        batch = await begin(one, jsonl(line(str(i)) for i in range(100)))
        path = f"/v1/files/{batch['input_file_id']}"
        refused = await get(other, path, method="DELETE")
        await get(other, f"/v1/batches/{batch['id']}/cancel", method="POST")
        await ended(one, batch["id"])
        deleted = await get(other, path, method="DELETE")
    assert (refused.status, refused.error["code"], deleted.status) == (409, "conflict", 200)


async def test_a_key_has_no_more_batches_at_all_servers_than_it_may(stores: Sequence[Store]) -> None:
    engine = scripted(SAY, delay=0.01)
    servers = [app(engine, store=store, batches=BatchesConfig(max_batches=2)) for store in stores]
    async with alive(*servers):
        file = (await upload(servers[0], jsonl(line(str(i)) for i in range(200)))).json["id"]
        fields = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        answers = await at_once(servers, "/v1/batches", **fields)
        for server in servers:
            server.state.context.lifecycle.drain()
    assert codes(answers) == {"": 2, "rate_limit_exceeded": 4}


async def test_a_batch_that_its_server_leaves_is_gone_on_with_by_the_other(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / "s.db") for _ in range(2)]
    engines = [scripted(SAY, delay=0.005), scripted(SAY)]
    one, other = (
        app(engine, store=store, session_limits=SHORT, limits=Limits(max_concurrent=2))
        for engine, store in zip(engines, stores, strict=True)
    )
    async with alive(other):
        async with alive(one):
            batch = await begin(one, jsonl(line(str(i)) for i in range(40)))
            await until(lambda: len(engines[0].requests) > 3)
            assert not engines[1].requests, "one server runs it"
        batch = await ended(other, batch["id"])
        written = await outcome(other, batch)
    assert batch["request_counts"] == {"total": 40, "completed": 40, "failed": 0}
    assert set(written) == {str(i) for i in range(40)}
    assert len(engines[0].requests) + len(engines[1].requests) <= 40 + 2


# Rates


def shared(store: Store, clock: Clock, *, ahead: float = 0.0, **limits: int) -> SharedRates:
    """One server's rates; its clock is ``ahead`` of the others'."""
    rates = Rates(Rules(Limits(**limits)), Keyring(), clock)
    return SharedRates(rates, Leases(store), lambda: clock.now + ahead)


def requests(of: SharedRates) -> int:
    """How many come in before one is refused."""
    count = 0
    while count < 1000:
        try:
            with of.rates.request(""):
                count += 1
        except OverloadedError:
            return count
    return count


async def agree(*servers: SharedRates) -> None:
    """Twice: the first of them hears of the last one's, too."""
    for server in (*servers, *servers):
        with server.rates.behind(""):
            pass
        await server.agree()


async def test_what_a_key_used_at_one_server_is_used_at_the_other(stores: Sequence[Store]) -> None:
    clock = Clock()
    one, other = (shared(store, clock, requests_per_minute=60, tokens_per_minute=600) for store in stores)
    assert requests(one) == 60
    one.rates.charge("", 300)
    await agree(one, other)
    assert requests(other) == 0
    assert other.rates.headers("")["x-ratelimit-remaining-tokens"] == "300"
    clock.now += 10
    await agree(one, other)
    assert requests(one) == 10
    await agree(one, other)
    assert requests(other) == 0
    for store in stores:
        await store.aclose()


@pytest.mark.parametrize("ahead", [0.0, 5.0])
async def test_what_was_let_in_too_much_is_paid_off_first(ahead: float) -> None:
    store, clock = MemoryStore(), Clock()
    servers = [shared(store, clock, requests_per_minute=60), shared(store, clock, requests_per_minute=60, ahead=ahead)]
    let_in = sum(map(requests, servers))
    assert let_in == 120, "each lets in all that was left when they agreed last"
    for _ in range(180):
        clock.now += 1
        await agree(*servers)
        let_in += sum(map(requests, servers))
    assert 60 + 180 <= let_in <= 60 + 180 + 2 + ahead


async def test_what_a_key_owes_is_known_until_it_is_paid_off_and_no_longer() -> None:
    store, clock = MemoryStore(), Clock()
    one, other = (shared(store, clock, tokens_per_minute=60) for _ in range(2))
    one.rates.charge("", 60 + 3 * 3600)
    await agree(one)
    clock.now += 3 * 3600 - 1
    assert await store.expire(clock.now) == 0
    await agree(other)
    assert requests(other) == 0
    clock.now += 61 + SKEW
    assert await store.expire(clock.now) == 1
    await agree(one, other)
    assert [of.rates.headers("")["x-ratelimit-remaining-tokens"] for of in (one, other)] == ["60", "60"]


async def test_requests_at_once_count_at_all_servers_and_not_those_of_a_dead_one() -> None:
    store, clock = MemoryStore(), Clock()
    one, other = (shared(store, clock, concurrent_per_key=2) for _ in range(2))
    with one.rates.request(""), one.rates.behind(""):
        await agree(one, other)
        assert await store.expire(clock.now + 14) == 0
        with other.rates.request(""), pytest.raises(OverloadedError):
            other.rates.check("")
        clock.now += 16
        await other.agree()
        with other.rates.request(""):
            other.rates.check("")
    await agree(one, other)
    with other.rates.request(""), other.rates.request(""):
        other.rates.check("")
    assert await store.expire(clock.now + 16 + SKEW) == 1, "nothing is owed"


async def test_a_key_that_is_not_used_costs_the_store_nothing() -> None:
    class Counting(MemoryStore):
        calls = 0

        async def get(self, key: Key) -> Any:
            Counting.calls += 1
            return await super().get(key)

    server = shared(Counting(), Clock(), requests_per_minute=60)
    with server.rates.request(""):
        pass
    for _ in range(5):
        await server.agree()
    assert Counting.calls == 1
    unlimited = shared(Counting(), Clock())
    with unlimited.rates.request(""):
        await unlimited.agree()
    assert Counting.calls == 1


async def test_an_account_that_is_damaged_is_begun_anew() -> None:
    store = MemoryStore()
    await store.put(Key("rate", "", ""), Record(b"{?", 0.0))
    server = shared(store, Clock(), requests_per_minute=60)
    assert requests(server) == 60
    await agree(server)
    assert requests(server) == 0
