"""An engine on a gRPC server: ids in and ids out, streamed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import grpc
import grpc.aio

from antiphon.conversation import TokenLogprob
from antiphon.engines.engine import EngineInfo, Sampling, Step
from antiphon.engines.http import STREAMS, failed, origin_and_path, refused_key, takes_grammars
from antiphon.engines.remote import Aborts, RemoteEngine, refusal
from antiphon.engines.turns import together
from antiphon.errors import (
    UNREACHABLE,
    ConfigError,
    EngineError,
    EngineLostError,
    ModelError,
    OverloadedError,
    Position,
    UnsupportedError,
)
from antiphon.tokens import Tokenizer

from .service import GenerateInputs, Part, Served, Service, SglangService, VllmService

# A channel to a gRPC server, and its failures as our errors.

T = TypeVar("T")

_SECONDS = 30.0
"""For what is answered at once."""
_OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 2**20),
    ("grpc.enable_http_proxy", 0),
    # Channels of one address would else wait out each other's failures to connect.
    ("grpc.use_local_subchannel_pool", 1),
)
_SECURE = ("grpcs", "https")
_UNREACHED = ("connect", "socket", "reset", "dns", "resolve", "goaway")
"""In what gRPC itself says of a server that is not there; a server that takes nothing now has words of its own."""


class GrpcClient:
    """Calls of one server. ``url`` may have a path: then the services lie below it.

    ``streams`` replies are open at once; more wait here.
    """

    def __init__(self, url: str, *, key: str | None, streams: int) -> None:
        _, self._root = origin_and_path(url)
        parts = urlsplit(url)
        if parts.scheme in _SECURE:
            self._channel = grpc.aio.secure_channel(parts.netloc, grpc.ssl_channel_credentials(), options=_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(parts.netloc, options=_OPTIONS)
        self._metadata = (("authorization", f"Bearer {key}"),) if key else ()
        self._places = asyncio.Semaphore(streams)
        self._closed = False

    async def call(self, method: str, request: bytes, read: Callable[[bytes], T]) -> T:
        """The answer to a short call. Errors as for `stream`; `UnsupportedError` where there is no such method."""
        self._check_open()
        invoke = self._channel.unary_unary(f"{self._root}/{method}", bytes, read)
        try:
            return await invoke(request, metadata=self._metadata, timeout=_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise failure(error, began=False) from error

    async def stream(self, method: str, request: bytes, read: Callable[[bytes], T]) -> AsyncGenerator[T, None]:
        """The messages of a reply; leaving cancels it at the server.

        `OverloadedError` when nobody answers there or the server takes nothing, `EngineLostError` when it stops
        answering, or when the client is closed meanwhile.
        """
        invoke = self._channel.unary_stream(f"{self._root}/{method}", bytes, read)
        began = False
        async with self._places:
            self._check_open()
            call = invoke(request, metadata=self._metadata)
            try:
                async for part in call:
                    began = True
                    yield part
            except grpc.aio.AioRpcError as error:
                raise failure(error, began=began) from error
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self._closed and not (task is not None and task.cancelling()):
                    raise EngineLostError("the engine's client was closed in the middle of a reply") from None
                raise
            finally:
                call.cancel()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineLostError("the engine's client is closed")

    async def aclose(self) -> None:
        self._closed = True
        await self._channel.close(None)


def failure(error: grpc.aio.AioRpcError, *, began: bool) -> Exception:
    """Translates the end of a call into one of our errors. ``began``: something of the answer had come."""
    code, words = error.code(), error.details() or ""
    match code:
        case grpc.StatusCode.UNAVAILABLE if not began and not any(word in words.lower() for word in _UNREACHED):
            return failed(503, words)
        case grpc.StatusCode.UNAVAILABLE if not began:
            hint = "It is down or just starting: try again in a moment."
            return OverloadedError("the engine cannot be reached", code=UNREACHABLE, hint=hint)
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED | grpc.StatusCode.DEADLINE_EXCEEDED:
            return EngineLostError("the engine died in the middle of a reply")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return failed(429, words)
        case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.OUT_OF_RANGE:
            return refusal(400, words)
        case grpc.StatusCode.UNAUTHENTICATED:
            return refused_key(401)
        case grpc.StatusCode.PERMISSION_DENIED:
            return refused_key(403)
        case grpc.StatusCode.UNIMPLEMENTED:
            return UnsupportedError("the engine's server has no such method")
        case grpc.StatusCode.INTERNAL if began and "RST_STREAM" in words:
            return EngineLostError("the engine died in the middle of a reply")
        case _:
            return EngineError(failed(500, words).message, hint="The reason is in the log.")


SERVICES: tuple[Service, ...] = (VllmService(), SglangService())


class GrpcEngine(RemoteEngine):
    """Made by `connect`, which finds out what the server is."""

    def __init__(
        self, client: GrpcClient, service: Service, tokenizer: Tokenizer, info: EngineInfo, *, share_cache: bool = False
    ) -> None:
        super().__init__(tokenizer, info, share_cache=share_cache)
        self._client = client
        self._service = service
        self._aborts = Aborts(self._abort)

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        tokenizer: Tokenizer,
        end_ids: frozenset[int],
        key: str | None = None,
        grammar: bool | None = False,
        streams: int = STREAMS,
        share_cache: bool = False,
    ) -> GrpcEngine:
        """``url`` is grpc://host:port, or grpcs:// over TLS. ``tokenizer`` and ``end_ids`` are the model's own; the
        server's ends are added to them.

        ``grammar``: it takes llguidance's grammars; None tries. ``share_cache``: owners may find each other's prompts
        in the server's cache; no server can keep them apart, so it is a `ConfigError` without it. Other errors:
        `OverloadedError` when nobody answers there or the server is not healthy, `EngineError` for one that speaks
        none of the protocols, `ModelError` for a model that writes no text.
        """
        client = GrpcClient(url, key=key, streams=streams)
        try:
            service, served = await _found(client)
            if not share_cache:
                raise ConfigError(
                    f"a gRPC server of {service.name} cannot keep the prompts of different owners apart in its cache",
                    code="cache_shared",
                    hint="share_cache = true in the engine's table lets them share it.",
                )
            if not await client.call(f"{service.path}/HealthCheck", b"", service.healthy):
                raise OverloadedError(
                    "the engine is not ready", hint="It is starting or ending: try again in a moment."
                )
            info = declared(service, served.context, streams, end_ids | served.end_ids, grammar=True)
            if grammar is None:
                generate = cls(client, service, tokenizer, info).generate
                grammar = await takes_grammars(generate, tokenizer, info.end_ids)
        except BaseException:
            await client.aclose()
            raise
        return cls(client, service, tokenizer, replace(info, grammar=bool(grammar)), share_cache=share_cache)

    def steps(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None, domain: str
    ) -> AsyncGenerator[Step, None]:
        """Choices are requests of their own, which find each other's prompt in the server's cache."""
        check_domain(domain)
        reply = partial(self._reply, prompt, grammar)
        return reply(sampling) if n == 1 else together(reply, sampling, n)

    async def _reply(
        self, prompt: Sequence[int], grammar: str | None, sampling: Sampling
    ) -> AsyncGenerator[Step, None]:
        room, request_id, count, last, ended = self.room(prompt), uuid4().hex, 0, -1, False
        limit = min(sampling.max_tokens, room)
        request = self._service.request(GenerateInputs(request_id, prompt, sampling, limit, grammar))
        parts = self._client.stream(f"{self._service.path}/Generate", request, self._service.part)
        try:
            async with aclosing(parts):
                async for part in parts:
                    step = self._step(part, count, last, sampling, room)
                    count, last, ended = count + len(step.ids), (last, *step.ids)[-1], step.end is not None
                    yield step
                    if ended:
                        return
        finally:
            if not ended:
                self._aborts.send(request_id)
        raise EngineLostError("the engine ended its stream in the middle of a reply")

    async def aclose(self) -> None:
        await self._aborts.aclose()
        await self._client.aclose()

    def _step(self, part: Part, count: int, last: int, sampling: Sampling, room: int) -> Step:
        """The step of a part that comes after ``count`` ids, of which ``last`` is the last.

        A reply's end repeats ids that came before, all of them or the last: what is new in it is what is beyond them.
        """
        if part.finish is None:
            return Step(tuple(part.ids), 0, self._logprobs(part, sampling), cached_tokens=part.cached)
        end = self.end(part.finish, sampling, room)
        ids = tuple(part.ids[count:])
        if part.matched is not None and part.matched != (last, *ids)[-1]:
            ids = (*ids, part.matched)  # Some servers leave it out.
        logprobs = () if sampling.logprobs is None else tuple(self.logprob(id, None) for id in ids)
        return Step(ids, 0, logprobs, end=end, cached_tokens=part.cached)

    def _logprobs(self, part: Part, sampling: Sampling) -> tuple[TokenLogprob, ...]:
        if (count := sampling.logprobs) is None:
            return ()
        if [id for (id, _), _ in part.logprobs] != list(part.ids):
            return tuple(self.logprob(id, None) for id in part.ids)
        return tuple(self.logprob(id, logprob, self.best(top, count)) for (id, logprob), top in part.logprobs)

    async def _abort(self, request_id: str) -> None:
        await self._client.call(f"{self._service.path}/Abort", self._service.abort(request_id), bytes)


async def _found(client: GrpcClient) -> tuple[Service, Served]:
    """The protocol that the server speaks, and its model."""
    for service in SERVICES:
        try:
            served = await client.call(f"{service.path}/GetModelInfo", b"", service.served)
        except UnsupportedError:
            continue
        if not served.generates:
            raise ModelError("the server's model makes embeddings and writes no text", code="not_generative")
        if not served.context:
            raise EngineError("the server does not know the context of its model", code="engine_too_old")
        return service, served
    names = ", ".join(service.path for service in SERVICES)
    raise EngineError("the server has none of the services that are known here", hint=f"They are {names}.")


def check_domain(domain: str) -> None:
    """Raises `UnsupportedError` for a ``cache_salt``: servers cannot keep prompts apart; owners share here."""
    if domain:
        raise UnsupportedError("the engine's server takes no cache_salt", position=Position(path="cache_salt"))


def declared(
    service: Service, context: int, streams: int, end_ids: frozenset[int] = frozenset(), *, grammar: bool
) -> EngineInfo:
    """Gives the abilities of this engine with a model on such a server."""
    return EngineInfo(
        name="grpc",
        context=context,
        slots=streams,
        honours=service.honours,
        end_ids=end_ids,
        grammar=grammar,
        logprobs=service.logprobs,
    )
