"""The YAML header of a transcript (§2): read under limits, kept whole, written as it was."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from antiphon.conversation import Channel, ReasoningEffort
from antiphon.errors import Position, RequestError

from .finding import E_HEADER, Finding, Place
from .spelling import CONTROLS

MAX_HEADER = 65_536
"""Characters of YAML that a header may have."""
MAX_DEPTH = 16
"""Levels of nesting that a header may have."""

VERSION = "2.2"
EVENTS = ("response.delta", "response.delta.flush", "response.cancel", "response.done", "tool.cancel")
"""What we can send (A-O19)."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """§2, A-O30: what a producer may use. None: nothing was said, everything is allowed."""

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
        """What both sides can do (A-O19: the intersection)."""
        return Capabilities(
            _both(self.roles, other.roles), _both(self.channels, other.channels),
            _both(self.tokens, other.tokens), _both(self.streaming, other.streaming),
        )  # fmt: skip


OURS = Capabilities(
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
    """The header's keys as read, unknown ones too and in their order; the properties are what we understand of them.

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
        return ReasoningEffort(effort) if effort in set(ReasoningEffort) else None

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


class _PlainLoader(yaml.CSafeLoader):
    """Plain data only: duplicate keys are refused, dates stay text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen if isinstance(key, yaml.ScalarNode) else True:
                problem = (
                    f"the key {key.value!r} stands twice" if isinstance(key, yaml.ScalarNode) else "a key is no word"
                )
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=True)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":merge"))]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_header(text: str, start: Place) -> DocumentHeader | Finding:
    """The header that ``text`` is, without its closing fence; ``start`` is its place in the transcript."""
    try:
        _check_shape(text)
        loader = _PlainLoader(text)
        try:
            node = loader.get_single_node()
            fields = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or error.context or "the YAML is malformed"
        return _finding(message, text, start, mark.line if mark else 0, mark.column if mark else 0)
    except (yaml.YAMLError, ValueError) as error:
        return _finding(f"the YAML is malformed: {error}".splitlines()[0], text, start)
    if not isinstance(fields, dict) or node is None:
        return _finding("the header is not a mapping of keys", text, start)
    return _with_version(fields, node, text, start)


def _check_shape(text: str) -> None:
    """Refuses, before anything is built, what could grow: deep nesting, anchors and aliases, tags."""
    depth = 0
    event: Any
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        problem = None
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            problem = "anchors and aliases have no place in a header"
        elif getattr(event, "tag", None):
            problem = "tags have no place in a header"
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            problem = f"the header is nested deeper than {MAX_DEPTH} levels" if depth > MAX_DEPTH else None
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _with_version(fields: dict[str, Any], node: yaml.Node, text: str, start: Place) -> DocumentHeader | Finding:
    """A-O28, A-O41: the version as written (2.10 is no float), of a major that we read."""
    entry = next(((k, v) for k, v in node.value if k.value == "version"), None)
    if entry is None:
        return _finding("the header has no version", text, start, hint='Begin with version: "2.2".')
    mark, version = entry[1].start_mark, str(entry[1].value)
    major, dot, minor = version.partition(".")
    if not (dot and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        return _finding(f"the version {version!r} is not major.minor", text, start, mark.line, mark.column)
    if major not in ("1", "2"):
        hint = "unsupported_version: this is a reader of versions 1 and 2."
        return _finding(f"unsupported version {version}", text, start, mark.line, mark.column, hint)
    return DocumentHeader(version, {str(key): value for key, value in fields.items() if key != "version"})


def _finding(message: str, text: str, start: Place, line: int = 0, column: int = 0, hint: str | None = None) -> Finding:
    lines = text.split("\n")
    before = sum(len(above) + 1 for above in lines[:line]) + column
    place = Place(start.offset, start.line, start.column)
    place.pass_over(text[:before])
    return Finding(E_HEADER, message, place.position(), hint, text=text)


def spell_header(header: DocumentHeader) -> str:
    """The canonical header: fenced, the version quoted, the other keys in their order (A-O28, A-O29)."""
    rest = ""
    if header.fields:
        rest = yaml.dump(
            dict(header.fields), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, default_flow_style=None,
            width=120,
        )  # fmt: skip
    return f'---\nversion: "{header.version}"\n{rest}---\n'


def accepted_events(asked: Collection[str] | None) -> frozenset[str]:
    """The events to send to somebody who asked for some (None: who did not say)."""
    return frozenset(EVENTS if asked is None else (event for event in EVENTS if event in asked))
