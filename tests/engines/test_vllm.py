"""vLLM's wire as it documents it, spoken by a small server over a real socket. (A real vLLM is an optional job.)"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from antiphon.engines import Engine, EngineEnd, ImageCounter, PlacedImage, Sampling, remote
from antiphon.engines.kind import ModelSpec
from antiphon.engines.vllm import Vllm as VllmSettings
from antiphon.engines.vllm import VllmEngine
from antiphon.errors import ContextError, EngineError, EngineLostError, OverloadedError, RequestError, UnsupportedError
from antiphon.tokens import ByteTokenizer
from kit.engine_contract import ANN, GREEDY, EngineContract, lost_after, steps_of
from kit.vllm_server import BEGIN, CLOSE, CONTEXT, END, PAD, SAYS, Vllm
from kit.waiting import until


@asynccontextmanager
async def connected(vllm: Vllm, **options: Any) -> AsyncIterator[VllmEngine]:
    engine = await VllmEngine.connect(vllm.url, tokenizer=ByteTokenizer(), end_ids=frozenset({END}), **options)
    try:
        yield engine
    finally:
        await engine.aclose()


@pytest_asyncio.fixture
async def subject(vllm: Vllm) -> AsyncIterator[Engine]:
    async with connected(vllm, grammar=True) as engine:
        yield engine


class TestVllmEngine(EngineContract):
    @pytest.fixture
    def prompt(self) -> list[int]:
        return [1, 2, 3]


class TestNativeVllmEngine(TestVllmEngine):
    """The same over the route of ids."""

    @pytest.fixture(autouse=True)
    def _native(self, vllm: Vllm) -> Iterator[None]:
        vllm.native = True
        yield
        assert {"token_ids", "sampling_params"} <= {key for body in vllm.natives for key in body} or not vllm.natives
        assert all("prompt_logprobs" in body for body in vllm.requests)


IMAGES = [PlacedImage(1, 4, b"red"), PlacedImage(5, 8, b"blue")]
PICTURED = [9, BEGIN, PAD, CLOSE, 9, BEGIN, PAD, CLOSE, 7]


async def test_images_are_rendered_there_and_their_features_go_to_our_ids(vllm: Vllm) -> None:
    vllm.native, vllm.pads = True, 3
    async with connected(vllm) as engine:
        assert "images" in engine.info.honours
        steps = await steps_of(engine, PICTURED, GREEDY, images=IMAGES)
        shown = list(vllm.shown)
        assert isinstance(engine, ImageCounter)
        assert await engine.prompt_tokens(PICTURED, IMAGES) == 13
    (sent,) = vllm.natives
    assert len(sent["token_ids"]) == 13
    seen = [BEGIN, PAD, PAD, PAD, CLOSE]
    assert sent["token_ids"] == [9, *seen, 9, *seen, 7]
    assert sent["features"]["mm_placeholders"] == {"image": [{"offset": 2, "length": 3}, {"offset": 8, "length": 3}]}
    assert [b64decode(one) for one in shown] == [b"red", b"blue"]
    assert sent["features"]["kwargs_data"] == {"image": ["tensors", "tensors"]}
    assert {step.prompt_tokens for step in steps} == {len(sent["token_ids"])}


async def test_a_prompt_that_is_too_long_with_its_images_is_refused(vllm: Vllm) -> None:
    vllm.native, vllm.pads = True, 14
    async with connected(vllm) as engine:
        with pytest.raises(ContextError):
            await steps_of(engine, PICTURED, GREEDY, images=IMAGES)
    assert not vllm.natives


async def test_a_template_that_writes_images_otherwise_than_the_server_is_an_error(vllm: Vllm) -> None:
    vllm.native, vllm.pads = True, 3
    async with connected(vllm) as engine:
        with pytest.raises(EngineError, match="otherwise"):
            await steps_of(engine, [9, 30, PAD, 31], GREEDY, images=[PlacedImage(1, 4, b"red")])


@pytest.mark.parametrize(("native", "pads"), [(False, 3), (True, 0)])
async def test_images_are_not_taken_without_the_route_or_by_a_model_that_sees_none(
    vllm: Vllm, native: bool, pads: int
) -> None:
    vllm.native, vllm.pads = native, pads
    async with connected(vllm) as engine:
        assert "images" not in engine.info.honours


async def test_settings_go_out_whole_and_the_grammar_as_lark(subject: Engine, vllm: Vllm) -> None:
    sampling = Sampling(max_tokens=99, seed=2**63 + 5, logit_bias={7: -float("inf")}, min_p=0.1, top_k=0)
    async with aclosing(subject.generate([1, 2], sampling, grammar="%llguidance {}\nstart: /.*/\n")) as steps:
        last = [step async for step in steps][-1]
    (sent,) = vllm.requests
    assert (sent["model"], sent["prompt"], sent["seed"]) == ("toy", [1, 2], 5)
    assert sent["max_tokens"] == CONTEXT - 2
    assert sent["logit_bias"] == {"7": -100.0}
    assert sent["structured_outputs"] == {"grammar": "%llguidance {}\nstart: /.*/\n"}
    assert last.end is EngineEnd.STOP


async def test_the_route_of_ids_gets_all_that_completions_get(vllm: Vllm) -> None:
    vllm.native = True
    async with connected(vllm, grammar=True) as engine:
        sampling = Sampling(max_tokens=99, seed=2**63 + 5, logit_bias={7: -float("inf")}, min_p=0.1, logprobs=20)
        async with aclosing(engine.generate([1, 2], sampling, grammar="start: /.*/\n", tenant=ANN)) as steps:
            received = [step async for step in steps]
        (sent,) = vllm.natives
        how = sent.pop("sampling_params")
        assert sent == {
            "model": "toy", "token_ids": [1, 2], "stream": True, "stream_options": {"include_usage": True},
            "reasoning_ended": True, "cache_salt": ANN.domain(),
        }  # fmt: skip
        assert how == {
            "max_tokens": CONTEXT - 2, "n": 1, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.1, "seed": 5,
            "presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "logit_bias": {"7": -100.0},
            "stop_token_ids": [], "ignore_eos": False, "logprobs": 20, "detokenize": False,
            "structured_outputs": {"grammar": "start: /.*/\n"},
        }  # fmt: skip
        assert received[-1].end is EngineEnd.STOP


async def test_the_route_of_ids_counts_the_sampled_id_among_alternatives_and_we_do_not(vllm: Vllm) -> None:
    vllm.native = vllm.unlikely = True
    async with connected(vllm) as engine:
        (step, *_) = await steps_of(engine, [1], replace(GREEDY, logprobs=2))
        (entry,) = step.logprobs
        assert (entry.id, entry.logprob) == (SAYS[0], -0.5)
        assert [(other.id, other.logprob) for other in entry.top] == [(SAYS[0] + 1, -0.1), (SAYS[0] + 2, -0.2)]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("cached", [None, 0, 2])
async def test_what_it_says_of_its_cache_comes_with_the_last_end(vllm: Vllm, native: bool, cached: int | None) -> None:
    vllm.native, vllm.cached = native, cached
    async with connected(vllm) as engine:
        steps = await steps_of(engine, [1], GREEDY, n=2)
        assert [step.cached_tokens for step in steps] == [*[None] * (len(steps) - 1), cached]
        assert [step.choice for step in steps if step.end] == [0, 1]
        assert len(vllm.natives) == int(native)


@pytest.mark.parametrize("native", [False, True])
async def test_a_text_is_cut_by_whichever_route_is_on(vllm: Vllm, native: bool) -> None:
    vllm.native = native
    async with connected(vllm) as engine:
        assert await engine.tokenize("ab") == ([97, 98] if native else None)


async def test_log_probabilities_carry_the_bytes_of_their_ids(subject: Engine) -> None:
    (step, *_) = await steps_of(subject, [1], replace(GREEDY, logprobs=2))
    (entry,) = step.logprobs
    assert (entry.data, entry.logprob) == (bytes([SAYS[0]]), -0.5)
    assert [(other.id, other.logprob) for other in entry.top] == [(3, -0.5), (4, -1.0)]


async def test_a_reply_that_breaks_off_is_lost_and_what_came_was_said(subject: Engine, vllm: Vllm) -> None:
    vllm.breaks_after = 3
    assert await lost_after(subject, [1]) == SAYS[:2]


async def test_a_refusal_is_the_callers_mistake_in_our_words_and_the_servers_go_to_the_log(
    subject: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(RequestError) as caught:
        await steps_of(subject, [13], GREEDY)
    assert caught.value.message == "the engine refused the request"
    assert caught.value.hint
    assert "the engine's server answered 400: no" in caplog.text


async def test_an_unknown_model_is_an_error_that_lists_what_there_is(vllm: Vllm) -> None:
    with pytest.raises(EngineError, match="toy"):
        await VllmEngine.connect(vllm.url, tokenizer=ByteTokenizer(), end_ids=frozenset(), model="other")


async def test_nobody_there_is_an_overload_that_passes(deaf_port: int) -> None:
    url = f"http://127.0.0.1:{deaf_port}"
    with pytest.raises(OverloadedError):
        await VllmEngine.connect(url, tokenizer=ByteTokenizer(), end_ids=frozenset())


async def test_a_grammar_is_refused_where_it_was_not_declared(vllm: Vllm) -> None:
    async with connected(vllm) as engine:
        with pytest.raises(UnsupportedError):
            await anext(engine.generate([1], GREEDY, grammar='%llguidance {}\nstart: "a"\n'))


async def test_whole_replies_are_no_streams_and_the_route_of_ids_streams_all_the_same(vllm: Vllm) -> None:
    for vllm.native in (False, True):
        engine = await VllmEngine.connect(vllm.url, tokenizer=ByteTokenizer(), end_ids=frozenset({END}))
        assert engine.info.whole is not vllm.native
        await steps_of(engine, [1], replace(GREEDY, whole=True))
        await engine.aclose()
    (asked,), (native,) = vllm.requests, vllm.natives
    assert (asked["stream"], asked["return_token_ids"], native["stream"]) == (False, True, True)


async def test_whole_replies_need_a_server_that_is_not_cut_off(vllm: Vllm) -> None:
    settings = VllmSettings(url=vllm.url, whole_replies=False, grammar=False)
    engine = await settings.open(ModelSpec(name="m", tokenizer=ByteTokenizer(), end_ids=frozenset({END})))
    assert not engine.info.whole
    await engine.aclose()


async def test_whole_log_probabilities_are_the_streamed_ones(subject: Engine) -> None:
    sampling = replace(GREEDY, logprobs=2)
    streamed = await steps_of(subject, [1], sampling)
    (whole,) = await steps_of(subject, [1], replace(sampling, whole=True))
    assert list(whole.logprobs) == [entry for step in streamed for entry in step.logprobs]


async def test_a_whole_reply_that_never_comes_is_lost(subject: Engine, vllm: Vllm) -> None:
    vllm.breaks_after = 3
    with pytest.raises(EngineLostError):
        await steps_of(subject, [1], replace(GREEDY, whole=True))


async def test_who_leaves_before_a_whole_reply_comes_hangs_up(subject: Engine, vllm: Vllm) -> None:
    vllm.waits = True
    waiting = asyncio.create_task(steps_of(subject, [1], replace(GREEDY, whole=True)))
    await until(lambda: vllm.open == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: vllm.open == 0)


async def test_a_long_whole_reply_is_read_in_parts(vllm: Vllm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_PART", 3)
    async with connected(vllm) as engine:
        vllm.cached = 2
        steps = await steps_of(engine, [1], replace(GREEDY, whole=True, logprobs=1))
        assert [len(step.ids) for step in steps] == [3, 3, 2]
        assert [[entry.id for entry in step.logprobs] for step in steps] == [list(step.ids) for step in steps]
        assert [(step.end, step.cached_tokens) for step in steps] == [(None, None)] * 2 + [(EngineEnd.LENGTH_OUTPUT, 2)]
