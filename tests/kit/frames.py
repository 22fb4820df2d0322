"""A client of the Responses API over a WebSocket, without opinions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from kit.waiting import PATIENCE

LAST = ("response.completed", "response.incomplete", "response.failed")


def opened(
    port: int, path: str = "/v1/responses", *, origin: str | None = None, max_queue: int = 100_000, **headers: str
) -> connect:
    """A connection; header names with ``_`` for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return connect(
        f"ws://127.0.0.1:{port}{path}",
        additional_headers=named,
        origin=Origin(origin) if origin else None,
        max_size=None,
        compression=None,
        max_queue=max_queue,
        ping_interval=None,
    )


async def create(socket: ClientConnection, **fields: Any) -> None:
    await socket.send(json.dumps({"type": "response.create", "model": "small", **fields}))


async def event(socket: ClientConnection) -> dict[str, Any]:
    """The next event."""
    async with asyncio.timeout(PATIENCE):
        got: dict[str, Any] = json.loads(await socket.recv())
    return got


async def events(socket: ClientConnection) -> list[dict[str, Any]]:
    """The events up to the end of a response, or to an error that stands for one."""
    got = [await event(socket)]
    while got[-1]["type"] not in LAST and "status" not in got[-1]:
        got.append(await event(socket))
    return got


async def responded(socket: ClientConnection, **fields: Any) -> Any:
    """The response; for one that was not made, the error's event."""
    await create(socket, **fields)
    last = (await events(socket))[-1]
    return last.get("response", last)
