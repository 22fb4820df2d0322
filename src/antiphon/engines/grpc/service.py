"""Common part of the servers' protocols: a service is named, and its messages become these values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from smg_grpc_proto.generated import sglang_scheduler_pb2 as sglang_proto
from smg_grpc_proto.generated import vllm_engine_pb2 as vllm_proto

from antiphon.engines.engine import SAMPLING, Sampling
from antiphon.engines.remote import LEAST_BIAS, common_settings
from antiphon.engines.sglang import RESERVED

Pair = tuple[int, float]
"""An id and its log probability."""


class Part(msgspec.Struct, frozen=True):
    """Contents of one message of a stream: the ``ids`` that are new, or, with a ``finish``, all or the last of them.

    ``logprobs`` are of ``ids``, each with its alternatives. ``matched`` is the stop id that ended the reply.
    """

    ids: Sequence[int]
    logprobs: Sequence[tuple[Pair, Sequence[Pair]]] = ()
    cached: int | None = None
    finish: str | None = None
    matched: int | None = None


class Served(msgspec.Struct, frozen=True):
    """The model: its context in tokens, 0 where the server does not know, and its ends."""

    context: int
    end_ids: frozenset[int] = frozenset()
    generates: bool = True


class GenerateInputs(msgspec.Struct, frozen=True):
    """A request for one choice. ``limit``: how many ids it may have at most."""

    request_id: str
    prompt: Sequence[int]
    sampling: Sampling
    limit: int
    grammar: str | None = None


class Service(ABC):
    """A protocol. ``path`` is the service's full name, and ``proto`` has its messages; they are serialized here.

    ``logprobs``: alternatives that it reports at most. Its servers keep prompts for other requests, and have no way to
    keep those of different owners apart. ``reserved``: tokens of its context that a server leaves unused.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    proto: ClassVar[Any]
    logprobs: ClassVar[int] = 20
    reserved: ClassVar[int] = 0
    honours: ClassVar[frozenset[str]]

    @abstractmethod
    def request(self, inputs: GenerateInputs) -> bytes:
        """The message that requests a streamed reply; all its sampling is named."""

    @abstractmethod
    def abort(self, request_id: str) -> bytes: ...

    def part(self, data: bytes) -> Part:
        message = self.proto.GenerateResponse.FromString(data)
        if message.HasField("complete"):
            end = message.complete
            matched = end.matched_token_id if end.HasField("matched_token_id") else None
            return Part(end.output_ids, (), end.cached_tokens, end.finish_reason, matched)
        chunk = message.chunk
        return Part(chunk.token_ids, entries(chunk.output_logprobs), chunk.cached_tokens)

    def served(self, data: bytes) -> Served:
        """From what `GetModelInfo` answers."""
        info = self.proto.GetModelInfoResponse.FromString(data)
        context = max(0, info.max_context_length - self.reserved)
        return Served(context, frozenset(info.eos_token_ids), info.is_generation)

    def healthy(self, data: bytes) -> bool:
        """From what `HealthCheck` answers."""
        return bool(self.proto.HealthCheckResponse.FromString(data).healthy)


def entries(columns: Any) -> list[tuple[Pair, Sequence[Pair]]]:
    """Gives each id with its alternatives, where there are any, of the message that both protocols have for them."""
    own = zip(columns.token_ids, columns.token_logprobs, strict=True)
    tops = [list(zip(top.token_ids, top.values, strict=True)) for top in columns.top_logprobs]
    return [(pair, tops[i] if i < len(tops) else ()) for i, pair in enumerate(own)]


# SGLang's service.


class SglangService(Service):
    """Its requests have no place for a seed."""

    name = "sglang"
    path = "sglang.grpc.scheduler.SglangScheduler"
    proto: ClassVar[Any] = sglang_proto
    reserved = RESERVED
    honours = SAMPLING - {"seed"} | {"min_tokens"}

    def request(self, inputs: GenerateInputs) -> bytes:
        sampling = inputs.sampling
        params = sglang_proto.SamplingParams(
            top_k=sampling.top_k or -1,
            **common_settings(sampling),
            max_new_tokens=inputs.limit,
            min_new_tokens=min(sampling.min_tokens, inputs.limit),
            n=1,
            logit_bias={str(id): max(LEAST_BIAS, bias) for id, bias in sampling.logit_bias.items()},
        )
        if inputs.grammar is not None:
            params.ebnf_grammar = inputs.grammar
        return sglang_proto.GenerateRequest(
            request_id=inputs.request_id,
            tokenized=sglang_proto.TokenizedInput(input_ids=inputs.prompt),
            sampling_params=params,
            return_logprob=sampling.logprobs is not None,
            logprob_start_len=-1,
            top_logprobs_num=sampling.logprobs or 0,
            stream=True,
        ).SerializeToString()

    def abort(self, request_id: str) -> bytes:
        return sglang_proto.AbortRequest(request_id=request_id, reason="the client left").SerializeToString()


# vLLM's service.

_SEEDS = 2**31
_MOST = 20
"""Log probabilities that a server reports, where nobody gave it another limit."""


class VllmService(Service):
    """It counts the sampled id among the alternatives, so that one more is asked for."""

    name = "vllm"
    path = "vllm.grpc.engine.VllmEngine"
    proto: ClassVar[Any] = vllm_proto
    honours = SAMPLING | {"min_tokens"}
    logprobs = _MOST - 1

    def request(self, inputs: GenerateInputs) -> bytes:
        sampling = inputs.sampling
        params = vllm_proto.SamplingParams(
            top_k=sampling.top_k,
            **common_settings(sampling),
            max_tokens=inputs.limit,
            min_tokens=min(sampling.min_tokens, inputs.limit),
            n=1,
            logit_bias={id: max(LEAST_BIAS, bias) for id, bias in sampling.logit_bias.items()},
        )
        if sampling.seed is not None:
            params.seed = sampling.seed % _SEEDS
        if sampling.logprobs is not None:
            params.logprobs = sampling.logprobs + 1
        if inputs.grammar is not None:
            params.grammar = inputs.grammar
            params.grammar_from_first_token = True
        return vllm_proto.GenerateRequest(
            request_id=inputs.request_id,
            tokenized=vllm_proto.TokenizedInput(input_ids=inputs.prompt),
            sampling_params=params,
            stream=True,
        ).SerializeToString()

    def abort(self, request_id: str) -> bytes:
        return vllm_proto.AbortRequest(request_ids=[request_id]).SerializeToString()
