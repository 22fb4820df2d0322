"""Strings of a canonical schema, in the engine's keywords.

The engine has one pattern a string and no ``not``; a format, and excluded texts, are patterns too:

    schema   {"type": "string", "not": {"enum": ["no", "non"]}, "maxLength": 3}
    engine   {"type": "string", "maxLength": 3, "pattern": "^(?s:|[^n].*|n(?:|[^o].*|o(?:[^n].*|n(?:.+))))$"}
    accepts  ""  "n"  "yes"
    refuses  "no"  "non"  "noon"

    schema   {"type": "string", "pattern": "^20", "format": "date"}
    engine   {"type": "string", "pattern": "^20", "allOf": [{"type": "string", "pattern": "^(?s:(?:[0-9]{4}-…)$"}]}
    accepts  "2024-02-29"
    refuses  "1999-12-31"  "2023-02-29"

A pattern that looks around is more than an automaton can do:

    schema   {"type": "string", "pattern": "^(?!x)", "maxLength": 2}
    engine   {"type": "string", "maxLength": 2}
    relaxed  .pattern
    accepts  "ab"
    rejects  "xa"
"""

from __future__ import annotations

from typing import Any

from jsonschema_rs import canonical

from antiphon.conversation import JsonSchema

from .context import TranslationContext
from .escapes import engine_patterns
from .formats import NOT_REGULAR, PATTERNS
from .patterns import all_except, engine_fault, is_regular, pattern_keywords

_UNDECIDED = "Unable to determine"
"""How the engine begins where it cannot say whether any text fits patterns and lengths together."""


def translate_string(view: canonical.StringView, context: TranslationContext) -> JsonSchema:
    patterns = [*_patterns(view, context), *_format_patterns(view, context)]
    if view.excluded:
        patterns += engine_patterns(all_except(view.excluded))
    if view.excluded_patterns or view.excluded_formats:
        context.relax("not", "oneOf", "if", "else")
    patterns = list(dict.fromkeys(patterns))
    schema = {"type": "string", **_lengths(view), **pattern_keywords(patterns)}
    if len(patterns) > 1 and _UNDECIDED in engine_fault(schema):
        context.relax("pattern", "format", "not")
        return {"type": "string", **_lengths(view)}
    return schema


def _patterns(view: canonical.StringView, context: TranslationContext) -> list[str]:
    patterns: list[str] = []
    for pattern in view.patterns:
        if not is_regular(pattern):
            context.relax("pattern")
        else:
            patterns += engine_patterns(pattern)
    return patterns


def _format_patterns(view: canonical.StringView, context: TranslationContext) -> list[str]:
    """The patterns of the formats; one that is no standard's is an annotation."""
    if not NOT_REGULAR.isdisjoint(view.formats):
        context.relax("format")
    return [PATTERNS[format] for format in view.formats if format in PATTERNS]


def _lengths(view: canonical.StringView) -> dict[str, Any]:
    lengths = {"minLength": view.min_length, "maxLength": view.max_length}
    return {keyword: length for keyword, length in lengths.items() if length is not None}
