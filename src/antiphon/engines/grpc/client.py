"""A channel to a gRPC server, and its failures as our errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar
from urllib.parse import urlsplit

import grpc
import grpc.aio

from antiphon.engines.completions import refusal
from antiphon.engines.http import failed, origin_and_path, refused_key
from antiphon.errors import UNREACHABLE, EngineError, EngineLostError, OverloadedError, UnsupportedError

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
        self._channel = _channel(url)
        self._metadata = (("authorization", f"Bearer {key}"),) if key else ()
        self._places = asyncio.Semaphore(streams)
        self._closed = False

    async def call(self, method: str, request: bytes, read: Callable[[bytes], T]) -> T:
        """The answer to a short call. Errors as for `stream`; `UnsupportedError` where there is no such method."""
        self._check_open()
        invoke = self._channel.unary_unary(f"{self._root}/{method}", _as_it_is, read)
        try:
            return await invoke(request, metadata=self._metadata, timeout=_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise failure(error, began=False) from error

    async def stream(self, method: str, request: bytes, read: Callable[[bytes], T]) -> AsyncGenerator[T, None]:
        """The messages of a reply; leaving cancels it at the server.

        `OverloadedError` when nobody answers there or the server takes nothing, `EngineLostError` when it stops
        answering, or when the client is closed meanwhile.
        """
        invoke = self._channel.unary_stream(f"{self._root}/{method}", _as_it_is, read)
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
                if self._closed and not _cancelled():
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
    """What ended a call, as one of our errors. ``began``: something of the answer had come."""
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


def _channel(url: str) -> grpc.aio.Channel:
    parts = urlsplit(url)
    if parts.scheme in _SECURE:
        return grpc.aio.secure_channel(parts.netloc, grpc.ssl_channel_credentials(), options=_OPTIONS)
    return grpc.aio.insecure_channel(parts.netloc, options=_OPTIONS)


def _as_it_is(message: bytes) -> bytes:
    return message


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
