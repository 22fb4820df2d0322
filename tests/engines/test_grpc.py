"""Both gRPC protocols over real sockets, with servers made from what was generated from the protocols."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

import grpc
import pytest
import pytest_asyncio
from google.protobuf.json_format import MessageToDict

from antiphon.engines import SAMPLING, Engine, EngineEnd, ModelSpec, Sampling
from antiphon.engines.grpc import Grpc, GrpcEngine
from antiphon.errors import (
    UNREACHABLE,
    ConfigError,
    ContextError,
    EngineError,
    EngineLostError,
    ModelError,
    OverloadedError,
    Position,
    RequestError,
    UnsupportedError,
)
from antiphon.tenancy import Tenant
from antiphon.tokens import ByteTokenizer
from kit.engine_contract import GREEDY, EngineContract, ids_of, lost_after, steps_of
from kit.grpc_server import SERVICERS, Script, Servicer, grpc_server
from kit.vllm_server import END, SAYS
from kit.waiting import until


@pytest.fixture(params=SERVICERS, ids=lambda servicer: servicer.name)
def servicer(request: pytest.FixtureRequest) -> Servicer:
    kind: type[Servicer] = request.param
    return kind(Script())


@pytest_asyncio.fixture
async def address(servicer: Servicer) -> AsyncIterator[str]:
    async with grpc_server(servicer) as address:
        yield address


async def connected(address: str, *, grammar: bool | None = True, share_cache: bool = True) -> GrpcEngine:
    return await GrpcEngine.connect(
        address,
        tokenizer=ByteTokenizer(),
        end_ids=frozenset({END}),
        grammar=grammar,
        share_cache=share_cache,
        key="sesame",
    )


@pytest_asyncio.fixture
async def subject(address: str) -> AsyncIterator[GrpcEngine]:
    engine = await connected(address)
    yield engine
    await engine.aclose()


class TestGrpcEngine(EngineContract):
    @pytest.fixture
    def prompt(self) -> Sequence[int]:
        return [1, 2, 3]


async def test_a_chosen_ending_and_all_settings_go_out(subject: Engine, servicer: Servicer) -> None:
    sampling = Sampling(
        max_tokens=99, temperature=0.25, top_p=0.5, top_k=7, min_p=0.125, presence_penalty=0.5, frequency_penalty=0.25,
        repetition_penalty=1.5, stop_ids=frozenset({9, 5}), ignore_eos=True,
    )  # fmt: skip
    steps = await steps_of(subject, [1, 2], sampling)
    assert (ids_of(steps), steps[-1].end) == (SAYS[:5], EngineEnd.STOP)
    assert {step.cached_tokens for step in steps} == {2}
    (sent,) = (MessageToDict(one, preserving_proto_field_name=True) for one in servicer.script.requests)
    params = sent["sampling_params"]
    numbers = {"temperature": 0.25, "top_p": 0.5, "top_k": 7, "min_p": 0.125, "presence_penalty": 0.5}
    numbers |= {"frequency_penalty": 0.25, "repetition_penalty": 1.5}
    assert {name: params[name] for name in numbers} == numbers
    flat = sent | params
    limit = {"sglang": "max_new_tokens", "vllm": "max_tokens"}
    assert flat[limit[servicer.name]] == subject.info.context - 2
    assert (flat["stop_token_ids"], flat["ignore_eos"]) == ([5, 9], True)
    assert sent["tokenized"]["input_ids"] == [1, 2]
    assert servicer.script.metadata[0]["authorization"] == "Bearer sesame"


GRAMMAR = "%llguidance {}\nstart: /.*/\n"


async def test_a_grammar_goes_to_its_place(subject: Engine, servicer: Servicer) -> None:
    async with aclosing(subject.generate([1], GREEDY, grammar=GRAMMAR)) as steps:
        await anext(steps)
    sent = MessageToDict(servicer.script.requests[0], preserving_proto_field_name=True)
    places: dict[str, dict[str, object]] = {
        "vllm": {"grammar": GRAMMAR, "grammar_from_first_token": True},
        "sglang": {"ebnf_grammar": GRAMMAR},
    }
    assert places[servicer.name].items() <= sent["sampling_params"].items()


async def test_a_server_that_ignores_grammars_is_found_out(address: str, servicer: Servicer) -> None:
    engine = await connected(address, grammar=None)
    assert not engine.info.grammar
    assert len(servicer.script.requests) == 1
    await engine.aclose()


async def test_seeds_and_biases_go_out_or_are_refused(subject: Engine, servicer: Servicer) -> None:
    seeded, biased = replace(GREEDY, seed=2**33 + 5), replace(GREEDY, logit_bias={7: -float("inf")})
    for sampling, name in ((seeded, "seed"), (biased, "logit_bias")):
        if name not in subject.info.honours:
            with pytest.raises(UnsupportedError) as caught:
                await steps_of(subject, [1], sampling)
            assert caught.value.position == Position(path=name)
            continue
        await steps_of(subject, [1], sampling)
        sent = MessageToDict(servicer.script.requests[-1], preserving_proto_field_name=True)
        expected = {"seed": 5, "logit_bias": {"7": -100.0}}
        assert sent["sampling_params"][name] == expected[name]
    least = {"sglang": "min_new_tokens", "vllm": "min_tokens"}[servicer.name]
    for tokens, sent_as in ((3, 3), (10**6, GREEDY.max_tokens)):
        await steps_of(subject, [1], replace(GREEDY, min_tokens=tokens))
        sent = MessageToDict(servicer.script.requests[-1], preserving_proto_field_name=True)
        assert sent["sampling_params"][least] == sent_as
    assert subject.info.honours == SAMPLING - ({"seed"} if servicer.name == "sglang" else set()) | {"min_tokens"}


@pytest.mark.parametrize("count", [1, 2])
async def test_whoever_leaves_stops_the_work_of_each_choice(subject: Engine, servicer: Servicer, count: int) -> None:
    servicer.script.waits_after = 3
    async with aclosing(subject.generate([1], GREEDY, n=count)) as steps:
        await anext(steps)
        await until(lambda: servicer.script.running == count)
    await subject.aclose()
    await until(lambda: servicer.script.running == 0)
    sent = (MessageToDict(one, preserving_proto_field_name=True)["request_id"] for one in servicer.script.requests)
    assert sorted(servicer.script.aborted) == sorted(sent)


async def test_a_reply_that_ends_is_not_aborted(subject: Engine, servicer: Servicer) -> None:
    await steps_of(subject, [1], GREEDY)
    await subject.aclose()
    assert servicer.script.aborted == []


async def test_an_end_that_alone_has_the_ids_gives_them(subject: Engine, servicer: Servicer) -> None:
    servicer.script.says_all_at_the_end = True
    steps = await steps_of(subject, [1], replace(GREEDY, logprobs=1))
    assert ids_of(steps) == SAYS[:8]
    assert [entry.id for step in steps for entry in step.logprobs] == SAYS[:8]


async def test_a_stop_that_the_server_leaves_out_is_part_of_the_reply(subject: Engine, servicer: Servicer) -> None:
    servicer.script.drops_stops = True
    steps = await steps_of(subject, [1], replace(GREEDY, stop_ids=frozenset({4})))
    assert (ids_of(steps), steps[-1].end) == (SAYS[:3], EngineEnd.STOP)


async def test_log_probabilities_of_none_but_the_sampled_ids(subject: Engine) -> None:
    for step in await steps_of(subject, [1], replace(GREEDY, logprobs=0)):
        assert [(entry.id, entry.top) for entry in step.logprobs] == [(id, ()) for id in step.ids]


async def test_a_reply_that_breaks_off_is_lost_and_what_came_was_said(subject: Engine, servicer: Servicer) -> None:
    servicer.script.breaks_after = 3
    assert await lost_after(subject, [1]) == SAYS[:2]


async def test_an_engine_that_is_closed_in_the_middle_of_a_reply_loses_it(subject: Engine, servicer: Servicer) -> None:
    servicer.script.waits_after = 2
    task = asyncio.create_task(steps_of(subject, [1], GREEDY))
    await until(lambda: servicer.script.running)
    await subject.aclose()
    with pytest.raises(EngineLostError):
        await task


@pytest.mark.parametrize("word", ["abort", "error"])
async def test_a_reply_that_is_given_up_is_lost(subject: Engine, servicer: Servicer, word: str) -> None:
    servicer.script.finish = word
    with pytest.raises(EngineLostError):
        await steps_of(subject, [1], GREEDY)


@pytest.mark.parametrize(
    ("status", "words", "error", "message"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "no", RequestError, "refused the request"),
        (grpc.StatusCode.INVALID_ARGUMENT, "maximum context length is 32", ContextError, "32 tokens"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "no", OverloadedError, "takes nothing now"),
        (grpc.StatusCode.UNAVAILABLE, "The request queue is full.", OverloadedError, "takes nothing now"),
        (grpc.StatusCode.UNAUTHENTICATED, "sesame", EngineError, "does not accept the key"),
        (grpc.StatusCode.PERMISSION_DENIED, "sesame", EngineError, "does not accept the key"),
        (grpc.StatusCode.INTERNAL, "boom", EngineError, r"failed \(500\)"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "late", EngineLostError, "died"),
    ],
)
async def test_a_refusal_is_our_error_in_our_words(
    subject: Engine,
    servicer: Servicer,
    status: grpc.StatusCode,
    words: str,
    error: type[Exception],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    servicer.script.refuses = (status, words)
    with caplog.at_level(logging.DEBUG), pytest.raises(error, match=message) as caught:
        await steps_of(subject, [1], GREEDY)
    assert type(caught.value) is error
    assert "sesame" not in f"{caught.value}{caplog.text}"


async def test_owners_whom_the_server_cannot_keep_apart_must_share_or_it_is_not_taken(address: str) -> None:
    with pytest.raises(ConfigError, match="share_cache = true") as caught:
        await connected(address, share_cache=False)
    assert caught.value.code == "cache_shared"
    engine = await connected(address)
    with pytest.raises(UnsupportedError, match="cache_salt"):
        await anext(engine.generate([1], GREEDY, tenant=Tenant(owner="ann", salt="s")))
    await engine.aclose()


async def test_what_cannot_answer_is_said_at_the_start(address: str, servicer: Servicer) -> None:
    servicer.script.healthy = False
    with pytest.raises(OverloadedError, match="not ready"):
        await connected(address)
    servicer.script.healthy, servicer.script.context = True, 0
    with pytest.raises(EngineError, match="context"):
        await connected(address)
    servicer.script.context, servicer.script.generates = 32, False
    with pytest.raises(ModelError) as caught:
        await connected(address)
    assert caught.value.code == "not_generative"


async def test_a_server_of_something_else_is_an_error_with_what_is_known() -> None:
    async with grpc_server() as address:
        with pytest.raises(EngineError, match=r"vllm\.grpc\.engine\.VllmEngine") as caught:
            await connected(address)
    assert not isinstance(caught.value, OverloadedError)


async def test_nobody_there_is_an_overload_that_passes(deaf_port: int) -> None:
    with pytest.raises(OverloadedError) as caught:
        await connected(f"grpc://127.0.0.1:{deaf_port}")
    assert caught.value.code == UNREACHABLE


async def test_without_the_extra_it_is_a_fault_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("smg_grpc_proto.generated", "antiphon.engines.grpc.engine"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"antiphon\[grpc\]") as caught:
        await Grpc(url="grpc://x:1").open(ModelSpec(name="far", tokenizer=ByteTokenizer()))
    assert caught.value.code == "grpc_missing"


@pytest.mark.parametrize("scheme", ["grpc", "grpcs", "http", "https"])
def test_an_address_may_have_any_of_its_schemes(scheme: str) -> None:
    assert Grpc(url=f"{scheme}://gpu:50051/engines/a").fault() is None
    assert Grpc(url=f"{scheme}://gpu:50051/v1").fault() is not None


def test_an_address_without_a_scheme_is_told_what_one_is() -> None:
    assert Grpc(url="gpu:50051").fault() == ("url", "it needs a url, as in grpc://127.0.0.1:8000")


async def test_nothing_is_asked_of_a_server_after_the_end(subject: Engine) -> None:
    await subject.aclose()
    with pytest.raises(EngineLostError, match="closed"):
        await steps_of(subject, [1], GREEDY)
