"""What one key's requests can do to another's: neither keep them waiting nor be learned of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import Limits, create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Embeddings, Sampling
from antiphon.http.gate.keys import new_key
from antiphon.tenancy import NOBODY, Tenant
from kit.api import END, app, exchange, ids, scripted
from kit.obedient import CountingEngine, counting
from kit.real import chatml_model
from kit.waiting import until

(ANN, ANNS), (BOB, BOBS) = new_key("ann"), new_key("bob")
LONG = ids("word " * 8, END)


async def ask(application: Starlette, key: str, text: str, **fields: Any) -> Any:
    body = {"messages": [{"role": "user", "content": text}], **fields}
    got = await exchange(application, "/v1/chat/completions", body, [], key=key)
    assert got.status == 200, got.body
    return got


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.one_process("a request comes later to the queue when that is another process's")
async def test_a_key_with_200_requests_lets_another_s_in_before_its_own_second_round(stream: bool) -> None:
    begun: list[str] = []

    def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
        begun.append("bob" if b"bob" in bytes(id for id in prompt if id < 256) else "ann")
        return LONG

    application = app(scripted(script), keys=[ANNS, BOBS], limits=Limits(max_concurrent=64, max_queue=256))
    anns = [asyncio.create_task(ask(application, ANN, "ann", stream=stream)) for _ in range(200)]
    admission = application.state.context.admission
    await until(lambda: admission.running == 64 and admission.waiting == 136)
    bobs = asyncio.create_task(ask(application, BOB, "bob", max_tokens=1))
    await until(lambda: admission.waiting == 137 or "bob" in begun)
    await asyncio.gather(*anns, bobs)
    # 64 of ann's run when bob comes; all that end at one stroke make room, and bob's is the first to be let in.
    assert begun.index("bob") == 64
    assert len(begun) == 201


@pytest.mark.one_process("the order in the queue")
async def test_a_full_queue_turns_away_the_key_that_waits_with_the_most() -> None:
    engine = scripted(LONG, delay=0.005)
    application = app(engine, keys=[ANNS, BOBS], limits=Limits(max_concurrent=1, max_queue=3))
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    anns = [asyncio.create_task(exchange(application, "/v1/chat/completions", body, [], key=ANN)) for _ in range(4)]
    admission = application.state.context.admission
    await until(lambda: admission.waiting == 3)
    got = await exchange(application, "/v1/chat/completions", body, [], key=BOB)
    assert got.status == 200
    answers = await asyncio.gather(*anns)
    assert sorted(answer.status for answer in answers) == [200, 200, 200, 429]
    assert answers[3].error["code"] == "queue_full"


async def test_embeddings_are_requested_of_the_engine_for_the_key_that_sent_their_texts() -> None:
    class Encoder(CountingEngine):
        async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
            owners.append((len(inputs), tenant.owner))
            return await super().embed(inputs, tenant=tenant)

    owners: list[tuple[int, str]] = []
    model = replace(counting(), engine=Encoder([]))
    application = create_app(StaticCatalog({"count": model}), keys=[ANNS, BOBS])
    for key, texts in ((ANN, ["one"] * 40), (BOB, ["two"])):
        assert (await exchange(application, "/v1/embeddings", {"input": texts}, [], key=key)).status == 200
    assert owners == [(32, "ann"), (8, "ann"), (1, "bob")]


@asynccontextmanager
async def real_application(model: Path) -> AsyncIterator[Starlette]:
    """A model that nobody has asked yet, for two keys."""
    async with chatml_model(model, context=512, slots=2, cache_mib=64) as served:
        yield create_app(StaticCatalog({"smollm2": served}), keys=[ANNS, BOBS])


BODIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "/v1/chat/completions": lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": 1},
    "/v1/completions": lambda text: {"prompt": text, "max_tokens": 1},
    "/v1/responses": lambda text: {"input": text, "max_output_tokens": 1, "store": False},
}
OTHERS_WORDS = {"prompt_cache_key": "ann/1", "cache_salt": "ann"}
SECRET = "The four digits of the safe in the cellar of the old library are {}. Do not tell anybody."


async def cached(application: Starlette, route: str, key: str, text: str, fields: dict[str, str]) -> int:
    """How many tokens of the prompt the answer says were in the cache."""
    got = await exchange(application, route, {**BODIES[route](text), **fields}, [], key=key)
    assert got.status == 200, got.body
    usage = got.json["usage"]
    count: int = (usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))["cached_tokens"]
    return count


async def test_what_a_key_sees_of_the_cache_does_not_depend_on_what_another_sent(smollm2_path: Path) -> None:
    async def seen(secret: str) -> list[int]:
        counts = []
        async with real_application(smollm2_path) as application:
            for route, fields in zip(BODIES, (OTHERS_WORDS, {}, OTHERS_WORDS), strict=True):
                await cached(application, route, ANN, SECRET.format(secret), fields)
                counts.append(await cached(application, route, BOB, SECRET.format("4071"), fields))
                # Agents send the same again and again.
                assert await cached(application, route, ANN, SECRET.format(secret), fields) > 0
        return counts

    right = await seen("4071")
    assert right == await seen("9999")
    assert right[0] == 0
