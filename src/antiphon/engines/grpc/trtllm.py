"""TensorRT-LLM's service."""

from __future__ import annotations

from smg_grpc_proto.generated import trtllm_service_pb2 as proto

from antiphon.engines.engine import SAMPLING

from .service import GenerateInputs, Part, Served, Service

_ENDS = {"stop_word": "stop"}
"""Its words for an end that others have another word for."""


class TrtllmService(Service):
    """Biases would be one number for each id of the vocabulary."""

    name = "trtllm"
    path = "trtllm.TrtllmService"
    honours = SAMPLING - {"logit_bias"}

    def request(self, inputs: GenerateInputs) -> bytes:
        sampling = inputs.sampling
        config = proto.SamplingConfig(
            beam_width=1,
            num_return_sequences=1,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            repetition_penalty=sampling.repetition_penalty,
            seed=sampling.seed,
        )
        output = proto.OutputConfig(exclude_input_from_output=True)
        if sampling.logprobs is not None:
            output.logprobs = max(1, sampling.logprobs)  # Releases differ in what 0 is.
        request = proto.GenerateRequest(
            request_id=inputs.request_id,
            tokenized=proto.TokenizedInput(input_token_ids=inputs.prompt),
            sampling_config=config,
            output_config=output,
            max_tokens=inputs.limit,
            streaming=True,
            stop_token_ids=sorted(sampling.stop_ids),
            ignore_eos=sampling.ignore_eos,
            include_stop_token_in_output=True,
        )
        if inputs.grammar is not None:
            guide = proto.GuidedDecodingParams.GUIDE_TYPE_EBNF_GRAMMAR
            request.guided_decoding.CopyFrom(proto.GuidedDecodingParams(guide_type=guide, guide=inputs.grammar))
        return request.SerializeToString()

    def part(self, data: bytes) -> Part:
        message = proto.GenerateResponse.FromString(data)
        if message.HasField("complete"):
            end = message.complete
            matched = end.matched_token_id if end.HasField("matched_token_id") else None
            finish = _ENDS.get(end.finish_reason, end.finish_reason)
            return Part(end.output_token_ids, (), end.cached_tokens, finish, matched)
        chunk = message.chunk
        logprobs = [
            ((entry.token_id, entry.logprob), [(top.token_id, top.logprob) for top in entry.top_logprobs])
            for entry in chunk.logprobs
        ]
        return Part(chunk.token_ids, logprobs, chunk.cached_tokens)

    def abort(self, request_id: str) -> bytes:
        return proto.AbortRequest(request_id=request_id).SerializeToString()

    def served(self, data: bytes) -> Served:
        info = proto.GetModelInfoResponse.FromString(data)
        return Served(info.max_seq_len or info.max_input_len)

    def healthy(self, data: bytes) -> bool:
        return proto.HealthCheckResponse.FromString(data).status == "OK"
