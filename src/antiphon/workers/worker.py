"""One worker: a whole server, but for what the supervisor shares. Run by it, with the numbers of two sockets."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from antiphon.catalog import Catalog
from antiphon.config import Config
from antiphon.errors import AntiphonError, NotFoundError
from antiphon.errors.fault import Fault
from antiphon.http.context import Context
from antiphon.http.server.handed import Handed
from antiphon.http.server.server import Server, certificate, on_loop
from antiphon.http.transcript_runs import TranscriptCancel
from antiphon.library.app import assembled
from antiphon.library.reload import Reload, set_up
from antiphon.structs import ready

from .given import WorkerConfig
from .peer import Grant, Peer, Service
from .remote import RemoteLimits


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
        self._config: Config
        self._server: Server
        self._reload: Reload
        self._context: Context
        self._catalog: Catalog
        self._built = asyncio.Event()

    async def serve(self, config: Config, peer: Peer, conduit: socket.socket) -> None:
        set_up(config)
        self._config, shares = config, RemoteLimits(peer)
        async with assembled(config, opening=shares.open, shares=shares) as parts:
            self._context, self._catalog = parts.app.state.context, parts.catalog
            self._reload = Reload(parts.app, parts.catalog, config, lambda: self._config)
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
        before, self._config = self._config, msgspec.convert(given, ready(WorkerConfig)).config()
        reloaded = await self._reload.reload(self._server)
        self._config = self._config if reloaded.taken else before
        yield Grant(reloaded)


if __name__ == "__main__":
    main()
