"""Finds a call in what a template wrote: where it stands, and what its parts say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from .description import Members, Slot
from .probe import Call

_DECODER = json.JSONDecoder()
_COUNTED = re.compile(r"(\D*?)(\d+)(.*)", re.DOTALL)
_JOINED = re.compile(r"[\w./-]*\Z")
_MOST_OBJECTS = 64

What = Literal["name", "call_id", "index"]
Head = list[tuple[What, str]]
"""What is read before a call's arguments, and the text behind each."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """One call in a text: where it starts and ends, and its arguments where they are one JSON value."""

    start: int
    end: int
    arguments: tuple[int, int] | None = None
    value: Any = None


def located(text: str, call: Call, start: int) -> Written | None:
    key, value = next(iter(call.arguments.items()))
    for begin, end, found in _objects(text, start):
        if not _holds(found, key, value):
            continue
        if _mentions(found, call.name):
            return Written(start=begin, end=end, arguments=(begin, end), value=found)
        if found == call.arguments:
            heads = [at for word in (call.name, call.call_id) if 0 <= (at := text.find(word, start)) < begin]
            return Written(start=min(heads), end=end, arguments=(begin, end)) if heads else None
    at = text.find(value, text.find(key, start))
    heads = [place for word in (call.name, call.call_id) if 0 <= (place := text.find(word, start)) < at]
    return Written(start=min(heads), end=at + len(value)) if heads and at >= 0 else None


def _objects(text: str, start: int) -> Iterator[tuple[int, int, Any]]:
    """The JSON objects in a text, outer ones first."""
    at = text.find("{", start)
    for _ in range(_MOST_OBJECTS):
        if at < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, at)
            yield at, end, value
        except ValueError:
            pass
        at = text.find("{", at + 1)


def _holds(value: Any, key: str, inner: str) -> bool:
    """Whether the arguments are in a value, as an object or as its text."""
    if isinstance(value, dict):
        return value.get(key) == inner or any(_holds(each, key, inner) for each in value.values())
    if isinstance(value, list):
        return any(_holds(each, key, inner) for each in value)
    return isinstance(value, str) and value.startswith("{") and key in value and inner in value


def _mentions(value: Any, name: str) -> bool:
    if isinstance(value, dict):
        return name in value or any(_mentions(each, name) for each in value.values())
    return isinstance(value, str) and value == name


def members_of(call: Call, values: list[Any]) -> Members:
    """The keys of a call that is one JSON object."""
    places = list(_places(values[0], ""))
    if any(key == call.name for key in values[0]):
        return Members(name="")
    name = next((place for place, value in places if value == call.name), "name")
    arguments = next((place for place, value in places if _is_arguments(value, call)), "arguments")
    call_id = next((place for place, value in places if call.call_id and value == call.call_id), "")
    call_id = call_id or (_counted(values, {name, arguments}) if len(values) > 1 else "")
    order = [place for place, _ in places]
    first = bool(call_id) and order.index(call_id) < order.index(name)
    return Members(name=name, arguments=arguments, call_id=call_id, id_first=first)


def _is_arguments(value: Any, call: Call) -> bool:
    return value == call.arguments or (isinstance(value, str) and value.startswith("{") and "zqka" in value)


def _places(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        place = f"{path}.{key}" if path else key
        yield place, inner
        if isinstance(inner, dict) and "zqka" not in inner:
            yield from _places(inner, place)


def _counted(values: list[Any], known: set[str]) -> str:
    """The member by which the calls differ besides their names and arguments: a number of the template's own."""
    first, second = dict(_places(values[0], "")), dict(_places(values[1], ""))
    differing = [place for place in first if place not in known and first[place] != second.get(place)]
    return next((place for place in differing if not isinstance(first[place], dict)), "")


def head_of(text: str, call: Call) -> Head:
    parts = re.split(f"({re.escape(call.name)}|{re.escape(call.call_id)})", text)
    return [("name" if parts[i] == call.name else "call_id", parts[i + 1]) for i in range(1, len(parts), 2)]


def _differ_in_number(one: re.Match[str], two: re.Match[str]) -> bool:
    return one.group(2) != two.group(2) and (one.group(1), one.group(3)) == (two.group(1), two.group(3))


def slots_of(heads: list[Head], opening: str) -> tuple[tuple[Slot, ...], str]:
    """The slots, and how much of the opening belongs to the first of them: an id that spells the name begins there."""
    slots: list[Slot] = []
    prefix = ""
    for i, (what, after) in enumerate(heads[0]):
        other = heads[1][i][1] if len(heads) > 1 and i < len(heads[1]) else after
        one, two = _COUNTED.fullmatch(after), _COUNTED.fullmatch(other)
        if one is None or two is None or not _differ_in_number(one, two):
            slots.append(Slot(reads=what, after=after))
        elif what == "name" and not i and len(one.group(1)) == 1 and one.group(1) in ":#-_.":
            found = _JOINED.search(opening)
            prefix = found.group() if found else ""
            slots.append(Slot(reads="call_id", pattern=f"{prefix}{{name}}{one.group(1)}{{index}}", after=one.group(3)))
        else:
            slots += [Slot(reads="name", after=one.group(1)), Slot(reads="index", after=one.group(3))]
    if all(slot.reads != "name" and not slot.pattern for slot in slots):
        slots = [
            replace(slot, pattern="functions.{name}:{index}") if slot.reads == "call_id" else slot for slot in slots
        ]
    return tuple(slots), prefix
