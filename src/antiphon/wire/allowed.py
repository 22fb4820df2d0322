"""Which values a field may have that takes only some, for the hints of errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

MOST_LISTED = 20

_STEP = re.compile(r"\[[^]]*\]|[^.\[]+")


def allowed_values(kind: type[msgspec.Struct], path: str) -> list[str]:
    """The values of the field at ``path`` of ``kind`` (``messages[0].role``); none where it takes any."""
    types = [msgspec.inspect.type_info(kind)]
    for step in _STEP.findall(path):
        types = [inner for type in _flat(types) for inner in _inner(type, step)]
    return sorted({value for type in _flat(types) for value in _values(type)})


def known_values(values: list[str]) -> str | None:
    """The hint that lists them, `MOST_LISTED` at most; None for none."""
    more = f" and {len(values) - MOST_LISTED} more" if len(values) > MOST_LISTED else ""
    return f"Known: {', '.join(values[:MOST_LISTED])}{more}." if values else None


def _flat(types: Iterable[msgspec.inspect.Type]) -> Iterator[msgspec.inspect.Type]:
    for type in types:
        match type:
            case msgspec.inspect.UnionType(types=several):
                yield from _flat(several)
            case msgspec.inspect.Metadata(type=inner):
                yield from _flat([inner])
            case _:
                yield type


def _inner(type: msgspec.inspect.Type, step: str) -> Iterator[msgspec.inspect.Type]:
    match type:
        case msgspec.inspect.StructType(fields=fields):
            yield from (field.type for field in fields if field.encode_name == step)
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
            yield item
        case msgspec.inspect.DictType(value_type=value):
            yield value


def _values(type: msgspec.inspect.Type) -> Iterator[str]:
    match type:
        case msgspec.inspect.LiteralType(values=values):
            yield from map(str, values)
        case msgspec.inspect.EnumType(cls=cls):
            yield from (str(member.value) for member in cls)
