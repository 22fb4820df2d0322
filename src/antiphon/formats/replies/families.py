"""Ways of writing replies that are known by name, for what a template does not say: rows of ``families.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from msgspec.structs import replace

from .description import CallForm, Members, Pairs, Region, ReplyDescription, Slot, Value

_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "reasoning": lambda value: Region(**value),
    "content": lambda value: Region(**value),
    "section": lambda value: Region(**value),
    "members": lambda value: Members(**value),
    "head": lambda value: tuple(Slot(**slot) for slot in value),
    "pairs": lambda value: Pairs(**_values(value)),
    "values": lambda value: tuple(Value(**each) for each in value),
    "layout": tuple,
    "ends": tuple,
}


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """``markers``: the template's text has all of them, or one of ``either``, and none of ``unless``.

    ``fills``: what such replies have besides calls; ``calls``: their forms, the family's own first.
    """

    name: str
    markers: tuple[str, ...]
    either: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    fills: ReplyDescription = msgspec.field(default_factory=ReplyDescription)
    calls: tuple[CallForm, ...] = ()

    def fits(self, source: str) -> bool:
        marked = all(marker in source for marker in self.markers) or any(marker in source for marker in self.either)
        return marked and not any(marker in source for marker in self.unless)


def families_of(source: str) -> Iterator[Family]:
    """The families that a template may be of, by the markers in its text."""
    return (family for family in _families() if family.fits(source))


def family_named(name: str) -> Family:
    """The family of that name. Raises KeyError for one that is not in the table."""
    return {family.name: family for family in _families()}[name]


def completed(found: ReplyDescription, family: Family) -> ReplyDescription:
    """A description with what the family knows beyond it; its other forms of calls are only read."""
    known = family.fills
    added = tuple(form for form in family.calls if _is_new(form, found.calls))
    return replace(
        found,
        reasoning=found.reasoning or known.reasoning,
        content=found.content or known.content,
        calls=(*found.calls, *added) if found.calls else family.calls,
        layout=tuple(dict.fromkeys((*found.layout, *known.layout))),
        ends=found.ends or known.ends,
    )


def whole(found: ReplyDescription, family: Family) -> ReplyDescription:
    """The family's own description, with the anchor and the ends that were found."""
    known = family.fills
    return ReplyDescription(
        anchor=found.anchor,
        reasoning=known.reasoning or found.reasoning,
        content=known.content,
        calls=family.calls,
        layout=known.layout,
        ends=found.ends or known.ends,
    )


def _is_new(form: CallForm, forms: tuple[CallForm, ...]) -> bool:
    """Whether a form adds a marked way to begin a call to those that there are."""
    return not form.bare and _beginning(form) not in map(_beginning, forms)


def _beginning(form: CallForm) -> tuple[str, str, bool]:
    section = form.section.open.strip().rstrip("[") if form.section is not None else ""
    return section, form.open.strip(), form.members is not None


@cache
def _families() -> tuple[Family, ...]:
    rows = json.loads(files(__package__).joinpath("families.json").read_text("utf-8"))
    return tuple(_family(row) for row in rows)


def _family(row: Mapping[str, Any]) -> Family:
    return Family(
        name=row["name"],
        markers=tuple(row["markers"]),
        either=tuple(row.get("or", ())),
        unless=tuple(row.get("unless", ())),
        fills=ReplyDescription(**_values(row.get("fills", {}))),
        calls=tuple(CallForm(**_values(form)) for form in row.get("calls", ())),
    )


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _PARTS[key](value) if key in _PARTS else value for key, value in row.items()}
