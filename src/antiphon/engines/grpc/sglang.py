"""SGLang's service."""

from __future__ import annotations

from smg_grpc_proto.generated import sglang_scheduler_pb2 as proto

from antiphon.engines.engine import SAMPLING
from antiphon.engines.remote import LEAST_BIAS
from antiphon.engines.sglang import RESERVED

from .service import GenerateInputs, Part, Served, Service, entries


class SglangService(Service):
    """Its requests have no place for a seed."""

    name = "sglang"
    path = "sglang.grpc.scheduler.SglangScheduler"
    honours = SAMPLING - {"seed"}

    def request(self, inputs: GenerateInputs) -> bytes:
        sampling = inputs.sampling
        params = proto.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k or -1,
            min_p=sampling.min_p,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            repetition_penalty=sampling.repetition_penalty,
            max_new_tokens=inputs.limit,
            stop_token_ids=sorted(sampling.stop_ids),
            ignore_eos=sampling.ignore_eos,
            n=1,
            logit_bias={str(id): max(LEAST_BIAS, bias) for id, bias in sampling.logit_bias.items()},
        )
        if inputs.grammar is not None:
            params.ebnf_grammar = inputs.grammar
        return proto.GenerateRequest(
            request_id=inputs.request_id,
            tokenized=proto.TokenizedInput(input_ids=inputs.prompt),
            sampling_params=params,
            return_logprob=sampling.logprobs is not None,
            logprob_start_len=-1,
            top_logprobs_num=sampling.logprobs or 0,
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
        return proto.AbortRequest(request_id=request_id, reason="the client left").SerializeToString()

    def served(self, data: bytes) -> Served:
        info = proto.GetModelInfoResponse.FromString(data)
        context = max(0, info.max_context_length - RESERVED)
        return Served(context, frozenset(info.eos_token_ids), info.is_generation)

    def healthy(self, data: bytes) -> bool:
        return proto.HealthCheckResponse.FromString(data).healthy
