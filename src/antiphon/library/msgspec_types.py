"""Types that msgspec reads from JSON: dataclasses, structs, typed dictionaries, dates, lists …"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect

from antiphon.grammar.schema.patterns import PATTERNS
from antiphon.structs import ready

# What a text of JSON must look like to be a value of Python: patterns beside JSON Schema's formats.
#
# A format of JSON Schema lets through what Python's types do not take: a leap second, the year 0, a month of a
# duration.

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


Schema = dict[str, Any]
Pair = tuple[inspect.Type, Schema]

FORMS: Mapping[type[inspect.Type], Schema] = {
    inspect.DateType: DATE,
    inspect.TimeDeltaType: DURATION,
    inspect.DecimalType: DECIMAL,
    inspect.BytesType: BASE64,
    inspect.ByteArrayType: BASE64,
    inspect.MemoryViewType: BASE64,
    inspect.UUIDType: UUID,
}
KEYS: Mapping[type[inspect.Type], Schema] = {
    inspect.IntType: WHOLE_NUMBER_KEY,
    inspect.UUIDType: {"format": "uuid"},
    inspect.DecimalType: {"pattern": DECIMAL["pattern"]},
    inspect.FloatType: {"pattern": DECIMAL["pattern"]},
    inspect.DateType: DATE,
    inspect.DateTimeType: DATE_TIME,
    inspect.TimeType: TIME,
    inspect.TimeDeltaType: DURATION,
    inspect.BytesType: BASE64,
}


@dataclass(frozen=True, slots=True)
class MsgspecType:
    """A type, its schema, and its values from JSON. Each raises what msgspec raises: TypeError, NameError …"""

    kind: Any

    def schema(self) -> Schema:
        """The schema, narrowed to what `read` takes."""
        schema = msgspec.json.schema(self.kind)
        ready(self.kind)  # some unions have a schema, and nobody could tell their values apart
        pending: list[Pair] = [(inspect.type_info(self.kind), schema)]
        seen: set[int] = set()
        while pending:
            kind, part = pending.pop()
            kind = _bare(kind)
            if "$ref" in part:
                part = schema["$defs"][part["$ref"].rpartition("/")[2]]
            if id(part) not in seen:
                seen.add(id(part))
                _narrow(kind, part)
                pending += _parts(kind, part)
        return closed(schema)

    def read(self, text: str) -> Any:
        """Raises `ValueError` for a text that is no value."""
        return msgspec.json.decode(text, type=ready(self.kind))


def _narrow(kind: inspect.Type, schema: Schema) -> None:
    """The schema of this type alone, changed in place."""
    match kind:
        case inspect.DateTimeType(tz=False):
            schema.update(NAIVE_DATE_TIME)
        case inspect.DateTimeType():
            schema.update(DATE_TIME)
        case inspect.TimeType(tz=False):
            schema.pop("format", None)
            schema.update(NAIVE_TIME)
        case inspect.TimeType():
            schema.update(TIME)
        case inspect.SetType() | inspect.FrozenSetType():
            schema.pop("uniqueItems", None)  # what comes twice is there once
        case inspect.DictType(key_type=key):
            _narrow_keys(key, schema)
        case _:
            schema.update(FORMS.get(type(kind), {}))


def _narrow_keys(kind: inspect.Type, schema: Schema) -> None:
    kind = _bare(kind)
    if isinstance(kind, inspect.EnumType):
        schema["propertyNames"] = {"enum": sorted(str(each.value) for each in kind.cls)}
    elif isinstance(kind, inspect.LiteralType):
        schema["propertyNames"] = {"enum": sorted(map(str, kind.values))}
    elif type(kind) in KEYS:
        schema["propertyNames"] = {name: rule for name, rule in KEYS[type(kind)].items() if name != "type"}


def _parts(kind: inspect.Type, schema: Schema) -> Iterator[Pair]:
    """The types inside a type, each with its place in the schema."""
    match kind:
        case inspect.DictType(value_type=value) if isinstance(schema.get("additionalProperties"), dict):
            yield value, schema["additionalProperties"]
        case inspect.CollectionType(item_type=item) if "items" in schema:
            yield item, schema["items"]
        case inspect.TupleType(item_types=items):
            yield from zip(items, schema.get("prefixItems", ()), strict=False)
        case inspect.UnionType(types=types):
            yield from _alternatives(types, schema)
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType() | inspect.NamedTupleType():
            yield from _fields(kind, schema)


def _fields(kind: Any, schema: Schema) -> Iterator[Pair]:
    """The fields of a class, which stand by name, or one after the other where it is written as an array."""
    if "properties" in schema:
        yield from ((field.type, schema["properties"][field.encode_name]) for field in kind.fields)
        return
    places = schema.get("prefixItems", [])
    yield from zip([field.type for field in kind.fields], places[len(places) - len(kind.fields) :], strict=True)


def _alternatives(types: tuple[inspect.Type, ...], schema: Schema) -> Iterator[Pair]:
    """The alternatives of a union, in msgspec's order: what is no struct, then the structs, then None."""
    options = [*schema.get("anyOf", ())]
    for option in options:
        options += option.get("anyOf", ()) if "discriminator" in option else ()
    others = [kind for kind in types if not isinstance(_bare(kind), inspect.StructType | inspect.NoneType)]
    structs = [kind for kind in types if isinstance(_bare(kind), inspect.StructType)]
    plain = [option for option in options if "discriminator" not in option and option != {"type": "null"}]
    yield from zip([*others, *structs], plain, strict=False)


def _bare(kind: inspect.Type) -> inspect.Type:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind
