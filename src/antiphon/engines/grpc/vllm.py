"""vLLM's service."""

from __future__ import annotations

from smg_grpc_proto.generated import vllm_engine_pb2 as proto

from antiphon.engines.engine import SAMPLING
from antiphon.engines.remote import LEAST_BIAS

from .service import GenerateInputs, Part, Served, Service, entries

_SEEDS = 2**31
_MOST = 20
"""Log probabilities that a server reports, where nobody gave it another limit."""


class VllmService(Service):
    """It counts the sampled id among the alternatives, so that one more is asked for."""

    name = "vllm"
    path = "vllm.grpc.engine.VllmEngine"
    honours = SAMPLING
    logprobs = _MOST - 1

    def request(self, inputs: GenerateInputs) -> bytes:
        sampling = inputs.sampling
        params = proto.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            repetition_penalty=sampling.repetition_penalty,
            max_tokens=inputs.limit,
            stop_token_ids=sorted(sampling.stop_ids),
            ignore_eos=sampling.ignore_eos,
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
        return proto.GenerateRequest(
            request_id=inputs.request_id,
            tokenized=proto.TokenizedInput(input_ids=inputs.prompt),
            sampling_params=params,
            stream=True,
        ).SerializeToString()

    def part(self, data: bytes) -> Part:
        message = proto.GenerateResponse.FromString(data)
        if message.HasField("complete"):
            end = message.complete
            matched = end.matched_token_id if end.HasField("matched_token_id") else None
            return Part(end.output_ids, (), end.cached_tokens, end.finish_reason, matched)
        chunk = message.chunk
        return Part(chunk.token_ids, entries(chunk.output_logprobs), chunk.cached_tokens)

    def abort(self, request_id: str) -> bytes:
        return proto.AbortRequest(request_ids=[request_id]).SerializeToString()

    def served(self, data: bytes) -> Served:
        info = proto.GetModelInfoResponse.FromString(data)
        return Served(info.max_context_length, frozenset(info.eos_token_ids), info.is_generation)

    def healthy(self, data: bytes) -> bool:
        return proto.HealthCheckResponse.FromString(data).healthy
