"""Batches beside all else: requests, other owners' batches, a process that is killed, the official client."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
from starlette.applications import Starlette

from antiphon.api import Limits, create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine, Step
from antiphon.engines.engine import EngineEnd
from antiphon.generation import Model
from antiphon.http.gate.admission import Admission
from antiphon.http.gate.keys import new_key
from antiphon.http.rules import Rules
from antiphon.tenancy import NOBODY, FairRoom, Tenant
from kit.api import CHATML, END, TOKENIZER, app, chat, ids, in_process, running, scripted
from kit.batches import CHAT, ENDED, begin, get, jsonl, line
from kit.crashing import crashing
from kit.waiting import turns, until, wait_until

LINES = 300
KILLS = 2
REPLY = ids("word " * 20, END)


class LockstepEngine(ScriptedEngine):
    """Goes in step, as the slots of a real one do: each step gives every running reply one token.

    Says ``reply`` to whoever asks, to ``slots`` at once; others wait for a slot. ``steps`` counts all of them."""

    def __init__(self, reply: Sequence[int], *, slots: int) -> None:
        super().__init__(reply, slots=slots)
        self._reply = tuple(reply)
        self._slots = FairRoom(lambda: slots)
        self._ready = 0
        self._next = asyncio.Event()
        self.steps = 0

    async def generate(self, *args: Any, tenant: Tenant = NOBODY, **options: Any) -> AsyncGenerator[Step, None]:
        async with self._slots.places(tenant.owner):
            self.running += 1
            try:
                for id in self._reply[:-1]:
                    await self._step()
                    yield Step((id,), 0, (), cached_tokens=0)
                yield Step(self._reply[-1:], 0, (), end=EngineEnd.STOP, cached_tokens=0)
            finally:
                self.running -= 1
                self._go_on()

    async def _step(self) -> None:
        """Waits until every running reply is ready for the next token."""
        self._ready += 1
        next = self._next
        self._go_on()
        await asyncio.sleep(0)
        await next.wait()

    def _go_on(self) -> None:
        if 0 < self.running == self._ready:
            self.steps += 1
            self._ready = 0
            self._next.set()
            self._next = asyncio.Event()


def lockstep(slots: int) -> tuple[LockstepEngine, Starlette]:
    engine = LockstepEngine(REPLY, slots=slots)
    model = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=CHATML)
    return engine, create_app(StaticCatalog({"small": model}))


async def steps_of_requests(engine: LockstepEngine, application: Starlette, count: int) -> float:
    """The steps of the engine that the median request takes, from its coming to its answer."""
    taken = []
    for _ in range(count):
        before = engine.steps
        assert (await in_process(application)).status == 200
        taken.append(engine.steps - before)
    return statistics.median(taken)


@pytest.mark.parametrize("slots", [2, 4, 16])
async def test_a_request_during_a_batch_takes_hardly_more_steps_than_without(slots: int) -> None:
    engine, application = lockstep(slots)
    async with application.router.lifespan_context(application):
        idle = await steps_of_requests(engine, application, 5)
        batch = await begin(application, jsonl(line(str(i)) for i in range(3000)))
        await until(lambda: engine.running == slots - 1)
        busy = await steps_of_requests(engine, application, 15)
        status = (await get(application, f"/v1/batches/{batch['id']}")).json["status"]
    assert status == "in_progress"  # or there was nothing to be measured
    assert busy <= 1.5 * idle, (busy, idle)


def behind(room: Admission, owner: str, entered: list[str], end: asyncio.Event) -> asyncio.Task[None]:
    async def work() -> None:
        async with room.background(owner, model="m", slots=4, places=1):
            entered.append(owner)
            await end.wait()

    return asyncio.create_task(work())


def request_in(room: Admission, end: asyncio.Event) -> asyncio.Task[None]:
    async def work() -> None:
        async with room.slot("ann"):
            await end.wait()

    return asyncio.create_task(work())


async def test_background_work_has_what_requests_leave_but_for_one_place() -> None:
    room, entered = Admission(Rules(Limits())), list[str]()
    ends = [asyncio.Event() for _ in range(4)]
    waiting = [behind(room, "ann", entered, ends[0]) for _ in range(9)]
    await turns(5)
    assert len(entered) == 3
    requests = [request_in(room, ends[1]) for _ in range(2)]
    ends[0].set()
    await turns(20)
    assert len(entered) == 9
    ends[0].clear()
    more = [behind(room, "ann", entered, ends[0]) for _ in range(3)]
    await turns(5)
    assert len(entered) == 10  # two requests run: of the three places one is left
    requests.append(request_in(room, ends[2]))
    ends[1].set()
    await turns(10)
    assert len(entered) == 11
    ends[2].set()
    await turns(10)
    assert len(entered) == 12
    ends[0].set()
    await asyncio.gather(*waiting, *more, *requests)


async def test_while_a_request_waits_no_background_work_begins() -> None:
    room, entered, end = Admission(Rules(Limits(max_concurrent=1))), list[str](), asyncio.Event()
    requests = [request_in(room, end) for _ in range(2)]
    work = behind(room, "ann", entered, end)
    await turns(5)
    assert (room.running, room.waiting, entered) == (1, 1, [])
    end.set()
    await asyncio.gather(*requests, work)
    assert entered == ["ann"]


async def test_background_work_that_waits_may_be_given_up() -> None:
    room, end = Admission(Rules(Limits())), asyncio.Event()
    requests = [request_in(room, end) for _ in range(4)]
    await turns(3)
    with pytest.raises(TimeoutError):
        async with room.background("ann", model="m", slots=4, places=1, patience=0.001):
            pass
    end.set()
    await asyncio.gather(*requests)


async def test_a_small_batch_of_one_key_does_not_wait_for_a_large_one_of_another() -> None:
    (ann, anns), (bob, bobs) = new_key("ann"), new_key("bob")
    order: list[str] = []

    def noting(prompt: Any, sampling: Any, choice: int) -> Any:
        order.append("bob" if b"bob" in bytes(id for id in prompt if id < 256) else "ann")
        return ids("Hi", END)

    engine = scripted(noting, slots=3, delay=0.002)
    application = app(engine, keys=[anns, bobs])
    async with application.router.lifespan_context(application):
        await begin(application, jsonl(line(str(i), "ann") for i in range(400)), key=ann)
        await until(lambda: len(order) > 10)
        before = len(order)
        await begin(application, jsonl(line(str(i), "bob") for i in range(10)), key=bob)
        await until(lambda: order.count("bob") == 10)
    assert len(order) - before <= 60


def test_a_server_that_is_killed_again_and_again_answers_each_line_of_a_batch_once(tmp_path: Path) -> None:
    id, done = "", 0
    for killed in range(KILLS + 1):
        with (
            crashing("batches", tmp_path) as base,
            openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client,
        ):
            if not id:
                data = jsonl(line(f"line {i}", temperature=9 if i % 30 == 7 else 0) for i in range(LINES))
                file = client.files.create(file=("in.jsonl", data), purpose="batch")
                batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
                id = batch.id

            def state(client: openai.OpenAI = client, id: str = id) -> Any:
                return client.batches.retrieve(id)

            def answered(state: Callable[[], Any] = state) -> int:
                counts = state().request_counts
                return int(counts.completed + counts.failed)

            assert answered() >= done, "what was answered is not any more"
            if killed < KILLS:
                wait_until(lambda goal=done + LINES // (KILLS + 2): answered() >= goal)  # type: ignore[misc]
                done = answered()
                assert state().status == "in_progress"
                continue
            wait_until(lambda: state().status in ENDED)
            ended = state()
            assert (ended.status, ended.request_counts.to_dict()) == (
                "completed",
                {"total": LINES, "completed": LINES - 10, "failed": 10},
            )
            output = [json.loads(one) for one in client.files.content(ended.output_file_id).text.splitlines()]
            errors = [json.loads(one) for one in client.files.content(ended.error_file_id).text.splitlines()]
            names = sorted(one["custom_id"] for one in (*output, *errors))
            assert names == sorted(f"line {i}" for i in range(LINES))
            assert ended.usage.output_tokens == sum(
                one["response"]["body"]["usage"]["completion_tokens"] for one in output
            )


def test_the_official_client_makes_reads_lists_and_cancels_batches() -> None:
    engine = scripted(ids("Hello.", END), slots=2, delay=0.002)
    with running(app(engine)) as base, openai.OpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as client:
        file = client.files.create(file=("in.jsonl", jsonl(line(str(i)) for i in range(3))), purpose="batch")
        made = client.batches.create(
            input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"run": "7"},
            output_expires_after={"anchor": "created_at", "seconds": 3600},
        )  # fmt: skip
        assert (made.status, made.object, made.metadata) == ("validating", "batch", {"run": "7"})
        wait_until(lambda: client.batches.retrieve(made.id).status in ENDED)
        batch = client.batches.retrieve(made.id)
        assert (batch.status, batch.model, batch.error_file_id) == ("completed", "small", None)
        assert batch.request_counts is not None
        assert batch.request_counts.completed == 3
        assert batch.output_file_id is not None
        lines = [json.loads(one) for one in client.files.content(batch.output_file_id).text.splitlines()]
        assert {one["response"]["body"]["choices"][0]["message"]["content"] for one in lines} == {"Hello."}
        assert chat(base).status == 200
        big = client.files.create(file=("in.jsonl", jsonl(line(str(i)) for i in range(2000))), purpose="batch")
        other = client.batches.create(input_file_id=big.id, endpoint=CHAT, completion_window="24h")
        assert client.batches.cancel(other.id).status in ("cancelling", "cancelled")
        wait_until(lambda: client.batches.retrieve(other.id).status == "cancelled")
        assert [one.id for one in client.batches.list(limit=1)] == [other.id, made.id]
        with pytest.raises(openai.NotFoundError):
            client.batches.retrieve("batch_0")
        with pytest.raises(openai.ConflictError):
            client.batches.cancel(made.id)
        with pytest.raises(openai.BadRequestError, match="endpoint"):
            client.batches.create(input_file_id=file.id, endpoint="/v1/moderations", completion_window="24h")
