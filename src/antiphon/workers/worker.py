"""One worker: a whole server, but for what the supervisor shares. Run by it, with the numbers of two sockets."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from antiphon.catalog import Catalog
from antiphon.config import Config
from antiphon.engines import Engine, EngineSettings, ModelSpec
from antiphon.engines.llama_cpp import LlamaCpp, LlamaCppEngine, LlamaCppSettings
from antiphon.engines.llama_cpp.child_process import KnownFile, client_at
from antiphon.engines.llama_cpp.client import LlamaClient, Seat, ServedModel
from antiphon.engines.llama_cpp.host import Places
from antiphon.errors import AntiphonError, NotFoundError
from antiphon.errors.fault import Fault
from antiphon.http.context import Context
from antiphon.http.gate.admission import Admission
from antiphon.http.rules import Rules
from antiphon.http.server.handed import Handed
from antiphon.http.server.server import Server, certificate, on_loop
from antiphon.http.transcript_runs import TranscriptCancel
from antiphon.library.app import assembled
from antiphon.library.reload import Reload, set_up
from antiphon.structs import ready
from antiphon.tenancy import Tenant

from .engines import Made, Opened, Placed, Turn, WorkerConfig
from .peer import Grant, Peer, Service, Visit

# The worker's side of what the supervisor shares.


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
        self, owner: str, *, model: str, slots: int, places: int, patience: float | None = None
    ) -> AsyncIterator[None]:
        async with self._peer.enter("background", owner, model, slots, places, patience):
            yield

    def let_in(self) -> None:
        """Nothing: who waits is let in by the supervisor, which reads the limits too."""


class RemoteHost:
    """The supervisor's child: it says when it is whose turn, and the worker speaks to the child itself."""

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


def main() -> None:
    talk, conduit = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    for end in (talk, conduit):
        end.set_inheritable(False)
    folders: list[str] = []
    threading.Thread(target=leave_with_supervisor, args=(folders,), daemon=True).start()
    signal.signal(signal.SIGHUP, lambda number, frame: None)  # The supervisor's is passed on in its own way.
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Before it serves it ends by this as by SIGTERM, without a traceback.
    on_loop(work(talk, conduit, folders))


def cancelled_here(context: Context, owner: str, id: str, request: object) -> bool:
    """Whether this worker makes that answer to a transcript, and cancelled what was requested."""
    try:
        context.transcripts.cancel(owner, id, msgspec.convert(request, ready(TranscriptCancel)))
    except NotFoundError:
        return False
    return True


def leave_with_supervisor(folders: list[str]) -> None:
    while os.read(0, 4096):
        pass
    for folder in folders:  # A supervisor that was killed cannot.
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


async def work(talk: socket.socket, conduit: socket.socket, folders: list[str]) -> None:
    """Serves until the supervisor stops it."""
    worker = Worker()
    services: dict[str, Service] = {
        "scrape": worker.scrape, "reload": worker.reload, "refresh": worker.refresh,
        "cancel": worker.cancel,
    }  # fmt: skip
    peer = await Peer.over(talk, services, {})
    try:
        given = msgspec.convert(await peer.call("start"), ready(WorkerConfig))
        folders.append(given.folder)
        await worker.serve(given.config(), peer, conduit)
    except AntiphonError as error:
        await peer.call("failed", Fault.of(error))
        raise SystemExit(1) from None


class Worker:
    """The worker's answers to its supervisor."""

    def __init__(self) -> None:
        self._server: Server
        self._reload: Reload
        self._context: Context
        self._catalog: Catalog
        self._built = asyncio.Event()

    async def serve(self, config: Config, peer: Peer, conduit: socket.socket) -> None:
        set_up(config)
        shares = RemoteLimits(peer)
        async with assembled(config, opening=shares.open, shares=shares) as parts:
            self._context, self._catalog = parts.app.state.context, parts.catalog
            self._reload = Reload(parts.app, parts.catalog, config)
            self._server = Server(
                parts.app,
                drain=config.server.drain,
                tls=certificate(config.server.tls_cert, config.server.tls_key),
                handed=Handed(conduit, partial(peer.tell, "connections")),
                on_ready=lambda url: peer.tell("ready", parts.summary(config)),
                own_process=True,
            )
            self._built.set()
            await self._server.serve_to_end()

    @asynccontextmanager
    async def scrape(self) -> AsyncGenerator[Grant, None]:
        await self._built.wait()
        yield Grant(self._context.metrics.families())

    @asynccontextmanager
    async def cancel(self, owner: str, id: str, request: Any) -> AsyncGenerator[Grant, None]:
        await self._built.wait()
        yield Grant(cancelled_here(self._context, owner, id, request))

    @asynccontextmanager
    async def refresh(self, name: str) -> AsyncGenerator[Grant, None]:
        await self._built.wait()
        await self._catalog.refresh(name)
        yield Grant()

    @asynccontextmanager
    async def reload(self, given: Any) -> AsyncGenerator[Grant, None]:
        await self._built.wait()
        yield Grant(await self._reload.reload(msgspec.convert(given, ready(WorkerConfig)).config, self._server))


if __name__ == "__main__":
    main()
