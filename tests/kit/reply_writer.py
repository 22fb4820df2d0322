"""Writes replies by their description, as a template does: the other side of a reader and of a grammar."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon.formats.replies import CallForm, Members, Pairs, ReplyDescription, Value

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Markup:
    """A literal of the description: what it spells of controls, are controls."""

    text: str


Part = Markup | str
"""A `str` is what a model says, which never is a control."""


@dataclass(frozen=True)
class Style:
    python: bool
    compact: bool

    def json(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":") if self.compact else None)


def reply(
    description: ReplyDescription,
    *,
    reasoning: str | None = None,
    content: str | None = None,
    calls: Sequence[tuple[str, Arguments]] = (),
    python: bool = True,
    compact: bool = False,
) -> list[Part]:
    """The reply up to its end; ``python`` False: in the family's spelling, but with values as JSON.

    ``compact``: JSON without blanks, and no names sorted.
    """
    parts: list[Part] = []
    if reasoning is not None and description.reasoning is not None:
        parts += [Markup(description.reasoning.open), reasoning, Markup(description.reasoning.close)]
        parts += [Markup(text) for text in description.layout if _ends(description, description.reasoning.close)]
    if content is not None:
        region = description.content
        parts += [content] if region is None else [Markup(region.open), content, Markup(region.close)]
        if calls and region is not None and _ends(description, region.close):
            parts += [Markup(text) for text in description.layout]
    if calls:
        parts += _calls(description.calls[0], calls, Style(python, compact))
    closed = content is not None and not calls and description.content is not None
    if not (closed and description.content and _ends(description, description.content.close)):
        parts.append(Markup(description.ends[0]))
    return parts


def _ends(description: ReplyDescription, close: str) -> bool:
    return close.strip() in description.ends


def _calls(form: CallForm, calls: Sequence[tuple[str, Arguments]], style: Style) -> Iterator[Part]:
    if form.section is not None:
        yield Markup(form.section.open)
    for i, (name, arguments) in enumerate(calls):
        if i:
            yield Markup(form.separator)
        yield Markup(form.open)
        yield from _call(form, name, arguments, i, style)
        yield Markup(form.close)
    if form.section is not None:
        yield Markup(form.section.close)


def _call(form: CallForm, name: str, arguments: Arguments, index: int, style: Style) -> Iterator[Part]:
    if form.members is not None:
        yield style.json(_members(form.members, name, arguments, index))
        return
    for slot in form.head:
        said = {"name": name, "call_id": f"call{index:05}", "index": str(index + 1)}[slot.reads]
        yield slot.pattern.format(name=name, index=index) if slot.pattern else said
        yield Markup(slot.after)
    yield from _arguments(form, arguments, style)
    if form.id_behind:
        yield from (Markup(form.id_behind), f"call{index:05}")


def _arguments(form: CallForm, arguments: Arguments, style: Style) -> Iterator[Part]:
    if form.pairs is None:
        yield style.json(arguments)
    else:
        yield from _pairs(form.pairs, arguments, replace(style, python=style.python and form.pairs.python))


def _members(members: Members, name: str, arguments: Arguments, index: int) -> dict[str, Any]:
    outer, _, inner = members.name.rpartition(".")
    key = members.arguments.rpartition(".")[2]
    call: dict[str, Any] = {inner: name, key: arguments} if inner else {name: arguments}
    call = {outer: call} if outer else call
    if not members.call_id:
        return call
    id = {members.call_id: str(index) if members.id_first else f"call{index:05}"}
    return {**id, **call} if members.id_first else {**call, **id}


def _pairs(pairs: Pairs, arguments: Arguments, style: Style) -> Iterator[Part]:
    names = sorted(arguments, key=str.lower) if pairs.quote and not style.compact else list(arguments)
    for i, name in enumerate(names):
        if i:
            yield Markup(pairs.separator)
        yield Markup(pairs.key)
        yield name
        yield from _value(pairs, name, arguments[name], style)


def _value(pairs: Pairs, name: str, value: Any, style: Style) -> Iterator[Part]:
    form = _form(pairs, value)
    yield Markup(form.before)
    if form.reads == "nested":
        yield from _nested(pairs, form, name, value)
        return
    if form.reads == "literal":
        yield from _literal(pairs, value, style)
    elif isinstance(value, str):
        yield value
    else:
        yield repr(value) if style.python else style.json(value)
    yield Markup(form.after)


def _form(pairs: Pairs, value: Any) -> Value:
    """The form whose marker names the value's type; else by whether it is a string, or has signs to be set off."""
    first = pairs.values[0]
    if len(pairs.values) == 1:
        return first
    if "CDATA" in pairs.values[1].before:
        return pairs.values[1] if isinstance(value, str) and set(value) & set("<&\n") else first
    if len(pairs.values) == 2:
        return first if isinstance(value, str) else pairs.values[1]
    kind = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}
    others = first if isinstance(value, str) else pairs.values[1]
    return next((form for form in pairs.values if f'"{kind.get(type(value), "null")}"' in form.before), others)


def _nested(pairs: Pairs, form: Value, name: str, value: Any) -> Iterator[Part]:
    items = list(value.items()) if isinstance(value, dict) else []
    members = [("item", item) for item in value] if isinstance(value, list) else items
    if members:
        for key, item in members:
            yield Markup(pairs.key)
            yield key
            yield Markup(form.before)
            yield from _nested(pairs, form, key, item)
    else:
        yield value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    yield Markup(form.after.replace("{key}", name))


def _literal(pairs: Pairs, value: Any, style: Style) -> Iterator[Part]:
    if not pairs.quote:
        yield repr(value) if style.python else style.json(value)
    elif isinstance(value, str):
        yield from (Markup(pairs.quote), value, Markup(pairs.quote))
    elif isinstance(value, dict):
        yield "{"
        for i, key in enumerate(sorted(value, key=str.lower)):
            yield f"{',' * bool(i)}{key}:"
            yield from _literal(pairs, value[key], style)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for i, item in enumerate(value):
            yield "," * bool(i)
            yield from _literal(pairs, item, style)
        yield "]"
    else:
        yield str(value) if value is None else json.dumps(value)
