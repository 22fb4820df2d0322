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


def definition(tool: ToolSpec) -> dict[str, Any]:
    """The tool as chat templates know it."""
    parameters = tool.parameters if tool.parameters is not None else {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


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
        """Recipients of its calls: its tools, or without any the namespace itself."""
        return tuple(f"{self.name}.{tool.name}" for tool in self.tools) or (self.name,)


def by_namespace(tools: Iterable[ToolSpec]) -> dict[str, ToolNamespace]:
    """Groups tools in the namespaces that they are of, in the order in which these come first."""
    grouped: dict[str, list[ToolSpec]] = {}
    for tool in tools:
        grouped.setdefault(tool.namespace, []).append(tool)
    return {name: ToolNamespace(name, None, tuple(members)) for name, members in grouped.items()}


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
    """Form that the final answer must have. ``schema`` for json_schema; ``pattern`` for regex; ``choices`` for choice.

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


# The two tools that gpt-oss was trained with, in the words that it was trained on (HAR-99 … HAR-109).

_TEXT = {"type": "string"}
_UNSET = {"type": "number", "default": -1}

BROWSER = ToolNamespace(
    "browser",
    "Tool for browsing.\n"
    "The `cursor` appears in brackets before each browsing display: `[{cursor}]`.\n"
    "Cite information from the tool using the following format:\n"
    "`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.\n"
    "Do not quote more than 10 words directly from the tool output.\n"
    "sources=web (default: web)",
    (
        ToolSpec(
            "search",
            "Searches for information related to `query` and displays `topn` results.",
            {
                "type": "object",
                "properties": {"query": _TEXT, "topn": {"type": "number", "default": 10}, "source": _TEXT},
                "required": ["query"],
            },
            namespace="browser",
        ),
        ToolSpec(
            "open",
            "Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, "
            "showing `num_lines` lines.\n"
            "Valid link ids are displayed with the formatting: `【{id}†.*】`.\n"
            "If `cursor` is not provided, the most recent page is implied.\n"
            "If `id` is a string, it is treated as a fully qualified URL associated with `source`.\n"
            "If `loc` is not provided, the viewport will be positioned at the beginning of the document "
            "or centered on the most relevant passage, if available.\n"
            "Use this function without `id` to scroll to a new location of an opened page.",
            {
                "type": "object",
                "properties": {
                    "id": {"type": ["number", "string"], "default": -1},
                    "cursor": _UNSET,
                    "loc": _UNSET,
                    "num_lines": _UNSET,
                    "view_source": {"type": "boolean", "default": False},
                    "source": _TEXT,
                },
            },
            namespace="browser",
        ),
        ToolSpec(
            "find",
            "Finds exact matches of `pattern` in the current page, or the page given by `cursor`.",
            {"type": "object", "properties": {"pattern": _TEXT, "cursor": _UNSET}, "required": ["pattern"]},
            namespace="browser",
        ),
    ),
)
"""The browser that gpt-oss was trained on: ``search``, ``open`` and ``find``, in the words of its training."""

PYTHON = ToolNamespace(
    "python",
    "Use this tool to execute Python code in your chain of thought. The code will not be shown to the user. "
    "This tool should be used for internal reasoning, but not for code that is intended to be visible to the user "
    "(e.g. when creating plots, tables, or files).\n\n"
    "When you send a message containing Python code to python, it will be executed in a stateful Jupyter notebook "
    "environment. python will respond with the output of the execution or time out after 120.0 seconds. "
    "The drive at '/mnt/data' can be used to save and persist user files. "
    "Internet access for this session is UNKNOWN. Depends on the cluster.",
)
"""The Python that gpt-oss was trained on, in the words of its training: a call is code, not JSON."""

TRAINED = {namespace.name: namespace for namespace in (BROWSER, PYTHON)}
"""By name; a built-in of one of these names that says nothing of its own is described in these words."""


def described(namespace: ToolNamespace) -> ToolNamespace:
    """The namespace, in the words that gpt-oss was trained on where it is one of these and says nothing of its own."""
    silent = namespace.description is None and not namespace.tools
    return TRAINED.get(namespace.name, namespace) if silent else namespace
