"""The grammar of a reply as data: a format builds it, `lark` writes it for an engine, a matcher follows it."""

from __future__ import annotations

from typing import Literal as OneOf

import msgspec

from antiphon.conversation import JsonSchema
from antiphon.tokens import Control

Pieces = tuple[Control | str, ...]
"""A text some of whose parts are controls, which are tokens where the vocabulary has them."""


class ValueSpelling(msgspec.Struct, frozen=True, kw_only=True):
    """A value between ``before``, which follows the key, and ``after``.

    ``schema``: a string as it is, else a literal; ``text``: only strings, as they are; ``json``: a literal, of a string
    only where no form is ``text``; ``literal``: a literal that ends where it ends; ``nested``: members as tags of their
    own, whose closing tag has ``{key}`` for its name. No value spells a text of ``avoid``, which would end it.
    """

    before: Pieces = ()
    after: Pieces = ()
    reads: OneOf["schema", "text", "json", "literal", "nested"] = "schema"
    avoid: tuple[str, ...] = ()


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """``key``, a name, a value in one of the forms of ``values``, ``separator``, and so on.

    Literals are JSON's, or also Python's (``python``). With a ``quote`` strings stand between two of them with no
    escapes, names are bare, and members are sorted by name.
    """

    key: Pieces = ()
    values: tuple[ValueSpelling, ...]
    separator: Pieces = ()
    python: bool = False
    quote: Control | str = ""


class Literal(msgspec.Struct, frozen=True):
    """This text and no other."""

    text: str


class ControlToken(msgspec.Struct, frozen=True):
    """A control: by its id when the vocabulary has it, by its spelling otherwise.

    Where a grammar names a control, a `str` is a marker that is spelled out whatever the vocabulary has.
    """

    control: Control


class AnyText(msgspec.Struct, frozen=True):
    """Free text without the controls ``avoid``, up to and with ``until`` (None: up to what follows, an id).

    ``limit`` is in characters (a pair like ``<a`` may count as one); at the limit ``until`` is forced. Controls that
    the vocabulary has can never be text, so only those that are spelled out are excluded. ``escaped``: ``<<|``
    stands for ``<|`` (OpenChatML §3). ``nonblank``: it begins with a character that is no blank, so it is not empty.
    ``not_first``: its first character that is no blank is another one. ``not_begun``: it does not begin with what this
    pattern, of the engine's own dialect, matches.
    """

    until: Control | str | None = None
    avoid: tuple[Control | str, ...] = ()
    limit: int | None = None
    escaped: bool = False
    nonblank: bool = False
    not_first: str = ""
    not_begun: str = ""


class Json(msgspec.Struct, frozen=True):
    """A JSON text of ``schema``, which is at ``path`` of the request.

    ``strict``: a keyword that cannot be enforced while sampling is an error, else it is checked afterwards. Strings and
    names never spell a control of ``avoid`` that the vocabulary lacks. ``any_whitespace``: blanks stand wherever JSON
    has them, up to a line break and its indentation at each place; else nowhere.
    """

    schema: JsonSchema
    path: str = ""
    strict: bool = False
    avoid: tuple[Control | str, ...] = ()
    any_whitespace: bool = False


class KeyValues(msgspec.Struct, frozen=True):
    """An object of a schema as keys and values in a ``spelling`` of their own.

    Members come in the schema's order. What such a spelling cannot enforce is checked afterwards, or an error where the
    schema is strict, as with `Json`.
    """

    json: Json
    spelling: Spelling


class Regex(msgspec.Struct, frozen=True):
    """A text that ``pattern`` matches as a whole (no look-around, no back-references), given at ``path``."""

    pattern: str
    path: str = ""


class Lexeme(msgspec.Struct, frozen=True):
    """A text that ``pattern``, of the engine's own dialect, matches as a whole: made here, never a client's.

    ``but_empty``: the pattern matches the empty text too, which is none.
    """

    pattern: str
    but_empty: bool = False


class Reference(msgspec.Struct, frozen=True):
    """A rule of the `NamedRules` around it."""

    name: str


class NamedRules(msgspec.Struct, frozen=True):
    """A grammar of a client, given at ``path``: rules that may refer to each other, the first of them the whole."""

    rules: tuple[tuple[str, Grammar], ...]
    path: str = ""


class Choice(msgspec.Struct, frozen=True):
    """One of the options."""

    options: tuple[Grammar, ...]


class Chain(msgspec.Struct, frozen=True):
    """One after another."""

    parts: tuple[Grammar, ...]


class Repeat(msgspec.Struct, frozen=True):
    """``item`` from ``least`` to ``most`` times (None: without an upper bound)."""

    item: Grammar
    least: int = 0
    most: int | None = None


class Shared(msgspec.Struct, frozen=True):
    """``item`` as a rule of its own, which is written once, however often this value is in the grammar."""

    item: Grammar


class EndOfTurn(msgspec.Struct, frozen=True):
    """The reply is over: one of the model's own end tokens, by id.

    ``control`` ends it instead: alone where the vocabulary has it, and where it is spelled out with or without an end
    token after it.
    """

    control: Control | str | None = None


Grammar = (
    Literal
    | ControlToken
    | AnyText
    | Json
    | KeyValues
    | Regex
    | Lexeme
    | Reference
    | NamedRules
    | Choice
    | Chain
    | Repeat
    | Shared
    | EndOfTurn
)
"""A grammar of replies, as data: texts, controls, JSON of a schema, patterns, in sequence, in choice, repeated."""


def chain(*parts: Grammar | Control | str) -> Chain:
    """The parts one after another; a `str` is a literal."""
    return Chain(tuple(map(_node, parts)))


def choice(*options: Grammar | Control | str) -> Choice:
    """One of the options; a `str` is a literal."""
    return Choice(tuple(map(_node, options)))


def optional(item: Grammar) -> Repeat:
    """``item`` or nothing."""
    return Repeat(item, 0, 1)


def _node(part: Grammar | Control | str) -> Grammar:
    match part:
        case str():
            return Literal(part)
        case Control():
            return ControlToken(part)
        case _:
            return part
