"""The supervisor of `antiphon serve --workers N`."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

from antiphon.config import Config, LoadedConfig
from antiphon.errors import AntiphonError, ConfigError, EngineError
from antiphon.http.server.handed import PLAIN, SECURE
from antiphon.http.server.server import GRACE, Certificate, bound, certificate, check_open, listening
from antiphon.http.server.watchdog import LAST
from antiphon.library.app import ModelSummary
from antiphon.library.reload import Reloaded, keys_of, set_up, terminal_is_gone
from antiphon.observe.metrics import Family, families_of, summed, text_of

from .acceptor import Acceptor, Listener
from .engines import Memory, Shared
from .peer import Grant, Handler, Service
from .spawned import WorkerProcess

LOG = logging.getLogger("antiphon.workers")
_FIRST_PAUSE, _SECOND_PAUSE, _LONGEST_PAUSE = 0.0, 0.2, 30.0
_STEADY_SECONDS = 10.0
"""A worker that lived this long is replaced at once."""
_END_SECONDS = LAST + 0.5
"""Seconds that a worker may take to end, beyond those of its requests; before that it ends itself and says why."""

Announce = Callable[[str, str | None, ModelSummary], None]
"""Takes the URL, that for Ollama's clients, and lines that describe the default model."""


async def supervise(loaded: LoadedConfig, read: Callable[[], LoadedConfig], announce: Announce) -> None:
    """Serves with as many workers as ``server.workers`` says until SIGTERM or SIGINT; ``read`` reads the configuration
    anew at each SIGHUP.

    Raises `ConfigError` for what cannot be served, and what kept the first workers from serving.
    """
    if sys.platform == "win32":
        raise ConfigError("several workers need Unix sockets", hint="Serve with one: server.workers = 1.")
    server = loaded.config.server
    tls = certificate(server.tls_cert, server.tls_key)
    keys = keys_of(loaded.config, required=False)
    check_open(server.host, open=keys is None and not server.without_keys)
    with Memory(server.workers) as memory, _listeners(loaded.config) as listeners:
        supervisor = Supervisor(loaded, read, memory, keys is not None, Acceptor(listeners, _context(tls)))
        await supervisor.run(lambda lines: announce(*_urls(listeners, loaded.config), lines))


@contextmanager
def _listeners(config: Config) -> Iterator[list[Listener]]:
    server = config.server
    sockets: list[socket.socket] = []
    try:
        sockets += listening(server.host, server.port)
        if server.ollama:
            sockets.append(bound(server.ollama_port))
        kinds = [SECURE] * (len(sockets) - server.ollama) + [PLAIN] * server.ollama
        yield [Listener(one, kind) for one, kind in zip(sockets, kinds, strict=True)]
    finally:
        for one in sockets:
            one.close()


def _context(tls: Certificate | None) -> ssl.SSLContext | None:
    """For requests that no worker is there to take."""
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load(context)
    return context


def _urls(listeners: Sequence[Listener], config: Config) -> tuple[str, str | None]:
    scheme = "https" if config.server.tls_cert else "http"
    host, port = listeners[0].socket.getsockname()[:2]
    url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    also = "http://{}:{}".format(*listeners[-1].socket.getsockname()) if config.server.ollama else None
    return url, also


class Supervisor:
    """Starts the workers, starts those again that die, and stops them. What they share is here.

    ``closed``: the server has keys.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        read: Callable[[], LoadedConfig],
        memory: Memory,
        closed: bool,
        acceptor: Acceptor,
    ) -> None:
        config = loaded.config
        self._count = config.server.workers
        self._drain = config.server.drain
        self._memory = memory
        self._given = memory.given(loaded)
        self._read = read
        self._shared = Shared(config.limits, config.engine)
        self._closed = closed
        self._acceptor = acceptor
        self._acceptor.retry_after = self._retry_after
        self._failing: dict[int, float] = {}
        self._workers: dict[int, WorkerProcess] = {}
        self._first: list[asyncio.Future[ModelSummary]] = []
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._counts = Counts(lambda: len(acceptor.open))
        self._handlers: dict[str, Handler] = {"model_changed": self._refresh}
        self._services: dict[str, Service] = {
            **self._shared.services, "start": self._start, "metrics": self._metrics,
            "cancel": self._cancel,
        }  # fmt: skip

    async def run(self, on_ready: Callable[[ModelSummary], None]) -> None:
        """Until it is stopped; ``on_ready`` gets what the model is, once all workers serve."""
        loop = asyncio.get_running_loop()
        self._first = [loop.create_future() for _ in range(self._count)]
        for number, call in ((signal.SIGTERM, self._stop), (signal.SIGINT, self._stop), (signal.SIGHUP, self._hang_up)):
            loop.add_signal_handler(number, call)
        lives = [asyncio.create_task(self._keep(place)) for place in range(self._count)]
        stopped = asyncio.create_task(self._stopping.wait())
        served = asyncio.gather(*self._first)
        try:
            self._acceptor.begin()
            await asyncio.wait((served, stopped), return_when=asyncio.FIRST_COMPLETED)
            if served.done():
                on_ready(served.result()[0])
            await stopped
        finally:
            self._stopping.set()
            self._acceptor.end()
            await self._end(lives)
            served.cancel()  # Nobody asks any more why the first workers ended.
            await self._shared.engines.aclose()

    def _stop(self) -> None:
        """A second signal ends at once what still runs.

        The workers get another one than the first: of two alike, of which the first is not yet handled, one is lost.
        """
        if self._stopping.is_set():
            self._signal(signal.SIGINT)
        self._stopping.set()

    def _signal(self, number: signal.Signals) -> None:
        for worker in self._workers.values():
            worker.signal(number)

    async def _end(self, lives: Sequence[asyncio.Task[None]]) -> None:
        """The workers give their requests the time that they have; who takes longer is killed."""
        self._signal(signal.SIGTERM)
        _, late = await asyncio.wait(lives, timeout=self._drain + GRACE + _END_SECONDS)
        if late:
            self._signal(signal.SIGKILL)
        await asyncio.gather(*lives, return_exceptions=True)

    async def _keep(self, place: int) -> None:
        """One worker after the other, in one place of as many as there are."""
        pause, first = _FIRST_PAUSE, self._first[place]
        while not self._stopping.is_set():
            born = time.monotonic()
            end = await self._life(place, first)
            if self._stopping.is_set() or first.exception() is not None:
                return
            pause = _FIRST_PAUSE if time.monotonic() - born > _STEADY_SECONDS else pause
            LOG.warning("%s; another takes its place in %g s", end, pause)
            self._counts.restarts.inc()
            if pause:
                self._failing[place] = time.monotonic() + pause
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(max(2 * pause, _SECOND_PAUSE), _LONGEST_PAUSE)

    def _retry_after(self) -> float | None:
        """Seconds until one of the workers begins, of which all ended young; None while one of them may come now."""
        if len(self._failing) < self._count:
            return None
        return max(min(self._failing.values()) - time.monotonic(), 0.0)

    async def _life(self, place: int, first: asyncio.Future[ModelSummary]) -> str:
        """One worker; how it ended, or why it could not begin. ``first`` gets what the first of its place reports."""
        try:
            worker = await WorkerProcess.start(self._services, self._handlers, partial(self._listens, place))
        except OSError as error:  # Such as no memory, or no file descriptor.
            if not first.done():
                first.set_exception(EngineError(f"no worker can be started: {error.strerror}"))
            return f"no worker can be started: {error.strerror}"
        if self._stopping.is_set():  # It was started meanwhile.
            worker.signal(signal.SIGTERM)
        self._workers[place] = worker
        worker.ready.add_done_callback(lambda ready: _pass_on(ready, first))
        try:
            return f"the worker {worker.pid} ended by {await worker.gone()}"
        finally:
            _pass_on(worker.ready, first)
            self._acceptor.open.discard(worker)
            self._acceptor.take_back(worker.handed_back())
            self._counts.left = summed([self._counts.left, worker.left])

    def _listens(self, place: int, worker: WorkerProcess) -> None:
        self._failing.pop(place, None)
        self._acceptor.open.add(worker)

    def _refresh(self, name: str) -> None:
        """A worker fetched or deleted a model. It hears of it too, which changes nothing."""
        for worker in self._workers.values():
            self._spawn(worker.refresh(name))

    def _hang_up(self) -> None:
        if terminal_is_gone():
            self._stopping.set()
        else:
            self._spawn(self._reload())

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload(self) -> None:
        """All workers take the same configuration, or none does."""
        try:
            loaded = self._read()
            keys = keys_of(loaded.config, required=self._closed)
            set_up(loaded.config)
        except AntiphonError as error:
            Reloaded.refused(error).log()
            return
        given = self._memory.given(loaded)
        found = await asyncio.gather(*(worker.reload(given) for worker in self._workers.values()))
        answers = sorted((one for one in found if one is not None), key=lambda one: one.taken)
        for line in dict.fromkeys(answers):  # All say the same, but for one that could not do what others could.
            line.log()
        if all(answer.taken for answer in answers):
            self._given = given
            self._closed = self._closed or keys is not None
            self._shared.take(loaded.config.limits)

    @property
    def _serving(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers.values() if worker in self._acceptor.open]

    @asynccontextmanager
    async def _start(self) -> AsyncGenerator[Grant, None]:
        yield Grant(self._given)

    @asynccontextmanager
    async def _cancel(self, owner: str, id: str, request: object) -> AsyncGenerator[Grant, None]:
        yield Grant(any(await asyncio.gather(*(worker.cancel(owner, id, request) for worker in self._serving))))

    @asynccontextmanager
    async def _metrics(self) -> AsyncGenerator[Grant, None]:
        reports = await asyncio.gather(*(worker.families() for worker in self._serving))
        yield Grant(text_of(summed([*reports, self._counts.families()])))


def _pass_on(ready: asyncio.Future[ModelSummary], first: asyncio.Future[ModelSummary]) -> None:
    if first.done():
        return
    if (error := ready.exception()) is not None:
        first.set_exception(error)
    else:
        first.set_result(ready.result())


class Counts:
    """The supervisor's own metrics. ``left`` are those of workers that are gone."""

    def __init__(self, workers: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        Gauge("antiphon_workers", "Worker processes that serve.", registry=registry).set_function(workers)
        self.restarts = Counter("antiphon_worker_restarts", "Workers that took the place of others.", registry=registry)
        self.left: list[Family] = []

    def families(self) -> list[Family]:
        return summed([families_of(self._registry), self.left])
