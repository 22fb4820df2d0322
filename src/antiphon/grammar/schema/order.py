"""The order of properties: that of their own object, as its author wrote it.

The canonical form sorts names and forgets which object had them. So whoever translates it walks the author's schema
along: at each place it knows the schemas that apply there, and their names in the order of their first appearance.

    schema   {"type": "object", "not": {"required": ["x"]}, "properties":
             {"one": {"type": "object", "properties": {"b": {"const": 1}, "a": {"const": 2}}},
             "two": {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}}}}
    engine   {"type": "object", "properties":
             {"one": {"type": "object", "properties": {"b": {"const": 1}, "a": {"const": 2}}},
             "two": {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}}, "x": false}}
    accepts  {"one":{"b":1,"a":2},"two":{"a":1,"b":2}}
    refuses  {"one":{"a":2,"b":1}}  {"two":{"b":2,"a":1}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from .branches import Authored, Branch, names_of
from .patterns import matches

_DATA = frozenset(["const", "enum", "default", "examples"])
_CANONICAL = "urn:jsonschema:canonical:"
_MOST_COMPARED = 200
"""How many places of alternatives are looked into for a difference of order."""
_ESCAPED = re.compile("~[01]")


class AuthoredSchema:
    """One document as its author wrote it, and what its references lead to."""

    def __init__(self, document: Any) -> None:
        self.top = _schemas(document)
        self._conjoined: dict[int, Authored] = {}
        self._agreeing: dict[tuple[int, ...], bool] = {}
        self._anchors: dict[str, dict[str, Any]] = {}
        for name, node in _named(document, ""):
            self._anchors.setdefault(name, node)

    def at(self, reference: str) -> Authored:
        """The schemas that a reference in the document or its canonical form leads to; none where it is not found."""
        uri = unquote(reference.removeprefix(_CANONICAL)) if reference.startswith(_CANONICAL) else reference
        try:
            base, fragment = urldefrag(uri)
        except ValueError:
            return ()
        start = self._anchors.get(base, *self.top[:1]) if base else next(iter(self.top), None)
        if fragment and not fragment.startswith("/"):
            start = self._anchors.get(f"#{fragment}")
            fragment = ""
        return _schemas(_descended(start, fragment))

    def applying(self, places: Authored, branch: Branch | None = None) -> Authored:
        """All schemas that apply to the same value; of alternatives, those that ``branch`` may have been made of."""
        found: dict[int, dict[str, Any]] = {}
        entered: set[int] = set()
        ways = [iter([(False, place) for place in places])]
        while ways:
            is_own, node = next(ways[-1], (True, None))
            if node is None:
                ways.pop()
            elif is_own:
                found.setdefault(id(node), node)
            elif id(node) not in entered:
                entered.add(id(node))
                ways.append(self._steps(node, branch))
        return tuple(found.values())

    def _steps(self, node: dict[str, Any], branch: Branch | None) -> Iterator[tuple[bool, dict[str, Any]]]:
        """The schemas that apply where ``node`` does, and itself (True) where its own properties stand among them."""
        for key in node:
            if key == "properties":
                yield True, node
            yield from ((False, inner) for inner in self._applied(key, node, branch))
        yield True, node
        # Conditions come after what is required.
        yield from ((False, schema) for schema in _schemas(node.get("if"), node.get("not")))

    def _applied(self, key: str, node: dict[str, Any], branch: Branch | None) -> Authored:
        """The schemas that a keyword applies to the same value."""
        match key, node[key]:
            case (("$ref" | "$dynamicRef" | "$recursiveRef"), str(reference)):
                return self.at(reference)
            case "allOf", list(parts):
                return _schemas(*parts)
            case (("anyOf" | "oneOf"), list(ways)):
                return self._possible(_schemas(*ways), branch)
            case (("then" | "else"), dict(way)) if "if" in node:
                possible = self._possible(_schemas(node.get("then"), node.get("else")), branch)
                return tuple(one for one in possible if one is way)
            case (("dependentSchemas" | "dependencies"), dict(dependent)):
                return _schemas(*dependent.values())
            case _:
                return ()

    def _possible(self, ways: Authored, branch: Branch | None) -> Authored:
        """The alternatives that the branch may have been made of; all where that cannot be seen."""
        if branch is None or len(ways) < 2:
            return ways
        return tuple(way for way in ways if branch.comes_from(self.conjoined(way))) or ways

    def conjoined(self, way: dict[str, Any]) -> Authored:
        """A schema, and those that it requires besides whatever the value."""
        if id(way) not in self._conjoined:
            found: dict[int, dict[str, Any]] = {}
            todo = [way]
            while todo:
                node = todo.pop()
                if id(node) not in found:
                    found[id(node)] = node
                    keys = (key for key in ("allOf", "$ref") if key in node)
                    todo += [inner for key in keys for inner in self._applied(key, node, None)]
            self._conjoined[id(way)] = tuple(found.values())
        return self._conjoined[id(way)]

    def lost_orders(self, places: Authored, branch: Branch) -> Iterator[list[Authored]]:
        """The choices between orders of which the branch is none: the canonical form has made one object of several.

        Of each, the alternatives with all that they require.
        """
        for node in self.applying(places, branch):
            for key in ("anyOf", "oneOf"):
                ways = _schemas(*node[key]) if isinstance(node.get(key), list) else ()
                if len(ways) > 1 and not self._agree(ways):
                    conjoined = [self.conjoined(way) for way in ways]
                    if not any(branch.comes_from(way) for way in conjoined):
                        yield conjoined

    def _agree(self, ways: Authored) -> bool:
        """Whether one order of properties, at every depth, is that of each alternative."""
        known = tuple(map(id, ways))
        if known not in self._agreeing:
            self._agreeing[known] = self._in_one_order([(way,) for way in ways], set())
        return self._agreeing[known]

    def _in_one_order(self, places: Sequence[Authored], entered: set[tuple[int, ...]]) -> bool:
        key = tuple(id(node) for place in places for node in place)
        if key in entered or len(entered) > _MOST_COMPARED or sum(map(bool, places)) < 2:
            return True
        entered.add(key)
        applying = [self.applying(place) for place in places]
        orders = [listed(one) for one in applying]
        ranks = {name: i for i, name in enumerate(dict.fromkeys(chain.from_iterable(orders)))}
        if any(order != sorted(order, key=ranks.__getitem__) for order in orders):
            return False
        inner = [[member(one, name) for one in applying] for name in ranks]
        return all(self._in_one_order(each, entered) for each in [*inner, [items(one) for one in applying]])


def listed(applying: Authored) -> list[str]:
    """The names of properties in the order of their first appearance."""
    return list(dict.fromkeys(name for node in applying for name in names_of(node, "properties")))


def order_of(applying: Authored) -> dict[str, None]:
    """The names of properties in the order of their first appearance, then those that other keywords name."""
    return dict.fromkeys(listed(applying)) | dict.fromkeys(name for node in applying for name in _named_elsewhere(node))


def _named_elsewhere(node: dict[str, Any]) -> Iterator[str]:
    yield from names_of(node, "required")
    names = node.get("propertyNames")
    if isinstance(names, dict):
        yield from names_of(names, "enum")
    for keyword in ("dependentRequired", "dependencies"):
        dependent = node.get(keyword)
        for name, others in dependent.items() if isinstance(dependent, dict) else ():
            yield name
            yield from names_of({"required": others}, "required") if isinstance(others, list) else ()


def member(applying: Authored, name: str) -> Authored:
    """The schemas of a property's value."""
    return tuple(schema for node in applying for schema in _schemas(*_of_member(node, name)))


def items(applying: Authored, place: int | None = None) -> Authored:
    """The schemas of the item at a place of a tuple, or of the items behind one."""
    found: list[Any] = []
    for node in applying:
        prefix = prefix_of(node)
        if place is not None and place < len(prefix):
            found.append(prefix[place])
        else:
            found.append(node.get("additionalItems" if isinstance(node.get("items"), list) else "items"))
            found.append(node.get("unevaluatedItems"))
    return _schemas(*found)


def of_pattern(applying: Authored, pattern: str) -> Authored:
    """The schemas of a property whose name has the pattern; of any pattern where it is spelled in another way."""
    by_pattern = [value for node in applying if isinstance(value := node.get("patternProperties"), dict)]
    same = [patterns[pattern] for patterns in by_pattern if pattern in patterns]
    return _schemas(*(same or [schema for patterns in by_pattern for schema in patterns.values()]))


def under(applying: Authored, *keywords: str) -> Authored:
    """The schemas of keywords that have one."""
    return _schemas(*(node.get(key) for node in applying for key in keywords))


def _schemas(*nodes: Any) -> Authored:
    return tuple(node for node in nodes if isinstance(node, dict))


def _of_member(node: dict[str, Any], name: str) -> Iterator[Any]:
    properties, patterns = node.get("properties"), node.get("patternProperties")
    known = False
    if isinstance(properties, dict) and name in properties:
        known = True
        yield properties[name]
    for pattern, schema in patterns.items() if isinstance(patterns, dict) else ():
        if matches(pattern, name):
            known = True
            yield schema
    if not known:
        yield node.get("additionalProperties")
        yield node.get("unevaluatedProperties")


def prefix_of(node: dict[str, Any]) -> list[Any]:
    """The schemas of the items of a tuple, in the spelling of any draft."""
    prefix = node.get("items") if isinstance(node.get("items"), list) else node.get("prefixItems")
    return prefix if isinstance(prefix, list) else []


def _named(node: Any, base: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas by names of their own: anchors (as ``#name``) and the absolute addresses of ``$id``."""
    if isinstance(node, list):
        for item in node:
            yield from _named(item, base)
    if not isinstance(node, dict):
        return
    for key in ("$anchor", "$dynamicAnchor"):
        if isinstance(node.get(key), str):
            yield f"#{node[key]}", node
    for key in ("$id", "id"):
        if isinstance(node.get(key), str):
            with suppress(ValueError):
                base = urljoin(base, node[key])
            yield (base if not node[key].startswith("#") else node[key]), node
            yield node[key], node
    for key, value in node.items():
        if key not in _DATA:
            yield from _named(value, base)


def _descended(node: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        name = _ESCAPED.sub(lambda found: "/" if found[0] == "~1" else "~", unquote(step))
        if isinstance(node, list):
            node = node[int(name)] if name.isdecimal() and int(name) < len(node) else None
        else:
            node = node.get(name) if isinstance(node, dict) else None
    return node
