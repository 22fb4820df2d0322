"""What runs beside the requests of an application: loading its first model, sweeping its store, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette

from antiphon.errors import AntiphonError, ModelError, OverloadedError, StoreError
from antiphon.http.context import Context
from antiphon.http.exchange import FAULTS


def lifespan_of(context: Context, *, preload: bool) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.ensure_future(_sweep(context)), asyncio.ensure_future(_drain(context))]
        if preload:
            context.lifecycle.begin_loading()
            tasks.append(asyncio.ensure_future(_preload(context)))
        async with AsyncExitStack() as beside:
            for work in context.beside:
                await beside.enter_async_context(work())
            yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for load in tuple(context.loads):
            load.cancel()
        await asyncio.gather(*context.loads, return_exceptions=True)
        await context.runs.aclose()
        context.large.close()
        context.isolation.close()
        await context.leases.aclose()
        await context.archive.store.aclose()
        await context.source.aclose()

    return lifespan


async def _preload(context: Context) -> None:
    """Until the model is there the server is not ready; why it cannot be loaded is told to who waits, or to the log.

    A model whose own server does not answer yet is opened again and again: no requests come until then.
    """
    while context.lifecycle.loading:
        try:
            await context.model(None)
            context.lifecycle.end_first_load()
        except OverloadedError as error:
            if error.code != "loading":  # It takes long, and may fail still.
                context.lifecycle.end_first_load()
                FAULTS.warning("the default model is not there yet: %s", error)
                await asyncio.sleep(error.retry_after)
        except Exception as error:  # noqa: BLE001 - whatever it is, the server has no model
            if not context.lifecycle.end_first_load(load_error(error)):
                FAULTS.error("the default model is not loaded: %s", load_error(error))
            return


def load_error(error: Exception) -> AntiphonError:
    """Why a model cannot be loaded, as an error of ours, with the paths that clients are not told."""
    if isinstance(error, AntiphonError):
        return error.__cause__ if isinstance(error.__cause__, AntiphonError) else error
    if isinstance(error, OSError):
        return ModelError(f"the model's files cannot be read: {error}", hint="Look at their owner and their mode.")
    FAULTS.error("the default model cannot be loaded", exc_info=error)
    return ModelError(f"the default model cannot be loaded: {type(error).__name__}", hint="The log has the cause.")


async def _drain(context: Context) -> None:
    """Programs of clients are not waited for as long as answers are."""
    await context.lifecycle.drained.wait()
    context.isolation.drain()


async def _sweep(context: Context) -> None:
    """Now and then, what expired leaves the store; until then it is only not found."""
    while True:
        try:
            await context.sessions.sweep()
        except StoreError as error:  # Such as a full disk: the next round may do better.
            FAULTS.warning("expired sessions were not swept: %s", error.code)
        except Exception:  # noqa: BLE001 - a store of another package
            FAULTS.exception("expired sessions were not swept")
        await asyncio.sleep(context.sessions.limits.sweep)
