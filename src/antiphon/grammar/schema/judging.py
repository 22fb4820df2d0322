"""How much work it is to judge a value by a schema: how often parts of the schema are looked at, at most.

A schema that refers to its own parts in several alternatives may look at one place of a value twice, at what is in it
four times, and so on: ten levels are a thousand times the work, forty have no end. What judges values cannot be
stopped, so the work is reckoned first, from how the parts lead to each other and how deep the value is.

>>> node = {"properties": {"x": {"$ref": "#/$defs/t"}, "y": {"$ref": "#/$defs/t"}}}
>>> tree = {"$ref": "#/$defs/t", "$defs": {"t": node}}
>>> twice = {"$ref": "#/$defs/t", "$defs": {"t": {"allOf": [{"properties": {"x": {"$ref": "#/$defs/t"}}}] * 2}}}
>>> deep = {"x": {"x": {"x": {"x": {}}}}}
>>> work_of(tree, deep), work_of(twice, deep)
(10, 124)
>>> work_of({"$ref": "#"}, 1), work_of({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1) > MOST
(3, True)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

MOST = 250_000
"""Looks at a part of a schema that one value may cost: a tenth of a second."""
MOST_EXPLAINED = 2_000
"""Looks after which it is no longer said where the value does not fit: to find that takes many times as long."""
_HERE = frozenset(("not", "if", "then", "else", "extends", "disallow"))
_HERE_LISTS = frozenset(("allOf", "anyOf", "oneOf", "type", "disallow", "extends"))
_HERE_NAMED = frozenset(("dependentSchemas", "dependencies"))
_ANY = frozenset(
    "items additionalItems additionalProperties contains propertyNames unevaluatedItems unevaluatedProperties".split()
)
_ADDRESSES = frozenset(("$id", "id", "$anchor", "$dynamicAnchor"))
_REFERENCES = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))


def work_of(schema: Any, value: Any) -> int:
    """How often a part of ``schema`` is looked at to judge ``value``, at most; beyond `MOST` the count ends."""
    total, parts = 0, _Parts(schema)
    most = Counter({parts.note(schema): 1})
    for count, names in _levels(value):
        most, at_one = parts.most(parts.below(most, names) if total else [most])
        total += count * at_one
        if total > MOST:
            break
    return total


def _levels(value: Any) -> Iterator[tuple[int, set[object]]]:
    """How many values there are on each level, and the names and numbers that they have there."""
    level: list[Any] = [value]
    names = set[object]()
    while level:
        yield len(level), names
        objects = [one for one in level if isinstance(one, dict)]
        lists = [one for one in level if isinstance(one, list)]
        names = {name for one in objects for name in one} | set(range(max(map(len, lists), default=0)))
        level = [inner for one in objects for inner in one.values()] + [inner for one in lists for inner in one]


class _Parts:
    """The parts of a schema, and which of them each leads to, for the same place of a value or for one below it."""

    def __init__(self, top: Any) -> None:
        self._top = top
        self._known: dict[int, Any] = {id(top): top}
        """By identity."""
        self._named = _names(top)

    def here(self, looked: Counter[int]) -> Counter[int]:
        """How often each part is looked at in one place, where some are as often as ``looked`` says."""
        everywhere, more, rounds = Counter(looked), looked, 0
        while more and everywhere.total() <= MOST:
            rounds += 1
            if rounds > len(self._known) + 1:  # They lead back to each other without an end: in one way, or in several.
                return everywhere if more.total() <= looked.total() else Counter({id(self._top): MOST + 1})
            found: Counter[int] = Counter()
            for part, times in more.items():
                for inner in self._same_place(self._known[part]):
                    found[self.note(inner)] += times
            everywhere += found
            more = found
        return everywhere

    def most(self, ways: list[Counter[int]]) -> tuple[Counter[int], int]:
        """How often each part is looked at in one place at most, and all of them, where a place is one of ``ways``."""
        most, at_one = Counter[int](), 0
        for everywhere in map(self.here, ways):
            at_one = max(at_one, everywhere.total())
            for part, times in everywhere.items():
                most[part] = max(most[part], times)
        return most, at_one

    def below(self, everywhere: Counter[int], names: set[object]) -> list[Counter[int]]:
        """How often each part is looked at in a place below one: by the ``names`` that such a place may have."""
        named: dict[object, Counter[int]] = {}
        wild: Counter[int] = Counter()
        for part, times in everywhere.items():
            for name, inner in self._inner_places(self._known[part]):
                if name is None:
                    wild[self.note(inner)] += times
                elif name in names:
                    named.setdefault(name, Counter())[self.note(inner)] += times
        return [wild, *(counted + wild for counted in named.values())]

    def note(self, part: Any) -> int:
        """The name of a part here."""
        self._known[id(part)] = part
        return id(part)

    def _same_place(self, part: Any) -> Iterator[Any]:
        if not isinstance(part, dict):
            return
        for key, value in part.items():
            if key in _REFERENCES:
                yield from self._targets(value)
            elif key in _HERE_LISTS and isinstance(value, list):
                yield from (item for item in value if isinstance(item, dict))
            elif key in _HERE_NAMED and isinstance(value, dict):
                yield from (item for item in value.values() if isinstance(item, dict))
            elif key in _HERE and isinstance(value, dict):
                yield value

    def _inner_places(self, part: Any) -> Iterator[tuple[object, Any]]:
        """The parts below the place of a part, by a name or a number, or for any (None)."""
        if not isinstance(part, dict):
            return
        for key, value in part.items():
            if key == "properties" and isinstance(value, dict):
                yield from value.items()
            elif key in ("prefixItems", "items") and isinstance(value, list):
                yield from enumerate(value)
            elif key == "patternProperties" and isinstance(value, dict):
                yield from ((None, item) for item in value.values())
            elif key in _ANY and isinstance(value, dict):
                yield None, value

    def _targets(self, reference: Any) -> Iterator[Any]:
        """Yields the targets of a reference. One that is not here is a draft of JSON Schema, or was refused."""
        if not isinstance(reference, str):
            return
        base, _, fragment = unquote(reference).partition("#")
        for document in self._named.get(_last(base), ()) if base else (self._top,):
            target = document if not fragment or fragment.startswith("/") else None
            for step in fragment.split("/")[1:]:
                target = _step(target, step.replace("~1", "/").replace("~0", "~"))
            if target is not None:
                yield target
        if fragment and not fragment.startswith("/"):
            yield from self._named.get(f"#{fragment}", ())


def _names(schema: Any) -> dict[str, list[Any]]:
    """The parts that have an address or an anchor: by the last step of the one, and by ``#`` with the other."""
    found: dict[str, list[Any]] = {}
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            for key in _ADDRESSES & node.keys():
                if isinstance(node[key], str):
                    name = _last(node[key]) if key in ("$id", "id") else f"#{node[key]}"
                    found.setdefault(name, []).append(node)
            todo += node.values()
        elif isinstance(node, list):
            todo += node
    return found


def _last(address: str) -> str:
    return address.rstrip("/#").rpartition("/")[2] if not address.startswith("#") else address


def _step(node: Any, name: str) -> Any:
    if isinstance(node, dict):
        return node.get(name)
    if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
        return node[int(name)]
    return None
