"""What runs beside the requests of an application: loading its first model, sweeping its store, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette

from antiphon.errors import AntiphonError, OverloadedError

from .context import Context
from .http.exchange import FAULTS


def lifespan_of(context: Context, *, preload: bool) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.ensure_future(_sweep(context))]
        if preload:
            tasks.append(asyncio.ensure_future(_preload(context)))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for load in tuple(context.loads):
            load.cancel()
        await asyncio.gather(*context.loads, return_exceptions=True)
        await context.runs.aclose()
        await context.archive.store.aclose()
        await context.source.aclose()

    return lifespan


async def _preload(context: Context) -> None:
    """Until the model is there the server is not ready; when it cannot be loaded, the next request tries again.

    A model whose own server does not answer yet is opened again and again: no requests come until then.
    """
    context.lifecycle.loading = True
    while context.lifecycle.loading:
        try:
            await context.model(None)
        except OverloadedError as error:
            FAULTS.warning("the default model is not there yet: %s", error)
            await asyncio.sleep(error.retry_after)
        except AntiphonError as error:
            FAULTS.error("the default model is not loaded: %s", error)
            return


async def _sweep(context: Context) -> None:
    """Now and then, what expired leaves the store; until then it is only not found."""
    while True:
        try:
            await context.sessions.sweep()
        except Exception:  # noqa: BLE001 - such as a full disk: the next round may do better
            FAULTS.exception("expired sessions were not swept")
        await asyncio.sleep(context.sessions.limits.sweep)
