"""An aiohttp application on a free port of the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


@asynccontextmanager
async def listening(application: web.Application, **options: Any) -> AsyncIterator[str]:
    """Its URL while it listens; ``options`` are the runner's."""
    runner = web.AppRunner(application, **options)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
