"""Host of the child process, which says who may use its slots when: this process, or another one that several share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Protocol

import msgspec

from antiphon.errors import AntiphonError, EngineError, OverloadedError
from antiphon.tenancy import DomainGate, Tenant

from .child_process import ChildProcess
from .client import LlamaClient, Seat, ServedModel
from .scoring import Slots
from .settings import LlamaCppSettings

_FIRST_PAUSE, _SECOND_PAUSE, _LONGEST_PAUSE = 0.0, 0.2, 30.0
_RETRY_SECONDS = 0.5
"""When a caller may ask again while the engine starts: about as long as a small model takes."""
_STEADY_SECONDS = 60.0
"""A child that lived this long, or made a token, is trusted again: it is started again at once."""


class Places(msgspec.Struct, frozen=True):
    """A turn in the engine. ``apart``: several owners ask, so each reply has a seat of its own; else all have one."""

    client: LlamaClient
    apart: bool
    seats: tuple[Seat, ...]


class Host(Protocol):
    """The life of a child, and the queue before it."""

    @property
    def model(self) -> ServedModel: ...

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""

    @property
    def restarts(self) -> int:
        """The child's lives after the first."""

    async def client(self) -> LlamaClient:
        """For short calls, which take no place. Raises `EngineError` as `places` does."""

    def places(
        self, tenant: Tenant, count: int = 1, prompt: Sequence[int] | None = None
    ) -> AbstractAsyncContextManager[Places]:
        """Runs the body when it is the tenant's turn, with ``count`` places, and with seats for a ``prompt``.

        Raises `OverloadedError` while the child is started again, `EngineError` where it is closed.
        """

    async def aclose(self) -> None: ...


class ChildHost:
    """A child of this process, which is started again when it dies."""

    def __init__(self, settings: LlamaCppSettings, child: ChildProcess) -> None:
        self._settings = settings
        self._child: ChildProcess | None = child
        self.model = child.model
        self._slots = Slots(settings.slots, settings.share_cache)
        self._gate = DomainGate(
            lambda apart: settings.slots if apart else settings.streams,
            shared=settings.share_cache,
        )
        self._pause = _FIRST_PAUSE
        self._useful = False
        self._watch = asyncio.create_task(self._keep_alive(child))
        self.restarts = 0
        self.last_failure: str | None = None
        """Why there had to be another life: for the operator's log, not for callers, as it may quote what they sent."""

    @classmethod
    async def start(cls, settings: LlamaCppSettings) -> ChildHost:
        """Loads the model. ModelError when it cannot be: no file, not GGUF, damaged, too large."""
        return cls(settings, await ChildProcess.start(settings))

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    @property
    def child(self) -> ChildProcess:
        """The child that lives now. Raises as `Host.places` does."""
        if self._child is None:
            if self._watch.done():
                raise EngineError("the engine is closed")
            raise OverloadedError("the engine is being started again", retry_after=max(self._pause, _RETRY_SECONDS))
        return self._child

    async def client(self) -> LlamaClient:
        return self.child.client

    @asynccontextmanager
    async def places(
        self, tenant: Tenant, count: int = 1, prompt: Sequence[int] | None = None
    ) -> AsyncIterator[Places]:
        async with self._gate.places(tenant, count) as apart:
            client, slots = self.child.client, self._slots
            if prompt is None:
                yield Places(client, apart, ())
                return
            together = 1 if apart else count  # Choices that are not apart are one request.
            entered = [slots.enter(prompt, tenant, n=together, apart=apart) for _ in range(count // together)]
            seats = tuple(Seat(one.requested, one.reuse, partial(slots.settle, one)) for one in entered)
            try:
                yield Places(client, apart, seats)
            finally:
                for one, seat in zip(entered, seats, strict=True):
                    self._useful = self._useful or bool(seat.made)  # A child that made anything is trusted again.
                    one.ids += seat.made
                    slots.leave(one)

    async def aclose(self) -> None:
        self._watch.cancel()
        with suppress(asyncio.CancelledError):
            await self._watch
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    async def _keep_alive(self, child: ChildProcess) -> None:
        """Wait for the child's death, pause, start it again; without end."""
        while True:
            born = time.monotonic()
            self.last_failure = f"it ended by {await child.gone()}"
            self._child = None
            await child.stop()
            if self._useful or time.monotonic() - born > _STEADY_SECONDS:
                self._pause, self._useful = _FIRST_PAUSE, False
            child = await self._again(child)
            self._child, self.model = child, child.model
            self._slots = Slots(self._settings.slots, self._settings.share_cache)
            self.restarts += 1

    async def _again(self, last: ChildProcess) -> ChildProcess:
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(max(2 * self._pause, _SECOND_PAUSE), _LONGEST_PAUSE)
            try:
                return await ChildProcess.start(self._settings, last.file)
            except AntiphonError as error:  # Such as a model file that is being replaced; requests get the error.
                self.last_failure = str(error)
