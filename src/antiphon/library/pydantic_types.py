"""Types that pydantic reads from JSON: its models, alone or inside lists, unions, dataclasses …

Imported where the requested type is pydantic's; Antiphon itself does without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from .msgspec_types import BASE64, DATE, DATE_TIME, DECIMAL, DURATION, NAIVE_DATE_TIME, TIME, closed

BOUNDS: Mapping[Literal["ge", "gt", "le", "lt"], str] = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum",
}  # fmt: skip


class NarrowSchema(GenerateJsonSchema):
    """pydantic's schema, narrowed to what its validation of JSON takes."""

    def date_schema(self, schema: core_schema.DateSchema) -> JsonSchemaValue:
        return self._unbounded(schema, DATE)

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return self._unbounded(schema, TIME)

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        return self._unbounded(schema, NAIVE_DATE_TIME if schema.get("tz_constraint") == "naive" else DATE_TIME)

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return self._unbounded(schema, DURATION)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A text of digits; a number where it has bounds, which a text cannot have."""
        bounds = {keyword: float(schema[name]) for name, keyword in BOUNDS.items() if schema.get(name) is not None}
        return {"type": "number", **bounds} if bounds else dict(DECIMAL)

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        if self._config.val_json_bytes == "base64":
            return dict(BASE64)
        return super().bytes_schema(schema)

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return _without_uniqueness(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return _without_uniqueness(super().frozenset_schema(schema))

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        schemes = schema.get("allowed_schemes")
        return super().url_schema(schema) | ({"pattern": f"^(?:{'|'.join(schemes)})://[a-z]"} if schemes else {})

    def _unbounded(self, schema: core_schema.CoreSchema, form: Mapping[str, Any]) -> JsonSchemaValue:
        """The form of a date or time, which no grammar can hold to be before or after another."""
        bounds: Mapping[str, Any] = schema
        if any(bounds.get(name) is not None for name in ("now_op", *BOUNDS)):
            return self.handle_invalid_for_json_schema(schema, "a date or time with a bound")
        return dict(form)


def _without_uniqueness(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Drops ``uniqueItems``: a value that comes twice in a set is there once."""
    return {name: rule for name, rule in schema.items() if name != "uniqueItems"}


@dataclass(frozen=True, slots=True)
class PydanticType:
    """A type, its schema, and its values from JSON. Each raises what pydantic raises."""

    kind: Any

    def schema(self) -> dict[str, Any]:
        return closed(TypeAdapter(self.kind).json_schema(schema_generator=NarrowSchema))

    def read(self, text: str) -> Any:
        """Raises `ValueError` for a text that is no value."""
        return TypeAdapter(self.kind).validate_json(text)
