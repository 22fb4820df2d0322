"""The fields inside a request's objects that nothing here reads, by their paths.

Messages and items are most of a body: only their own fields are looked at, and what others add to them is told, never
taken for a misspelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

LONG = frozenset({"messages", "input", "prompt", "items"})
"""The fields that are lists of messages or items."""
MOST_ENTRIES = 256
"""Entries of a list at most that are looked through."""
Fields = Mapping[str, msgspec.Raw]
Structs = tuple[type[msgspec.Struct], ...]
_ENTRIES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class UnreadField(msgspec.Struct, frozen=True):
    """A field at ``path`` that is none of the object that holds it. ``known``: the fields that it may misspell."""

    path: str
    name: str
    known: tuple[str, ...]


def unread(fields: Fields, kind: type[msgspec.Struct]) -> Iterator[UnreadField]:
    """The fields within ``fields``, of a body that was read as ``kind``, which no struct there has."""
    for name, types in _objects(kind).items():
        if name in fields and name in LONG:
            yield from _beside(fields[name], types, name)
        elif name in fields:
            yield from _within(fields[name], types, name)


def _beside(raw: msgspec.Raw, structs: Structs, path: str) -> Iterator[UnreadField]:
    """The fields of messages or items themselves; what is no list of them is left to who reads it."""
    names = _names(structs)
    try:
        entries = _ENTRIES.decode(raw)
    except msgspec.ValidationError:
        return
    for i, entry in enumerate(entries):
        if not entry.keys() <= names.keys():
            yield from (UnreadField(f"{path}[{i}].{name}", name, ()) for name in entry if name not in names)


@cache
def _names(structs: Structs) -> dict[str, Structs]:
    """The fields of some structs, and the structs that each may hold."""
    names = {field.encode_name: () for kind in structs for field in msgspec.structs.fields(kind)}
    return names | {name: types for kind in structs for name, types in _objects(kind).items()}


@cache
def _objects(kind: type[msgspec.Struct]) -> dict[str, Structs]:
    """The structs that a field may hold, itself or in a list, by the names of the fields that may."""
    found = {field.encode_name: tuple(_structs(field.type)) for field in msgspec.structs.fields(kind)}
    return {name: structs for name, structs in found.items() if structs}


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


def _within(raw: msgspec.Raw, structs: Structs, path: str) -> Iterator[UnreadField]:
    """What is no object or list is left to who reads it, and so are the texts inside: some are long."""
    match memoryview(raw)[:1].tobytes():
        case b"[":
            for i, item in enumerate(_LIST.decode(raw)[:MOST_ENTRIES]):
                yield from _within(item, structs, f"{path}[{i}]")
        case b"{":
            names = _names(structs)
            for name, item in _OBJECT.decode(raw).items():
                if name not in names:
                    yield UnreadField(f"{path}.{name}", name, tuple(names))
                elif names[name]:
                    yield from _within(item, names[name], f"{path}.{name}")
