"""From an entry to a model: engine, tokenizer and format put together."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from antiphon.config import Config, EngineConfig, ModelEntry, SessionsConfig, find_entry
from antiphon.engines import Engine, EngineSettings, ModelSpec
from antiphon.engines.none import NoEngine
from antiphon.errors import ConfigError
from antiphon.formats import Format, FormatFactory, FormatRegistry
from antiphon.generation import EmbeddingSpec, Model, RankingSpec
from antiphon.store import MEMORY, RunLimits, SessionLimits, Store, StoreFactory, TurnLimits, store_at, store_name
from antiphon.store.opening import NO_STORES

from .catalog import Catalog
from .describe import Described, describe, recognized
from .files.store import ModelStore, not_here
from .files.text import ModelText, read_model_text
from .format_choice import choose_format
from .known_formats import NO_FORMATS, known_formats
from .memory import Later, ModelMemory, SleepingEngine, connect, loop_later

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.generation.compile import ReplyCompiler


# Opens what a configuration says about the storage of sessions, responses, conversations and chat completions.


def open_store(
    sessions: SessionsConfig, *, stores: Mapping[str, StoreFactory] = NO_STORES
) -> tuple[Store, SessionLimits]:
    """The store that ``[sessions]`` names, open, and the limits of what is in it. Whoever opened it closes it.

    ``stores`` are factories by name beside those of installed packages. Errors are those of `store_at`.
    """
    turns = TurnLimits(sessions.turn_lifetime, sessions.turn_bytes, sessions.turns_per_key)
    runs = RunLimits(sessions.events, sessions.event_lifetime)
    limits = SessionLimits(lifetime=sessions.lifetime, lease=sessions.lease, turns=turns, runs=runs)
    return store_at(sessions.store, stores=stores), limits


def reasoning_key_file(config: Config) -> Path | None:
    """The path of the key that encrypts reasoning which clients store: it must live as long as the store.

    It is beside a store that is a file, and beside the server's API keys for a store that is elsewhere. None for
    ``memory``: the key then ends with the process, as the store does.
    """
    address = config.sessions.store
    if address == MEMORY:
        return None
    beside = config.server.keys if store_name(address) else address
    return Path(beside).expanduser().with_name("seal.key") if beside else None


# The parts of a model put together: vocabulary, format, engine, settings and the compiler of its grammars.


def model_of(described: Described, engine: Engine) -> Model:
    """The parts as one."""
    entry, text, format = described.entry, described.source.text, described.format
    embeds, writes = entry.task == "embed", entry.task == "chat"
    return Model(
        name=described.name,
        engine=engine,
        tokenizer=text.tokenizer,
        format=format,
        layers=described.layers,
        described=described.facts,
        max_output_tokens=entry.max_output_tokens,
        thinking_budget=entry.thinking_budget,
        calls=entry.calls,
        special_tokens=text.special,
        chat_template=text.template,
        embedding=EmbeddingSpec(text.dimensions, entry.shortens, text.shorter) if embeds else None,
        ranking=RankingSpec(text.pair_frame or 0) if entry.task == "rank" else None,
        infill=text.infill,
        begin=text.begin,
        compiler=None if not (writes and engine.info.grammar) else compiler_of(format, text, engine),
    )


def compiler_of(format: Format, text: ModelText, engine: Engine) -> ReplyCompiler | None:
    """The compiler of a model's replies' grammars; None where llguidance is not installed, which is an extra."""
    try:
        from antiphon.generation.compile import ReplyCompiler
    except ImportError:
        return None
    return ReplyCompiler(format, text.tokenizer, engine.info.end_ids)


log = logging.getLogger("antiphon.catalog")

NO_SECRETS: Mapping[str, str] = MappingProxyType({})


OpenEngine = Callable[[EngineSettings, ModelSpec], Awaitable[Engine]]
"""Opens an engine that takes memory. Errors are those of `EngineSettings.open`."""


async def open_here(settings: EngineSettings, spec: ModelSpec) -> Engine:
    """The engine in this process, or as a child of it."""
    return await settings.open(spec)


def open_catalog(
    config: Config,
    *,
    formats: Mapping[str, FormatFactory] = NO_FORMATS,
    environ: Mapping[str, str] | None = None,
    later: Later = loop_later,
    clock: Callable[[], float] = time.time,
    opening: OpenEngine = open_here,
    changed: Callable[[str], object] = lambda name: None,
) -> Catalog:
    """The catalog that a configuration describes: its default model, the models of its file, what the store holds.

    ``formats`` by name are for its models, beside the built-in and the installed ones. ``environ`` has the keys
    of servers, where entries name them; None: this process's environment. ``later`` times what is idle, ``clock`` is
    Unix time in seconds. ``opening`` opens the engines that take memory; ``changed`` is called with the name
    of a model that was fetched or deleted.
    """
    store = ModelStore(Path(config.store.folder))
    default, entry = find_entry(config.model, config.entries)
    here = {model.name: ModelEntry(source=model.source) for model in store.installed()}
    entries = {**here, **config.entries, default: with_flags(entry, config)}
    embedding = embedding_default(config)
    listed = [default, *config.models, *here, *([embedding] if embedding else [])]
    loader = Loader(
        store,
        config=config.engine,
        formats=known_formats(formats),
        environ=os.environ if environ is None else environ,
        memory=ModelMemory(budget=config.engine.memory_mib * 2**20, idle=config.engine.idle_unload, later=later),
        on_demand=embedding,
        opening=opening,
    )
    ranking = (find_entry(name, config.entries) for name in (config.model, *config.models))
    created = {name: created_at(entry, store.path(name, entry), clock) for name, entry in entries.items()}
    return Catalog(
        entries,
        listed=listed,
        load=loader.load,
        describe=loader.describe,
        embedding=embedding,
        ranking=next((name for name, entry in ranking if entry.task == "rank"), None),
        created=created,
        store=store,
        forget=loader.forget,
        changed=changed,
    )


def embedding_default(config: Config) -> str | None:
    """The model of requests for embeddings that name none. Raises `ConfigError` for one that makes none."""
    default, entry = find_entry(config.model, config.entries)
    if entry.task == "embed" or not config.embedding_model:
        return default if entry.task == "embed" else None
    name, entry = find_entry(config.embedding_model, config.entries)
    if entry.task != "embed":
        hint = f'Say task = "embed" in its table, models.{name}, if it makes some.'
        raise ConfigError(f"embedding_model: {name!r} makes no embeddings", hint=hint)
    return name


def created_at(entry: ModelEntry, path: Path | None, clock: Callable[[], float]) -> int:
    """A Unix time: when the model was given out, else when its file was written, else now."""
    if entry.released is not None:
        return int(datetime.combine(entry.released, datetime.min.time(), UTC).timestamp())
    try:
        return int(path.stat().st_mtime if path is not None else clock())
    except OSError:  # It is being removed, or was copied by halves; loading it will say so.
        return int(clock())


def with_flags(entry: ModelEntry, config: Config) -> ModelEntry:
    """The default model's entry with the format that a flag, or the configuration's top, names."""
    known = entry.from_catalogue - {"format", "chat_template"}
    if config.chat_template:
        return msgspec.structs.replace(entry, chat_template=config.chat_template, format=None, from_catalogue=known)
    if config.format:
        return msgspec.structs.replace(entry, format=config.format, chat_template=None, from_catalogue=known)
    return entry


def model_format(config: Config) -> tuple[Format, ModelText]:
    """The configured model's format, and what its files say; a model may be a folder of Hugging Face's too.

    Raises `ModelError` when they are not here.
    """
    if config.model not in config.entries and Path(config.model).is_dir():
        text = read_model_text(config.model)
        return choose_format(config.model, with_flags(ModelEntry(), config), text, known_formats()), text
    name, entry = find_entry(config.model, config.entries)
    entry = with_flags(entry, config)
    path = entry.tokenizer or ModelStore(Path(config.store.folder)).path(name, entry)
    if path is None:
        raise not_here(name, ", or name a --format")
    entry, _ = recognized(name, entry, None if entry.tokenizer else Path(path))
    text = read_model_text(str(path))
    return choose_format(name, entry, text, known_formats()), text


@dataclass(frozen=True, slots=True)
class Loader:
    """Makes models of entries. ``environ`` is where the keys of servers are looked up.

    ``on_demand`` is the model that is fetched when it is requested and not here. ``described`` are those of which the
    files were read already, and the engine is not open yet.
    """

    store: ModelStore
    _: KW_ONLY
    config: EngineConfig
    formats: FormatRegistry
    environ: Mapping[str, str]
    memory: ModelMemory
    on_demand: str | None = None
    opening: OpenEngine = open_here
    described: dict[str, Described] = field(default_factory=dict)

    async def describe(self, name: str, entry: ModelEntry, *, fetch: bool = False) -> Described:
        """Describes the model by its entry and files, before its engine takes memory; `load` reads them no more.

        ``fetch``: files that are fetched on demand are. Raises `ModelError` when there is no such file, `NotFoundError`
        for an unknown format, `ConfigError` and `TemplateError` for a file that cannot be used.
        """
        known = self.described.get(name)
        if known is None or known.given != entry:
            path = await self._file(name, entry, fetch=fetch) if entry.engine.needs_file else None
            with self.store.reading(name, entry):
                known = await describe(name, entry, path, config=self.config, formats=self.formats)
            self.described[name] = known
        return known

    async def load(self, name: str, entry: ModelEntry) -> Model:
        """Raises what `describe` raises, `ModelError` when the file cannot be run, `OverloadedError` when a server
        does not answer."""
        described = await self.describe(name, entry, fetch=True)
        self.described.pop(name, None)  # The next load is of the files as they are then.
        with self.store.reading(name, entry):
            return await open_model(
                described, config=self.config, environ=self.environ, memory=self.memory, opening=self.opening
            )

    def forget(self, name: str) -> None:
        """Forgets what was read of the model's files, so that they are read anew."""
        self.described.pop(name, None)

    async def _file(self, name: str, entry: ModelEntry, *, fetch: bool) -> Path:
        path = self.store.path(name, entry)
        if path is None and fetch and name == self.on_demand and entry.source:
            log.info("fetching %s", name)
            await asyncio.to_thread(self.store.pull, name, entry)
            path = self.store.path(name, entry)
        if path is None:
            raise not_here(name)
        return path


async def open_model(
    described: Described,
    *,
    config: EngineConfig,
    environ: Mapping[str, str] = NO_SECRETS,
    memory: ModelMemory | None = None,
    opening: OpenEngine = open_here,
) -> Model:
    """The model that was described, its engine open. Errors are those of `Loader.load`.

    An engine that takes memory is loaded within the budget of ``memory``, one on a server reconnects.
    """
    spec, settings = described.spec(config, environ), described.entry.engine
    engine: Engine
    if not config.open:
        engine = await NoEngine().open(replace(spec, context=spec.context or described.trained_context))
    elif settings.remote:
        engine = await connect(settings, spec)
    elif settings.needs_file:
        needed, start = settings.memory(spec), partial(opening, settings, spec)
        engine = await SleepingEngine.woken(spec.name, needed, start, memory or ModelMemory())
    else:
        engine = await settings.open(spec)
    return model_of(described, engine)
