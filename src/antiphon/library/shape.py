"""The type that an answer is to have: its JSON Schema for the grammar, and its values from the text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import UnionType
from typing import Annotated, Any, Generic, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from antiphon.conversation import ResponseFormat, Role, TextPart
from antiphon.errors import FormatError
from antiphon.formats import Format
from antiphon.generation import TurnRequest
from antiphon.wire.json import encode_given

from .checks import refused
from .msgspec_types import MsgspecType

Value = TypeVar("Value")
ResponseType = type[Any] | UnionType | Mapping[str, Any] | None
"""A type, a JSON Schema, or nothing."""

UNUSABLE = (TypeError, ValueError, NameError, AttributeError, RuntimeError, LookupError)
"""Errors that msgspec and pydantic raise for a type that they cannot use."""


class JsonType(Protocol):
    """A type that is read from JSON."""

    def schema(self) -> dict[str, Any]: ...

    def read(self, text: str) -> Any: ...


class GivenSchema(msgspec.Struct, frozen=True):
    """A JSON Schema; its values are plain ones."""

    given: Mapping[str, Any]

    def schema(self) -> dict[str, Any]:
        return msgspec.json.decode(encode_given(self.given, "response"), type=dict[str, Any])

    def read(self, text: str) -> Any:
        return json.loads(text)


class Shape(msgspec.Struct, Generic[Value], frozen=True):
    """A type (dataclass, msgspec struct, TypedDict, pydantic model, `list[date]` …) or a JSON Schema as a mapping."""

    kind: type[Value] | UnionType | Mapping[str, Any]

    @property
    def response_format(self) -> ResponseFormat:
        """The model's constraint. Raises `RequestError`, naming the field, where JSON cannot carry it."""
        return ResponseFormat(kind="json_schema", name="answer", schema=self._schema(), strict=True)

    def read(self, text: str) -> Value:
        """The answer's value. Raises `FormatError` when the text is none, although its grammar was."""
        try:
            return cast(Value, json_type(self.kind).read(str(text)))
        except (ValueError, ArithmeticError, RecursionError) as error:  # msgspec's and pydantic's are ValueErrors
            what = f"the answer is no value of the type requested: {error}"
            hint = "The type checks more than its JSON Schema says; ask again, or check it yourself."
            raise FormatError(what, code="answer_type", hint=hint) from error

    def _schema(self) -> dict[str, Any]:
        try:
            return json_type(self.kind).schema()
        except UNUSABLE as error:
            path, kind, reason = culprit(self.kind, error)
            what = f"{getattr(kind, '__name__', None) or kind} cannot be read from JSON: {reason}."
            hint = "Use texts, numbers, dates, lists, enums, dataclasses, msgspec structs or pydantic models."
            raise refused(path, what, hint, code="invalid_type") from error


def with_schema(request: TurnRequest, format: Format) -> TurnRequest:
    """The request whose last message of a user states what is wanted, where the format has no place for it.

    A model that does not know it fills the fields, or the number, with whatever it was about to say.
    """
    conversation, response_format = request.conversation, request.conversation.response_format
    schema = response_format.schema if response_format is not None else None
    users = [i for i, message in enumerate(conversation.messages) if message.role is Role.USER]
    if not isinstance(schema, dict) or format.framed or not users or not (wanted := statement(schema)):
        return request
    line = f"\n\n{wanted}"
    messages = list(conversation.messages)
    last = messages[users[-1]]
    parts = (*last.parts, TextPart(line)) if last.parts else ()
    messages[users[-1]] = replace(last, text=last.text + line, parts=parts)
    return replace(request, conversation=replace(conversation, messages=tuple(messages)))


NUMBERS = {"integer": "a whole number", "number": "a number"}


def statement(schema: Mapping[str, Any]) -> str:
    """The sentence that tells a model what to answer with; empty for a truth value or a text alone.

    A number and a choice are said in words: small models are more often right than with their schema, or with nothing.
    """
    named = schema.get("$defs", {}).get(str(schema.get("$ref")).removeprefix("#/$defs/"), schema)
    match named:
        case {"type": "integer" | "number" as kind, **rest} if rest.keys() <= {"minimum", "maximum"}:
            bounds = {"minimum": "from", "maximum": "up to"}
            limits = "".join(f" {bounds[key]} {rest[key]}" for key in bounds if key in rest)
            return f"Answer with {NUMBERS[kind]} only{',' * bool(limits)}{limits}."
        case {"enum": [_, *_] as values, **rest} if rest.keys() <= {"type", "title"}:
            return f"Answer with one of these only: {', '.join(json.dumps(one, ensure_ascii=False) for one in values)}"
        case {"type": "string", "format": "date"}:
            return 'Answer with a date only, as "YYYY-MM-DD".'
    if schema.keys() <= {"type"}:
        return ""
    return f"Answer with JSON of this schema: {json.dumps(schema, ensure_ascii=False)}"


def json_type(kind: Any) -> JsonType:
    """Returns the maker of the type's schema, which also reads its values."""
    if isinstance(kind, Mapping):
        return GivenSchema(kind)
    if "pydantic" in sys.modules and is_pydantic(kind):
        from .pydantic_types import PydanticType  # pydantic is the caller's, and slow to import

        return PydanticType(kind)
    return MsgspecType(kind)


def is_pydantic(kind: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether something in the type is pydantic's: a model, one of its types, or a rule in an annotation."""
    if id(kind) in seen:
        return False
    if hasattr(kind, "__pydantic_core_schema__") or hasattr(kind, "__get_pydantic_core_schema__"):
        return True
    rules = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    if any(type(rule).__module__.partition(".")[0] in ("pydantic", "annotated_types") for rule in rules):
        return True
    return any(is_pydantic(part, seen | {id(kind)}) for _, part in parts_of(kind))


def parts_of(kind: Any) -> Iterator[tuple[str, Any]]:
    """The types in a type, with the fields' names; "" for those of lists and unions."""
    if get_origin(kind) is Callable:
        return
    yield from (("", part) for part in get_args(kind) if not isinstance(part, str | int | bool | bytes | None))
    base = get_origin(kind) or kind
    if isinstance(base, type) and base.__module__ != "builtins" and hasattr(base, "__annotations__"):
        try:
            yield from get_type_hints(base, include_extras=True).items()
        except UNUSABLE:
            return


def culprit(
    kind: Any, error: Exception, path: str = "response", seen: frozenset[int] = frozenset()
) -> tuple[str, Any, str]:
    """The innermost part of a type that cannot be used: its path, itself, and why."""
    for name, part in parts_of(kind):
        if id(part) in seen:
            continue
        try:
            json_type(part).schema()
        except UNUSABLE as inner:
            return culprit(part, inner, f"{path}.{name}" if name else path, seen | {id(kind), id(part)})
    return path, kind, _reason(kind, error)


def _reason(kind: Any, error: Exception) -> str:
    """Why a type cannot be used, in a few words."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not isinstance(error, TypeError):
        return "a msgspec struct cannot be together with pydantic's types; make it a dataclass or a pydantic model"
    words = str(error).partition("\n")[0]
    if "custom types" in words or "pydantic-core schema" in words:
        return "it has no form in JSON"
    return words.partition(" - type")[0][:200].rstrip(" .:")
