"""Numbers of a canonical schema, in the engine's keywords.

    schema   {"type": "number", "minimum": 0, "not": {"const": 0}, "multipleOf": 0.5}
    engine   {"type": "number", "minimum": 0.5, "multipleOf": 0.5}
    accepts  0.5  2
    refuses  0.3

An open bound has a keyword of its own:

    schema   {"$schema": "http://json-schema.org/draft-04/schema#",
             "type": "number", "minimum": 0, "exclusiveMinimum": true}
    engine   {"type": "number", "exclusiveMinimum": 0}
    accepts  0.1
    refuses  0  -1
"""

from __future__ import annotations

from typing import Any

from jsonschema_rs import canonical

from antiphon.conversation import JsonSchema

from .context import TranslationContext

NumericView = canonical.IntegerView | canonical.NumberView


def translate_number(view: NumericView, context: TranslationContext) -> JsonSchema:
    schema = {"type": "integer" if isinstance(view, canonical.IntegerView) else "number", **_bounds(view)}
    steps = [{"multipleOf": step} for step in view.multiple_of]
    if steps:
        schema |= steps[0] if len(steps) == 1 else {"allOf": steps}
    if view.not_multiple_of or (isinstance(view, canonical.NumberView) and view.excludes_integers):
        context.relax("not", "oneOf", "if", "else")
    return schema


def _bounds(view: NumericView) -> dict[str, Any]:
    above = isinstance(view, canonical.NumberView) and view.exclusive_minimum
    below = isinstance(view, canonical.NumberView) and view.exclusive_maximum
    bounds = {
        "exclusiveMinimum" if above else "minimum": view.minimum,
        "exclusiveMaximum" if below else "maximum": view.maximum,
    }
    return {keyword: bound for keyword, bound in bounds.items() if bound is not None}
