"""The worker's side of what the supervisor shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from antiphon.engines import Engine, EngineSettings, ModelSpec
from antiphon.engines.llama_cpp import LlamaCpp, LlamaCppEngine, LlamaCppSettings
from antiphon.engines.llama_cpp.child_process import KnownFile, client_at
from antiphon.engines.llama_cpp.client import LlamaClient, ServedModel
from antiphon.engines.llama_cpp.host import Places, Seat
from antiphon.http.gate.admission import Admission
from antiphon.http.rules import Rules
from antiphon.http.transcript_runs import TranscriptCancel
from antiphon.structs import ready
from antiphon.tenancy import Tenant

from .engines import Made, Opened, Placed, Turn
from .peer import Peer, Visit


class RemoteLimits:
    """The limits that the workers of one server have together."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def admission(self, rules: Rules) -> Admission:
        return RemoteAdmission(rules, self._peer)

    def model_changed(self, name: str) -> None:
        self._peer.tell("model_changed", name)

    async def cancel(self, owner: str, id: str, request: TranscriptCancel) -> bool:
        found: bool = await self._peer.call("cancel", owner, id, request)
        return found

    async def metrics(self) -> bytes:
        text: bytes = await self._peer.call("metrics")
        return text

    async def open(self, settings: EngineSettings, spec: ModelSpec) -> Engine:
        """An engine over the supervisor's child; one that is no process of ours is opened here."""
        if not isinstance(settings, LlamaCpp):
            return await settings.open(spec)
        own = settings.settings(spec)
        return LlamaCppEngine(own, await RemoteHost.open(self._peer, spec.name, settings.memory(spec), own))


class RemoteAdmission(Admission):
    """The queue that all workers' requests wait in. ``running`` and ``waiting`` count this worker's."""

    def __init__(self, rules: Rules, peer: Peer) -> None:
        super().__init__(rules)
        self._peer = peer
        self._running = self._waiting = 0

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return self._waiting

    def check(self, owner: str) -> None:
        """Nothing: only the supervisor knows whether the queue is full."""

    async def check_all(self, owner: str) -> None:
        await self._peer.call("check", owner)

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as place:
            self._waiting += 1
            try:
                await place.enter_async_context(self._peer.enter("slot", owner))
            finally:
                self._waiting -= 1
            self._running += 1
            try:
                yield
            finally:
                self._running -= 1

    @asynccontextmanager
    async def background(
        self, owner: str, *, model: str, slots: int, places: int = 1, patience: float | None = None
    ) -> AsyncIterator[None]:
        async with self._peer.enter("background", owner, model, slots, places, patience):
            yield

    def let_in(self) -> None:
        """Nothing: who waits is let in by the supervisor, which reads the limits too."""


class RemoteHost:
    """The supervisor's child: it says when it is whose turn, and the worker speaks to the child itself."""

    last_failure: str | None = None

    def __init__(self, peer: Peer, settings: LlamaCppSettings, file: KnownFile) -> None:
        self._peer = peer
        self._settings = settings
        self._plain = msgspec.to_builtins(settings, enc_hook=str)
        self._file = file
        self._staying = AsyncExitStack()
        self._engine: Opened
        self._client: LlamaClient
        self._life = ""
        self._meeting = asyncio.Lock()

    @classmethod
    async def open(cls, peer: Peer, name: str, size: int, settings: LlamaCppSettings) -> RemoteHost:
        """Loads the model unless it is loaded; it stays as long as one worker has it."""
        host = cls(peer, settings, await asyncio.to_thread(KnownFile.read, settings.model))
        visit = await host._staying.enter_async_context(peer.enter("engine", name, size, host._plain))
        await host._meet(msgspec.convert(visit.value, ready(Opened)))
        return host

    @property
    def model(self) -> ServedModel:
        return self._engine.model

    @property
    def pid(self) -> int | None:
        return self._engine.pid

    @property
    def restarts(self) -> int:
        return self._engine.restarts

    async def client(self) -> LlamaClient:
        return await self._meet(msgspec.convert(await self._peer.call("engine_now", self._plain), ready(Opened)))

    @asynccontextmanager
    async def places(
        self, tenant: Tenant, count: int = 1, prompt: Sequence[int] | None = None
    ) -> AsyncGenerator[Places, None]:
        whose = msgspec.to_builtins(tenant)
        async with self._peer.enter("turn", self._plain, whose, count, prompt) as visit:
            turn = msgspec.convert(visit.value, ready(Turn))
            client = await self._meet(turn.engine)
            seats = tuple(_seat(visit, number, *found) for number, found in enumerate(turn.seats))
            try:
                yield Places(client, turn.apart, seats)
            finally:
                for number, seat in enumerate(seats):
                    visit.note(Made(number, seat.made))

    async def aclose(self) -> None:
        if self._life:
            await self._client.aclose()
        await self._staying.aclose()

    async def _meet(self, engine: Opened) -> LlamaClient:
        """A client of the child that lives now; one of an earlier life has nothing left to say."""
        async with self._meeting:
            self._engine = engine
            if engine.life == self._life:
                return self._client
            old = self._client if self._life else None
            self._file = await asyncio.to_thread(KnownFile.read, self._settings.model, self._file)
            self._client = client_at(engine.socket, engine.key, self._settings, self._file.fragments)
            self._life = engine.life
            if old is not None:
                await old.aclose()
            return self._client


def _seat(visit: Visit, number: int, slot: int | None, reuse: bool) -> Seat:
    def placed(got: int) -> None:
        visit.note(Placed(number, got))

    return Seat(slot, reuse, placed)
