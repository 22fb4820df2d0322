"""The filter `tojson`, whose text is measured before it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .budget import MEASURED, Budget, Exhausted
from .operators import ordered

FARTHEST = 64
"""Characters of an indent, and between two places of JSON."""
_MAX_DEPTH = 200


def to_json(
    budget: Budget,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As Hugging Face has it: plain JSON, no HTML escapes. Private-use marks stay as they are in any case."""
    value = budget.listed(value) if isinstance(value, Iterator) else value
    far = 0 if indent is None else len(indent) if isinstance(indent, str) else indent
    between, behind = separators or (", ", ": ")
    if max(far, len(between), len(behind)) > FARTHEST:
        raise Exhausted("the chat template indents too far")
    if sort_keys:
        ordered(budget, value)
    budget.chars(_json_length(budget, value, len(between) + len(behind) + 1, max(far, 0), 6 if ensure_ascii else 1))
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=_plain
    )
    return re.sub(r"\\u(e[0-9a-f]{3}|f[0-8][0-9a-f]{2})", _private_use, text) if ensure_ascii else text


def _json_length(budget: Budget, value: Any, apart: int, far: int, wide: int, depth: int = 0) -> int:
    """Characters of a value's JSON at most: ``apart`` and ``far`` for each place, a character as wide as its escape."""
    if isinstance(value, str):
        budget.read(len(value))
        plain = wide == 1 or value.isascii()
        return 2 + (len(json.dumps(value, ensure_ascii=False)) if plain else 2 * wide * len(value))
    if not isinstance(value, MEASURED):
        return budget.written(value)
    budget.slots(len(value))
    keys = (
        sum(_json_length(budget, key, apart, far, wide, depth + 1) for key in value) if isinstance(value, dict) else 0
    )
    inner = value.values() if isinstance(value, dict) else value
    each = apart + far * (depth + 1) + 1
    length = 4 + far * depth + keys + each * len(value)
    if length > budget.output or depth > _MAX_DEPTH:
        raise Exhausted("the chat template makes too long a text")
    return length + sum(_json_length(budget, item, apart, far, wide, depth + 1) for item in inner)


def _private_use(escape: re.Match[str]) -> str:
    return chr(int(escape.group(1), 16))


def _plain(value: Any) -> Any:
    if isinstance(value, MEASURED):
        return list(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")
