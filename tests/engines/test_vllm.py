"""vLLM's wire as it documents it, spoken by a small server over a real socket. (A real vLLM is an optional job.)"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest
import pytest_asyncio

from antiphon.engines import Engine, EngineEnd, Sampling, Step
from antiphon.engines.vllm import VllmEngine
from antiphon.errors import EngineError, EngineLostError, OverloadedError, RequestError, UnsupportedError
from antiphon.tokens import ByteTokenizer
from kit.engine_contract import GREEDY, EngineContract, ids_of, steps_of
from kit.vllm_server import CONTEXT, END, SAYS, Vllm


@pytest_asyncio.fixture
async def subject(vllm: Vllm) -> AsyncIterator[Engine]:
    engine = await VllmEngine.connect(vllm.url, tokenizer=ByteTokenizer(), end_ids=frozenset({END}), grammar=True)
    yield engine
    await engine.aclose()


class TestVllmEngine(EngineContract):
    @pytest.fixture
    def prompt(self) -> list[int]:
        return [1, 2, 3]


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


async def test_log_probabilities_carry_the_bytes_of_their_ids(subject: Engine) -> None:
    (step, *_) = await steps_of(subject, [1], replace(GREEDY, logprobs=2))
    (entry,) = step.logprobs
    assert (entry.data, entry.logprob) == (bytes([SAYS[0]]), -0.5)
    assert [(other.id, other.logprob) for other in entry.top] == [(3, -0.5), (4, -1.0)]


async def test_a_reply_that_breaks_off_is_lost_and_what_came_was_said(subject: Engine, vllm: Vllm) -> None:
    vllm.breaks_after = 3
    received: list[Step] = []

    async def listen() -> None:
        async with aclosing(subject.generate([1], GREEDY)) as steps:
            async for step in steps:
                received.append(step)

    with pytest.raises(EngineLostError):
        await listen()
    assert ids_of(received) == SAYS[:2]


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


async def test_nobody_there_is_an_overload_that_passes(unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    with pytest.raises(OverloadedError):
        await VllmEngine.connect(url, tokenizer=ByteTokenizer(), end_ids=frozenset())


async def test_a_grammar_is_refused_where_it_was_not_declared(vllm: Vllm) -> None:
    engine = await VllmEngine.connect(vllm.url, tokenizer=ByteTokenizer(), end_ids=frozenset())
    with pytest.raises(UnsupportedError):
        await anext(engine.generate([1], GREEDY, grammar='%llguidance {}\nstart: "a"\n'))
    await engine.aclose()
