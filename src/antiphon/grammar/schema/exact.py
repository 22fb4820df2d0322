"""Numbers that the engine cannot hold: it reckons in doubles, and would enforce another number without a word.

A bound or a step beyond its reach is relaxed, and the finished value is checked; a value that must be written is refused:

    schema   {"type": "integer", "minimum": 0, "maximum": 115792089237316195423570985008687907853269984665640564039457584007913129639935}
    engine   {"type": "integer", "minimum": 0}
    relaxed  .maximum
    accepts  115792089237316195423570985008687907853269984665640564039457584007913129639935
    rejects  115792089237316195423570985008687907853269984665640564039457584007913129639936

>>> within_reach({"type": "array", "items": {"multipleOf": 1e-300}})
({'type': 'array', 'items': {}}, (Relaxation(keyword='multipleOf', path='.items.multipleOf'),))

Below a keyword that denies, less would be more; there all is left to the check:

>>> within_reach({"not": {"minimum": 2**70}})
(True, (Relaxation(keyword='minimum', path='.not.minimum'),))
"""  # noqa: E501 - a number of 256 bits is that long

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, RequestError

from .patterns import engine_fault

EXACT = 2**53
"""Up to here every integer is a double of its own."""
LARGEST = 2**63 - 1
"""The one greater bound that the engine gets right, as a ``maximum`` of integers."""
SMALLEST = 1e-100
MOST_STEP = 10_000
"""The greatest step, but for zeros at its end: the engine has a state for each remainder, and builds all of them."""

_BOUNDS = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
_DATA = frozenset(["default", "examples", "example"])
_DENIES = frozenset(
    "not oneOf if then else contains maxContains unevaluatedItems unevaluatedProperties disallow".split()
)
_NAMED = frozenset(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"])


class Relaxation(msgspec.Struct, frozen=True):
    """A keyword that the engine does not enforce, and where it stands in the schema (as ``.properties.a.not``)."""

    keyword: str
    path: str


def within_reach(schema: JsonSchema, path: str = "") -> tuple[JsonSchema, tuple[Relaxation, ...]]:
    """The schema without the numbers that the engine cannot hold, and where they stood.

    Error: `RequestError` for a value of ``enum`` or ``const``; ``path`` is the schema's in the request.
    """
    beyond = list(_beyond(schema, "", path))
    if not beyond:
        return schema, ()
    found = {id(node): keys for node, keys, _ in beyond}
    relaxed = tuple(Relaxation(key, f"{where}.{key}") for _, keys, where in beyond for key in sorted(keys))
    return (True if _denies(schema) else _without(schema, found)), relaxed


def _beyond(node: Any, where: str, path: str) -> Iterator[tuple[dict[str, Any], set[str], str]]:
    """Every schema with keywords beyond reach, those keywords, and its place."""
    if not isinstance(node, dict):
        return
    keys = {key for key, value in node.items() if _is_beyond(key, value, node)}
    if keys:
        yield node, keys, where
    for key in ("const", "enum"):
        if key in node and not _is_exact(node[key]):
            raise RequestError(
                f"{key} has an integer beyond {EXACT}, which the engine cannot write exactly",
                code="invalid_schema",
                position=Position(path=f"{path}{where}.{key}"),
                hint="Ask for it as a string.",
            )
    for inner, place in subschemas(node):
        yield from _beyond(inner, where + place, path)


def subschemas(node: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """The schemas directly within one, with the step to each; data that only looks like one is left out."""
    for key, value in node.items():
        if key in _NAMED and isinstance(value, dict):
            yield from ((item, f".{key}.{name}") for name, item in value.items())
        elif key in _DATA or key in ("const", "enum"):
            continue
        elif isinstance(value, list):
            yield from ((item, f".{key}[{i}]") for i, item in enumerate(value))
        else:
            yield value, f".{key}"


def _is_beyond(key: str, value: Any, node: dict[str, Any]) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if key in _BOUNDS:
        largest = key == "maximum" and value == LARGEST and node.get("type") == "integer"
        return not largest and value != 0 and not SMALLEST < abs(value) <= EXACT
    return key == "multipleOf" and value > 0 and not is_step(value)


def is_step(value: float | Decimal) -> bool:
    """Whether the engine can count in steps of the value."""
    digits = "".join(map(str, Decimal(str(value)).as_tuple().digits)).strip("0")
    if not SMALLEST < value < LARGEST or int(digits or 0) > MOST_STEP:
        return False
    return not engine_fault({"type": "number", "multipleOf": float(value)})


def _is_exact(value: Any) -> bool:
    todo = [value]
    while todo:
        match todo.pop():
            case bool():
                pass
            case int(number) if abs(number) > EXACT:
                return False
            case list(items):
                todo += items
            case dict(items):
                todo += items.values()
    return True


def _denies(schema: JsonSchema) -> bool:
    todo: list[Any] = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if not _DENIES.isdisjoint(node):
                return True
            todo += (inner for inner, _ in subschemas(node))
    return False


def _without(node: Any, found: dict[int, set[str]]) -> Any:
    """A copy without the keywords found, at every depth."""
    if isinstance(node, list):
        return [_without(item, found) for item in node]
    if not isinstance(node, dict):
        return node
    gone = found.get(id(node), set())
    return {key: _without(value, found) for key, value in node.items() if key not in gone}
