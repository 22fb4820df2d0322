"""Which engines are loaded: each is loaded when it is needed, and unloaded when it is idle or others need its memory.

An engine that is loaded is called awake, one that is not asleep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from antiphon.engines import Engine, EngineInfo, EngineProxy, EngineSettings, ModelSpec
from antiphon.errors import UNREACHABLE, EngineError, EngineLostError, ModelError, OverloadedError
from antiphon.tokens import Tokenizer

# A server that runs already as an engine of the catalog: reached, checked, and connected anew after a loss.

# An engine on a server that may be restarted: what answers there after a loss may be another model.


class ReconnectingEngine(EngineProxy):
    """``lost`` from the first time that the server did not answer, or broke off.

    The catalog then retires this engine and connects a new one, which queries the server anew.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._users = 0
        self._retired = False
        self.lost = False

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    async def retire(self) -> None:
        """Closes the connections when the last reply has ended; nobody gets this engine any more."""
        self._retired = True
        if self._users == 0:
            await self.aclose()

    async def aclose(self) -> None:
        await self._engine.aclose()

    @asynccontextmanager
    async def using(self) -> AsyncIterator[Engine]:
        if self._retired and self._users == 0:
            raise OverloadedError("the engine's server was lost", code=UNREACHABLE, hint="Try again: it is reopened.")
        self._users += 1
        try:
            yield self._engine
        except EngineLostError:
            self.lost = True
            raise
        except OverloadedError as error:
            self.lost = self.lost or error.code == UNREACHABLE
            raise
        finally:
            self._users -= 1
            if self._retired and self._users == 0:
                await self.aclose()


log = logging.getLogger("antiphon.catalog")

SAMPLE = "Straße, naïve café: 漢字かな, Привет!\n\n\tdef f(x): return x**2 + 10_000  # ¿qué?"
"""Other vocabularies cut this text otherwise."""

RETRY_SECONDS = 5.0


async def connect(settings: EngineSettings, model: ModelSpec) -> ReconnectingEngine:
    """The engine, connected: it knows the server's model and has its vocabulary.

    Errors: `ModelError` for a tokenizer that is not the server's, `ConfigError` for a key that is not where it should
    be, `OverloadedError` (``engine_unreachable``) when nobody answers there.
    """
    try:
        engine = await settings.open(model)
    except OverloadedError as error:
        log.warning("%s: no answer from %s", model.name, settings.address)
        raise OverloadedError(
            f"the server that runs {model.name!r} cannot be reached",
            code=UNREACHABLE,
            retry_after=RETRY_SECONDS,
            hint="The next request tries it again. For its owner: is it up, and is "
            f"models.{model.name}.engine.url right?",
        ) from error
    except EngineError as error:
        log.warning("%s: %s says: %s", model.name, settings.address, error)
        raise
    try:
        await check_vocabulary(model.name, engine, model.tokenizer)
    except BaseException:
        await engine.aclose()
        raise
    return ReconnectingEngine(engine)


async def check_vocabulary(name: str, engine: Engine, tokenizer: Tokenizer) -> None:
    """Raises `ModelError` when the server cuts a text otherwise than the tokenizer here: ids would mean other words."""
    server_ids = await engine.tokenize(SAMPLE)
    if server_ids is not None and server_ids != await asyncio.to_thread(tokenizer.encode, SAMPLE):
        what = f"the tokenizer of {name!r} is not the one of the server that runs it"
        hint = f"models.{name}.tokenizer must be of the same model."
        raise ModelError(what, code="tokenizer_mismatch", hint=hint)


BUSY_SECONDS = 5.0
"""When a caller may try again after all the memory was in use."""


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None: ...


Later = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after so many seconds."""


def loop_later(seconds: float, call: Callable[[], None]) -> Timer:
    """By the running event loop's clock."""
    return asyncio.get_running_loop().call_later(seconds, call)


class ModelMemory:
    """The memory that embedded engines share.

    ``budget`` is in bytes, ``idle`` in seconds; 0 is no limit. ``later`` is the clock.
    """

    def __init__(self, *, budget: int = 0, idle: float = 0.0, later: Later = loop_later) -> None:
        self._budget = budget
        self._idle_seconds = idle
        self._later = later
        self._loaded: set[SleepingEngine] = set()
        self._idle: dict[SleepingEngine, Timer | None] = {}
        """Awake and unused; the least recently used first."""
        self._changing = asyncio.Lock()
        self._naps: set[asyncio.Task[None]] = set()

    async def admit(self, engine: SleepingEngine) -> None:
        """Reserves memory for an engine that is about to wake, and puts unused engines to sleep until there is enough.

        Errors: `ModelError` (``model_memory``) where the budget is smaller than the engine, `OverloadedError`
        (``memory_busy``) while engines that are in use have the memory.
        """
        if self._budget and engine.size > self._budget:
            raise ModelError(
                f"the model {engine.name!r} needs {mebibytes(engine.size)} of memory, and all models may have "
                f"{mebibytes(self._budget)} together",
                code="model_memory",
                hint="For the server's owner: raise engine.memory_mib, or lower the model's context or slots.",
            )
        async with self._changing:
            while self._budget and engine.size + sum(one.size for one in self._loaded) > self._budget:
                if not self._idle:
                    raise OverloadedError(
                        f"there is no memory for the model {engine.name!r} while others work",
                        code="memory_busy",
                        retry_after=BUSY_SECONDS,
                    )
                await next(iter(self._idle)).sleep()
            self._loaded.add(engine)

    def used(self, engine: SleepingEngine) -> None:
        """Marks an engine as in use: it stays loaded."""
        timer = self._idle.pop(engine, None)
        if timer is not None:
            timer.cancel()

    def unused(self, engine: SleepingEngine) -> None:
        """Marks an engine as unused: others may have its memory; it sleeps after ``idle`` seconds, if retired now."""
        if engine.awake:
            seconds = 0.0 if engine.retired else self._idle_seconds
            self._idle[engine] = self._later(seconds, lambda: self._nap(engine)) if seconds else None
            if engine.retired:
                self._nap(engine)

    def release(self, engine: SleepingEngine) -> None:
        """Gives the memory of an engine back."""
        self.used(engine)
        self._loaded.discard(engine)

    def _nap(self, engine: SleepingEngine) -> None:
        nap = asyncio.ensure_future(self._put_to_sleep(engine))
        self._naps.add(nap)
        nap.add_done_callback(self._naps.discard)

    async def _put_to_sleep(self, engine: SleepingEngine) -> None:
        async with self._changing:  # Whoever needs memory now waits until this is unloaded.
            if engine in self._idle:
                await engine.sleep()


class SleepingEngine(EngineProxy):
    """An engine that is loaded when it is needed. ``size`` is the memory, in bytes, that it takes when awake."""

    def __init__(
        self, name: str, size: int, start: Callable[[], Awaitable[Engine]], memory: ModelMemory, info: EngineInfo
    ) -> None:
        self.name = name
        self.size = size
        self._start = start
        self._memory = memory
        self._info = info
        self._engine: Engine | None = None
        self._users = 0
        self._changing = asyncio.Lock()
        self._waking: asyncio.Task[Engine] | None = None
        self._closed = False
        self.retired = False

    @classmethod
    async def woken(
        cls, name: str, size: int, start: Callable[[], Awaitable[Engine]], memory: ModelMemory
    ) -> SleepingEngine:
        """A new one, awake: what an engine can do is known when it runs. Raises what ``start`` and `admit` raise."""
        engine = cls(name, size, start, memory, EngineInfo(name="asleep", context=0, slots=0, honours=frozenset()))
        await engine.wake()
        return engine

    @property
    def info(self) -> EngineInfo:
        return self._info

    @property
    def awake(self) -> bool:
        return self._engine is not None

    @property
    def restarts(self) -> int:
        """How often this life of the engine began again by itself."""
        return getattr(self._engine, "restarts", 0)

    async def wake(self) -> Engine:
        """Loads the engine unless it is loaded. A caller who is cancelled meanwhile does not stop the loading.

        Raises what ``start`` and `ModelMemory.admit` raise.
        """
        if self._engine is not None:
            return self._engine
        if self._waking is None or self._waking.done():
            self._waking = asyncio.create_task(self._wake())
            self._waking.add_done_callback(_retrieve_error)
        return await asyncio.shield(self._waking)

    async def sleep(self) -> None:
        """Unloads the engine until the next call, unless it is in use."""
        async with self._changing:
            if self._users == 0:
                await self._stop()

    async def retire(self) -> None:
        """From now on it is unloaded as soon as it is unused."""
        self.retired = True
        await self.sleep()

    async def aclose(self) -> None:
        self._closed = True
        if self._waking is not None:
            self._waking.cancel()
        async with self._changing:
            await self._stop()

    async def _stop(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.aclose()
        self._memory.release(self)

    @asynccontextmanager
    async def using(self) -> AsyncIterator[Engine]:
        self._users += 1
        self._memory.used(self)
        try:
            yield await self.wake()
        finally:
            self._users -= 1
            if self._users == 0:
                self._memory.unused(self)

    async def _wake(self) -> Engine:
        async with self._changing:
            if self._closed:
                raise EngineError("the engine is closed")
            await self._memory.admit(self)
            try:
                self._engine = await self._start()
            except BaseException:
                self._memory.release(self)
                raise
            self._info = self._engine.info
            if self._users == 0:
                self._memory.unused(self)
            return self._engine


def _retrieve_error(waking: asyncio.Task[Engine]) -> None:
    """Callers who wait get an error from the task; where none waits it must not be logged as never retrieved."""
    if not waking.cancelled():
        waking.exception()


def mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
