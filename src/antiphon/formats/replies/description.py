"""How a model writes its replies, as data: the reader reads by it, and a grammar is written from it.

A literal is written exactly as the model writes it, blanks and all. Blanks at its outer ends, and between two tags in
it (``<tool_call>\\n<function=``), are layout: a grammar writes them, and the reader takes any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a reply between two literals. An empty ``close``: it ends where another region begins."""

    open: str = ""
    close: str = ""


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A value before a call's arguments, up to the literal ``after`` (empty: up to what follows).

    ``call_id`` that spells the name too (``functions.NAME:0``) has a ``pattern`` with ``{name}`` and ``{index}``.
    ``index``: the place of the call, read and left out.
    """

    reads: Literal["name", "call_id", "index"]
    after: str = ""
    pattern: str = ""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """One way to write an argument's value: between ``before``, which follows the key, and ``after``.

    ``schema``: text of the type that the tool's schema says; ``text``: a string as it is; ``json``: JSON;
    ``literal``: a literal that ends where it ends, with no ``after``; ``nested``: members as tags of their own.
    """

    before: str
    after: str = ""
    reads: Literal["schema", "text", "json", "literal", "nested"] = "schema"


class Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments as keys and values: ``key``, the key's name, a value in one of the ``values`` forms, ``separator``.

    A value of several possible forms is known by its ``before``. ``python``: what is no string is written as Python
    writes it (True, None, {'a': 1}); it is read either way.
    """

    key: str = ""
    values: tuple[Value, ...]
    separator: str = ""
    python: bool = False
    quote: str = ""


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a call that is one JSON object, in the order in which the model writes them.

    ``name`` empty: the name is the only key, and the arguments its value. ``arguments_first`` puts them before it.
    ``call_id`` empty: it has none; ``id_first`` puts it before the others, else it comes last. A dot leads into an
    object: ``function.name``.
    """

    name: str = "name"
    arguments: str = "arguments"
    call_id: str = ""
    id_first: bool = False
    arguments_first: bool = False


class CallForm(msgspec.Struct, frozen=True, kw_only=True):
    """How tool calls are written: ``section`` around all of them, ``separator`` between two.

    With ``members`` a call is ``open``, one JSON object, ``close``. Without: ``open``, the ``head``, the arguments (one
    JSON object, or ``pairs``), ``close``; between the last two its id, if that comes so late, behind ``id_behind``.
    Calls that nothing marks but brackets round all of them are the whole reply.
    """

    section: Region | None = None
    separator: str = ""
    open: str = ""
    close: str = ""
    members: Members | None = None
    head: tuple[Slot, ...] = ()
    pairs: Pairs | None = None
    id_behind: str = ""

    @property
    def bare(self) -> bool:
        """Nothing marks where calls begin."""
        return not self.open and (self.section is None or not self.section.open.strip("[ \n"))

    @property
    def literals(self) -> Iterator[str]:
        """Every literal that may not be empty."""
        if self.section is not None:
            yield from (self.section.open, self.section.close)
        yield from (self.open, self.close, self.id_behind, *(slot.after for slot in self.head))
        if self.pairs is not None:
            yield self.pairs.key
            yield self.pairs.quote
            for value in self.pairs.values:
                yield from (value.before, value.after)


class ReplyDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One model's replies.

    ``anchor``: what the prompt ends with where a reply begins; text behind it in the prompt (an opened ``<think>``) is
    the reply's beginning. ``calls``: the first form is the model's own, the others are read too. ``layout``: literals
    between regions that say nothing. ``ends``: what ends a reply; a region's ``close`` among them ends the reply unless
    ``layout`` follows.
    """

    anchor: str = ""
    reasoning: Region | None = None
    content: Region | None = None
    calls: tuple[CallForm, ...] = ()
    layout: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    @property
    def literals(self) -> frozenset[str]:
        """Every literal of regions, calls and layout."""
        regions = [region for region in (self.reasoning, self.content) if region is not None]
        found = [text for region in regions for text in (region.open, region.close)]
        found += [text for form in self.calls for text in form.literals]
        return frozenset(text for text in (*found, *self.layout) if text)


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """Habits of a template's replies that a reader need not know.

    ``text_beside``: where a text stands beside calls; empty where none does, or where that is not known.
    ``unopened``: a reply without a thought begins with the close of one. ``unclosed``: it stands behind an opened one.
    """

    text_beside: Literal["", "before", "behind"] = ""
    unopened: bool = False
    unclosed: bool = False


NO_HABITS = Habits()


MOST_LITERAL = 400
"""Characters. What finds literals takes the square of their length; no model has a mark of a hundred."""


def has_long_literals(description: ReplyDescription) -> bool:
    """Whether a literal is too long to be looked for in every reply."""
    return any(len(text) > MOST_LITERAL for text in (*description.literals, *description.ends))


PLAIN = ReplyDescription()
"""Replies in which nothing is marked."""


_BEFORE = {"name": "NAME", "call_id": "ID", "index": "NUMBER"}


def spelled_call(form: CallForm) -> str:
    """A call of that form with an argument, the values by their names."""
    section = form.section or Region()
    head = "".join(_BEFORE[slot.reads] + slot.after for slot in form.head)
    return section.open + form.open + head + _arguments(form) + form.close + section.close


def _arguments(form: CallForm) -> str:
    if form.members is not None:
        name, arguments = form.members.name, form.members.arguments
        return f'{{"{name}": "NAME", "{arguments}": {{…}}}}' if name else '{"NAME": {…}}'
    if form.pairs is None:
        return "{…}"
    value = form.pairs.values[0]
    return f"{form.pairs.key}KEY{value.before}VALUE{value.after}"
