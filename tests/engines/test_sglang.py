"""SGLang's own wire as its source has it, spoken by a small server over a real socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Engine, EngineEnd, Sampling
from antiphon.engines.sglang import SglangEngine
from antiphon.errors import (
    ContextError,
    EngineError,
    EngineLostError,
    ModelError,
    OverloadedError,
    RequestError,
    UnsupportedError,
)
from antiphon.generation import Model
from antiphon.tenancy import Tenant
from antiphon.tokens import ByteTokenizer
from kit.api import CHATML, TOKENIZER, post_in_process
from kit.engine_contract import ANN, BOB, GREEDY, EngineContract, ids_of, lost_after, steps_of
from kit.sglang_server import RESERVED, Sglang
from kit.vllm_server import CONTEXT, END, SAYS
from kit.waiting import until


async def connected(server: Sglang) -> SglangEngine:
    return await SglangEngine.connect(server.url, tokenizer=ByteTokenizer(), end_ids=frozenset({END}), grammar=True)


@pytest_asyncio.fixture
async def subject(sglang: Sglang) -> AsyncIterator[Engine]:
    engine = await connected(sglang)
    yield engine
    await engine.aclose()


class TestSglangEngine(EngineContract):
    @pytest.fixture
    def prompt(self) -> list[int]:
        return [1, 2, 3]


class TestSglangEngineInChunks(TestSglangEngine):
    @pytest.fixture(autouse=True)
    def _in_chunks(self, sglang: Sglang) -> None:
        sglang.chunk = 3


class TestSglangEngineIncremental(TestSglangEngine):
    @pytest.fixture(autouse=True)
    def _incremental(self, sglang: Sglang) -> None:
        sglang.incremental = True


class TestSglangEngineIncrementalInChunks(TestSglangEngine):
    @pytest.fixture(autouse=True)
    def _incremental(self, sglang: Sglang) -> None:
        sglang.incremental, sglang.chunk = True, 4


async def test_settings_go_out_whole_under_its_names(subject: Engine, sglang: Sglang) -> None:
    sampling = Sampling(
        max_tokens=99, temperature=0.3, top_p=0.9, top_k=0, min_p=0.1, seed=2**63 + 5, presence_penalty=0.5,
        frequency_penalty=0.25, repetition_penalty=1.1, logit_bias={7: -float("inf")}, stop_ids=frozenset({9, 5}),
    )  # fmt: skip
    async with aclosing(subject.generate([1, 2], sampling, grammar="%llguidance {}\nstart: /.*/\n")) as steps:
        received = [step async for step in steps]
    (sent,) = sglang.requests
    assert (sent["input_ids"], sent["stream"]) == ([1, 2], True)
    assert sent["sampling_params"] == {
        "max_new_tokens": CONTEXT - RESERVED - 2, "temperature": 0.3, "top_p": 0.9, "top_k": -1, "min_p": 0.1,
        "sampling_seed": 5, "presence_penalty": 0.5, "frequency_penalty": 0.25, "repetition_penalty": 1.1,
        "logit_bias": {"7": -100.0}, "stop_token_ids": [5, 9], "ignore_eos": False,
        "ebnf": "%llguidance {}\nstart: /.*/\n",
    }  # fmt: skip
    assert "cache_salt" not in sent
    assert (ids_of(received), received[-1].end) == (SAYS[:5], EngineEnd.STOP)
    assert {step.cached_tokens for step in received} == {2}


async def test_owners_prompts_are_kept_apart_unless_they_share(sglang: Sglang) -> None:
    apart, shared = await connected(sglang), await SglangEngine.connect(
        sglang.url, tokenizer=ByteTokenizer(), end_ids=frozenset(), share_cache=True
    )  # fmt: skip
    for engine in (apart, shared):
        for tenant in (ANN, BOB):
            async with aclosing(engine.generate([1], GREEDY, tenant=tenant)) as steps:
                async for _ in steps:
                    pass
            await engine.score([1, 2], tenant=tenant)
        await engine.aclose()
    sent = [(body.get("extra_key"), body.get("cache_salt")) for body in sglang.requests]
    ann, bob = (Tenant(owner=owner).domain() for owner in ("ann", "bob"))
    assert sent == [(ann, ann), (ann, ann), (bob, bob), (bob, bob), *[(None, None)] * 4]


async def test_a_salt_of_a_request_parts_its_owners_own_prompts(subject: Engine, sglang: Sglang) -> None:
    salted = Model(name="small", engine=subject, tokenizer=TOKENIZER, format=CHATML)
    application = create_app(StaticCatalog({"small": salted}))
    message = {"role": "user", "content": "Hi"}
    asked: dict[str, dict[str, Any]] = {
        "completions": {"prompt": "Hi"},
        "responses": {"input": "Hi"},
        "chat/completions": {"messages": [message]},
    }
    for path, fields in asked.items():
        for salt in (None, "a", "b"):
            got = await post_in_process(application, f"/v1/{path}", model="small", cache_salt=salt, **fields)
            assert got.status == 200, got.body
    domains = [Tenant(salt=salt).domain() or None for salt in ("", "a", "b")]
    assert [body.get("cache_salt") for body in sglang.requests] == domains * len(asked)


async def test_choices_have_seeds_of_their_own(subject: Engine, sglang: Sglang) -> None:
    steps = await steps_of(subject, [1], replace(GREEDY, seed=7), n=3)
    assert [ids_of(steps, choice) for choice in range(3)] == [SAYS[:8]] * 3
    assert sorted(body["sampling_params"]["sampling_seed"] for body in sglang.requests) == [7, 8, 9]
    assert len({body["rid"] for body in sglang.requests}) == 3


async def test_a_seed_is_refused_where_the_server_would_ignore_it(sglang: Sglang) -> None:
    sglang.facts["enable_deterministic_inference"] = False
    engine = await connected(sglang)
    assert "seed" not in engine.info.honours
    for seed in (0, 7):
        with pytest.raises(UnsupportedError, match="seed"):
            await steps_of(engine, [1], replace(GREEDY, seed=seed))
    assert sglang.requests == []
    await engine.aclose()


@pytest.mark.parametrize("count", [1, 2])
async def test_whoever_leaves_stops_the_work_of_each_choice(subject: Engine, sglang: Sglang, count: int) -> None:
    sglang.waits_after = 3
    async with aclosing(subject.generate([1], GREEDY, n=count)) as steps:
        await anext(steps)
        await until(lambda: len(sglang.requests) == count)
    await subject.aclose()
    assert sorted(sglang.aborted) == sorted(body["rid"] for body in sglang.requests)


async def test_a_reply_that_ends_is_not_aborted(subject: Engine, sglang: Sglang) -> None:
    await steps_of(subject, [1], GREEDY)
    await subject.aclose()
    assert sglang.aborted == []


async def test_a_reply_that_breaks_off_is_lost_and_what_came_was_said(subject: Engine, sglang: Sglang) -> None:
    sglang.breaks_after = 3
    assert await lost_after(subject, [1]) == SAYS[:2]


@pytest.mark.parametrize(
    ("finish", "error", "words"),
    [
        ({"type": "abort", "message": "m", "status_code": 400}, RequestError, "refused the request"),
        ({"type": "abort", "message": "m", "status_code": 503}, OverloadedError, "takes nothing now"),
        ({"type": "abort", "message": "m", "status_code": 500}, EngineError, r"failed \(500\)"),
        ({"type": "abort", "message": "m"}, EngineLostError, "gave a reply up"),
        (
            {"type": "abort", "message": "longer than the model's context length (32 tokens)", "status_code": 400},
            ContextError,
            "32 tokens",
        ),
    ],
)
async def test_what_the_scheduler_reports_in_place_of_a_reply_is_our_error(
    subject: Engine, sglang: Sglang, finish: dict[str, object], error: type[Exception], words: str
) -> None:
    sglang.finish = finish
    with pytest.raises(error, match=words):
        await steps_of(subject, [1], GREEDY)


async def test_a_refusal_is_the_callers_mistake_in_our_words_and_the_servers_go_to_the_log(
    subject: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(RequestError) as caught:
        await steps_of(subject, [13], GREEDY)
    assert caught.value.message == "the engine refused the request"
    assert "the engine's server answered 400: no" in caplog.text


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info", "/elsewhere"])
async def test_a_smaller_pool_than_the_context_is_the_context(sglang: Sglang, path: str) -> None:
    sglang.facts["max_total_num_tokens"] = 20
    sglang.facts_path = path
    engine = await connected(sglang)
    assert engine.info.context == (CONTEXT if path == "/elsewhere" else 20) - RESERVED
    await engine.aclose()


async def test_a_server_that_makes_embeddings_is_not_taken(sglang: Sglang) -> None:
    sglang.facts["is_embedding"] = True
    with pytest.raises(ModelError) as caught:
        await connected(sglang)
    assert caught.value.code == "not_generative"


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance", None])
async def test_grammars_are_tried_only_where_its_backend_may_take_them(sglang: Sglang, backend: str | None) -> None:
    sglang.facts["grammar_backend"] = backend
    engine = await SglangEngine.connect(
        sglang.url, tokenizer=ByteTokenizer(), end_ids=frozenset({END}), grammar=None
    )  # fmt: skip
    assert not engine.info.grammar, "this one ignores them"
    tried = ["ebnf" in body["sampling_params"] for body in sglang.requests]
    assert tried == ([] if backend == "xgrammar" else [True])
    await engine.aclose()


async def test_its_vocabulary_cuts_texts_without_controls_of_its_own(subject: Engine) -> None:
    assert await subject.tokenize("ab") == [97, 98]


async def test_nobody_there_is_an_overload_that_passes(deaf_port: int) -> None:
    with pytest.raises(OverloadedError):
        await SglangEngine.connect(
            f"http://127.0.0.1:{deaf_port}", tokenizer=ByteTokenizer(), end_ids=frozenset()
        )  # fmt: skip


async def test_nothing_is_asked_of_a_server_after_the_end(subject: Engine) -> None:
    await subject.aclose()
    with pytest.raises(EngineLostError, match="closed"):
        await steps_of(subject, [1], GREEDY)


async def test_whole_replies_are_no_streams(subject: Engine, sglang: Sglang) -> None:
    assert subject.info.whole
    await steps_of(subject, [1], replace(GREEDY, whole=True))
    await steps_of(subject, [1], GREEDY)
    assert [body["stream"] for body in sglang.requests] == [False, True]


async def test_who_leaves_before_a_whole_reply_comes_aborts_it(subject: Engine, sglang: Sglang) -> None:
    sglang.waits_after = 0
    waiting = asyncio.create_task(steps_of(subject, [1], replace(GREEDY, whole=True)))
    await until(lambda: bool(sglang.requests))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: bool(sglang.aborted))
    assert sglang.aborted == [sglang.requests[0]["rid"]]


async def test_a_whole_reply_that_never_comes_is_lost(subject: Engine, sglang: Sglang) -> None:
    sglang.breaks_after = 1
    with pytest.raises(EngineLostError):
        await steps_of(subject, [1], replace(GREEDY, whole=True))
