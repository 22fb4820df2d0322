"""The way to an engine's replicas: a deployment's handle. What of Ray's is not public is behind one function here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable
from typing import Protocol

from ray import serve
from ray.exceptions import RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from antiphon.errors import UNREACHABLE, AntiphonError, EngineError, EngineLostError, OverloadedError


class Response(AsyncIterable[bytes], Awaitable[bytes], Protocol):
    """The response to a call of a handle."""

    def cancel(self) -> None: ...


class Method(Protocol):
    """A method of a deployment."""

    def remote(self, *arguments: object) -> Response: ...


class Handle(Protocol):
    """As much of `ray.serve.handle.DeploymentHandle` as is used."""

    def options(self, **options: object) -> Handle: ...

    def __getattr__(self, name: str) -> Method: ...


def channel_to(deployment: str, application: str = "") -> RayChannel:
    """The way to a deployment. ``application`` empty: that of the replica which runs this."""
    here = application or serve.get_replica_context().app_name
    return RayChannel(serve.get_deployment_handle(deployment, app_name=here))


def by_value(handle: Handle, **options: object) -> Handle:
    """The handle with answers that go from replica to replica, not through Ray's objects: a third of the cost.

    The option has an underscore, so it may change; without it all works, and costs more.
    """
    try:
        return handle.options(_by_reference=False, **options)
    except TypeError:
        return handle.options(**options)


class RayChannel:
    """The way to the replicas of one deployment; Ray's routers choose among them."""

    def __init__(self, handle: Handle) -> None:
        self._calls = by_value(handle)
        self._replies = by_value(handle, stream=True)

    async def generate(
        self, domain: str, prompt: list[int], call: bytes, *, session: str | None
    ) -> AsyncGenerator[bytes, None]:
        replies = self._replies.options(session_id=session) if session else self._replies
        response, over = replies.generate.remote(domain, prompt, call), False
        try:
            async for message in response:
                yield message
            over = True
        except Exception as error:
            over = True
            raise engine_error(error) from error
        finally:
            if not over:
                response.cancel()

    async def ask(self, method: str, *arguments: bytes) -> bytes:
        try:
            response: Response = getattr(self._calls, method).remote(*arguments)
            return await response
        except Exception as error:
            raise engine_error(error) from error


def engine_error(error: Exception) -> AntiphonError:
    """An error of Ray as one of ours: a replica that is gone is an engine that was lost."""
    if isinstance(error, BackPressureError | DeploymentUnavailableError):
        return OverloadedError("no replica of the engine takes requests now", code=UNREACHABLE, retry_after=5.0)
    if isinstance(error, RayTaskError):
        return EngineError("the engine's replica failed", hint="Its log has the cause.")
    return EngineLostError("the engine's replica was lost")
