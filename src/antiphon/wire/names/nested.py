"""The fields inside a request's objects that nothing here reads, by their paths.

Messages and items are not looked through: they are most of a body, and what others add to them is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

SKIPPED = frozenset({"messages", "input", "prompt", "items"})
MOST_ENTRIES = 256
"""Entries of a list at most that are looked through."""
Fields = Mapping[str, msgspec.Raw]


@dataclass(frozen=True, slots=True)
class UnreadField:
    """A field at ``path`` that is none of ``known``, the fields of the object that holds it."""

    path: str
    name: str
    known: tuple[str, ...]


def unread(fields: Fields, kind: type[msgspec.Struct]) -> Iterator[UnreadField]:
    """The fields within ``fields``, of a body that was read as ``kind``, which no struct there has."""
    for name, types in _objects(kind).items():
        if name in fields:
            yield from _within(msgspec.json.decode(fields[name]), types, name)


@cache
def _objects(kind: type[msgspec.Struct]) -> dict[str, tuple[type[msgspec.Struct], ...]]:
    """The structs that a field may hold, itself or in a list, by the names of the fields that may."""
    found = {field.encode_name: tuple(_structs(field.type)) for field in msgspec.structs.fields(kind)}
    return {name: structs for name, structs in found.items() if structs and name not in SKIPPED}


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    yield from _structs_of(msgspec.inspect.type_info(annotation))


def _structs_of(type: msgspec.inspect.Type) -> Iterator[type[msgspec.Struct]]:
    match type:
        case msgspec.inspect.StructType(cls=cls):
            yield cls
        case msgspec.inspect.UnionType(types=several):
            for one in several:
                yield from _structs_of(one)
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
            yield from _structs_of(item)


def _within(value: Any, structs: tuple[type[msgspec.Struct], ...], path: str) -> Iterator[UnreadField]:
    match value:
        case list():
            for i, item in enumerate(value[:MOST_ENTRIES]):
                yield from _within(item, structs, f"{path}[{i}]")
        case dict():
            names = tuple(field.encode_name for kind in structs for field in msgspec.structs.fields(kind))
            inner = {name: types for kind in structs for name, types in _objects(kind).items()}
            for name, item in value.items():
                if name not in names:
                    yield UnreadField(f"{path}.{name}", name, names)
                elif name in inner:
                    yield from _within(item, inner[name], f"{path}.{name}")
