"""Schemas and patterns of which it is known beforehand that compiling them takes a moment.

A schema is plain where each of its keywords is one that passes through as it stands (`.passthrough`), and it is not
large: its compilation is then one walk over its parts, and what the engine makes of it is bounded by the engine's own
limits. Whatever intersects, negates, counts cases or compiles patterns together is not plain, however short it is.

>>> is_plain({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]})
True
>>> is_plain({"allOf": [{"type": "string"}, {"pattern": "a"}]}), is_plain({"type": "number", "multipleOf": 0.01})
(False, False)
>>> [is_plain({"type": "string", "pattern": pattern}) for pattern in ("^[a-z]+$", "^(?:a{9}){9}$", "^(?=a)")]
[True, False, False]
"""

from __future__ import annotations

import re
from typing import Any

MOST_VALUES = 1_000
"""Values of JSON that a plain schema has."""
MOST_CHARACTERS = 32 * 1024
"""Of its names and texts."""
MOST_PATTERN = 128
"""Characters of a plain pattern."""
MOST_PATTERNS = 16
"""Patterns of a plain schema."""

MOST_NUMBER = 10.0**40
"""Above it, and below its inverse, are numbers that take long to write as a pattern: their digits are counted twice."""

_VALUES = frozenset(
    "type enum const required minimum maximum exclusiveMinimum exclusiveMaximum "
    "minLength maxLength minItems maxItems".split()
)
_ANNOTATIONS = frozenset(
    "$schema title description default examples example deprecated readOnly writeOnly $comment nullable".split()
)
_BESIDE_REFERENCE = _ANNOTATIONS | {"$ref", "$defs", "definitions"}
_BESIDE_PATTERN = _ANNOTATIONS | {"type", "pattern"}
_COUNTED_OR_LOOKING = re.compile(r"\{|\(\?(?!:)|\\[1-9bBkpP]|[^\\]\$.|.\^")
"""What unrolls, looks around or back, names classes of Unicode, or stands on an edge in the midst of a pattern."""


def is_plain_pattern(pattern: str) -> bool:
    """Whether a pattern is short, and what it says is said once."""
    return len(pattern) <= MOST_PATTERN and not _COUNTED_OR_LOOKING.search(pattern)


def is_plain(schema: Any) -> bool:
    """Whether a schema is small and made of plain keywords; looks at no more of it than that takes."""
    left, characters, patterns = MOST_VALUES, MOST_CHARACTERS, MOST_PATTERNS
    todo: list[tuple[Any, bool]] = [(schema, True)]
    while todo:
        node, is_schema = todo.pop()
        if isinstance(node, str):
            characters -= len(node)
        elif isinstance(node, list):
            left -= len(node)
            todo += [(item, is_schema) for item in node[: max(left, 0)]]
        elif isinstance(node, dict):
            left -= len(node)
            characters -= sum(map(len, node))
            if is_schema:
                patterns -= "pattern" in node
                if not _is_plain_node(node):
                    return False
            if left >= 0:
                todo += _inner(node) if is_schema else [(value, False) for value in node.values()]
        elif not _is_plain_value(node, is_schema):
            return False
        if min(left, characters, patterns) < 0:
            return False
    return True


def _is_plain_value(value: Any, is_schema: bool) -> bool:
    """Whether a value that is no text, list or object may stand where it does."""
    if isinstance(value, bool):
        return True
    return not is_schema and (not value or 1 / MOST_NUMBER < abs(value) < MOST_NUMBER)


def _is_plain_node(node: dict[str, Any]) -> bool:
    for key, value in node.items():
        match key:
            case _ if key in _VALUES or key in _ANNOTATIONS:
                continue
            case "properties" | "$defs" | "definitions" if isinstance(value, dict):
                continue
            case "additionalProperties" | "items" if isinstance(value, dict | bool):
                continue
            case "anyOf" if isinstance(value, list):
                continue
            case "$ref" if node.keys() <= _BESIDE_REFERENCE:
                continue
            case "pattern" if isinstance(value, str) and node.keys() <= _BESIDE_PATTERN and is_plain_pattern(value):
                continue
            case _:
                return False
    return True


def _inner(node: dict[str, Any]) -> list[tuple[Any, bool]]:
    """The values within a schema, each with whether it is a schema; of properties and definitions the values are."""
    found: list[tuple[Any, bool]] = []
    for key, value in node.items():
        if key in ("properties", "$defs", "definitions"):
            found += [(item, True) for item in value.values()]
        else:
            found.append((value, key in ("additionalProperties", "items", "anyOf")))
    return found
