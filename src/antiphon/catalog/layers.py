"""Who has an opinion about the settings of a model: its user, its catalogue entry, its files, its engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict, replace

import msgspec

from antiphon.config import EngineConfig, ModelEntry
from antiphon.errors import ConfigError, Position
from antiphon.formats import NO_OPINION, Format, SamplingDefaults
from antiphon.formats.template import TemplateFormat
from antiphon.generation import NOTHING_CUT, RANGES, Layer, Source

from .files.text import ModelText

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
    wrong = [key for key, value in asdict(layer.values).items() if value is not None and not _possible(key, value)]
    if wrong and layer.source <= Source.CONFIGURATION:
        value, allowed = getattr(layer.values, wrong[0]), RANGES.get(wrong[0], "[1, 2^31 - 1]")
        where = f"{layer.place}: {wrong[0]}"
        raise ConfigError(f"{where} is {value}; it must be in {allowed}", position=Position(path=f"models.{name}"))
    for key in wrong:
        log.warning("%s: %s of %s is no possible value: %s", name, key, layer.place, getattr(layer.values, key))
    return msgspec.structs.replace(layer, values=replace(layer.values, **dict.fromkeys(wrong)))


def _possible(key: str, value: float) -> bool:
    return value in RANGES[key] if key in RANGES else 1 <= value < 2**31


def warn_of_engine(name: str, entry: ModelEntry, config: EngineConfig) -> None:
    """Says that the context for all models here is not that of a server's model, which its own table can limit."""
    if entry.engine.remote and config.context:
        log.warning("%s: engine.context is not for a model on a server; models.%s.context limits it", name, name)


def engine_wide(entry: ModelEntry, config: EngineConfig) -> SamplingDefaults:
    """What ``[engine]`` says of this model: nothing of a server's, and nothing of one that only embeds."""
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
