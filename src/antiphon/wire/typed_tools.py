"""Tools that are given by their type alone and that the client runs, as functions with the arguments that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.conversation import JsonSchema, ToolSpec

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_LINES: JsonSchema = {
    "type": "array",
    "items": {"type": "integer", "minimum": -1, "maximum": 2**31 - 1},
    "minItems": 2,
    "maxItems": 2,
    "description": "The first and the last line to show, from 1; -1 is the end.",
}


def _arguments(properties: Mapping[str, JsonSchema], required: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _by(name: str, ways: Mapping[str, tuple[str, ...]], properties: Mapping[str, JsonSchema]) -> dict[str, Any]:
    """Arguments of which ``name`` says what is done, and with that which others are needed."""
    kind: JsonSchema = {"type": "string", "enum": list(ways)}
    return {
        **_arguments({name: kind, **properties}, (name,)),
        "anyOf": [{"properties": {name: {"const": way}}, "required": list(needed)} for way, needed in ways.items()],
    }


_BASH = ToolSpec(
    "bash",
    "Runs a command in a shell that stays open between calls; restart begins a new shell.",
    {
        **_arguments({"command": _TEXT, "restart": {"type": "boolean"}}, ()),
        "anyOf": [{"required": ["command"]}, {"required": ["restart"], "properties": {"restart": {"const": True}}}],
    },
)


def _editor(name: str, inserted: str, *more: str) -> ToolSpec:
    ways = {
        "view": ("path",),
        "create": ("path", "file_text"),
        "str_replace": ("path", "old_str", "new_str"),
        "insert": ("path", "insert_line", inserted),
        **dict.fromkeys(more, ("path",)),
    }
    properties = {"path": _TEXT, "file_text": _TEXT, "old_str": _TEXT, "new_str": _TEXT, "insert_line": _COUNT}
    return ToolSpec(
        name,
        "Views, creates and edits text files. str_replace replaces old_str, which must be there exactly once; "
        f"insert puts {inserted} behind line insert_line.",
        _by("command", ways, {**properties, inserted: _TEXT, "view_range": _LINES}),
    )


_MEMORY = ToolSpec(
    "memory",
    "Keeps notes between conversations, as files under /memories. Look there first, and keep what later work needs.",
    _by(
        "command",
        {
            "view": ("path",),
            "create": ("path", "file_text"),
            "str_replace": ("path", "old_str", "new_str"),
            "insert": ("path", "insert_line", "insert_text"),
            "delete": ("path",),
            "rename": ("old_path", "new_path"),
        },
        {
            "path": _TEXT,
            "file_text": _TEXT,
            "old_str": _TEXT,
            "new_str": _TEXT,
            "insert_line": _COUNT,
            "insert_text": _TEXT,
            "old_path": _TEXT,
            "new_path": _TEXT,
            "view_range": _LINES,
        },
    ),
)
_OLDER, _NEWER = (
    _editor("str_replace_editor", "new_str", "undo_edit"),
    _editor("str_replace_based_edit_tool", "insert_text"),
)
MESSAGES: Mapping[str, ToolSpec] = {
    "bash_20241022": _BASH,
    "bash_20250124": _BASH,
    "text_editor_20241022": _OLDER,
    "text_editor_20250124": _OLDER,
    "text_editor_20250429": _NEWER,
    "text_editor_20250728": _NEWER,
    "memory_20250818": _MEMORY,
}
"""Anthropic's, by their types. Text to insert is ``new_str`` to the older editors, ``insert_text`` to others."""

_TIMES: Mapping[str, JsonSchema] = {"timeout_ms": {**_COUNT, "description": "Milliseconds that it may take."}}
RESPONSES: Mapping[str, ToolSpec] = {
    "local_shell": ToolSpec(
        "local_shell",
        "Runs a program on the user's computer: its name and its arguments, each a text of its own.",
        _arguments(
            {"command": {"type": "array", "items": _TEXT, "minItems": 1}, "working_directory": _TEXT, **_TIMES},
            ("command",),
        ),
    ),
    "shell": ToolSpec(
        "shell",
        "Runs shell commands on the user's computer, in their order.",
        _arguments(
            {
                "commands": {"type": "array", "items": _TEXT, "minItems": 1},
                **_TIMES,
                "max_output_length": {**_COUNT, "description": "Characters to read of what each command prints."},
            },
            ("commands",),
        ),
    ),
    "apply_patch": ToolSpec(
        "apply_patch",
        "Creates, changes or deletes a file. Each line of diff begins with + where it is added, - where it is removed, "
        "and a space where it stays; @@ and a line of the file say where the lines after it are. "
        "In a new file all lines are added.",
        _by(
            "type",
            {"create_file": ("path", "diff"), "update_file": ("path", "diff"), "delete_file": ("path",)},
            {"path": _TEXT, "diff": _TEXT},
        ),
    ),
}
"""OpenAI's, by their types."""
SEARCH = ToolSpec(
    "tool_search",
    "Finds tools by what they do. What it finds can be called from then on.",
    _arguments({"query": _TEXT}, ("query",)),
)
"""OpenAI's search for tools, where the client runs it and says nothing else of it."""
