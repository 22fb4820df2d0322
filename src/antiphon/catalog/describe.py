"""Descriptions of models, read from their entries and files before an engine takes any memory."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace as replace_fields

from antiphon.config import EngineConfig, ModelEntry, shipped_entries, with_catalogue
from antiphon.engines.kind import DEFAULT_CONTEXT, ModelSpec
from antiphon.engines.machine import free_memory
from antiphon.errors import ConfigError, Position, RequestError, TemplateError
from antiphon.formats import NO_OPINION, Format, FormatRegistry, SamplingDefaults
from antiphon.formats.harmony import Harmony
from antiphon.formats.template import TemplateFormat
from antiphon.generation import (
    NOTHING_CUT,
    RANGES,
    FileFacts,
    Layer,
    ModelFacts,
    Source,
    context_of,
    offers_tools,
    reasons,
)
from antiphon.generation.images import mark_of
from antiphon.isolation import Isolation, Task

from .capabilities import MemoryNeed, capabilities_of, capability_lines
from .files.store import file_digest
from .files.text import ModelText
from .format_choice import ModelSource, format_of, harmony_options, log_replies, read_source, template_parts

# A model's own template tried in a process of its own, before anything here renders it.

TRY = Task("antiphon.formats.template.stability:work", "rendering some prompts", processor=5.0, memory=512 * 2**20)


async def read_tried(name: str, entry: ModelEntry, path: Path | None) -> ModelSource:
    """Reads the model's files, and renders some prompts with the template that they, or its entry, name.

    The process in which it is tried starts while the files are read. Raises what `read_source` raises, and
    `TemplateError` for a template that is malformed, or that takes too much to render them (``template_limit``).
    """
    if entry.task != "chat" or sys.platform == "win32":  # There is no fork.
        return await read_source(entry, path)
    with closing(Isolation(seconds=6 * TRY.processor)) as isolated:
        starting = None if entry.format else asyncio.create_task(isolated.ready(TRY))
        try:
            source = await read_source(entry, path)
            parts = template_parts(name, entry, source.text)
            if parts is not None:
                await isolated.run(TRY, msgspec.json.encode(parts))
        except RequestError as error:
            what = f"the chat template of {name} is not used: {error.message}"
            hint = "Configure another chat_template, or a format."
            raise TemplateError(what, code="template_limit", hint=hint) from None
        finally:
            if starting is not None:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
    return source


# What a GGUF file says of its model, for those who choose one.

QUANTIZATIONS = MappingProxyType(
    {
        0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
        12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
        20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
        28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
    }
)  # fmt: skip
"""llama.cpp's kinds of files, by ``general.file_type``."""


def file_facts(source: ModelSource, entry: ModelEntry) -> FileFacts:
    """The facts in the file of a model that is here."""
    metadata = source.metadata
    architecture, kind = str(metadata.get("general.architecture", "")), metadata.get("general.file_type")
    return FileFacts(
        architecture=architecture,
        quantization=QUANTIZATIONS.get(kind, "") if isinstance(kind, int) else "",
        parameters=source.parameters,
        digest=entry.sha256,
        licence=entry.licence or str(metadata.get("general.license", "")),
        values={
            name: value
            for name, value in metadata.items()
            if not isinstance(value, list) and name.startswith(("general.", f"{architecture}."))
        },
    )


# Who has an opinion about the settings of a model: its user, its catalogue entry, its files, its engine.

log = logging.getLogger("antiphon.catalog")


def layers_of(
    name: str, entry: ModelEntry, config: EngineConfig, text: ModelText, format: Format, *, catalogue: str
) -> tuple[Layer, ...]:
    """The opinions, of one source the particular before the general. ``catalogue`` is the shipped model's name.

    Raises `ConfigError` for a number of the user's that no request could have; of the model's files it is left out.
    """
    opinions = _opinions(name, entry, config, text, format, catalogue)
    layers = [layer for layer in opinions if layer.values != NO_OPINION]
    return tuple(_in_range(name, layer) for layer in layers)


def _opinions(
    name: str, entry: ModelEntry, config: EngineConfig, text: ModelText, format: Format, catalogue: str
) -> Iterator[Layer]:
    stated = format.stated if isinstance(format, TemplateFormat) else NO_OPINION
    if entry.chat_template:
        yield Layer(Source.TEMPLATE, stated, entry.chat_template)
    yield Layer(Source.CONFIGURATION, entry.defaults_of(catalogue=False), f"models.{name}")
    yield Layer(Source.CONFIGURATION, engine_wide(entry, config), "engine.context")
    if entry.format and "format" not in entry.from_catalogue:
        yield Layer(Source.CONFIGURATION, stated, f"format {entry.format}")
    yield Layer(Source.CATALOGUE, entry.defaults_of(catalogue=True), catalogue)
    yield Layer(Source.MODEL, text.sampling, "its files")
    yield Layer(Source.MODEL, format.defaults, f"format {format.name}")
    if not entry.engine.truncates:
        yield Layer(Source.DEFAULT, NOTHING_CUT, f"of a model on {entry.engine.kind}")


def _in_range(name: str, layer: Layer) -> Layer:
    given = {key: value for key, value in asdict(layer.values).items() if value is not None}
    wrong = [key for key, value in given.items() if not (value in RANGES[key] if key in RANGES else 1 <= value < 2**31)]
    if wrong and layer.source <= Source.CONFIGURATION:
        value, allowed = getattr(layer.values, wrong[0]), RANGES.get(wrong[0], "[1, 2^31 - 1]")
        where = f"{layer.place}: {wrong[0]}"
        raise ConfigError(f"{where} is {value}; it must be in {allowed}", position=Position(path=f"models.{name}"))
    for key in wrong:
        log.warning("%s: %s of %s is no possible value: %s", name, key, layer.place, getattr(layer.values, key))
    return msgspec.structs.replace(layer, values=replace(layer.values, **dict.fromkeys(wrong)))


def engine_wide(entry: ModelEntry, config: EngineConfig) -> SamplingDefaults:
    """The settings of ``[engine]`` for this model: nothing of a server's, and nothing of one that only embeds."""
    applies = not entry.engine.remote and entry.task == "chat"
    return SamplingDefaults(context=(config.context or None) if applies else None)


def opened_context(entry: ModelEntry, config: EngineConfig, layers: tuple[Layer, ...]) -> int | None:
    """Tokens for one sequence that the engine is opened with; None: its own choice.

    A user's template can only shorten what anybody else says, but where nobody does it is what the user wants.
    """
    own = (entry.defaults_of(catalogue=False).context, engine_wide(entry, config).context, entry.context)
    lengths = (layer.values.session_len for layer in layers if layer.source is Source.TEMPLATE)
    fallback = config.context if entry.engine.needs_file else None
    return next((size for size in (*own, *lengths, fallback) if size), None)


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
            images=self.entry.engine.sees and bool(mark_of(self.format)),
            trained_context=self.trained_context,
            embedding=self.source.text.dimensions or None,
            size=path.stat().st_size if path is not None else None,
            chat_template=self.source.text.template,
            file=file_facts(self.source, self.entry) if path is not None else None,
        )
        return replace_fields(facts, capabilities=capabilities_of(facts, self.source, self.format, self.memory))

    def spec(self, config: EngineConfig, environ: Mapping[str, str]) -> ModelSpec:
        """The spec of its engine: the entry's settings, and those of ``[engine]`` for a model that runs here.

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
    """Describes the model by its entry and its files. ``path`` is the model's file; None for engines that need none.

    What may be wrong with the file and the format is found here: errors are those of `Loader.describe`.
    """
    entry, catalogue = await asyncio.to_thread(recognized, name, given, path)
    source = await read_tried(name, entry, path)
    format = await asyncio.to_thread(format_of, name, entry, source.text, formats, fallback=config.fallback_format)
    log_replies(name, format)
    if entry.engine.remote and config.context:  # The context for all models here is not that of a server's.
        log.warning("%s: engine.context is not for a model on a server; models.%s.context limits it", name, name)
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
    if entry.engine.needs_file and config.open:
        needed = await asyncio.to_thread(entry.engine.memory, described.spec(config, {}))
        described = replace_fields(described, memory=MemoryNeed(needed, free_memory(), config.memory_mib * 2**20))
    facts = described.facts
    log.info("%s: %s", name, "; ".join(described_lines(facts)))
    log.info("%s: %s", name, "; ".join(capability_lines(facts.capabilities)))
    return described


def recognized(name: str, entry: ModelEntry, path: Path | None) -> tuple[ModelEntry, str]:
    """The entry with what ships for its file, whatever the model is called here, and the shipped model's name."""
    shipped = None if name in shipped_entries() else shipped_file(entry, path)
    return (entry, name) if shipped is None else (with_catalogue(entry, shipped), shipped)


MOST_READ = 2**31
"""Bytes of a file that are read to recognize it: a second or two."""


def shipped_file(entry: ModelEntry, path: Path | None) -> str | None:
    """The shipped model whose file is at ``path``, whatever it is called here. Only a file of its size is read.

    Ollama and the hub's cache call a file by its digest, and a large one is known by that alone.
    """
    size = path.stat().st_size if path is not None and path.is_file() else None
    for name, shipped in shipped_entries().items():
        same = size is not None and size == shipped.size and entry.task == shipped.task
        if not same or path is None or shipped.sha256 is None:
            continue
        named = shipped.sha256 in path.resolve().name
        if named or (size is not None and size <= MOST_READ and file_digest(path) == shipped.sha256):
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
    """The settings that a model got and their origins, for people: a setting a line."""
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
