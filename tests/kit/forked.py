"""`make test-workers`: the applications of tests, each as two workers behind one port.

What `antiphon serve --workers` has is real: the acceptor, the workers' processes, the socket to them, the queue of
requests, the sum of the metrics, and the SQLite file that stands for a store in memory. What the test made is used from
both (`kit.lent`). A worker is forked from the test's process, because its application is made of the test's functions.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import logging
import logging.handlers
import os
import pickle
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api import app as api_app
from antiphon.api.app import AppSettings
from antiphon.catalog.static import StaticCatalog
from antiphon.config import EngineConfig, Limits
from antiphon.errors import EngineError
from antiphon.http.server.handed import PLAIN, Handed
from antiphon.http.server.server import GRACE, Server, on_loop
from antiphon.library.app import ModelSummary
from antiphon.observe.metrics import summed, text_of
from antiphon.store import SqliteStore
from antiphon.store.key_file import KEY_BYTES
from antiphon.workers.acceptor import Acceptor, Listener
from antiphon.workers.engines import Shared, part_of
from antiphon.workers.peer import Grant, Handler, Peer, Service
from antiphon.workers.spawned import Process, WorkerProcess
from antiphon.workers.supervisor import Counts
from antiphon.workers.worker import RemoteLimits, cancelled_here
from kit.lent import Lender, LentClock, Loan
from kit.raw_http import answer_over
from kit.waiting import PATIENCE

WORKERS = int(os.environ.get("TEST_WORKERS", "2"))
_BEGIN_SECONDS = 30.0
_END_SECONDS = 5.0
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_STAYING: set[asyncio.Task[None]] = set()
"""What an event loop alone knows of may be collected."""
_LIBC = ctypes.CDLL(None)


class Several:
    """What `create_app` gives where tests are to meet several workers: the same calls, in as many processes."""

    def __init__(self, source: Any, **options: Any) -> None:
        settings = AppSettings(**options)
        self._plain = api_app.create_app(source, **options)  # Raises what it raises.
        self._plain.router.lifespan_context = self.living
        self.source = source
        self.options = {**options, "reasoning_key": settings.reasoning_key or os.urandom(KEY_BYTES)}
        self.settings = settings
        self.limits = settings.limits or Limits()
        self.shared = Shared(self.limits, EngineConfig())
        self.folder = tempfile.mkdtemp(prefix="antiphon-several-")
        weakref.finalize(self, _remove, self.folder, os.getpid())
        models = source.loaded if isinstance(source, StaticCatalog) else {}
        self.loan = Loan(models, settings.store, settings.tools)
        archive = SimpleNamespace(store=settings.store)
        stored = {"archive": archive} if settings.store else {}
        context = SimpleNamespace(admission=self.shared._admission, keys=self._plain.state.context.keys, **stored)
        self.state = SimpleNamespace(context=context)
        self._alone: asyncio.Task[None] | None = None
        self.team: Team | None = None
        self._started: asyncio.Future[Team]

    @property
    def router(self) -> Any:
        """That of one process, but for its life: that is the workers'."""
        return self._plain.router

    @property
    def routes(self) -> Sequence[Any]:
        routes: Sequence[Any] = self._plain.routes
        return routes

    @asynccontextmanager
    async def living(self, app: object = None) -> AsyncIterator[None]:
        """The lifespan: until its end, all requests are the ``team``'s."""
        async with team_of(self, drain=30.0) as self.team:
            yield
        self.team = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request over a socket, to whichever worker is next."""
        team = self.team or await self._begun()
        await answer_over(team.port, scope, receive, send)
        await team.settle()

    async def _begun(self) -> Team:
        if self._alone is None or self._alone.done():
            self._started = asyncio.get_running_loop().create_future()
            self._alone = asyncio.create_task(self._stay(self._started), name="workers of a test")
            _STAYING.add(self._alone)
            self._alone.add_done_callback(_STAYING.discard)
        return await asyncio.shield(self._started)

    async def _stay(self, started: asyncio.Future[Team]) -> None:
        """Until the end of the event loop cancels it."""
        try:
            async with team_of(self, drain=None) as team:
                started.set_result(team)
                await asyncio.Event().wait()
        finally:
            if not started.done():
                started.set_exception(EngineError("the workers did not start"))


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # Workers have the object too.
        shutil.rmtree(folder, ignore_errors=True)


class Forked:
    """A process that was forked here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._ended)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        _, status = os.waitpid(self.pid, 0)
        self._end.set_result(os.waitstatus_to_exitcode(status))

    def send_signal(self, number: int, /) -> None:
        os.kill(self.pid, number)

    async def wait(self) -> int:
        return await asyncio.shield(self._end)


class Team:
    """The workers of one application, at one port."""

    def __init__(self, several: Several, workers: Sequence[WorkerProcess], port: int) -> None:
        self.several = several
        self.workers = workers
        self.port = port

    async def settle(self) -> None:
        """Waits until what the workers said before has come, such as lines of the log."""
        for worker in self.workers:
            await worker.families()


@asynccontextmanager
async def team_of(several: Several, *, drain: float | None) -> AsyncIterator[Team]:
    """The workers while the block runs. ``drain``: seconds that requests have in the end; None: none at all."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    port: int = listener.getsockname()[1]
    acceptor = Acceptor([Listener(listener, PLAIN)])
    workers: list[WorkerProcess] = []
    gone: list[asyncio.Task[str]] = []
    clocks: list[LentClock] = []
    counts = Counts(lambda: len(acceptor.open))
    handlers: dict[str, Handler] = {"log": _log, "model_changed": _nothing}

    @asynccontextmanager
    async def metrics() -> AsyncGenerator[Grant, None]:
        reports = [await worker.families() for worker in workers]
        yield Grant(text_of(summed([*reports, counts.families()])))

    @asynccontextmanager
    async def cancel(owner: str, id: str, request: object) -> AsyncGenerator[Grant, None]:
        yield Grant(any([await worker.cancel(owner, id, request) for worker in workers]))

    async def begun() -> None:
        """One more worker that serves. What a thread of the test had when it was forked, it may wait for in vain."""
        for last in (False, False, True):
            services: dict[str, Service] = {**several.shared.services, "metrics": metrics, "cancel": cancel}
            services |= Lender(several.loan.objects).services
            start = partial(_fork, several, drain or 0.0, clocks)
            worker = await WorkerProcess.start(services, handlers, acceptor.open.add, start)
            workers.append(worker)
            gone.append(asyncio.create_task(worker.gone()))
            await asyncio.wait([worker.ready])
            if worker.ready.exception() is None:
                return
            if last:
                worker.ready.result()
            workers.remove(worker)

    try:
        await asyncio.gather(*(begun() for _ in range(WORKERS)))
        acceptor.begin()
        yield Team(several, workers, port)
    finally:
        acceptor.end()
        for task in gone:
            task.cancel()  # The end of an event loop has done so already.
        await asyncio.shield(_end(several, workers, drain))
        for clock in clocks:
            clock.close()


@contextmanager
def several_running(several: Several, drain: float) -> Iterator[str]:
    """Their base URL; a thread has the event loop of the test's side."""
    url: Future[str] = Future()
    stop: Future[Callable[[], object]] = Future()

    async def serve() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.set_result(lambda: loop.call_soon_threadsafe(over.set))
        async with team_of(several, drain=drain) as team:
            url.set_result(f"http://127.0.0.1:{team.port}")
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        yield url.result(PATIENCE)
    finally:
        stop.result(PATIENCE)()
        thread.join(drain + PATIENCE)


async def _end(several: Several, workers: Sequence[WorkerProcess], drain: float | None) -> None:
    gone = [asyncio.create_task(worker.gone()) for worker in workers]
    for worker in workers:
        worker.signal(signal.SIGKILL if drain is None else signal.SIGTERM)
    _, late = await asyncio.wait(gone, timeout=(drain or 0.0) + GRACE + _END_SECONDS)
    for worker in workers if late else ():
        worker.signal(signal.SIGKILL)
    await asyncio.gather(*gone)
    if several.settings.store is not None and drain is not None:
        await several.settings.store.aclose()
    if drain is not None:
        await several.source.aclose()


def _nothing(*values: Any) -> None:
    """The test's models do not change."""


def _log(record: bytes) -> None:
    """A line of a worker's log, as if it were one of this process."""
    found: logging.LogRecord = pickle.loads(record)
    logger = logging.getLogger(found.name)
    if logger.isEnabledFor(found.levelno):
        logger.handle(found)


# In the worker


async def _fork(several: Several, drain: float, clocks: list[LentClock], talk: int, conduit: int) -> Process:
    clock = None if several.settings.clock is time.time else LentClock(several.settings.clock)
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        clocks.extend([clock] if clock else [])
        return Forked(pid)
    try:
        _LIBC.prctl(_DIES_WITH_PARENT, signal.SIGKILL)
        gc.disable()
        warnings.simplefilter("ignore")
        signal.set_wakeup_fd(-1)
        faulthandler.dump_traceback_later(_BEGIN_SECONDS, exit=True)
        _close_sockets({talk, conduit, *([clock.descriptor] if clock else [])})
        on_loop(_work(several, drain, clock, socket.socket(fileno=talk), socket.socket(fileno=conduit)))
    except BaseException:  # noqa: BLE001 - nothing of the test may go on in this process
        traceback.print_exc()
    finally:
        os._exit(0)


def _close_sockets(kept: set[int]) -> None:
    """Connections of the test end when the test closes them. The numbers stay taken: objects have them still."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        with suppress(OSError):
            if number not in kept and stat.S_ISSOCK(os.fstat(number).st_mode):
                os.dup2(nothing, number)


async def _work(
    several: Several, drain: float, clock: LentClock | None, talk: socket.socket, conduit: socket.socket
) -> None:
    working: list[Starlette] = []

    @asynccontextmanager
    async def scrape() -> AsyncGenerator[Grant, None]:
        yield Grant(working[0].state.context.metrics.families() if working else [])

    @asynccontextmanager
    async def cancel(owner: str, id: str, request: object) -> AsyncGenerator[Grant, None]:
        yield Grant(bool(working) and cancelled_here(working[0].state.context, owner, id, request))

    peer = await Peer.over(talk, {"scrape": scrape, "cancel": cancel}, {})
    _log_to(peer)
    working.append(_application(several, peer, clock))
    handed = Handed(conduit, partial(peer.tell, "connections"))

    def ready(url: str) -> None:
        faulthandler.cancel_dump_traceback_later()
        peer.tell("ready", ModelSummary())

    await Server(working[0], drain=drain, handed=handed, on_ready=ready).serve_to_end()


def _application(several: Several, peer: Peer, clock: LentClock | None) -> Starlette:
    source = several.source
    if isinstance(source, StaticCatalog):
        source._models = several.loan.models(peer)
    options = {
        **several.options,
        "limits": part_of(several.limits, WORKERS),
        "shares": RemoteLimits(peer),
        "store": several.loan.store(peer) or SqliteStore(Path(several.folder) / "sessions.db"),
        "tools": several.loan.toolbox(peer),
    }
    if clock is not None:
        options["clock"] = clock
    app = api_app.create_app(source, **options)
    app.add_middleware(OneRequest)
    return app


class OneRequest:
    """Ends the connection of a client's library after each answer, so that the next request meets another worker.

    Those who write to a socket themselves, and say no ``user-agent``, have what they test.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        library = scope["type"] == "http" and any(name == b"user-agent" for name, _ in scope["headers"])

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await self._app(scope, receive, closing if library else send)


class _ToTest(logging.handlers.QueueHandler):
    """Sends lines to the test's process."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # there is no queue
        self._peer, self._loop, self._thread = peer, asyncio.get_running_loop(), threading.get_ident()

    def enqueue(self, record: logging.LogRecord) -> None:
        line = pickle.dumps(record)
        if threading.get_ident() == self._thread:
            self._peer.tell("log", line)
        else:
            self._loop.call_soon_threadsafe(self._peer.tell, "log", line)


def _log_to(peer: Peer) -> None:
    logging.root.handlers[:] = [_ToTest(peer)]
