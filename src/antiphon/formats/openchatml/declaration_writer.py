"""Tools, written as a developer's message declares them (§16.2): what `read_declaration` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence

from antiphon.conversation import ToolNamespace, ToolSpec
from antiphon.errors import RenderError
from antiphon.formats.harmony.numbers import JsonText
from antiphon.formats.harmony.sections import SectionWriter
from antiphon.formats.harmony.typescript import FullTypePrinter

from .declarations import TITLE, read_declaration
from .spelling import is_utf8

_SECTIONS = SectionWriter(FullTypePrinter(JsonText()))


def spell_tools(tools: Sequence[ToolSpec]) -> str:
    """The ``# Tools`` of a developer's message: each namespace in types where these say all of it, else in JSON."""
    names = dict.fromkeys(tool.namespace for tool in tools)
    sections = (_namespace(name, tuple(tool for tool in tools if tool.namespace == name)) for name in names)
    return "\n\n".join([TITLE, *sections])


def _namespace(name: str, tools: tuple[ToolSpec, ...]) -> str:
    try:
        typed = _SECTIONS.tools({name: ToolNamespace(name, None, tools)})
    except RenderError:  # too deep, or too large
        return _in_json(name, tools)
    if read_declaration(typed).namespaces == (ToolNamespace(name, None, tools),):
        return typed.removeprefix(TITLE).lstrip("\n")
    return _in_json(name, tools)


def _in_json(name: str, tools: tuple[ToolSpec, ...]) -> str:
    return "\n".join([f"## {name}", "", *map(_line, tools)])


def _line(tool: ToolSpec) -> str:
    fields = {"name": tool.recipient, "description": tool.description or None, "parameters": tool.parameters,
              "strict": tool.strict}  # fmt: skip
    given = {key: value for key, value in fields.items() if value is not None}
    line = json.dumps(given, ensure_ascii=False)
    return line if is_utf8(line) and len(line.splitlines()) == 1 else json.dumps(given)
