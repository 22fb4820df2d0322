"""What a model is, read from its entry and its files before its engine takes any memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from antiphon.config import EngineConfig, ModelEntry, shipped_entries, with_catalogue
from antiphon.engines.kind import DEFAULT_CONTEXT, ModelSpec
from antiphon.engines.machine import free_memory
from antiphon.formats import Format, FormatRegistry
from antiphon.formats.harmony import Harmony
from antiphon.generation import Layer, ModelFacts, context_of, offers_tools, reasons

from .capabilities import MemoryNeed, capabilities_of, capability_lines
from .file_facts import file_facts
from .files.store import file_digest
from .format_choice import harmony_options
from .layers import layers_of, opened_context, warn_of_engine
from .model_source import ModelSource, format_of, read_source
from .replies import log_replies

log = logging.getLogger("antiphon.catalog")


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """All of a model but its engine. ``given`` is the entry as it was configured, ``entry`` what became of it.

    ``opened`` is the context, in tokens, that the engine is opened with; None: its own choice. ``memory`` is what it
    needs, of a model that is loaded here.
    """

    name: str
    given: ModelEntry
    entry: ModelEntry
    source: ModelSource
    format: Format
    format_origin: str
    layers: tuple[Layer, ...]
    opened: int | None
    memory: MemoryNeed | None = None

    @property
    def trained_context(self) -> int | None:
        """The positions that the model was trained on, as its file says."""
        metadata = self.source.metadata
        trained = metadata.get(f"{metadata.get('general.architecture')}.context_length")
        return trained if isinstance(trained, int) and trained > 0 else None

    @property
    def context(self) -> int | None:
        """Tokens that prompt and answer may have together; None where its server decides."""
        limit = context_of(self.layers)
        here = None if self.entry.engine.remote else self.opened or DEFAULT_CONTEXT
        bounds = (int(limit.value) if limit else None, here, self.trained_context)
        return min((bound for bound in bounds if bound is not None), default=None)

    @property
    def facts(self) -> ModelFacts:
        """The same for those who choose a model."""
        writes, path = self.entry.task == "chat", self.source.path
        facts = ModelFacts(
            task=self.entry.task,
            context=self.context,
            vocabulary=self.source.text.tokenizer.size,
            layers=self.layers,
            max_output_tokens=self.entry.max_output_tokens,
            format=self.format.name if writes else None,
            format_origin=self.format_origin,
            tools=writes and offers_tools(self.format),
            reasoning=writes and reasons(self.format),
            infill=self.source.text.infill is not None,
            trained_context=self.trained_context,
            embedding=self.source.text.dimensions or None,
            size=path.stat().st_size if path is not None else None,
            chat_template=self.source.text.template,
            file=file_facts(self.source, self.entry) if path is not None else None,
        )
        return replace(facts, capabilities=capabilities_of(facts, self.source, self.format, self.memory))

    def spec(self, config: EngineConfig, environ: Mapping[str, str]) -> ModelSpec:
        """What its engine is opened with: the entry's settings, and those of ``[engine]`` for a model that runs here.

        ``environ`` has the keys of servers."""
        entry, text, here = self.entry, self.source.text, self.entry.engine.needs_file
        return ModelSpec(
            name=self.name,
            tokenizer=text.tokenizer,
            task=entry.task,
            path=self.source.path,
            metadata=self.source.metadata,
            context=self.opened,
            slots=entry.slots or (config.slots if here else None),
            threads=config.threads if here else 0,
            share_cache=config.share_cache,
            end_ids=text.end_ids,
            controls=self.format.controls,
            stops=self.format.stops,
            environ=environ,
        )


async def describe(
    name: str, given: ModelEntry, path: Path | None, *, config: EngineConfig, formats: FormatRegistry
) -> Described:
    """What the entry and the files say. ``path`` is the model's file; None for engines that need none.

    What may be wrong with the file and the format is found here: errors are those of `Loader.describe`.
    """
    entry, catalogue = await asyncio.to_thread(recognized, name, given, path)
    source = await read_source(entry, path)
    if source.text.template or entry.chat_template:
        from .template_trial import try_template  # many models have no template of their own

        await try_template(name, entry, source.text)
    format = await asyncio.to_thread(format_of, name, entry, source.text, formats, fallback=config.fallback_format)
    log_replies(name, format)
    warn_of_engine(name, entry, config)
    layers = layers_of(name, entry, config, source.text, format, catalogue=catalogue)
    described = Described(
        name=name,
        given=given,
        entry=entry,
        source=source,
        format=format,
        format_origin=format_origin(name, entry, format, catalogue),
        layers=layers,
        opened=opened_context(entry, config, layers),
    )
    if entry.engine.needs_file:
        needed = await asyncio.to_thread(entry.engine.memory, described.spec(config, {}))
        described = replace(described, memory=MemoryNeed(needed, free_memory(), config.memory_mib * 2**20))
    facts = described.facts
    log.info("%s: %s", name, "; ".join(described_lines(facts)))
    log.info("%s: %s", name, "; ".join(capability_lines(facts.capabilities)))
    return described


def recognized(name: str, entry: ModelEntry, path: Path | None) -> tuple[ModelEntry, str]:
    """The entry with what ships for its file, whatever the model is called here, and the shipped model's name."""
    shipped = None if name in shipped_entries() else shipped_file(entry, path)
    return (entry, name) if shipped is None else (with_catalogue(entry, shipped), shipped)


def shipped_file(entry: ModelEntry, path: Path | None) -> str | None:
    """The shipped model whose file is at ``path``, whatever it is called here. Only a file of its size is read."""
    size = path.stat().st_size if path is not None and path.is_file() else None
    for name, shipped in shipped_entries().items():
        same = size is not None and size == shipped.size and entry.task == shipped.task
        if same and path is not None and file_digest(path) == shipped.sha256:
            return name
    return None


def format_origin(name: str, entry: ModelEntry, format: Format, catalogue: str) -> str:
    """Why the model is spoken to in this format and with these options of it, for people."""
    options = [f"; {name} {value} (configuration)" for name, value in harmony_options(entry).items()]
    return _origin_of_format(name, entry, format, catalogue) + "".join(options)


def _origin_of_format(name: str, entry: ModelEntry, format: Format, catalogue: str) -> str:
    if entry.chat_template:
        return f"your chat template: {entry.chat_template}"
    if entry.format:
        shipped = "format" in entry.from_catalogue
        return f"catalogue: {catalogue}" if shipped else f"configuration: format {entry.format}"
    if isinstance(format, Harmony):
        return "model: its vocabulary has Harmony's controls"
    if format.name == f"{name}/chat_template":
        return "model: the chat template of its files"
    return "default: its files have no chat template"


def described_lines(facts: ModelFacts) -> Iterator[str]:
    """What a model got and from where, for people: a setting a line."""
    if facts.format is not None:
        yield f"format {facts.format} ({facts.format_origin})"
    values = {setting.name: setting for setting in facts.settings}
    limit = values.pop("context", None)
    if facts.context is None:
        yield "context: as its server has it"
    else:
        own = "model: what it was trained on" if facts.context == facts.trained_context else "default"
        yield f"context {facts.context} ({limit.origin if limit and limit.value <= facts.context else own})"
    if facts.task != "chat":
        return
    answer = values.pop("max_tokens")
    most = facts.default_output_tokens
    yield f"answers without max_tokens: {most or 'what the context holds'} ({answer.origin})"
    if facts.max_output_tokens:
        yield f"answers at most {facts.max_output_tokens}"
    yield from (f"{name} {setting.value} ({setting.origin})" for name, setting in values.items())
