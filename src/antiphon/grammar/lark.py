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

import json
from collections.abc import Callable, Collection, Mapping
from typing import assert_never

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, RequestError
from antiphon.tokens import Control

from .ecma import spelled_out
from .grammar import AnyText, Chain, Choice, ControlToken, EndOfTurn, Grammar, Json, Literal, Regex, Repeat
from .text import NOT_BLANK, text_without

HEADER = '%llguidance {"no_forcing": true}'


def lark(
    grammar: Grammar,
    *,
    controls: Mapping[Control, int],
    end_ids: Collection[int],
    engine_schema: Callable[[Json], JsonSchema] = lambda node: node.schema,
) -> str:
    """The grammar as Lark text for a vocabulary with ``controls`` and the model's ``end_ids``.

    ``engine_schema`` gives the schema that the engine is to be shown for a `Json` (see `antiphon.grammar.schema`).
    """
    writer = _Writer(controls, end_ids, engine_schema)
    start = writer.expression(grammar)
    return "\n".join([HEADER, f"start: {start}", *writer.rules, ""])


class _Writer:
    """Writes expressions; what needs a name of its own becomes a rule, equal bodies one rule."""

    def __init__(
        self, controls: Mapping[Control, int], end_ids: Collection[int], engine_schema: Callable[[Json], JsonSchema]
    ) -> None:
        self._controls = controls
        self._end = f"<[{','.join(map(str, sorted(end_ids)))}]>" if end_ids else '""'
        self._engine_schema = engine_schema
        self._names: dict[str, str] = {}
        self.rules: list[str] = []

    def expression(self, node: Grammar) -> str:
        match node:
            case Literal(text):
                return quoted(text)
            case ControlToken(control):
                return self._control(control)
            case AnyText():
                return self._text(node)
            case Json():
                return self._json(node)
            case Regex(pattern, path):
                return self._rule("regex", f"/{_between_slashes(spelled_out(pattern), path)}/")
            case Choice(options):
                return f"({' | '.join(map(self.expression, options))})"
            case Chain(parts):
                return " ".join(filter(None, map(self.expression, parts)))
            case Repeat(item, least, most):
                return f"({self.expression(item)}){_count(least, most)}"
            case EndOfTurn(control):
                return self._end_of_turn(control)
            case _:
                assert_never(node)

    def _id(self, control: Control | str | None) -> int | None:
        return self._controls.get(control) if isinstance(control, Control) else None

    def _control(self, control: Control | str) -> str:
        id = self._id(control)
        return quoted(str(control)) if id is None else f"<[{id}]>"

    def _text(self, node: AnyText) -> str:
        spelled = {str(c) for c in (*node.avoid, node.until) if c is not None and self._id(c) is None}
        closed = node.until is not None and self._id(node.until) is None
        pattern = text_without(spelled, limit=node.limit, escaped=node.escaped, closed=closed)
        text = self._rule("TEXT", f"{pattern} & {NOT_BLANK}" if node.nonblank else pattern)
        if node.until is None:
            return text
        if not closed:
            return f"{text} {self._control(node.until)}"
        return self._rule("body", f"{text} {quoted(str(node.until))}", "[lazy]")

    def _json(self, node: Json) -> str:
        schema = self._engine_schema(node)
        top = schema if isinstance(schema, dict) else {} if schema else {"enum": []}
        return self._rule("json", f"%json {json.dumps({'x-guidance': {'whitespace_flexible': False}, **top})}")

    def _end_of_turn(self, control: Control | str | None) -> str:
        if control is None:
            return self._end
        if self._id(control) is not None:
            return self._control(control)
        return f"{quoted(str(control))} ({self._end})?"

    def _rule(self, kind: str, body: str, attributes: str = "") -> str:
        definition = f"{attributes}: {body}"
        name = self._names.get(definition)
        if name is None:
            name = self._names[definition] = f"{kind}_{len(self.rules)}"
            self.rules.append(f"{name}{definition}")
        return name


def quoted(text: str) -> str:
    """A Lark literal; empty for the empty text, which Lark has no need of."""
    return json.dumps(text, ensure_ascii=False) if text else ""


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
