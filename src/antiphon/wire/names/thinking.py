"""Names that servers have for the model's thinking, and the fields of a route that say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Literal

import msgspec

from antiphon.errors import Position, UnsupportedError
from antiphon.wire.errors import refused

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
What = Literal["on", "effort", "budget", "shown"]
"""Whether the model thinks, how much, in how many tokens at most (-1: any); how that is shown, which is only told."""


class ThinkingOption(msgspec.Struct, frozen=True):
    """One option of thinking, which a body has at ``path``."""

    what: What
    value: bool | str | int
    path: str


Reader = Callable[[Any, str], Iterator[ThinkingOption]]


def _one_of(what: What, values: Mapping[str | bool, Any]) -> Reader:
    """Reads one of the values, each of which says something, or nothing (None)."""
    known = ", ".join(value if isinstance(value, str) else str(value).lower() for value in values)

    def read(value: Any, path: str) -> Iterator[ThinkingOption]:
        if not isinstance(value, str | bool) or value not in values:
            raise refused(path, f"is none of {known}.")
        if (meaning := values[value]) is not None:
            yield ThinkingOption(what, meaning, path)

    return read


_ON = _one_of("on", {True: True, False: False})
_EFFORT = _one_of("effort", {effort: effort for effort in EFFORTS})


def _budget(value: Any, path: str) -> Iterator[ThinkingOption]:
    if isinstance(value, bool) or not isinstance(value, int):
        raise refused(path, "is a number of tokens.")
    yield ThinkingOption("budget", value, path)


def _nothing(value: Any, path: str) -> Iterator[ThinkingOption]:
    yield from ()


def _shown(as_here: str) -> Reader:
    """Reads a word for how thoughts are shown, which is no option of ours unless it is ``as_here``."""

    def read(value: Any, path: str) -> Iterator[ThinkingOption]:
        if value != as_here:
            yield ThinkingOption("shown", str(value), path)

    return read


def _exclude(value: Any, path: str) -> Iterator[ThinkingOption]:
    if value is not False:
        raise refused(path, "cannot be honoured.", code="unsupported_parameter", hint=_HIDDEN)
    yield from ()


_HIDDEN = "Send the header x-antiphon-reasoning: hidden."


def _object(entries: Mapping[str, Reader]) -> Reader:
    def read(value: Any, path: str) -> Iterator[ThinkingOption]:
        if isinstance(value, bool):
            yield from _ON(value, path)
            return
        if not isinstance(value, dict):
            raise refused(path, "is an object, true or false.")
        for name, one in value.items():
            place = f"{path}.{name[:64]}"
            if name not in entries:
                raise UnsupportedError(f"{place} cannot be honoured.", position=Position(path=place))
            if one is not None:
                yield from entries[name](one, place)

    return read


_BEYOND: Mapping[str, Reader] = {"max_tokens": _budget, "enabled": _ON, "exclude": _exclude}
"""Entries that OpenRouter's ``reasoning`` has beyond those of Responses."""
_REASONING = _object({"effort": _EFFORT, **dict.fromkeys(("summary", "generate_summary"), _shown("auto")), **_BEYOND})
_TYPE = _one_of("on", {"enabled": True, "disabled": False, "adaptive": None, "auto": None})
"""Anthropic's, which those of DeepSeek, GLM and Kimi follow; the last two of them leave it to the model."""
READERS: Mapping[str, Reader] = {
    "reasoning_effort": _EFFORT,
    "reasoning": _REASONING,
    "thinking": _object({"type": _TYPE, "budget_tokens": _budget, "display": _shown("summarized")}),
    "think": lambda value, path: (_ON if isinstance(value, bool) else _EFFORT)(value, path),
    "enable_thinking": _ON,
    **dict.fromkeys(
        (
            "thinking_token_budget", "thinking_budget_tokens", "reasoning_budget_tokens", "reasoning_budget",
            "thinking_budget", "max_thinking_tokens",
        ),
        _budget,
    ),
}  # fmt: skip
"""By the names that a body may have."""

Values = Mapping[Any, Any]
_SAME: Values = {}
_CHAT: Mapping[What, tuple[str, Values]] = {
    "on": ("enable_thinking", _SAME), "effort": ("reasoning_effort", _SAME), "budget": ("thinking_token_budget", _SAME),
}  # fmt: skip
_TARGETS: Mapping[str, Mapping[What, tuple[str, Values]]] = {
    "reasoning_effort": _CHAT,
    "reasoning": {**_CHAT, "effort": ("reasoning.effort", _SAME)},
    "output_config": {
        "on": ("thinking.type", {True: "adaptive", False: "disabled"}),
        "effort": ("output_config.effort", {"minimal": "low"}),
        "budget": ("thinking.budget_tokens", _SAME),
    },
    "think": {"on": ("think", _SAME), "effort": ("think", {"minimal": "low", "xhigh": "max"})},
}
"""By a field that tells a route from the others: its own fields, and its own words for values."""


def options_in(fields: Mapping[str, msgspec.Raw], known: Set[str]) -> list[ThinkingOption]:
    """The options that a body has under names that are none of ``known``, which the route reads itself."""
    options = list[ThinkingOption]()
    for name, reader in READERS.items():
        value = msgspec.json.decode(fields[name]) if name in fields else None
        if name in known:
            more = {*_BEYOND, "summary"}
            value = {key: one for key, one in value.items() if key in more} if isinstance(value, dict) else None
            reader = _REASONING if name == "reasoning" else _nothing
        if value not in (None, "", [], {}):
            options += reader(value, name)
    return options


def without_others(value: dict[str, Any]) -> dict[str, Any]:
    """Responses' own ``reasoning`` without what it does not have."""
    return {name: one for name, one in value.items() if name not in _BEYOND}


def placed(option: ThinkingOption, known: Set[str]) -> Iterator[tuple[str, Any]]:
    """The fields of the route, by their paths, that say the same; nothing where it has none."""
    fields = next((fields for field, fields in _TARGETS.items() if field in known), {})
    what, value = option.what, option.value
    if what == "effort" and value == "none" and not known & {"reasoning_effort", "reasoning"}:
        what, value = "on", False
    path, words = fields.get(what, ("", _SAME))
    if path == "thinking.budget_tokens":
        if value != -1:
            yield "thinking.type", "enabled" if value else "disabled"
        if value in (-1, 0):
            return
    if path:
        yield path, words.get(value, value)


def agree(present: Any, option: ThinkingOption, value: Any) -> bool:
    """Whether what a field ``present`` says no other than ``value``: a model that thinks may do so in any way."""
    return bool(present == value or (option.value is True and present not in (False, "disabled", "none")))
