"""What a text of JSON must look like to be a value of Python: patterns beside JSON Schema's formats.

A format of JSON Schema lets through what Python's types do not take: a leap second, the year 0, a month of a duration.
"""

from __future__ import annotations

from typing import Any

from antiphon.grammar.schema.formats import PATTERNS

_YEAR = "(?:[1-9]|0[1-9]|00[1-9]|000[1-9])"
_NAIVE_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_DAY = PATTERNS["date"].removeprefix("^(?s:").removesuffix(")$")

DATE = {"type": "string", "format": "date", "pattern": f"^{_YEAR}"}
TIME = {"type": "string", "format": "time", "pattern": "^[0-9:]{6}[0-5]"}
NAIVE_TIME = {"type": "string", "pattern": f"^{_NAIVE_TIME}$"}
DATE_TIME = {"type": "string", "format": "date-time", "pattern": f"^{_YEAR}.*[Tt][0-9:]{{6}}[0-5]"}
NAIVE_DATE_TIME = {"type": "string", "pattern": f"^{_YEAR}.*T", "allOf": [{"pattern": f"^{_DAY}T{_NAIVE_TIME}$"}]}
DURATION = {
    "type": "string",
    "format": "duration",
    "pattern": "^P(?:[0-9]{1,6}D)?(?:T(?:[0-9]{1,6}H)?(?:[0-9]{1,6}M)?(?:[0-9]{1,6}S)?)?$",
}
DECIMAL = {"type": "string", "format": "decimal", "pattern": r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"}
BASE64 = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
UUID = {"type": "string", "format": "uuid"}
WHOLE_NUMBER_KEY = {"pattern": "^(?:0|-?[1-9][0-9]{0,17})$"}


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without room for properties that the type has no place for: a model could fill it until it is cut."""
    found = {key: _closed_part(key, value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def _closed_part(key: str, value: Any) -> Any:
    """A keyword's value with the schemas in it closed; what is a value and no schema stays as it is."""
    if key in ("default", "const", "enum", "examples"):
        return value
    if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, dict):
        return {name: closed(part) if isinstance(part, dict) else part for name, part in value.items()}
    if isinstance(value, list):
        return [closed(part) if isinstance(part, dict) else part for part in value]
    return closed(value) if isinstance(value, dict) else value
