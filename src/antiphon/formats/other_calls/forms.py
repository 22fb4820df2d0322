"""The forms in which models write calls beside the one that they were trained on."""

from __future__ import annotations

import re

import msgspec

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
"""What is left behind the object of a call in double braces."""
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
"""What opens a mark that has the tool's name in it."""
