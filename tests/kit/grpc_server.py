"""Servers of both gRPC protocols, made from the classes that were generated from them, and one on a real socket.

What they stream is what the servicers of these engines stream: each new id in a chunk, then an end that repeats ids.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from smg_grpc_proto.generated import sglang_scheduler_pb2 as sglang
from smg_grpc_proto.generated import sglang_scheduler_pb2_grpc as sglang_service
from smg_grpc_proto.generated import vllm_engine_pb2 as vllm
from smg_grpc_proto.generated import vllm_engine_pb2_grpc as vllm_service

from kit.vllm_server import CONTEXT, END, SAYS

M = TypeVar("M", bound=Message)
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Add: TypeAlias = Callable[[object, object], None]


@dataclass
class Script:
    """What a server does and what came to it. ``running`` counts the replies that are being written.

    ``says_all_at_the_end``: chunks have no ids. ``refuses``: the status of each request.
    """

    requests: list[Message] = field(default_factory=list)
    metadata: list[dict[str, str | bytes]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    running: int = 0
    cached: int = 2
    context: int = CONTEXT
    generates: bool = True
    healthy: bool = True
    says_all_at_the_end: bool = False
    drops_stops: bool = False
    breaks_after: int | None = None
    waits_after: int | None = None
    finish: str | None = None
    refuses: tuple[grpc.StatusCode, str] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    limit: int
    stops: Sequence[int]
    logprobs: int | None


class Servicer(ABC):
    """The part that is not about one protocol."""

    name: ClassVar[str]

    def __init__(self, script: Script) -> None:
        self.script = script

    async def Generate(self, request: Message, context: Context) -> AsyncIterator[Message]:
        script = self.script
        script.requests.append(request)
        script.metadata.append(dict(context.invocation_metadata() or ()))
        if script.refuses is not None:
            await context.abort(*script.refuses)
        script.running += 1
        try:
            async for message in self._say(self.asked(request), context):
                yield message
        finally:
            script.running -= 1

    async def _say(self, asked: Asked, context: Context) -> AsyncIterator[Message]:
        script, said = self.script, list[int]()
        for count, id in enumerate(SAYS[: asked.limit], 1):
            if script.breaks_after == count:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the engine is gone")
            if script.waits_after is not None and count > script.waits_after:
                await asyncio.Event().wait()
            stopped = id in (END, *asked.stops)
            if not (stopped and script.drops_stops):
                said.append(id)
                if not script.says_all_at_the_end:
                    yield self.chunk(id, asked.logprobs)
            if stopped or count == asked.limit:
                yield self.complete(said, script.finish or ("stop" if stopped else "length"), id if stopped else None)
                return
            await asyncio.sleep(0)

    @abstractmethod
    def asked(self, request: Message) -> Asked: ...

    @abstractmethod
    def chunk(self, id: int, logprobs: int | None) -> Message: ...

    @abstractmethod
    def complete(self, said: Sequence[int], reason: str, matched: int | None) -> Message: ...


def typed(message: Message, kind: type[M]) -> M:
    assert isinstance(message, kind)
    return message


def tops(id: int, count: int) -> Iterator[tuple[int, float]]:
    """The most probable of a place: what is said there, and those after it."""
    return ((id + i, -0.5 * (i + 1)) for i in range(count))


class VllmServicer(Servicer, vllm_service.VllmEngineServicer):
    """The sampled id counts among the alternatives; the end repeats the last chunk."""

    name = "vllm"

    def asked(self, request: Message) -> Asked:
        params = typed(request, vllm.GenerateRequest).sampling_params
        return Asked(params.max_tokens, params.stop_token_ids, params.logprobs if params.HasField("logprobs") else None)

    def chunk(self, id: int, logprobs: int | None) -> Message:
        chunk = vllm.GenerateStreamChunk(token_ids=[id], cached_tokens=self.script.cached)
        if logprobs is not None:
            ids, values = zip(*tops(id, max(1, logprobs)), strict=True)
            top = [vllm.TopLogProbs(token_ids=ids, values=values)] if logprobs else []
            chunk.output_logprobs.MergeFrom(
                vllm.OutputLogProbs(token_ids=[id], token_logprobs=[-0.5], top_logprobs=top)
            )
        return vllm.GenerateResponse(chunk=chunk)

    def complete(self, said: Sequence[int], reason: str, matched: int | None) -> Message:
        ids = said if self.script.says_all_at_the_end else said[-1:]
        return vllm.GenerateResponse(
            complete=vllm.GenerateComplete(
                output_ids=ids, finish_reason=reason, cached_tokens=self.script.cached,
                matched_token_id=None if matched == END and not self.script.drops_stops else matched,
            )
        )  # fmt: skip

    async def Abort(self, request: vllm.AbortRequest, context: Context) -> vllm.AbortResponse:
        self.script.aborted += request.request_ids
        return vllm.AbortResponse()

    async def GetModelInfo(self, request: Message, context: Context) -> vllm.GetModelInfoResponse:
        return vllm.GetModelInfoResponse(
            max_context_length=self.script.context, eos_token_ids=[END], is_generation=self.script.generates
        )

    async def HealthCheck(self, request: Message, context: Context) -> vllm.HealthCheckResponse:
        return vllm.HealthCheckResponse(healthy=self.script.healthy)


class SglangServicer(Servicer, sglang_service.SglangSchedulerServicer):
    """The end repeats the last chunk."""

    name = "sglang"

    def asked(self, request: Message) -> Asked:
        sent = typed(request, sglang.GenerateRequest)
        params = sent.sampling_params
        return Asked(
            params.max_new_tokens, params.stop_token_ids, sent.top_logprobs_num if sent.return_logprob else None
        )

    def chunk(self, id: int, logprobs: int | None) -> Message:
        chunk = sglang.GenerateStreamChunk(token_ids=[id], cached_tokens=self.script.cached)
        if logprobs is not None:
            pairs = [*tops(id, logprobs)]
            top = sglang.TopLogProbs(token_ids=[one for one, _ in pairs], values=[value for _, value in pairs])
            chunk.output_logprobs.MergeFrom(
                sglang.OutputLogProbs(token_ids=[id], token_logprobs=[-0.5], top_logprobs=[top] if pairs else [])
            )
        return sglang.GenerateResponse(chunk=chunk)

    def complete(self, said: Sequence[int], reason: str, matched: int | None) -> Message:
        ids = said if self.script.says_all_at_the_end else said[-1:]
        return sglang.GenerateResponse(
            complete=sglang.GenerateComplete(
                output_ids=ids, finish_reason=reason, cached_tokens=self.script.cached, matched_token_id=matched
            )
        )

    async def Abort(self, request: sglang.AbortRequest, context: Context) -> sglang.AbortResponse:
        self.script.aborted.append(request.request_id)
        return sglang.AbortResponse(success=True)

    async def GetModelInfo(self, request: Message, context: Context) -> sglang.GetModelInfoResponse:
        return sglang.GetModelInfoResponse(
            max_context_length=self.script.context, eos_token_ids=[END], is_generation=self.script.generates
        )

    async def HealthCheck(self, request: Message, context: Context) -> sglang.HealthCheckResponse:
        return sglang.HealthCheckResponse(healthy=self.script.healthy)


@dataclass(frozen=True, slots=True)
class Details(grpc.HandlerCallDetails):
    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...]


class Below(grpc.GenericRpcHandler):
    """The services that are added to it, below a path, as behind a proxy."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._handlers += handlers

    def add_registered_method_handlers(self, service: str, methods: dict[str, object]) -> None:
        """What gRPC has for speed only."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        if not details.method.startswith(self._path):
            return None
        inner = Details(details.method.removeprefix(self._path), details.invocation_metadata)
        return next((found for one in self._handlers if (found := one.service(inner))), None)


ADDED: dict[type[Servicer], Add] = {
    VllmServicer: vllm_service.add_VllmEngineServicer_to_server,
    SglangServicer: sglang_service.add_SglangSchedulerServicer_to_server,
}
SERVICERS: tuple[type[Servicer], ...] = tuple(ADDED)


@asynccontextmanager
async def grpc_server(*servicers: Servicer, path: str = "", port: int = 0) -> AsyncIterator[str]:
    """Its address, as a configuration has it, with ``path``."""
    server, below = grpc.aio.server(), Below(path)
    for servicer in servicers:
        ADDED[type(servicer)](servicer, below)
    server.add_generic_rpc_handlers((below,))
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield f"grpc://127.0.0.1:{port}{path}"
    finally:
        await server.stop(None)
