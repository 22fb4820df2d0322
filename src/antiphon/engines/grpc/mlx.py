"""The service of MLX, on Apple's machines."""

from __future__ import annotations

from smg_grpc_proto.generated import mlx_engine_pb2 as proto

from antiphon.engines.engine import SAMPLING
from antiphon.engines.remote import LEAST_BIAS

from .service import GenerateInputs, Part, Served, Service, entries

_SEEDS = 2**31


class MlxService(Service):
    """Its requests have no place for a grammar; its servers keep no prompts."""

    name = "mlx"
    path = "mlx.grpc.engine.MlxEngine"
    honours = SAMPLING
    grammars = False
    caches = False

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
            logit_bias={id: max(LEAST_BIAS, bias) for id, bias in sampling.logit_bias.items()},
        )
        if sampling.seed is not None:
            params.seed = sampling.seed % _SEEDS
        if sampling.logprobs is not None:
            params.logprobs = max(1, sampling.logprobs)  # 0 would be none at all.
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
            matched = end.matched_stop_token_id if end.HasField("matched_stop_token_id") else None
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
