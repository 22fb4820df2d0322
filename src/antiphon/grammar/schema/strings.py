"""Strings, with the engine's keywords; and patterns of names."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import jsonschema_rs
from jsonschema_rs import canonical

from antiphon.conversation import JsonSchema
from antiphon.grammar.text import quote

from .formats import CHECKED, PATTERNS
from .lowering import Lowering
from .quoting import in_json

LOOKS_AROUND = re.compile(r"(?:^|[^\\])(?:\\\\)*(?:\(\?<?[=!]|\\[1-9bB]|\\k<)")
"""A pattern that looks around or back, which the engine's automata do not."""


def lower_string(view: canonical.StringView, lowering: Lowering) -> JsonSchema:
    schema: dict[str, Any] = {"type": "string"}
    patterns = [p for pattern in view.patterns if not _unheld(pattern, lowering) for p in in_json(pattern)]
    for format in view.formats:
        if format in CHECKED:
            lowering.relax("format")
        elif format in PATTERNS:
            patterns.append(PATTERNS[format])
    if view.excluded:
        patterns += in_json(other_than(view.excluded))
    if view.excluded_patterns or view.excluded_formats:
        lowering.relax("not", "oneOf", "if", "else")
    if view.min_length is not None:
        schema["minLength"] = view.min_length
    if view.max_length is not None:
        schema["maxLength"] = view.max_length
    return schema | all_of(list(dict.fromkeys(patterns)))


def all_of(patterns: Sequence[str]) -> dict[str, Any]:
    """The keywords that ask for every one of the patterns."""
    rest = [{"type": "string", "pattern": pattern} for pattern in patterns[1:]]
    return {"pattern": patterns[0], **({"allOf": rest} if rest else {})} if patterns else {}


def _unheld(pattern: str, lowering: Lowering) -> bool:
    """Whether the engine cannot hold a pattern."""
    if not LOOKS_AROUND.search(pattern):
        return False
    lowering.relax("pattern")
    return True


def other_than(texts: Collection[str], *, but: str = "") -> str:
    """A pattern of every text but these: one that leaves all of them at some character, or ends before or after.

    Texts with a character of ``but`` are left out too.
    """
    return f"^(?s:{_beside('', texts, but)})$"


def _beside(prefix: str, texts: Collection[str], but: str) -> str:
    following = sorted({text[len(prefix)] for text in texts if text.startswith(prefix) and text != prefix})
    any_ = f"[^{quote(but)}]" if but else "."
    if not following:
        return f"{any_}+"
    ways = [f"[^{''.join(map(quote, {*following, *but}))}]{any_}*"]
    ways += [f"{quote(char)}(?:{_beside(prefix + char, texts, but)})" for char in following]
    return "|".join(ways if prefix in texts else ["", *ways])


def matches(pattern: str, name: str) -> bool:
    """Whether a name has the pattern, as the schema's dialect of patterns means it."""
    return jsonschema_rs.is_valid({"pattern": pattern}, name)
