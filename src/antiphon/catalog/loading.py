"""From an entry to a model: engine, tokenizer and format put together."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import msgspec

from antiphon.config.config import Config
from antiphon.config.entries import ModelEntry, find_entry
from antiphon.engines import Engine, ScriptedEngine
from antiphon.errors import ConfigError, ModelError
from antiphon.formats import Format, FormatRegistry, SamplingDefaults
from antiphon.generation import EmbeddingSpec, Model
from antiphon.models.store import ModelStore
from antiphon.models.text import ModelText
from antiphon.tokens import ByteTokenizer, ControlScanner, encode_pieces

from .catalog import Catalog
from .format_choice import FALLBACK, KNOWN_CONTROLS, builtin_formats, choose_format
from .residence import Later, Residence, loop_later

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.generation.compile import ReplyCompiler

log = logging.getLogger("antiphon.catalog")

DEFAULT_CONTEXT = 4096
"""Tokens, for a model of which nobody says how many it may have."""


def open_catalog(
    config: Config,
    *,
    environ: Mapping[str, str] = os.environ,
    later: Later = loop_later,
    clock: Callable[[], float] = time.time,
) -> Catalog:
    """The catalog that a configuration describes: its default model, the models of its file, what the store holds.

    ``environ`` has the keys of servers, where entries name them. ``later`` times what is idle, ``clock`` is Unix time.
    """
    store = ModelStore(Path(config.store.folder))
    default, entry = find_entry(config.model, config.catalogue)
    here = {model.name: ModelEntry(source=model.source) for model in store.installed()}
    entries = {**here, **config.catalogue, default: with_flags(entry, config)}
    embedding = embedding_default(config)
    listed = [default, *config.models, *here, *([embedding] if embedding else [])]
    residence = Residence(budget=config.engine.memory_mib * 2**20, idle=config.engine.idle_unload, later=later)
    loader = Loader(config, store, builtin_formats(), environ, residence, on_demand=embedding)
    created = {name: created_at(entry, store.path(name, entry), clock) for name, entry in entries.items()}
    return Catalog(entries, listed=listed, load=loader.load, embedding=embedding, created=created)


def embedding_default(config: Config) -> str | None:
    """The model of requests for embeddings that name none. Raises `ConfigError` for one that makes none."""
    default, entry = find_entry(config.model, config.catalogue)
    if entry.task == "embed" or not config.embedding_model:
        return default if entry.task == "embed" else None
    name, entry = find_entry(config.embedding_model, config.catalogue)
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
    """The default model's entry with the format that a flag, or the configuration's top, asks for."""
    if config.chat_template:
        return msgspec.structs.replace(entry, chat_template=config.chat_template, format=None)
    if config.format:
        return msgspec.structs.replace(entry, format=config.format, chat_template=None)
    return entry


@dataclass(frozen=True, slots=True)
class Loader:
    """Makes models of entries. ``environ`` is where the keys of servers are looked up.

    ``on_demand`` is the model that is fetched when it is asked for and not here.
    """

    config: Config
    store: ModelStore
    formats: FormatRegistry
    environ: Mapping[str, str]
    residence: Residence
    on_demand: str | None = None

    async def load(self, name: str, entry: ModelEntry) -> Model:
        """Raises `ModelError` when there is no such file or it cannot be run, `NotFoundError` for an unknown format,
        `OverloadedError` when a server does not answer."""
        match entry.engine:
            case "scripted":
                return load_scripted(name, entry, self.formats)
            case "llama_cpp":
                path = self.store.path(name, entry)
                if path is None and name == self.on_demand and entry.source:
                    log.info("fetching %s", name)
                    await asyncio.to_thread(self.store.pull, name, entry)
                    path = self.store.path(name, entry)
                if path is None:
                    hint = f"Run antiphon pull {name}."
                    raise ModelError(f"the model {name!r} is not on this machine", code="model_not_here", hint=hint)
                # An optional extra; and a program that runs no model need not wait for its import.
                from .embedded import load_embedded

                return await load_embedded(name, entry, path, self.config.engine, self.formats, self.residence)
            case "llama_server" | "vllm":
                # A program that asks no server need not wait for the import of an HTTP client.
                from .remote import load_remote

                return await load_remote(
                    name, entry, self.formats, self.environ, fallback=self.config.engine.fallback_format
                )
            case _:
                assert_never(entry.engine)


def load_scripted(name: str, entry: ModelEntry, formats: FormatRegistry) -> Model:
    """A model that always says its entry's ``reply``; control spellings in it are controls. It speaks any format."""
    text = ModelText(tokenizer=ByteTokenizer(KNOWN_CONTROLS))
    spoken = entry if entry.format or entry.chat_template else msgspec.structs.replace(entry, format=FALLBACK)
    format = choose_format(name, spoken, text, formats)
    scanner = ControlScanner(format.controls)
    reply = [*scanner.feed(entry.reply), *scanner.close(), *format.stops[:1]]
    engine = ScriptedEngine(
        encode_pieces(reply, text.tokenizer),
        delay=entry.delay,
        context=entry.context or DEFAULT_CONTEXT,
        grammar=False,
    )
    return model_of(name, entry, engine, text, format)


def format_of(name: str, entry: ModelEntry, text: ModelText, formats: FormatRegistry, *, fallback: str) -> Format:
    """What the model is spoken to in; of one that embeds, what frames each text."""
    if entry.task == "chat":
        return choose_format(name, entry, text, formats, fallback=fallback)
    if text.sentences is None:
        raise ModelError(f"the tokenizer of {name!r} does not tell how texts are framed", hint="Name its GGUF file.")
    return text.sentences


def model_of(name: str, entry: ModelEntry, engine: Engine, text: ModelText, format: Format) -> Model:
    """The parts as one. The entry's opinion about sampling and context counts before the format's."""
    own = entry.defaults
    said = {field.name: getattr(own, field.name) for field in fields(SamplingDefaults)}
    embeds = entry.task == "embed"
    return Model(
        name=name,
        engine=engine,
        tokenizer=text.tokenizer,
        format=format,
        defaults=replace(format.defaults, **{setting: value for setting, value in said.items() if value is not None}),
        max_output_tokens=entry.max_output_tokens,
        thinking_budget=entry.thinking_budget,
        embedding=EmbeddingSpec(text.dimensions, entry.shortens) if embeds else None,
        compiler=None if embeds or not engine.info.grammar else compiler_of(format, text, engine),
    )


def compiler_of(format: Format, text: ModelText, engine: Engine) -> ReplyCompiler | None:
    """What makes the grammars of a model's replies; None where llguidance is not installed, which is an extra."""
    try:
        from antiphon.generation.compile import ReplyCompiler
    except ImportError:
        return None
    return ReplyCompiler(format, text.tokenizer, engine.info.end_ids)
