"""A JSON Schema → what the engine is shown of it, and the validator of the finished value.

The engine knows a part of JSON Schema. A schema within that part is shown as it is (`.passthrough`). Any other is
translated (`.translate`); what the engine cannot enforce even so is relaxed: then the engine lets through more than the
schema does, never less. The finished value is checked in any case.

    schema   {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "additionalProperties": false}
    engine   {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "additionalProperties": false}
    accepts  {}  {"n":1}
    refuses  {"n":0}  {"m":1}

    schema   {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}
    engine   {"type": "array", "items": {"type": "integer"}}
    relaxed  .uniqueItems
    accepts  [1,2]
    rejects  [1,1]

Spellings of a schema that are not JSON Schema's own, in JSON Schema.

>>> normalized({"type": "integer", "nullable": True})
{'type': ['integer', 'null'], 'nullable': True}
>>> normalized({"type": "string", "enum": ["a"], "nullable": True})["enum"]
['a', None]
>>> normalized({"items": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"}})
{'items': {'type': 'null'}}

    schema   {"type": "integer", "nullable": true}
    engine   {"type": ["integer", "null"]}
    accepts  1  null
    refuses  "x"

Definitions that no finite value fits, because they only lead back to themselves: the engine would get stuck in one.

    schema   {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}, "b": {"type": "integer"}},
             "additionalProperties": false, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    engine   {"type": "object", "properties": {"a": false, "b": {"type": "integer"}},
             "additionalProperties": false, "$defs": {"a": false, "b": false}}
    accepts  {}  {"b":1}
    refuses  {"a":1}

>>> node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}
>>> without_endless({"$ref": "#/$defs/node", "$defs": {"node": node}})
False
>>> node["required"] = []
>>> without_endless({"$ref": "#/$defs/node", "$defs": {"node": node}}) is not False
True
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import msgspec
from msgspec.structs import replace

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, RequestError, UnsupportedError
from antiphon.grammar.limits import LIMITS, UNJUDGED, Limits, check_schema, no_schema

from .exact import Relaxation, within_reach
from .judging import MOST, MOST_EXPLAINED, work_of
from .passthrough import pass_through
from .translate import translate

_DATA = frozenset(["const", "enum", "default", "examples"])
"""Keywords whose values are data, not schemas."""


def normalized(schema: Any, *, top: bool = True) -> Any:
    """The schema with OpenAPI's ``nullable: true`` as a type, and no ``$schema`` below the ``top`` where it is void."""
    if isinstance(schema, list):
        return [normalized(item, top=False) for item in schema]
    if not isinstance(schema, dict):
        return schema
    same = {key: value if key in _DATA else normalized(value, top=False) for key, value in schema.items()}
    # A dialect is named at the head of a document, and below it only with an `$id`.
    if not top and isinstance(same.get("$schema"), str) and "$id" not in same and "id" not in same:
        del same["$schema"]
    if same.get("nullable") is True and isinstance(same.get("type"), str):
        same["type"] = [same["type"], "null"]
        if isinstance(same.get("enum"), list) and None not in same["enum"]:
            same["enum"] = [*same["enum"], None]
    return same


Definitions = dict[str, Any]


def without_endless(engine: JsonSchema) -> JsonSchema:
    """The engine's schema with False for what no finite value fits; itself where nothing refers to a definition."""
    if not isinstance(engine, dict):
        return engine
    definitions = {f"#/{key}/{name}": item for key in _KEYS for name, item in engine.get(key, {}).items()}
    if not definitions:
        return engine
    finite = _finite(definitions)
    if len(finite) == len(definitions) and _has_value(engine, finite, definitions):
        return engine
    endless = definitions.keys() - finite
    return _pruned(engine, endless) if _has_value(engine, finite, definitions) else False


_KEYS = ("$defs", "definitions")


def _finite(definitions: Definitions) -> set[str]:
    """The definitions that some finite value fits: those without references first, then what they make possible."""
    finite: set[str] = set()
    more = True
    while more:
        found = {name for name in definitions.keys() - finite if _has_value(definitions[name], finite, definitions)}
        finite |= found
        more = bool(found)
    return finite


def _has_value(node: Any, finite: set[str], definitions: Definitions) -> bool:
    """Whether some finite value fits, as far as references tell: what else cannot be met, the engine sees by itself."""
    if not isinstance(node, dict):
        return node is not False
    target = _target(node)
    if target in definitions and target not in finite:
        return False
    ways = node.get("anyOf")
    if ways and not any(_has_value(way, finite, definitions) for way in ways):
        return False
    if not all(_has_value(part, finite, definitions) for part in node.get("allOf", ())):
        return False
    types = node.get("type", ())
    if "enum" in node or "const" in node or isinstance(types, list) or types not in ("object", "array"):
        return True
    return all(_has_value(part, finite, definitions) for part in _required(node, types))


def _required(node: dict[str, Any], type: str) -> list[Any]:
    """The schemas of what an object or array cannot do without."""
    if type == "object":
        properties = node.get("properties", {})
        return [properties[name] for name in node.get("required", ()) if name in properties]
    least, prefix = node.get("minItems", 0), node.get("prefixItems", [])
    return [*prefix[: int(least)], *([node.get("items", True)] if least > len(prefix) else [])]


def _target(node: dict[str, Any]) -> str:
    return unquote(str(node.get("$ref", ""))).replace("~1", "/").replace("~0", "~")


def _pruned(node: Any, endless: set[str]) -> Any:
    """The schema with False for endless definitions, and for every reference to one."""
    if isinstance(node, list):
        return [_pruned(item, endless) for item in node]
    if not isinstance(node, dict):
        return node
    if _target(node) in endless:
        return False
    out = {key: value if key in ("enum", "const") else _pruned(value, endless) for key, value in node.items()}
    for key in _KEYS:
        if isinstance(node.get(key), dict):
            out[key] = {name: f"#/{key}/{name}" not in endless and item for name, item in out[key].items()}
    return out


_SURROGATE = re.compile("[\ud800-\udfff]")

_HINTS = {"multipleOf": "Give a minimum: the engine counts from 0 on, and some hundreds of steps below it. "}


class Judge:
    """The validator of a schema, made when it is first needed: a pattern takes up to 80 ms, which no thread shares."""

    def __init__(self, schema: JsonSchema, path: str, *, digits: bool = False) -> None:
        """``digits``: as for `_validator`."""
        self._make = partial(_validator, schema, path, digits=digits)
        self._made: jsonschema_rs.Validator | None = None

    @property
    def validator(self) -> jsonschema_rs.Validator:
        """Raises `RequestError` (``invalid_schema``) for what is no schema."""
        self._made = self._made or self._make()
        return self._made


class CompiledSchema(msgspec.Struct, frozen=True, eq=False):
    """``engine`` is the schema for the engine, ``relaxed`` what of the original ``schema`` it does not enforce."""

    engine: JsonSchema
    relaxed: tuple[Relaxation, ...]
    path: str
    judge: Judge
    schema: JsonSchema

    def fault(self, text: str) -> str | None:
        """Why the finished ``text`` is no JSON text of the schema; None when it is one.

        Where the schema asks for an integer, 1.0 and 1e2 are none, as in the grammar.
        """
        fractions: list[Decimal] = []

        def exact(literal: str) -> Decimal:  # A double would round what the engine wrote digit by digit.
            fractions.append(Decimal(literal))
            return fractions[-1]

        try:
            value = json.loads(text, parse_float=exact)
        except (ValueError, ArithmeticError, RecursionError) as error:  # An exponent may be more than a Decimal holds.
            return f"not JSON: {error}"
        fault = self.fault_of(value)
        if fault is None and any(number == number.to_integral_value() for number in fractions):
            return replace(self, judge=Judge(self.schema, self.path, digits=True)).fault_of(value)
        return fault

    def fault_of(self, value: Any) -> str | None:
        """Why the value does not fit the schema; None when it does.

        A lone surrogate, which JSON can escape but no text can hold, counts as one character that no schema names.
        A value that would take too long to judge is one that no check can hold.
        """
        work = work_of(self.schema, value)
        if work > MOST:
            return UNJUDGED
        try:
            return self._first_error(value, work)
        except UnicodeEncodeError:
            # Each lone surrogate is a private character of its own here: what differed still differs.
            text = json.dumps(value, ensure_ascii=False, default=float)
            text = _SURROGATE.sub(lambda found: chr(ord(found[0]) - 0xD800 + 0x10_0000), text)
            return self._first_error(json.loads(text), work)
        except (ValueError, OverflowError, RecursionError):
            return UNJUDGED

    def _first_error(self, value: Any, work: int) -> str | None:
        if work > MOST_EXPLAINED:
            return None if self.judge.validator.is_valid(value) else "the value does not fit the schema"
        for error in self.judge.validator.iter_errors(value):
            return f"{error.message} (at {_steps(error.instance_path) or 'the top'})"
        return None


class Enforced(msgspec.Struct, frozen=True):
    """A schema as an engine can enforce it: the schema that it is shown, and the keywords that it relaxes."""

    engine: Any
    relaxed: tuple[Relaxation, ...]


def compile_schema(
    schema: JsonSchema,
    path: str = "",
    *,
    strict: bool = False,
    limits: Limits = LIMITS,
    enforced: Enforced | None = None,
) -> CompiledSchema:
    """Compiles ``schema``, which is at ``path`` of the request, to the schema that an engine can enforce.

    ``enforced`` is what another process found of it, where it is no plain one (`.passthrough`).
    Errors: `RequestError` for what is no schema or goes beyond ``limits``; `UnsupportedError`, in ``strict`` mode, that
    names a keyword which cannot be enforced while sampling, and its place.
    """
    if enforced is not None:  # The other process made a validator, too: it can be made here when a value is there.
        check_schema(schema, path, limits)
        schema = normalized(schema)
        return CompiledSchema(enforced.engine, enforced.relaxed, path, Judge(schema, path), schema)
    judged = judge_schema(schema, path, limits=limits)
    found = _enforced(judged.schema, path, strict=strict)
    return CompiledSchema(found.engine, found.relaxed, path, judged.judge, judged.schema)


def judge_schema(schema: JsonSchema, path: str = "", *, limits: Limits = LIMITS) -> CompiledSchema:
    """A judge of finished values by ``schema``, with nothing of it for an engine; takes time in proportion to it.

    Errors: `RequestError` for what is no schema or goes beyond ``limits``.
    """
    check_schema(schema, path, limits)
    if not isinstance(schema, dict | bool):
        raise no_schema("a schema is an object or a boolean", path)
    schema = normalized(schema)
    judge = Judge(schema, path)
    _ = judge.validator  # Whether there is one is told now.
    return CompiledSchema(True, (), path, judge, schema)


def _enforced(schema: JsonSchema, path: str, *, strict: bool) -> Enforced:
    reachable, relaxed = within_reach(schema, path)
    engine = pass_through(reachable)
    if engine is None:
        engine, more = translate(reachable, path)
        relaxed += more
    engine = without_endless(engine)
    if engine is False and schema is not False:
        hint = "A definition leads only back to itself, or keywords contradict each other."
        raise RequestError("no value fits the schema", code="invalid_schema", position=Position(path=path), hint=hint)
    if strict and relaxed:
        raise UnsupportedError(
            f"{relaxed[0].keyword} cannot be enforced while sampling",
            code="invalid_schema",
            position=Position(path=path + relaxed[0].path),
            hint=_HINTS.get(relaxed[0].keyword, "")
            + "Leave it out, or leave out strict: then it is checked when the answer is whole.",
        )
    return Enforced(engine, relaxed)


def _validator(schema: JsonSchema, path: str, *, digits: bool = False) -> jsonschema_rs.Validator:
    """The judge of finished values. It fetches nothing, and its patterns give up rather than run on.

    With ``digits`` an integer is an int, and a Decimal is none whatever its value.
    """
    try:
        return jsonschema_rs.validator_for(
            schema,
            validate_formats=True,
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
            keywords={"type": _TypeByDigits} if digits else None,
        )
    except jsonschema_rs.ValidationError as error:
        raise no_schema(error.message, path + _steps(error.instance_path)) from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise no_schema(str(error), path) from None


class _TypeByDigits:
    """The keyword ``type`` for values whose fractions and exponents are Decimals."""

    def __init__(self, parent: dict[str, Any], value: Any, path: list[str | int]) -> None:
        self._types = value if isinstance(value, list) else [value]

    def validate(self, instance: Any) -> None:
        # To Python a truth value is a number.
        types = [name for name in self._types if name == "boolean"] if isinstance(instance, bool) else self._types
        if not any(isinstance(instance, _PYTHON[name]) for name in types):
            raise ValueError(f"{instance} is not of type {' or '.join(self._types)}: an integer has digits alone")


_PYTHON: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "null": (type(None),),
        "boolean": (bool,),
        "integer": (int,),
        "number": (int, float, Decimal),
        "string": (str,),
        "array": (list,),
        "object": (dict,),
    }
)


def _steps(path: Iterable[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
