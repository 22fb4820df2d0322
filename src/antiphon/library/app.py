"""An HTTP application by configuration: what ``antiphon serve`` runs, for programs that serve or mount it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from antiphon.api import Wire, create_app, load_wires
from antiphon.api.dialects import configured_dialects
from antiphon.api.models.wire import facts_under
from antiphon.catalog import Catalog, open_catalog, open_store, reasoning_key_file
from antiphon.catalog.describe import described_lines
from antiphon.catalog.known_formats import check_models
from antiphon.catalog.loading import OpenEngine, open_here
from antiphon.catalog.toolbox import client_servers, open_toolbox, sampler, tool_settings
from antiphon.config import Config, DialectConfig, ServerConfig, TracesConfig, find_entry
from antiphon.config.load import read_config
from antiphon.engines.registry import NO_KINDS, EngineKinds
from antiphon.errors import Position
from antiphon.formats import FormatFactory
from antiphon.generation import Capabilities
from antiphon.http.context import Context
from antiphon.http.gate.admission import SharedLimits
from antiphon.http.gate.keys import KeyFile
from antiphon.observe import Exported, Tracing
from antiphon.playground.site import PLAYGROUND, site_wire
from antiphon.store import StoreFactory
from antiphon.store.key_file import stored_key
from antiphon.tools import ToolFactory
from antiphon.tools.mcp import McpHost
from antiphon.tools.registry import NO_TOOLS
from antiphon.wire.dialect import Dialect

from .checks import UnknownOptionError, check_path, checked

if TYPE_CHECKING:  # few servers fetch anything
    from antiphon.tools.browser import Web


class Additions(TypedDict, total=False):
    """A program's additions to the tables that a configuration names things of; see `open_catalog` and others."""

    engines: EngineKinds
    formats: Mapping[str, FormatFactory]
    stores: Mapping[str, StoreFactory]
    tools: Mapping[str, ToolFactory]
    wires: Sequence[Wire]


@checked
def open_app(
    config: Config | str | Path | None = None,
    *,
    flags: Mapping[str, Any] | None = None,
    preload: bool = True,
    **additions: Unpack[Additions],
) -> App:
    """An ASGI application with all that a configuration says: models, tools, keys, limits, stores, dialects.

    Args:
        config: A configuration, or its TOML file; None is the configuration of this process (its file and its
            environment).
        flags: Dotted keys to values that come before both (``{"server.expose_reasoning": True}``); for a
            configuration that is read, not beside a `Config`.
        preload: Whether the default model is loaded at the start, otherwise by the first request that names it.
        engines: Kinds of engines of this program, by names that the configuration may use, as it may use those below.
        formats: Formats of this program: functions that take the controls of a vocabulary.
        stores: Stores of sessions: functions that take an address.
        tools: Tool sets: functions that take what follows the name.
        wires: APIs that are served beside those that the configuration names.

    A server of its own (``uvicorn.run(app)``) starts and stops it. Mounted in another application, it is to be
    entered in that one's lifespan: ``async with app:``; else its first request starts it, and the end of the event
    loop closes it. Raises `ConfigError`.
    """
    if not isinstance(config, Config):
        if config is not None:
            check_path(config, "config")
        return App(read_config(config, flags, additions.get("engines", NO_KINDS)), preload=preload, **additions)
    if flags:
        what = "flags: they are for a configuration that is read."
        hint = "Change the Config instead."
        raise UnknownOptionError(what, position=Position(path="flags"), hint=hint)
    return App(config, preload=preload, **additions)


class App:
    """An ASGI application that opens its models, tools and stores when it starts and closes them when it ends."""

    def __init__(self, config: Config, *, preload: bool = True, **additions: Unpack[Additions]) -> None:
        self._config = config
        self._additions = additions
        self._preload = preload
        self._stack: AsyncExitStack | None = None
        self._starting = asyncio.Lock()
        self._app: Starlette | None = None
        self._alone: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None]

    @property
    def context(self) -> Context:
        """The context that its routes share; only while it is started."""
        assert self._app is not None, "it is not started"
        context: Context = self._app.state.context
        return context

    async def __aenter__(self) -> App:
        async with self._starting:
            if self._app is None:
                async with AsyncExitStack() as stack:
                    opening = assembled(self._config, preload=self._preload, mounted=True, **self._additions)
                    parts = await stack.enter_async_context(opening)
                    await stack.enter_async_context(parts.app.router.lifespan_context(parts.app))
                    self._stack, self._app = stack.pop_all(), parts.app
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, self._stack, self._app = self._stack, None, None
        if stack is not None:
            await stack.__aexit__(kind, error, trace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if self._app is None:
            await self._start_alone()
        assert self._app is not None
        await self._app(scope, receive, send)

    async def _start_alone(self) -> None:
        """Mounted without a lifespan: a task is the lifespan, which the end of the event loop cancels."""
        if self._alone is None or self._alone.done():
            self._started = asyncio.get_running_loop().create_future()
            self._alone = asyncio.create_task(self._stay(self._started), name="antiphon: mounted without a lifespan")
        await asyncio.shield(self._started)

    async def _stay(self, started: asyncio.Future[None]) -> None:
        try:
            await self.__aenter__()
        except Exception as error:  # noqa: BLE001 - whatever it is, the request that waits raises it
            started.set_exception(error)
            return
        started.set_result(None)
        try:
            await asyncio.Event().wait()
        finally:
            await self.__aexit__(None, None, None)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """ASGI's lifespan: the server waits for the start, and learns why there is none."""
        await receive()
        try:
            await self.__aenter__()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.__aexit__(None, None, None)
        await send({"type": "lifespan.shutdown.complete"})


class ModelSummary(msgspec.Struct, frozen=True):
    """A model as it is announced: its settings and who says so, a line each, and what it can do."""

    settings: tuple[str, ...] = ()
    capabilities: Capabilities = Capabilities()


class Parts(msgspec.Struct, frozen=True):
    """An application that is put together, and the catalog that it answers from."""

    app: Starlette
    catalog: Catalog

    def summary(self, config: Config) -> ModelSummary:
        """Summarizes the default model, as the server's own dialect speaks to it."""
        name, _ = find_entry(config.model, config.entries)
        facts = self.catalog.facts(name)
        if facts is None:
            return ModelSummary()
        facts = facts_under(facts, dialects_of(config.dialect)[config.dialect.name])
        return ModelSummary(tuple(described_lines(facts)), facts.capabilities)


@asynccontextmanager
async def assembled(
    config: Config,
    *,
    preload: bool = True,
    mounted: bool = False,
    opening: OpenEngine = open_here,
    shares: SharedLimits | None = None,
    **additions: Unpack[Additions],
) -> AsyncIterator[Parts]:
    """The application of a configuration; its tools and traces are open until the block is left.

    ``mounted``: it is not known by which names it is called, so without keys any will do (``server.hosts``).
    ``opening`` opens the engines that take memory; ``shares`` is what this process has with others of its server.

    The application's own lifespan, which closes models and stores, is the caller's to run. Raises `ConfigError`.
    """
    server = config.server
    keys = KeyFile(Path(server.keys)).read()
    tools = additions.get("tools", NO_TOOLS)
    key_file = reasoning_key_file(config)
    reasoning_key = stored_key(key_file) if key_file else None
    dialects = dialects_of(config.dialect)
    formats = additions.get("formats", {})
    check_models(config, formats)
    changed = shares.model_changed if shares else lambda name: None
    catalog = open_catalog(config, formats=formats, opening=opening, changed=changed)
    tool_sets = open_toolbox(
        tool_settings(config.tools), tools=tools, host=McpHost(sample=sampler(catalog.get, config.model))
    )
    async with tool_sets as toolbox, open_traces(config.traces) as tracing, open_web(server) as web:
        shown = ((server.playground, PLAYGROUND), (server.docs, site_wire()))
        pages = (wire for on, wire in shown if on)
        wires = (*additions.get("wires", ()), *load_wires(words(server.wires)), *pages)
        # The last that can fail: from here on the application closes the store.
        store, session_limits = open_store(config.sessions, stores=additions.get("stores", {}))
        app = create_app(
            catalog,
            limits=config.limits,
            dialect=dialects[config.dialect.name],
            dialects=tuple(dialects.values()),
            wires=wires,
            expose_reasoning=server.expose_reasoning,
            gather=server.gather,
            preload=preload,
            keys=keys,
            public_metrics=server.public_metrics,
            origins=words(server.origins),
            hosts=None if mounted or server.without_keys else (*words(server.hosts), own_name()),
            tracing=tracing,
            store=store,
            session_limits=session_limits,
            batches=config.batches,
            reasoning_key=reasoning_key,
            tools=toolbox if toolbox.sets else None,
            offer_tools=config.tools.offer,
            client_mcp=client_servers(config.tools),
            web=web,
            shares=shares,
        )
        yield Parts(app, catalog)


@asynccontextmanager
async def open_web(server: ServerConfig) -> AsyncIterator[Web | None]:
    """Opens what fetches the addresses of requests, where the configuration allows it."""
    if not server.fetch:
        yield None
        return
    from antiphon.tools.browser import Web

    async with aclosing(Web()) as web:
        yield web


@asynccontextmanager
async def open_traces(traces: TracesConfig) -> AsyncIterator[Tracing | None]:
    """Opens the maker of spans, if the configuration says where they go; in the end, what is left is sent."""
    if not traces.endpoint:
        yield None
        return
    exported = Exported(traces.endpoint, traces.service)
    try:
        yield exported.tracing
    finally:
        await asyncio.to_thread(exported.close)


def own_name() -> str:
    """This machine's name on its own network, where any other below ``local`` belongs to whoever answers first."""
    return f"{socket.gethostname().partition('.')[0]}.local"


def words(text: str) -> tuple[str, ...]:
    """Splits at commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def dialects_of(own: DialectConfig) -> dict[str, Dialect]:
    """Every dialect by its name."""
    settings = msgspec.structs.asdict(own)
    del settings["name"]
    return configured_dialects(**settings)
