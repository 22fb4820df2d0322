"""Tool calls in a model's own spelling, as a grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from antiphon.conversation import ToolSpec
from antiphon.grammar import (
    Chain,
    Choice,
    ControlToken,
    Grammar,
    KeyValues,
    Literal,
    Regex,
    Repeat,
    ReplyShape,
    Spelling,
    ValueSpelling,
    choice,
    optional,
)
from antiphon.grammar.grammar import Lexeme, Pieces
from antiphon.grammar.rules import GAP
from antiphon.tokens import Control

from .description import CallForm, Members, Pairs, Region, Slot, Value

# Literals as a grammar writes them: what the vocabulary has as a control is one, the rest is text.


class Spelled:
    """Splits literals at the controls that a vocabulary has."""

    def __init__(self, controls: Collection[Control], literals: Iterable[str]) -> None:
        self._controls = {control.spelling for control in controls if control.spelling}
        longest_first = sorted(self._controls, key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(map(re.escape, longest_first))})" if longest_first else "(?!)")

    def pieces(self, literal: Control | str) -> Pieces:
        """The literal's controls and what is between them."""
        if isinstance(literal, Control):
            return (literal,) if literal.spelling in self._controls else (literal.spelling,)
        parts = self._pattern.split(literal)
        return tuple(Control(part) if part in self._controls else part for part in parts if part)

    def texts(self, literal: str) -> list[str]:
        """The literal if all of it is text."""
        return [literal] if literal and not any(isinstance(piece, Control) for piece in self.pieces(literal)) else []


def joined(*parts: Grammar | Control | str) -> Chain:
    """The parts one after another. Texts that stand side by side are one: a lexeme is never taken back."""
    found: list[Grammar] = []
    for part in parts:
        if isinstance(part, str):
            part = Literal(part)
        elif isinstance(part, Control):
            part = ControlToken(part)
        for node in part.parts if isinstance(part, Chain) else (part,):
            last = found[-1] if found else None
            if isinstance(node, Literal) and isinstance(last, Literal):
                found[-1] = Literal(last.text + node.text)
            elif node != Literal(""):
                found.append(node)
    return Chain(tuple(found))


# What may follow where the prompt has written the beginning of a mark that several things begin with.


def rest_after_prefix(grammar: Grammar, opened: Control | str) -> Grammar | None:
    """The rest of what begins with ``opened``; None where nothing does."""
    match grammar:
        case Literal(text) if isinstance(opened, str) and text.startswith(opened):
            return Literal(text.removeprefix(opened))
        case ControlToken(control) if control == opened:
            return Literal("")
        case Choice(options):
            found = [rest for option in options if (rest := rest_after_prefix(option, opened)) is not None]
            return choice(*found) if found else None
        case Chain((first, *rest)):
            return _chain_after_prefix(first, Chain(tuple(rest)), opened)
        case Repeat(item, _, most) if most == 1:
            return rest_after_prefix(item, opened)
        case _:
            return None


def _chain_after_prefix(first: Grammar, rest: Chain, opened: Control | str) -> Grammar | None:
    begun = rest_after_prefix(first, opened)
    ways = [joined(begun, rest)] if begun is not None else []
    if isinstance(first, Repeat) and not first.least and (left_out := rest_after_prefix(rest, opened)) is not None:
        ways.append(joined(left_out))
    return choice(*ways) if len(ways) > 1 else ways[0] if ways else None


BLANKS = optional(Lexeme(r"[ \t\r\n]{1,8}"))
GAPS = optional(Lexeme(r"([ \t]{1,16}(\r?\n[ \t]{0,40})?|\r?\n[ \t]{0,40})"))
"""Blanks beside a JSON text."""


def _braced(*parts: Grammar | Control | str) -> Chain:
    return joined("{", GAPS, *parts, GAPS, "}")


_ID = Regex(r"[A-Za-z0-9]{9}|0|[1-9][0-9]{0,3}")
"""An id that a model gives: nine letters or digits, or a count."""
_COUNT = Regex(r"0|[1-9][0-9]{0,3}")
_COMMA, _COLON = Lexeme(f"{GAP},{GAP}"), Lexeme(f"{GAP}:{GAP}")


class CallGrammar:
    """The calls of one form that a shape allows: the ``opening`` of the first, and the ``rest``."""

    def __init__(self, shape: ReplyShape, form: CallForm, spelled: Spelled) -> None:
        self._shape = shape
        self._form = form
        self._spelled = spelled
        self._section = form.section or Region()
        unmarked = "[" if form.section is not None else "{" if form.members is not None else ""
        self.unmarked = unmarked if form.bare else ""
        """The first character of calls that nothing marks."""
        self.opening: Pieces = spelled.pieces((self._section.open or form.open).lstrip())

    def rest(self, tools: Sequence[ToolSpec], *, first: Sequence[ToolSpec] = ()) -> Grammar:
        """The rest behind the opening: the calls, at most as many as there are ids, and what closes them.

        ``first``: the tools that the first call may be of, where not of all.
        """
        form, pieces = self._form, self._spelled.pieces
        most = 1 if form.bare and form.section is None else len(self._shape.ids)
        # Blanks that a close may begin with too are one lexeme with it.
        loose = form.separator.isspace() and form.open and not self._section.close
        apart = [BLANKS] if loose else pieces(form.separator)
        more = joined(*apart, *pieces(form.open), self._one(tools))
        begin = joined(*(pieces(form.open) if self._section.open else ()), self._one(first or tools))
        return joined(begin, *([Repeat(more, 0, most - 1)] if most > 1 else []), *pieces(self._section.close))

    def _one(self, tools: Sequence[ToolSpec]) -> Grammar:
        calls = [self._call(tool) for tool in tools]
        return joined(choice(*calls) if len(calls) > 1 else calls[0], *self._spelled.pieces(self._form.close))

    def _call(self, tool: ToolSpec) -> Grammar:
        if self._form.members is not None:
            return self._object(self._form.members, tool)
        head = [part for slot in self._form.head for part in self._slot(slot, tool)]
        late_id = (*self._spelled.pieces(self._form.id_behind), _ID) if self._form.id_behind else ()
        return joined(*head, self._arguments(tool), *late_id)

    def _object(self, members: Members, tool: ToolSpec) -> Grammar:
        """One JSON object, with blanks where JSON has them."""
        arguments, name = self._arguments(tool), json.dumps(tool.name, ensure_ascii=False)
        if not members.name:
            return _braced(name, _COLON, arguments)
        outer, _, inner = members.name.rpartition(".")
        key = members.arguments.rpartition(".")[2]
        parts = [joined(f'"{inner}"', _COLON, name), joined(f'"{key}"', _COLON, arguments)]
        call = joined(parts[members.arguments_first], _COMMA, parts[not members.arguments_first])
        if outer:
            call = joined(f'"{outer}"', _COLON, _braced(call))
        if not members.call_id:
            return _braced(call)
        id = joined(f'"{members.call_id}"', _COLON, '"', _ID, '"')
        if members.id_first:
            return _braced(optional(joined(id, _COMMA)), call)
        return _braced(call, optional(joined(_COMMA, id)))

    def _slot(self, slot: Slot, tool: ToolSpec) -> list[Grammar | Control | str]:
        after = self._spelled.pieces(slot.after)
        match slot.reads:
            case "name":
                return [tool.name, *after]
            case "index":
                return [_COUNT, *after]
            case "call_id" if slot.pattern:
                before, found, behind = slot.pattern.replace("{name}", tool.name).partition("{index}")
                index: list[Grammar | Control | str] = [_COUNT, behind] if found else []
                return [before, *index, *after]
            case "call_id":
                return [_ID, *after]

    def _arguments(self, tool: ToolSpec) -> Grammar:
        arguments = self._shape.arguments(tool)
        if self._form.pairs is None:
            json = replace(arguments, any_whitespace=True)
            return json if self._form.members is not None else joined(GAPS, json, GAPS)
        return KeyValues(arguments, self._spelling(self._form.pairs))

    def _spelling(self, pairs: Pairs) -> Spelling:
        pieces = self._spelled.pieces
        quote = pieces(pairs.quote)
        return Spelling(
            key=pieces(pairs.key),
            values=tuple(self._value(value, pairs) for value in pairs.values),
            separator=pieces(pairs.separator),
            python=pairs.python,
            quote=quote[0] if quote else "",
        )

    def _value(self, value: Value, pairs: Pairs) -> ValueSpelling:
        """A value's form. What its reader would take for its end, or for the beginning of another form, is avoided."""
        longer = [
            o.before[len(value.before) :] for o in pairs.values if o != value and o.before.startswith(value.before)
        ]
        return ValueSpelling(
            before=self._spelled.pieces(value.before),
            after=self._spelled.pieces(value.after),
            reads=value.reads,
            avoid=tuple(self._ends_of(value, pairs)) + tuple(longer),
        )

    def _ends_of(self, value: Value, pairs: Pairs) -> list[str]:
        if value.reads == "literal":
            return []
        if value.reads == "nested":
            closes = value.after.partition("{key}")[0].strip()
            return [*self._spelled.texts(closes), *self._spelled.texts(pairs.key.strip())]
        return self._spelled.texts(value.after.strip())
