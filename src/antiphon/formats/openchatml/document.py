"""A transcript's header (§2): every key as read, and the settings among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from antiphon.conversation import Channel, ReasoningEffort
from antiphon.errors import Position, RequestError

from .spelling import CONTROLS

VERSION = "2.2"
STANDARD_EVENTS = ("response.delta", "response.delta.flush", "response.cancel", "response.done", "tool.cancel")
"""The streaming events that the specification names, or implies (A-O19)."""
EVENTS = (*STANDARD_EVENTS, "frame.start", "frame.end", "tool.call", "tool.call.delta", "tool.reply")
"""The streaming events that `EventStream` can send (A-O19)."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """§2, A-O30: what a producer may use. None: the header does not limit it."""

    roles: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    tokens: tuple[str, ...] | None = None
    streaming: tuple[str, ...] | None = None

    def allows_role(self, author: str) -> bool:
        """``functions.*`` in the list allows every ``functions.x``."""
        if self.roles is None or author in self.roles:
            return True
        return any(role.endswith(".*") and author.startswith(role[:-1]) for role in self.roles)

    def negotiate(self, other: Capabilities) -> Capabilities:
        """The capabilities of both sides (A-O19: the intersection)."""
        return Capabilities(
            _both(self.roles, other.roles), _both(self.channels, other.channels),
            _both(self.tokens, other.tokens), _both(self.streaming, other.streaming),
        )  # fmt: skip


ANTIPHON_CAPABILITIES = Capabilities(
    roles=("system", "developer", "user", "assistant", "functions.*", "tool"),
    channels=tuple(Channel),
    tokens=tuple(control.spelling for control in CONTROLS),
    streaming=EVENTS,
)
"""Everything that this implementation can do."""


def _both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(word for word in one if word in other)


@dataclass(frozen=True, slots=True)
class HarmonyProfile:
    """``profiles.harmony``; ``require_channels`` non-empty makes a channel mandatory (A-O01)."""

    enabled: bool = False
    require_channels: tuple[str, ...] = ()
    tool_calls_in: tuple[str, ...] = (Channel.COMMENTARY,)
    builtins_in: tuple[str, ...] = (Channel.ANALYSIS, Channel.COMMENTARY)
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentHeader:
    """The header's keys as read, unknown ones too and in their order; the properties are the settings among them.

    A key of a wrong type reads as absent: out-of-range settings are errors on use, not on parse (A-O31).
    """

    version: str = VERSION
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> str | None:
        model = self.fields.get("model")
        return model if isinstance(model, str) else None

    @property
    def generation_settings(self) -> Mapping[str, Any]:
        return _mapping(self.fields.get("generation_settings"))

    @property
    def reasoning_effort(self) -> ReasoningEffort | None:
        effort = self.generation_settings.get("reasoning_effort")
        return next((known for known in ReasoningEffort if known == effort), None)

    @property
    def builtin_tools(self) -> tuple[str, ...]:
        return _words(self.generation_settings.get("builtin_tools")) or ()

    @property
    def capabilities(self) -> Capabilities:
        given = _mapping(self.fields.get("capabilities"))
        return Capabilities(*(_words(given.get(key)) for key in ("roles", "channels", "tokens", "streaming")))

    @property
    def harmony(self) -> HarmonyProfile:
        given = _mapping(_mapping(self.fields.get("profiles")).get("harmony"))
        default, encoding = HarmonyProfile(), given.get("encoding")
        return HarmonyProfile(
            enabled=given.get("enabled") is True,
            require_channels=_words(given.get("require_channels")) or (),
            tool_calls_in=_words(given.get("tool_calls_in")) or default.tool_calls_in,
            builtins_in=_words(given.get("builtins_in")) or default.builtins_in,
            encoding=encoding if isinstance(encoding, str) else None,
        )

    def temperature(self) -> float | None:
        """The temperature to use. Raises `RequestError` when it is not in 0 … 2 (A-O31, X-03)."""
        value = self.generation_settings.get("temperature")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
            raise RequestError(
                f"temperature is {value!r}, not a number from 0 to 2",
                position=Position(path="generation_settings.temperature"),
            )
        return float(value)

    def with_settings(self, **settings: Any) -> DocumentHeader:
        """The same header with other ``generation_settings``; None takes one away."""
        merged = {k: v for k, v in {**self.generation_settings, **settings}.items() if v is not None}
        fields = {key: value for key, value in self.fields.items() if key != "generation_settings"}
        return replace(self, fields={**fields, "generation_settings": merged} if merged else fields)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return (value,)
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else None
