"""Runs an application on a socket until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette

from antiphon.errors import AntiphonError, ConfigError
from antiphon.http.context import Context
from antiphon.http.exchange import FAULTS

from .connection import Connection
from .handed import Handed
from .watchdog import LAST, Watchdog

# A certificate and its key, checked before a server starts with them.


class Certificate(msgspec.Struct, frozen=True):
    """Paths of PEM files: the chain, the server's own certificate first, and the key."""

    chain: str
    key: str

    def load(self, context: ssl.SSLContext) -> None:
        """Connections of ``context`` get it from now on. Raises `ConfigError` (``tls``) for what cannot be used."""
        try:
            context.load_cert_chain(self.chain, self.key, password="")
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror or error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise ConfigError(
                f"the certificate {self.chain} and the key {self.key} cannot be used: {reason}",
                code="tls",
                hint="Both must be PEM files that belong together, and the key not be encrypted.",
            ) from None


def certificate(chain: str, key: str) -> Certificate | None:
    """The pair, checked; None when neither is given. Raises `ConfigError` (``tls``)."""
    if not chain and not key:
        return None
    if not chain or not key:
        missing = "server.tls_key" if chain else "server.tls_cert"
        raise ConfigError(f"TLS needs a certificate and its key, and {missing} is not given", code="tls")
    pair = Certificate(chain, key)
    pair.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    return pair


if sys.platform != "win32":
    import resource

UNSENT = 16 * 2**10
"""Bytes of one connection that the kernel may hold back for a slow reader."""
SPARE_FILES = 256
"""For all that is no connection: models, stores, engines."""
GARBAGE = (10_000, 20, 20)
"""How seldom circles of objects are looked for (`gc.set_threshold`): requests make many objects, and no circles."""
SWITCHED = 0.0005
"""Seconds after which a thread that computes lets the event loop on (`sys.setswitchinterval`): an answer waits for that
some ten times, with each call of the system that it makes."""
BACKLOG = 2048
"""Connections that wait to be accepted."""
GRACE = 2
"""Seconds in which streams that met the deadline may still say so."""


def serve(
    app: Starlette,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    drain: float = 30.0,
    without_keys: bool = False,
    tls: Certificate | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """`serving`, on an event loop of its own."""
    work = serving(app, host=host, port=port, drain=drain, without_keys=without_keys, tls=tls, on_ready=on_ready)
    on_loop(work)


def on_loop(work: Coroutine[Any, Any, None]) -> None:
    """Runs ``work`` on the fastest event loop that is here, in a process that is a server's."""
    sys.setswitchinterval(SWITCHED)
    with asyncio.Runner(loop_factory=uvicorn.Config("", loop="auto", log_config=None).get_loop_factory()) as runner:
        runner.run(work)


async def serving(
    app: Starlette,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    drain: float = 30.0,
    without_keys: bool = False,
    tls: Certificate | None = None,
    beside: socket.socket | None = None,
    on_ready: Callable[[str], None] | None = None,
    on_hangup: Callable[[Server], None] | None = None,
    own_process: bool = False,
) -> None:
    """Serves until SIGTERM or SIGINT: then takes nothing new and gives what runs ``drain`` seconds to end.

    ``on_ready`` gets the base URL once the socket is open (``port`` 0 takes a free one) and the model that is loaded at
    the start is there; ``on_hangup`` gets each SIGHUP. ``beside`` is a bound socket where it is served too, without
    TLS. A second signal to stop ends all at once. ``own_process``: nothing else is in this process, so that it is ended
    where it does not end in time by itself (`Watchdog`). Where that model cannot be loaded the server ends, and the
    error is raised; one on a server that does not answer yet is waited for.
    Raises `ConfigError` for a host that is not this machine's alone where there are no keys, unless ``without_keys``.
    """
    context: Context = app.state.context
    check_open(host, open=context.keys.open and not without_keys)
    server = Server(
        app, host=host, port=port, drain=drain, tls=tls, beside=beside, on_ready=on_ready, on_hangup=on_hangup,
        own_process=own_process,
    )  # fmt: skip
    await server.serve_to_end()


def check_open(host: str, *, open: bool) -> None:
    """Raises `ConfigError` for a server that is ``open`` to everybody on a host that is not this machine's alone."""
    if open and not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from other machines, and this server has no API keys",
            code="keys_missing",
            hint="Make one with antiphon keys add NAME, or say --without-keys.",
        )


def bound(port: int) -> socket.socket:
    """A socket of the loopback at ``port``; 0 takes a free one. Raises `ConfigError` for one that is taken."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise ConfigError(
            f"cannot listen at 127.0.0.1:{port}: {error.strerror}",
            code="port_taken",
            hint="Does Ollama itself run? Stop it, or say another server.ollama_port.",
        ) from None


def listening(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of ``host``; ``port`` 0 takes a free one. `ConfigError`: it cannot be."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        for family, address in sorted({(info[0], info[4]) for info in found}):
            at = (address[0], sockets[0].getsockname()[1]) if sockets else address
            sockets.append(socket.create_server(at, family=family, backlog=BACKLOG))
    except OSError as error:
        raise ConfigError(f"cannot listen at {host}:{port}: {error.strerror}", code="port_taken") from None
    return sockets


def allow_files(count: int) -> None:
    """Raises this process's own limit of open files, if it is less; each connection is one."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < count:
        FAULTS.warning("this process may open %d files, and limits.max_connections needs %d", allowed, count)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bound_unsent(listener: socket.socket) -> None:
    """Keeps what a client does not read in our buffers, which are bounded and watched, and out of the kernel's."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)


def _socket(*args: Any, **kwargs: Any) -> asyncio.Protocol:
    """The protocol of one WebSocket, imported with the first."""
    from .socket import Socket

    return Socket(*args, **kwargs)


class Server(uvicorn.Server):
    """uvicorn, which informs the application that it stops, and ends with exit code 0 when it stopped in order.

    ``handed``: another process listens, and hands the connections on.
    """

    def __init__(
        self,
        app: Starlette,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        drain: float = 30.0,
        tls: Certificate | None = None,
        beside: socket.socket | None = None,
        handed: Handed | None = None,
        on_ready: Callable[[str], None] | None = None,
        on_hangup: Callable[[Server], None] | None = None,
        own_process: bool = False,
    ) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exits, self._told_to_exit = threading.Event(), asyncio.Event()
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                loop="auto",
                http=Connection,
                ws=_socket,  # type: ignore[arg-type]  # uvicorn only calls it, as it would a class
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=int(drain) + GRACE,
                ssl_certfile=tls.chain if tls else None,
                ssl_keyfile=tls.key if tls else None,
            )
        )
        self._context: Context = app.state.context
        self._context.lifecycle.first_load_is_told = True
        self._drain = drain
        self._beside = beside
        self._handed = handed
        self._on_ready = on_ready
        self._on_hangup = on_hangup
        self._grace = int(drain) + GRACE + LAST if own_process else None
        self._watchdog: Watchdog | None = None
        self.failure: AntiphonError | None = None

    @property
    def url(self) -> str:
        """The address at which it listens, once it does; empty where another process listens."""
        if not self.servers:
            return ""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        scheme = "https" if self.config.ssl else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def serve_to_end(self) -> None:
        """Serves until it is stopped. Raises what kept the first model from being loaded."""
        allow_files(self._context.limits.max_connections + SPARE_FILES)
        gc.set_threshold(*GARBAGE)
        self._watchdog = Watchdog(asyncio.get_running_loop(), grace=self._grace)
        self._watchdog.begin()
        try:
            await self.serve()
        finally:
            self._watchdog.end()
        if self.failure is not None:
            raise self.failure

    def present(self, tls: Certificate) -> None:
        """New connections get this certificate; the server must have begun with one."""
        assert self.config.ssl is not None
        tls.load(self.config.ssl)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets if self._handed is None else [])
        if self._handed is not None:
            self.server_state.connections = self._handed.open
            self._handed.begin(self._loop, self._connection, self.config.ssl)
        if self._beside is not None and self.started:
            self.servers.append(await self._loop.create_server(self._connection, sock=self._beside))
        for server in self.servers if self.started else ():
            for listener in server.sockets:
                bound_unsent(listener)
        if self._on_hangup is not None and hasattr(signal, "SIGHUP"):
            self._loop.add_signal_handler(signal.SIGHUP, self._on_hangup, self)
        if self._watchdog is not None:
            self._watchdog.hear_signals()
        if not self.should_exit:
            self._context.lifecycle.on_first_load(self._loaded)

    @property
    def should_exit(self) -> bool:
        return self._exits.is_set()

    @should_exit.setter
    def should_exit(self, exits: bool) -> None:
        if exits:
            self._exits.set()
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._told_to_exit.set)

    async def main_loop(self) -> None:
        """uvicorn's looks ten times a second, and interrupts an engine that has all processors each time."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told_to_exit.wait(), 1.0)

    def _connection(self) -> Connection:
        """One more connection, as uvicorn makes them."""
        return Connection(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    def _loaded(self, error: AntiphonError | None) -> None:
        """The first model is there, or cannot be loaded: a server without it is of no use."""
        if error is not None:
            self.failure, self.should_exit = error, True
        elif self._on_ready is not None and not self.should_exit:
            self._on_ready(self.url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        lifecycle = self._context.lifecycle
        lifecycle.drain()
        if self._watchdog is not None:
            self._watchdog.stopping()
        if self._handed is not None:
            self._handed.end()
        deadline = asyncio.get_running_loop().call_later(self._drain, lifecycle.stop)
        try:
            await super().shutdown(sockets)
        finally:
            deadline.cancel()
        if self.force_exit:  # uvicorn would leave the engines and the store as they are
            await self.lifespan.shutdown()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        lifecycle = self._context.lifecycle
        lifecycle.drain()
        if self.should_exit and self._loop is not None:
            self.force_exit = True
            self._loop.call_soon_threadsafe(lifecycle.stop)
        self.should_exit = True
