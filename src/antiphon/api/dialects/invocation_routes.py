"""POST /serving-endpoints/{name}/invocations: one address a model, the task recognised by the body."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.errors import RequestError
from antiphon.http.client import read_json
from antiphon.http.context import Context
from antiphon.http.errors import ClientGone
from antiphon.http.exchange import KEY, Exchange
from antiphon.wire.json import decode, encode


class Task(msgspec.Struct):
    """The fields of which each task has its own."""

    messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    prompt: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Invocations:
    """Gives the body to the route of its task, the endpoint's name as its model. ``tasks``: field → that route."""

    def __init__(self, context: Context, tasks: Mapping[str, ASGIApp]) -> None:
        self._context = context
        self._tasks = tasks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[KEY]
        large = self._context.large
        try:
            with large.room() as room:
                body = await read_json(exchange.headers, receive, self._context.limits, room)
                task, body = await large.run(lambda: self._named(body, scope["path_params"]["endpoint"]), len(body))
        except ClientGone:
            return
        await self._tasks[task](scope, _again(body, receive), send)

    def _named(self, body: bytes, endpoint: str) -> tuple[str, bytes]:
        """The task, and the body with its model."""
        return self._task(body), named(body, endpoint)

    def _task(self, body: bytes) -> str:
        task, _ = decode(body, Task)
        given = [name for name in self._tasks if getattr(task, name) is not msgspec.UNSET]
        if len(given) != 1:
            names = ", ".join(self._tasks)
            raise RequestError(f"The body must have just one of {names}: it tells the task.", code="invalid_value")
        return given[0]


def named(body: bytes, model: str) -> bytes:
    """The body with its ``model``; everything else keeps its own spelling."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return encode({**fields, "model": model})


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once more, then what comes."""
    bodies: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> MutableMapping[str, Any]:
        return bodies.pop() if bodies else await receive()

    return again
