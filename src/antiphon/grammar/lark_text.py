"""A grammar → llguidance's Lark text (release 1.0.1, which the embedded engine carries).

Four traps of that engine shape what is written here. What a grammar leaves no choice about it would tokenize as a whole
at each token, as long as it is, with a control where it spells one: so it is told to force nothing. A lexeme is the
longest match and never taken back, so free text before a spelled-out closer is one lazy terminal together with its
closer. The engine knows one end token, often not the model's, so a turn ends with the model's own, by id. `x-guidance`
counts only at the top of a schema.

>>> from .grammar import chain
>>> end = Control("<|end|>")
>>> print(lark(chain(AnyText(end, (end,)), EndOfTurn()), controls={end: 256}, end_ids=[257]))
%llguidance {"no_forcing": true}
start: TEXT_0 <[256]> <[257]>
TEXT_0: /(?s:.*)/
<BLANKLINE>
>>> print(lark(AnyText(end, (end,)), controls={}, end_ids=[257]))
%llguidance {"no_forcing": true}
start: body_1
TEXT_0: /(?s:.*)/ & ~/(?s:.*)(<\\|end\\|>)(?s:.*)/
body_1[lazy]: TEXT_0 "<|end|>"
<BLANKLINE>
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import assert_never

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, RequestError
from antiphon.tokens import Control

from .grammar import (
    AnyText,
    Chain,
    Choice,
    ControlToken,
    EndOfTurn,
    Grammar,
    Json,
    KeyValues,
    Lexeme,
    Literal,
    NamedRules,
    Reference,
    Regex,
    Repeat,
    Shared,
)
from .json_values import JsonWriter, digits_of
from .key_values import KeyValuesWriter
from .rules import NOT_BLANK, Rules, not_first, quoted, spelled_out, text_without

EMPTY = '""'
HEADER = '%llguidance {"no_forcing": true}'


def lark(
    grammar: Grammar,
    *,
    controls: Mapping[Control, int],
    end_ids: Collection[int],
    engine_schema: Callable[[Json], JsonSchema] = lambda node: node.schema,
    finite: bool = True,
) -> str:
    """The grammar as Lark text for a vocabulary with ``controls`` and the model's ``end_ids``.

    ``engine_schema`` gives the schema that the engine is to be shown for a `Json` (see `antiphon.grammar.schema`).
    ``finite``: numbers have no more digits than readers hold (`.json_values`); else JSON is left to the engine.
    """
    writer = _Writer(controls, end_ids, engine_schema, finite=finite)
    start = writer.expression(grammar)
    return "\n".join([HEADER, f"start: {start}", *writer.rules, ""])


class _Writer(Rules):
    """Writes expressions; what needs a name of its own becomes a rule."""

    def __init__(
        self,
        controls: Mapping[Control, int],
        end_ids: Collection[int],
        engine_schema: Callable[[Json], JsonSchema],
        *,
        finite: bool,
    ) -> None:
        super().__init__(controls)
        self._finite = finite
        self._end = f"<[{','.join(map(str, sorted(end_ids)))}]>" if end_ids else '""'
        self._engine_schema = engine_schema
        self._referred: Mapping[str, str] = {}

    def expression(self, node: Grammar) -> str:
        match node:
            case Literal(text):
                return quoted(text)
            case ControlToken() | EndOfTurn():
                return self.control(node.control) if isinstance(node, ControlToken) else self._end_of_turn(node.control)
            case AnyText():
                return self._text(node)
            case Json() | KeyValues():
                return self._value(node)
            case Regex(pattern, path):
                return self.rule("regex", f"/{_between_slashes(spelled_out(pattern), path)}/")
            case Lexeme() | Reference() | NamedRules() | Shared():
                return self._named(node)
            case Choice(options):
                return f"({' | '.join(map(self.expression, options))})"
            case Chain(parts):
                return " ".join(filter(None, map(self.expression, parts)))
            case Repeat(item, least, most):
                return f"({self.expression(item)}){_count(least, most)}"
            case _:
                assert_never(node)

    def _named(self, node: Lexeme | Reference | NamedRules | Shared) -> str:
        match node:
            case Lexeme(pattern, but_empty):
                return self.rule("LEXEME", f"/{pattern}/{' & /(?s:.+)/' * but_empty}")
            case Reference(name):
                return self._referred[name]
            case NamedRules():
                return self._rules(node)
            case Shared(item):
                return self.recursive(id(node), lambda: self.expression(item) or EMPTY)

    def _rules(self, node: NamedRules) -> str:
        """The name of the first rule; all of them are written once, wherever the grammar occurs."""
        first = self._names.get(id(node))
        if first is None:
            place = len(self.rules)
            self.rules += [""] * len(node.rules)
            outside, self._referred = (
                self._referred,
                {name: f"part_{place + i}" for i, (name, _) in enumerate(node.rules)},
            )
            first = self._names[id(node)] = self._referred[node.rules[0][0]]
            for i, (name, body) in enumerate(node.rules):
                self.rules[place + i] = f"{self._referred[name]}: {self.expression(body) or EMPTY}"
            self._referred = outside
        return first

    def _value(self, node: Json | KeyValues) -> str:
        if isinstance(node, Json):
            engine = self._engine_schema(node)
            if not self._finite:
                return self.json(engine, any_whitespace=node.any_whitespace)
            digits = digits_of(node.schema)
            return JsonWriter(self, engine, digits=digits, any_whitespace=node.any_whitespace).text()
        return KeyValuesWriter(self, node.spelling, node.json).arguments(self._engine_schema(node.json))

    def _text(self, node: AnyText) -> str:
        spelled = {str(c) for c in (*node.avoid, node.until) if c is not None and self.id(c) is None}
        closed = node.until is not None and self.id(node.until) is None
        pattern = text_without(spelled, limit=node.limit, escaped=node.escaped, closed=closed)
        pattern += f" & {NOT_BLANK}" if node.nonblank else ""
        pattern += f" & {not_first(node.not_first)}" if node.not_first else ""
        pattern += f" & ~/({node.not_begun})(?s:.*)/" if node.not_begun else ""
        return self.rule("TEXT", pattern) if node.until is None else self.closed(pattern, (node.until,))

    def _end_of_turn(self, control: Control | str | None) -> str:
        if control is None:
            return self._end
        if self.id(control) is not None:
            return self.control(control)
        return f"{quoted(str(control))} ({self._end})?"


def _between_slashes(pattern: str, path: str) -> str:
    """The pattern with its slashes and line breaks escaped, and nothing else changed."""
    if "\0" in pattern:
        raise RequestError("a pattern must not contain U+0000", position=Position(path=path))
    out, escaped = [], False
    for char in pattern:
        out.append(
            {"/": "\\/", "\n": "\\n", "\r": "\\r"}.get(char, char)
            if not escaped
            else {"\n": "n", "\r": "r"}.get(char, char)
        )
        escaped = char == "\\" and not escaped
    return "".join(out)


def _count(least: int, most: int | None) -> str:
    match least, most:
        case 0, 1:
            return "?"
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case _, None:
            return f"{{{least},}}"
        case _:
            return f"{{{least},{most}}}"
