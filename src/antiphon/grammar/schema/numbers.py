"""Numbers, with the engine's keywords."""

from __future__ import annotations

from typing import Any

from jsonschema_rs import canonical

from antiphon.conversation import JsonSchema

from .lowering import Lowering


def lower_number(view: canonical.IntegerView | canonical.NumberView, lowering: Lowering) -> JsonSchema:
    schema: dict[str, Any] = {"type": "integer" if isinstance(view, canonical.IntegerView) else "number"}
    for bound, keyword, exclusive in (
        (view.minimum, "minimum", "exclusiveMinimum"),
        (view.maximum, "maximum", "exclusiveMaximum"),
    ):
        if bound is not None:
            open_ = not isinstance(view, canonical.IntegerView) and getattr(view, "exclusive_" + keyword)
            schema[exclusive if open_ else keyword] = bound
    steps = [{"multipleOf": step} for step in view.multiple_of]
    if steps:
        schema |= steps[0] if len(steps) == 1 else {"allOf": steps}
    if view.not_multiple_of or (isinstance(view, canonical.NumberView) and view.excludes_integers):
        lowering.relax("not", "oneOf", "if", "else")
    return schema
