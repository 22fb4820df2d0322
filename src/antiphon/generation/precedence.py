"""Sources of the settings of a turn, in one order; the first that has an opinion counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from enum import IntEnum
from typing import TypeVar

import msgspec

from antiphon.engines import EngineInfo, Sampling
from antiphon.engines.engine import USUAL
from antiphon.formats import SamplingDefaults

Number = TypeVar("Number", int, float)

_RECOMMENDED = frozenset({"temperature", "top_p", "top_k", "min_p", "repetition_penalty"})
"""Settings that have defaults of a model, of a configuration or of a dialect."""


class Source(IntEnum):
    """The sources of a setting, the strongest first (resolution X-53)."""

    REQUEST = 0
    TEMPLATE = 1
    CONFIGURATION = 2
    DIALECT = 3
    CATALOGUE = 4
    MODEL = 5
    DEFAULT = 6

    @property
    def words(self) -> str:
        """For people."""
        return _WORDS[self]


_WORDS = {
    Source.REQUEST: "request",
    Source.TEMPLATE: "your chat template",
    Source.CONFIGURATION: "configuration",
    Source.DIALECT: "strict dialect",
    Source.CATALOGUE: "catalogue",
    Source.MODEL: "model",
    Source.DEFAULT: "default",
}


class Layer(msgspec.Struct, frozen=True):
    """The values of one source. ``place`` is where it states them, for people: a key, a file, a format."""

    source: Source
    values: SamplingDefaults
    place: str = ""


DEFAULT_OUTPUT = 16384
"""Tokens of an answer, where neither the request nor anybody else limits it (resolution X-10)."""

DEFAULTS = Layer(
    Source.DEFAULT,
    SamplingDefaults(
        temperature=0.8, top_p=0.95, top_k=40, min_p=0.05, repetition_penalty=1.0, max_tokens=DEFAULT_OUTPUT
    ),
)
"""The last layer where nobody recommends how the model is sampled: from its likely tokens alone, as llama.cpp does."""

NOTHING_CUT = SamplingDefaults(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0)
"""The distribution of the model itself."""

_LEFT_OUT = Layer(Source.DEFAULT, replace(DEFAULTS.values, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0))
"""The last layer where somebody does: what a recommendation leaves out is not cut off."""
_RECOMMENDING = (Source.DIALECT, Source.CATALOGUE, Source.MODEL, Source.DEFAULT)


class Setting(msgspec.Struct, frozen=True):
    """The value of one setting, its source, and what it overrode, the strongest first."""

    name: str
    value: float
    source: Source
    place: str = ""
    overrode: tuple[Setting, ...] = ()

    @property
    def origin(self) -> str:
        """The source and its place, for people."""
        return f"{self.source.words}: {self.place}" if self.place else self.source.words


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """The sampling settings that count. ``max_tokens`` 0: what the context holds."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    max_tokens: int


def with_defaults(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """The layers and the last one, so that somebody has an opinion about everything.

    A recommendation of the model's authors, or a strict dialect's document, is whole: what it leaves out is not cut
    off (resolution X-54). `DEFAULTS` are for models of which nobody recommends anything.
    """
    given = tuple(layers)
    recommended = (layer.values for layer in given if layer.source in _RECOMMENDING)
    shapes = (one for values in recommended for one in (values.temperature, values.top_p, values.top_k, values.min_p))
    return (*given, DEFAULTS if all(one is None for one in shapes) else _LEFT_OUT)


def resolve(layers: Iterable[Layer]) -> Resolved:
    """The first opinion about each, in the order of the sources; of one source, in that of the layers."""
    values = [layer.values for layer in _ordered(layers)]
    return Resolved(
        temperature=_first(values, lambda one: one.temperature),
        top_p=_first(values, lambda one: one.top_p),
        top_k=_first(values, lambda one: one.top_k),
        min_p=_first(values, lambda one: one.min_p),
        repetition_penalty=_first(values, lambda one: one.repetition_penalty),
        max_tokens=_first(values, lambda one: one.max_tokens),
    )


def settings(layers: Iterable[Layer]) -> tuple[Setting, ...]:
    """Every setting about which somebody has an opinion, with its source: what `resolve` and `context_of` decide."""
    ordered = _ordered(layers)
    names = (field.name for field in fields(SamplingDefaults) if field.name not in ("context", "session_len"))
    found = [_setting(name, list(_opinions(name, ordered))) for name in names]
    return tuple(setting for setting in (*found, context_of(ordered)) if setting is not None)


def context_of(layers: Iterable[Layer]) -> Setting | None:
    """Tokens that prompt and answer may have together, as far as anybody limits them (resolution X-52).

    The first opinion counts. A template that its user chose can shorten it; any other template's length is for models
    of which nobody says more.
    """
    ordered = _ordered(layers)
    given, lengths = list(_opinions("context", ordered)), list(_opinions("session_len", ordered))
    chosen = [length for length in lengths if length.source <= Source.CONFIGURATION]
    bounds = [*chosen, *given[:1]] if given else [*chosen, *lengths][:1]
    if not bounds:
        return None
    least = min(bounds, key=lambda one: one.value)
    others = [one for one in (*chosen, *given, *lengths) if one.origin != least.origin]
    return _setting("context", [least, *dict.fromkeys(others)])


def _ordered(layers: Iterable[Layer]) -> Sequence[Layer]:
    return sorted(layers, key=lambda layer: layer.source)


def _opinions(name: str, layers: Sequence[Layer]) -> Iterator[Setting]:
    for layer in layers:
        value: float | None = getattr(layer.values, name)
        if value is not None:
            yield Setting(name, value, layer.source, layer.place)


def _setting(name: str, opinions: Sequence[Setting]) -> Setting | None:
    if not opinions:
        return None
    first, *others = opinions
    return Setting(name, first.value, first.source, first.place, tuple(others))


def _first(values: Sequence[SamplingDefaults], opinion: Callable[[SamplingDefaults], Number | None]) -> Number:
    return next(value for one in values if (value := opinion(one)) is not None)


def honoured(info: EngineInfo, asked: Sampling, stated: SamplingDefaults) -> Sampling:
    """Leaves out what nobody but a default asks of an engine that does not honour it.

    Raises `UnsupportedError` for what the request asks of it.
    """
    unasked = [name for name in _RECOMMENDED - info.honours if getattr(stated, name) is None]
    sampling = replace(asked, **{name: USUAL[name] for name in unasked}) if unasked else asked
    info.check_honoured(sampling)
    return sampling
