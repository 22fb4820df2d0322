"""A call's body → checked arguments, before any tool runs (OCM-136)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from antiphon.conversation import JsonSchema

from .call import CALL_SCHEMA, ToolCall, ToolError

if TYPE_CHECKING:
    from jsonschema_rs import Validator

MAX_BODY = 1_000_000


class BadArguments(Exception):
    """The body does not fit the tool's schema; ``error`` goes to the model, so that it can repair the call."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.error = ToolError(CALL_SCHEMA, message, retryable=True, details=details)


class Arguments(msgspec.Struct, frozen=True):
    """``values`` for the tool; ``deadline_ms`` if the body has one that is not the tool's own (resolution A-O16)."""

    values: Mapping[str, Any]
    deadline_ms: int | None = None


class ArgumentReader:
    """Checks bodies against one tool's schema, which is compiled once, by the first of them."""

    def __init__(self, schema: JsonSchema | None) -> None:
        self._schema: JsonSchema = {"type": "object"} if schema is None else schema
        properties = self._schema.get("properties", {}) if isinstance(self._schema, dict) else {}
        self._owns_deadline = "deadline_ms" in properties

    def read(self, call: ToolCall) -> Arguments:
        """The arguments of a call. Raises `BadArguments`; an empty body reads as no arguments."""
        values = _parse(call.body)
        deadline = None
        if not self._owns_deadline and "deadline_ms" in values:
            deadline = _deadline(values.pop("deadline_ms"))
        self._check(values)
        return Arguments(values, deadline)

    @cached_property
    def _validator(self) -> Validator:
        """A tool's server may have written the schema: nothing that it refers to elsewhere is fetched.

        Raises `ValueError` for a schema that cannot be used.
        """
        import jsonschema_rs  # here and not above: most servers run no tool

        return jsonschema_rs.validator_for(self._schema, offline=True)

    def _check(self, values: dict[str, Any]) -> None:
        try:
            for error in self._validator.iter_errors(values):
                path = "".join(f"[{part!r}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
                raise BadArguments(error.message, path=f"${path}")
        except UnicodeEncodeError as error:
            raise BadArguments("the arguments hold a lone surrogate, which is no character") from error


def _parse(body: str) -> dict[str, Any]:
    if len(body) > MAX_BODY:
        raise BadArguments(f"the arguments have {len(body)} characters; at most {MAX_BODY} are possible")
    if not body.strip():
        return {}
    try:
        values = json.loads(body, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_number)
    except json.JSONDecodeError as error:
        raise BadArguments(f"the arguments are not JSON: {error.msg}", line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise BadArguments("the arguments are nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise BadArguments(f"the arguments cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise BadArguments(f"the arguments must be a JSON object, not {type(values).__name__}")
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadArguments(f"the argument {twice!r} is given twice")
    return values


def _no_constant(name: str) -> Any:
    raise BadArguments(f"{name} is not JSON")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadArguments(f"the number {text[:80]} is too large")
    return number


def _deadline(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise BadArguments("deadline_ms must be a whole number of milliseconds above 0", path="$.deadline_ms")
    return value
