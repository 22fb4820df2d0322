"""Derives how calls are written: one JSON value, a name in markup, or arguments in markup too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from .atoms import Atoms, closes
from .derive_pairs import PairsProbe, derive_pairs
from .description import CallForm, Members, Region, Slot
from .probe import Call, called

_DECODER = json.JSONDecoder()
_COUNTED = re.compile(r"(\D*?)(\d+)(.*)", re.DOTALL)
_JOINED = re.compile(r"[\w.-]*\Z")
_MOST_OBJECTS = 64

Write = Callable[[tuple[Call, ...]], str]
"""The text of a reply with these calls, behind the prompt's anchor; empty where the template refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known of the reply round the calls. ``lead`` takes off what stands before any call (empty reasoning, an
    empty answer), ``tail`` what ends the reply: it gives what is before that, and whether there was an end."""

    lead: Callable[[str], str]
    tail: Callable[[str], tuple[str, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """One call in a text: where it starts and ends, and its arguments where they are one JSON value."""

    start: int
    end: int
    arguments: tuple[int, int] | None = None
    value: Any = None


def derive_form(write: Write, around: Surroundings, atoms: Atoms) -> tuple[CallForm, str] | None:
    """The form, and what follows the last call; None where the template writes no calls."""
    return _FormProbe(write, around, atoms).form()


class _FormProbe:
    def __init__(self, write: Write, around: Surroundings, atoms: Atoms) -> None:
        self._write = write
        self._around = around
        self._atoms = atoms
        self._one = write(called())
        self._calls = called()
        self._text = self._one

    def form(self) -> tuple[CallForm, str] | None:
        if "zqva" not in self._one:
            return None
        first = self._located(self._one, self._calls)
        if not first:
            return None
        for count in (3, 2):
            self._calls = called(count)
            self._text = self._write(self._calls)
            if all(call.arguments.keys() <= set(re.findall("zqk[abc]", self._text)) for call in self._calls):
                break
        else:
            self._calls, self._text = called(), self._one
        written = self._located(self._text, self._calls)
        if len(written) != len(self._calls):
            self._calls, self._text, written = called(), self._one, first
        return self._form_of(written)

    def _located(self, text: str, calls: tuple[Call, ...]) -> list[_Written]:
        """The calls in the text, in order; nothing where one is missing."""
        found: list[_Written] = []
        for call in calls:
            one = _located(text, call, found[-1].end if found else 0)
            if one is None:
                return []
            found.append(one)
        return found

    def _form_of(self, written: list[_Written]) -> tuple[CallForm, str] | None:
        first = written[0]
        if first.arguments is not None and first.value is not None and first.arguments[0] <= first.start:
            return self._object_form(written)
        if first.arguments is not None:
            return self._named_form(written)
        return self._pairs_form(written)

    def _object_form(self, written: list[_Written]) -> tuple[CallForm, str]:
        members = _members(self._calls[0], [one.value for one in written])
        return self._round(written, CallForm(members=members))

    def _named_form(self, written: list[_Written]) -> tuple[CallForm, str]:
        heads = [self._head(one, call) for one, call in zip(written, self._calls, strict=True)]
        form, tail = self._round(written, CallForm())
        slots, prefix = _slots(heads, form.open)
        return replace(form, head=slots, open=form.open[: len(form.open) - len(prefix)]), tail

    def _head(self, one: _Written, call: Call) -> list[tuple[str, str]]:
        """What stands before the arguments: which value, and the text behind it."""
        start, stop = one.start, one.arguments[0] if one.arguments else one.end
        return _head(self._text[start:stop], call)

    def _pairs_form(self, written: list[_Written]) -> tuple[CallForm, str] | None:
        found = derive_pairs(PairsProbe(self._write, self._atoms))
        if found is None:
            return None
        heads = [_head(self._to_key(one, call), call) for one, call in zip(written, self._calls, strict=True)]
        ends = [
            replace(one, end=one.end + found.behind(self._text[one.end :], call))
            for one, call in zip(written, self._calls, strict=True)
        ]
        form, tail = self._round(ends, CallForm(pairs=found.pairs))
        slots, prefix = _slots(heads, form.open)
        form = replace(form, head=slots, open=form.open[: len(form.open) - len(prefix)])
        return self._without_arguments(form, found.key), tail

    def _to_key(self, one: _Written, call: Call) -> str:
        text = self._text[one.start : one.end]
        return text.partition(next(iter(call.arguments)))[0]

    def _without_arguments(self, form: CallForm, key: str) -> CallForm:
        """The key's opening off the head's end, and blanks where a call without arguments has them."""
        *before, last = form.head
        last = replace(last, after=last.after[: len(last.after) - len(key)] if key else last.after)
        form = replace(form, head=(*before, last))
        pairs = form.pairs
        if pairs is None or not pairs.key:
            return form
        none = self._write(called(1, {}))
        value = pairs.values[0]
        core = value.after.rstrip()
        blanks = value.after[len(core) :]
        if blanks and last.after + form.close not in none and last.after + blanks + form.close in none:
            values = tuple(replace(each, after=each.after.rstrip()) for each in pairs.values)
            pairs = replace(pairs, values=values, separator=blanks + pairs.separator)
            return replace(form, close=blanks + form.close, pairs=pairs)
        return form

    def _round(self, written: list[_Written], form: CallForm) -> tuple[CallForm, str]:
        """The form with what stands round each call and all of them."""
        before = self._around.lead(self._text[: written[0].start])
        behind = self._text[written[-1].end :]
        last, ended = self._around.tail(behind)
        between = [self._text[one.end : two.start] for one, two in pairwise(written)]
        if not between:
            return replace(form, open=before, close=last if ended else self._own_close(last)), behind
        opening = self._atoms.suffix([before, *between]).lstrip()
        closing = self._atoms.prefix([*between, last]).rstrip()
        closing = closing[: max(0, min(map(len, between)) - len(opening))].rstrip()
        separator = between[0][len(closing) : len(between[0]) - len(opening)]
        head, foot = before[: len(before) - len(opening)], last[len(closing) :]
        if not ended:
            foot = self._without_end(foot, head + opening)
        section = Region(open=head, close=foot) if head.strip() else None
        return replace(form, open=opening, close=closing, separator=separator, section=section), behind[
            len(closing + foot) :
        ]

    def _own_close(self, text: str) -> str:
        """Behind a single call, where nothing says what ends the reply: its last tag does, if there are several."""
        return self._without_end(text, "") if len(self._atoms.tags(text)) > 1 else text

    def _without_end(self, text: str, opening: str) -> str:
        """The text without its last tag, unless that closes what was opened."""
        tags = self._atoms.tags(text)
        if not tags or any(closes(tag, tags[-1]) for tag in self._atoms.tags(opening)):
            return text.rstrip()
        return text.rpartition(tags[-1])[0].rstrip()


def _located(text: str, call: Call, start: int) -> _Written | None:
    key, value = next(iter(call.arguments.items()))
    for begin, end, found in _objects(text, start):
        if not _holds(found, key, value):
            continue
        if _mentions(found, call.name):
            return _Written(start=begin, end=end, arguments=(begin, end), value=found)
        if found == call.arguments:
            heads = [at for word in (call.name, call.call_id) if 0 <= (at := text.find(word, start)) < begin]
            return _Written(start=min(heads), end=end, arguments=(begin, end)) if heads else None
    at = text.find(value, text.find(key, start))
    heads = [place for word in (call.name, call.call_id) if 0 <= (place := text.find(word, start)) < at]
    return _Written(start=min(heads), end=at + len(value)) if heads and at >= 0 else None


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


def _members(call: Call, values: list[Any]) -> Members:
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


def _head(text: str, call: Call) -> list[tuple[str, str]]:
    parts = re.split(f"({re.escape(call.name)}|{re.escape(call.call_id)})", text)
    return [("name" if parts[i] == call.name else "call_id", parts[i + 1]) for i in range(1, len(parts), 2)]


def _slots(heads: list[list[tuple[str, str]]], opening: str) -> tuple[tuple[Slot, ...], str]:
    """The slots, and how much of the opening belongs to the first of them: an id that spells the name begins there."""
    slots: list[Slot] = []
    prefix = ""
    for i, (what, after) in enumerate(heads[0]):
        other = heads[1][i][1] if len(heads) > 1 and i < len(heads[1]) else after
        one, two = _COUNTED.fullmatch(after), _COUNTED.fullmatch(other)
        if other == after or one is None or two is None or (one.group(1), one.group(3)) != (two.group(1), two.group(3)):
            slots.append(Slot(reads="call_id" if what == "call_id" else "name", after=after))
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
