"""The tools that a reply may call: found by their names, their arguments fitted to their schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from antiphon.conversation import JsonSchema, ToolSpec
from antiphon.errors import RequestError
from antiphon.formats.replies.literal import Schema, typed
from antiphon.tokens import well_formed

if TYPE_CHECKING:  # jsonschema_rs is imported with the first call that is checked
    from antiphon.grammar.schema import CompiledSchema


# The forms in which models write calls beside the one that they were trained on.

JSON_FENCES = frozenset(("", "json", "jsonc", "json5", "xml"))
FENCES = JSON_FENCES | {"tool_call", "tool_calls", "tool_code", "tool_use", "function_call", "function", "tool"}
"""The languages of fences in which a call is written; of others the text is code."""
NAME_KEYS = ("name", "function", "tool", "tool_name", "function_name", "recipient_name", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params", "tool_input", "action_input", "kwargs")
ID_KEYS = ("id", "call_id", "tool_call_id")
THOUGHT_KEYS = ("thought", "thoughts", "reasoning")
"""Keys of a text beside a call."""
TYPES = frozenset(("function", "function_call", "tool_call", "tool_use", "tool"))
LISTS = ("tool_calls", "tool_call", "function_call", "function_calls", "tool_uses", "calls")
"""Keys of an object that holds calls, beside which only a message's own fields stand."""
BESIDE = frozenset(("role", "content", *THOUGHT_KEYS))
KEYS = (*NAME_KEYS, *ARGUMENT_KEYS, *ID_KEYS, *LISTS, *BESIDE, "type", "index")
PREFIXES = ("", "functions.", "function.", "tools.", "tool.", "default_api.", "api.")
"""Namespaces in which models put the tools that they are offered."""
DOUBLED_END = re.compile(r"\A\s*\}{1,2}")
"""The braces behind the object of a call in double braces."""
PLAN = "Action:"
"""Begins a call of two lines, the second of which is ``Action Input:`` and the arguments."""


class Mark(msgspec.Struct, frozen=True):
    """Two literals between which calls stand; an empty ``close``: up to the end."""

    open: str
    close: str


MARKS = tuple(
    Mark(open, close)
    for open, close in (
        ("<tool_call>", "</tool_call>"),
        ("<tool_calls>", "</tool_calls>"),
        ("<function_call>", "</function_call>"),
        ("<function_calls>", "</function_calls>"),
        ("<functioncall>", "</functioncall>"),
        ("<tool>", "</tool>"),
        ("<tool_use>", "</tool_use>"),
        ("<tools>", "</tools>"),
        ("<tool_code>", "</tool_code>"),
        ("<|tool_call|>", "<|/tool_call|>"),
        ("<|tool_call_start|>", "<|tool_call_end|>"),
        ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        ("<|python_tag|>", ""),
        ("[TOOL_CALLS]", ""),
        ("[TOOL_CALL]", "[/TOOL_CALL]"),
    )
)
"""The marks of calls that models know, spelled in plain text."""
FUNCTION_MARKS = ("<function=", "<function ", "<invoke ", "<tool_call ", "<tool ")
"""Beginnings of a mark that has the tool's name in it."""


class FoundCall(msgspec.Struct, frozen=True):
    """A call that was read: ``arguments`` is a JSON object that fits the tool's schema."""

    tool: ToolSpec
    arguments: str
    call_id: str | None = None


class Offered:
    """The tools that a reply may call, by the names that models give them."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self._tools: dict[str, ToolSpec] = {}
        tools = tuple(tools)
        for prefix in PREFIXES:
            for tool in tools:
                self._tools.setdefault(prefix + tool.name, tool)
                self._tools.setdefault(tool.recipient, tool)
        self._schemas: dict[str, CompiledSchema | None] = {}

    def __len__(self) -> int:
        return len(self._tools)

    def named(self, name: object) -> ToolSpec | None:
        """The tool of that name."""
        return self._tools.get(name.strip()) if isinstance(name, str) else None

    def begins(self, text: str) -> bool:
        """Whether a tool's name begins with the text."""
        return any(name.startswith(text.strip()) for name in self._tools)

    def fitted(self, tool: ToolSpec, arguments: object) -> str | None:
        """The arguments as JSON that fits the tool's schema; None where they do not fit.

        Where they need it, texts are typed by the schema, and null is left out for what need not be there.
        """
        if not isinstance(arguments, dict):
            return None
        schema = Schema(tool.parameters, tool.parameters) if tool.parameters is not None else Schema()
        if not set(arguments) <= _known(schema.resolved, arguments):
            return None
        try:
            written = well_formed(json.dumps(arguments, ensure_ascii=False, allow_nan=False))
        except ValueError:
            return None
        compiled = self._schema(tool)
        if compiled is None or compiled.fault(written) is None:
            return written
        mended = {
            key: json.loads(typed(value, schema.member(key))) if isinstance(value, str) else value
            for key, value in arguments.items()
            if value is not None or key in _required(schema.resolved)
        }
        written = well_formed(json.dumps(mended, ensure_ascii=False))
        return written if compiled.fault(written) is None else None

    def _schema(self, tool: ToolSpec) -> CompiledSchema | None:
        """The tool's schema; None for one that takes anything. One that cannot be compiled is refused elsewhere."""
        from antiphon.grammar.schema import judge_schema  # by most replies not needed

        if tool.name not in self._schemas:
            try:
                found = None if tool.parameters is None else judge_schema(tool.parameters)
            except RequestError:
                found = None
            self._schemas[tool.name] = found
        return self._schemas[tool.name]


def properties_of(tool: ToolSpec) -> Sequence[str]:
    """The names of the tool's arguments, in the order in which it has them."""
    node = tool.parameters if isinstance(tool.parameters, dict) else {}
    named = node.get("properties")
    return list(named) if isinstance(named, dict) else []


def _known(node: JsonSchema, arguments: dict[str, Any]) -> set[str]:
    """The names that arguments may have; all of them where the schema names none, or says that others may be."""
    named = node.get("properties") if isinstance(node, dict) else None
    if not isinstance(named, dict) or not isinstance(node, dict) or node.get("additionalProperties"):
        return set(arguments)
    return set(named)


def _required(node: JsonSchema) -> Sequence[object]:
    required = node.get("required") if isinstance(node, dict) else None
    return required if isinstance(required, list) else []
