"""A request's fields against a dialect's tables: whichever request it is, the rows go by the fields' names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from antiphon.errors import Position, UnsupportedError
from antiphon.generation import Range

from .dialect import Dialect
from .errors import refused

# The pairs that clients store with what they make.

MAX_METADATA, MAX_KEY, MAX_VALUE = 16, 64, 512


def check_metadata(metadata: dict[str, str] | None) -> None:
    """At most 16 pairs; keys of 64 characters, values of 512."""
    if metadata is None:
        return
    if len(metadata) > MAX_METADATA:
        raise refused("metadata", f"there are {len(metadata)} pairs; at most {MAX_METADATA} are stored.")
    for key, value in metadata.items():
        if len(key) > MAX_KEY or len(value) > MAX_VALUE:
            raise refused("metadata", f"a key has at most {MAX_KEY} characters and a value at most {MAX_VALUE}.")


SESSION_IDS = Range(-1, 2**63 - 1)
"""LMDeploy's: -1, and what its engines count sessions by."""


def check_fields(wire: msgspec.Struct, foreign: Collection[str], dialect: Dialect) -> None:
    """Raises `RequestError` at the first field that ``dialect`` misses or does not take; null means absent.

    ``foreign`` are the body's fields that ``wire`` has no place for: a strict dialect takes none of them.
    """
    given = {name: value for name in wire.__struct_fields__ if (value := getattr(wire, name)) is not None}
    for name in sorted(dialect.required & set(wire.__struct_fields__) - given.keys()):
        raise refused(name, "is required.", code="missing_required_parameter")
    for name in sorted(given.keys() & dialect.refused):
        raise _not_taken(name, dialect)
    if dialect.strict:
        known = given.keys() if dialect.parameters is None else dialect.parameters
        for name in sorted({*given, *foreign} - known):
            raise _not_taken(name, dialect)
    if dialect.model_name is not None and not dialect.model_name.fullmatch(given.get("model", "")):
        raise refused("model", f"no model is named so; the names are {dialect.model_name.pattern}.")
    for name, allowed in dialect.ranges.items():
        value = given.get(name)
        if value is not None and value not in allowed:
            raise refused(name, f"is {value}; it must be in {allowed}.")


def check_shapes(body: bytes, dialect: Dialect) -> None:
    """Raises `RequestError` at the first object within ``body`` that is of another shape than the dialect's.

    ``body`` was decoded before, so its objects and lists are where they belong; null means absent.
    """
    if not dialect.shapes:
        return
    request = msgspec.json.decode(body)
    for place, shape in dialect.shapes.items():
        for path, found in _objects(request, place.split(".")):
            given = {name for name, value in found.items() if value is not None}
            for name in sorted(set(shape.required.split()) - given):
                raise refused(f"{path}.{name}", "is required.", code="missing_required_parameter")
            for name in sorted(given - shape.known):
                raise _not_taken(f"{path}.{name}", dialect)


def _objects(value: Any, steps: Sequence[str], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects at a place such as ``tools[].function``, each with its path; none where something else is there."""
    if not isinstance(value, dict):
        return
    if not steps:
        yield path, value
        return
    name, several, _ = steps[0].partition("[]")
    within, path = value.get(name), f"{path}.{name}".lstrip(".")
    if not several:
        yield from _objects(within, steps[1:], path)
    for i, item in enumerate(within if several and isinstance(within, list) else ()):
        yield from _objects(item, steps[1:], f"{path}[{i}]")


def _not_taken(name: str, dialect: Dialect) -> UnsupportedError:
    return UnsupportedError(
        f"{name[:64]} is no parameter of this endpoint.", position=Position(path=name[:64]), hint=f"({dialect.name})"
    )


def warnings(wire: msgspec.Struct) -> tuple[str, ...]:
    """What is done as requested and is seldom meant."""
    temperature, n = getattr(wire, "temperature", None), getattr(wire, "n", None)
    found = []
    if temperature is not None and 0 < temperature < 0.001:
        found.append("a temperature below 0.001 may give poor text")
    if temperature == 0 and n is not None and n > 1:
        found.append("choices of temperature 0 are all alike")
    return tuple(found)


def session_name(id: int | str | None) -> str | None:
    """The session that a request names; -1 and "" name none. Raises `RequestError` for a number that is no id."""
    if isinstance(id, int) and id not in SESSION_IDS:
        raise refused("session_id", f"is {str(id)[:40]}; it must be in {SESSION_IDS}, or a text.")
    return None if id in (None, "", -1, "-1") else str(id)
