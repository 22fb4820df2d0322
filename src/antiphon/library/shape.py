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
            return self.kind.model_json_schema()
        try:
            return msgspec.json.schema(self.kind)
        except TypeError as error:
            raise RequestError(f"response: {error}", code="invalid_type") from error

    def _read(self, text: str) -> Value:
        if isinstance(self.kind, Mapping):
            return cast(Value, json.loads(text))
        if is_pydantic(self.kind):
            return cast(Value, self.kind.model_validate_json(str(text)))
        return msgspec.json.decode(str(text), type=self.kind)
