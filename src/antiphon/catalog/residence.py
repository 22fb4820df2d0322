"""Which engines are in memory: each wakes when it is needed, and sleeps when it is idle or others need its room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from antiphon.engines import Embeddings, Engine, EngineInfo, Sampling, Step
from antiphon.errors import EngineError, ModelError, OverloadedError

BUSY_SECONDS = 5.0
"""When a caller may ask again after all the memory was in use."""


class Timer(Protocol):
    """What a pending call is to whoever asked for it."""

    def cancel(self) -> None: ...


Later = Callable[[float, Callable[[], None]], Timer]
"""(seconds, what is to be called then)"""


def loop_later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call)


class Residence:
    """The memory that embedded engines share.

    ``budget`` is in bytes, ``idle`` in seconds; 0 is no limit. ``later`` is the clock.
    """

    def __init__(self, *, budget: int = 0, idle: float = 0.0, later: Later = loop_later) -> None:
        self._budget = budget
        self._idle_seconds = idle
        self._later = later
        self._residents: set[SleepingEngine] = set()
        self._idle: dict[SleepingEngine, Timer | None] = {}
        """Awake and unused; the least recently used first."""
        self._moving = asyncio.Lock()
        self._naps: set[asyncio.Task[None]] = set()

    async def admit(self, engine: SleepingEngine) -> None:
        """Makes room for an engine that is about to wake, and gives it that room.

        Errors: `ModelError` (``model_memory``) where the budget can never hold it, `OverloadedError` (``memory_busy``)
        while engines that cannot sleep now have the room.
        """
        if self._budget and engine.size > self._budget:
            raise ModelError(
                f"the model {engine.name!r} needs {mebibytes(engine.size)} of memory, and all models may have "
                f"{mebibytes(self._budget)} together",
                code="model_memory",
                hint="For the server's owner: raise engine.memory_mib, or lower the model's context or slots.",
            )
        async with self._moving:
            while self._budget and engine.size + sum(one.size for one in self._residents) > self._budget:
                if not self._idle:
                    raise OverloadedError(
                        f"there is no memory for the model {engine.name!r} while others work",
                        code="memory_busy",
                        retry_after=BUSY_SECONDS,
                    )
                await next(iter(self._idle)).sleep()
            self._residents.add(engine)

    def used(self, engine: SleepingEngine) -> None:
        """Somebody works with it: it stays."""
        timer = self._idle.pop(engine, None)
        if timer is not None:
            timer.cancel()

    def unused(self, engine: SleepingEngine) -> None:
        """Nobody does any longer: it may be asked to sleep, and does so in time."""
        if engine.awake:
            seconds = 0.0 if engine.retired else self._idle_seconds
            self._idle[engine] = self._later(seconds, lambda: self._nap(engine)) if seconds else None
            if engine.retired:
                self._nap(engine)

    def left(self, engine: SleepingEngine) -> None:
        """It is out of memory."""
        self.used(engine)
        self._residents.discard(engine)

    def _nap(self, engine: SleepingEngine) -> None:
        nap = asyncio.ensure_future(self._put_to_sleep(engine))
        self._naps.add(nap)
        nap.add_done_callback(self._naps.discard)

    async def _put_to_sleep(self, engine: SleepingEngine) -> None:
        async with self._moving:  # Whoever needs room now waits until this has left.
            if engine in self._idle:
                await engine.sleep()


class SleepingEngine:
    """An engine that is started when it is needed. ``size`` is the memory, in bytes, that it takes when awake."""

    def __init__(
        self, name: str, size: int, start: Callable[[], Awaitable[Engine]], residence: Residence, info: EngineInfo
    ) -> None:
        self.name = name
        self.size = size
        self._start = start
        self._residence = residence
        self._info = info
        self._engine: Engine | None = None
        self._users = 0
        self._moving = asyncio.Lock()
        self._waking: asyncio.Task[Engine] | None = None
        self._closed = False
        self.retired = False

    @classmethod
    async def woken(
        cls, name: str, size: int, start: Callable[[], Awaitable[Engine]], residence: Residence
    ) -> SleepingEngine:
        """A new one, awake: what an engine can do is known when it runs. Raises what ``start`` and `admit` raise."""
        engine = cls(name, size, start, residence, EngineInfo(name="asleep", context=0, slots=0))
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

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        affinity: str | None = None,
    ) -> AsyncGenerator[Step, None]:
        async with (
            self._awake() as engine,
            aclosing(engine.generate(prompt, sampling, n=n, grammar=grammar, affinity=affinity)) as steps,
        ):
            async for step in steps:
                yield step

    async def embed(self, inputs: Sequence[Sequence[int]]) -> Embeddings:
        async with self._awake() as engine:
            return await engine.embed(inputs)

    async def wake(self) -> Engine:
        """Into memory, if it is not there. Who goes away meanwhile takes it from nobody: it goes on waking.

        Raises what ``start`` and `Residence.admit` raise.
        """
        if self._engine is not None:
            return self._engine
        if self._waking is None or self._waking.done():
            self._waking = asyncio.create_task(self._wake())
            self._waking.add_done_callback(forgiven)
        return await asyncio.shield(self._waking)

    async def sleep(self) -> None:
        """Out of memory until the next call, unless somebody works with it."""
        async with self._moving:
            if self._users == 0:
                await self._stop()

    async def retire(self) -> None:
        """From now on it sleeps as soon as nobody works with it."""
        self.retired = True
        await self.sleep()

    async def aclose(self) -> None:
        self._closed = True
        if self._waking is not None:
            self._waking.cancel()
        async with self._moving:
            await self._stop()

    async def _stop(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.aclose()
        self._residence.left(self)

    @asynccontextmanager
    async def _awake(self) -> AsyncIterator[Engine]:
        self._users += 1
        self._residence.used(self)
        try:
            yield await self.wake()
        finally:
            self._users -= 1
            if self._users == 0:
                self._residence.unused(self)

    async def _wake(self) -> Engine:
        async with self._moving:
            if self._closed:
                raise EngineError("the engine is closed")
            await self._residence.admit(self)
            try:
                self._engine = await self._start()
            except BaseException:
                self._residence.left(self)
                raise
            self._info = self._engine.info
            if self._users == 0:
                self._residence.unused(self)
            return self._engine


def forgiven(waking: asyncio.Task[Engine]) -> None:
    """Those who wait are told of an error; when nobody does, the next call meets it again."""
    if not waking.cancelled():
        waking.exception()


def mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
