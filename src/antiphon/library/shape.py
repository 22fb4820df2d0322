"""The type that an answer is to have: its JSON Schema for the grammar, and its values from the text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeGuard, TypeVar, cast

import msgspec

from antiphon.conversation import ResponseFormat
from antiphon.errors import FormatError, RequestError

Value = TypeVar("Value")


class PydanticModel(Protocol):
    """The part of a pydantic model's class that is needed here; pydantic itself is not."""

    @staticmethod
    def model_json_schema() -> dict[str, Any]: ...

    @staticmethod
    def model_validate_json(text: str) -> Any: ...


def is_pydantic(kind: object) -> TypeGuard[PydanticModel]:
    return hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate_json")


@dataclass(frozen=True, slots=True)
class Shape(Generic[Value]):
    """A type (msgspec struct, dataclass, TypedDict, pydantic model, `list[int]` …) or a JSON Schema as a mapping."""

    kind: type[Value] | Mapping[str, Any]

    @property
    def response_format(self) -> ResponseFormat:
        """What the model is constrained to. Raises `RequestError` for a type that JSON cannot carry."""
        return ResponseFormat(kind="json_schema", name="answer", schema=self._schema(), strict=True)

    def read(self, text: str) -> Value:
        """The answer's value. Raises `FormatError` when the text is none, although its grammar was."""
        try:
            return self._read(text)
        except ValueError as error:  # msgspec's and pydantic's errors are ValueErrors
            raise FormatError(f"the answer is not of the type asked for: {error}", code="answer_type") from error

    def _schema(self) -> dict[str, Any]:
        if isinstance(self.kind, Mapping):
            return dict(self.kind)
        if is_pydantic(self.kind):
            return closed(self.kind.model_json_schema())
        try:
            return closed(msgspec.json.schema(self.kind))
        except TypeError as error:
            raise RequestError(f"response: {error}", code="invalid_type") from error

    def _read(self, text: str) -> Value:
        if isinstance(self.kind, Mapping):
            return cast(Value, json.loads(text))
        if is_pydantic(self.kind):
            return cast(Value, self.kind.model_validate_json(str(text)))
        return msgspec.json.decode(str(text), type=self.kind)


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
