"""Tools that a conversation offers, and formats that its answer may be constrained to. Schemas stay verbatim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

JsonSchema = dict[str, Any] | bool
"""A JSON Schema as ``json.loads`` reads it; True allows any value, False none."""

FUNCTIONS = "functions"
"""The namespace of a caller's own functions, in both specifications."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool. ``parameters`` is its JSON Schema as given, None when it takes nothing.

    ``strict`` True: a call's arguments fit the schema in everything, and a schema of which something cannot be enforced
    while the model samples is refused. Otherwise such a thing is checked at the end, and reported as an incident.
    """

    name: str
    description: str = ""
    parameters: JsonSchema | None = None
    strict: bool | None = None
    namespace: str = FUNCTIONS

    @property
    def recipient(self) -> str:
        """The qualified name that a call is addressed to, e.g. ``functions.get_weather``."""
        return f"{self.namespace}.{self.name}"


def recipients_of(offered: Iterable[ToolSpec | str]) -> tuple[str, ...]:
    """The qualified names of tools, of which some may be given by that name already."""
    return tuple(tool if isinstance(tool, str) else tool.recipient for tool in offered)


@dataclass(frozen=True, slots=True)
class ToolNamespace:
    """A named group of tools (Harmony's built-in ``browser``); without tools its description is all (``python``)."""

    name: str
    description: str | None = None
    tools: tuple[ToolSpec, ...] = ()

    @property
    def recipients(self) -> tuple[str, ...]:
        """Whom its calls are addressed to: its tools, or without any the namespace itself."""
        return tuple(f"{self.name}.{tool.name}" for tool in self.tools) or (self.name,)


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """``names`` narrows ``mode`` to some tools, by their names or recipients; ``browser`` is all of that namespace.

    ``once``: a tool was named, and is called exactly once.
    """

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()
    once: bool = False

    def allows(self, recipient: str) -> bool:
        """Whether the tool, where it is offered, may be called."""
        if self.mode == "none":
            return False
        return not self.names or any(map(partial(is_named, recipient), self.names))


def is_named(recipient: str, name: str) -> bool:
    """Whether ``name`` is the recipient's: qualified, a function's without its namespace, or a server's namespace."""
    if recipient in (name, f"{FUNCTIONS}.{name}"):
        return True
    return recipient.startswith(f"{name}.") and not f"{name}.".startswith(f"{FUNCTIONS}.")


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """What the final answer must be. ``schema`` for json_schema; ``pattern`` for regex; ``choices`` for choice.

    ``grammar`` for grammar: its text, in llama.cpp's GBNF or in Lark. ``compact``: JSON has no blanks, also where the
    model was trained to write some.
    """

    kind: Literal["text", "json_object", "json_schema", "regex", "choice", "grammar"] = "text"
    name: str | None = None
    description: str | None = None
    schema: JsonSchema | None = None
    strict: bool | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    grammar: str | None = None
    compact: bool = False

    @property
    def is_json(self) -> bool:
        """The answer must be a JSON text."""
        return self.kind in ("json_object", "json_schema")
