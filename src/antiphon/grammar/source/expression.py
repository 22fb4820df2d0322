"""The expression of a client's rule, and the limits of a client's grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import msgspec

from antiphon.errors import Position, RequestError
from antiphon.grammar.grammar import Chain, Choice, Grammar, Literal, NamedRules, Reference, Regex, Repeat
from antiphon.grammar.limits import LIMITS
from antiphon.grammar.rules import quote

MOST_CHARACTERS = 64 * 1024
"""Characters of a grammar's text."""
LONGEST_TEXT = 4_096
"""Characters of one text of a rule."""
MOST_RULES = 500
MOST_PARTS = 10_000
"""Texts, classes, references and groups of one grammar."""
DEEPEST = 20
"""Groups within groups."""
MOST_OPERATORS = 3
"""Repetitions of repetitions."""
LAST = 0x10FFFF


class Text(msgspec.Struct, frozen=True):
    """These characters."""

    text: str


class Chars(msgspec.Struct, frozen=True):
    """One character of some ranges of code points, both ends included; the ranges are in order and apart."""

    ranges: tuple[tuple[int, int], ...]


class Named(msgspec.Struct, frozen=True):
    """The expression of the rule of that name."""

    name: str


class Sequence(msgspec.Struct, frozen=True):
    """One after another."""

    parts: tuple[Expression, ...]


class Either(msgspec.Struct, frozen=True):
    """One of the options."""

    options: tuple[Expression, ...]


class Repeated(msgspec.Struct, frozen=True):
    """``item`` from ``least`` to ``most`` times; None: without a bound."""

    item: Expression
    least: int
    most: int | None


Expression = Text | Chars | Named | Sequence | Either | Repeated
RuleSet = Mapping[str, Expression]


def chars(ranges: list[tuple[int, int]], *, negated: bool = False) -> Chars:
    """The class of some ranges, or of all other characters."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return Chars(tuple(_others(merged)) if negated else tuple(merged))


def _others(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = 0
    for low, high in ranges:
        if low > start:
            yield start, low - 1
        start = high + 1
    if start <= LAST:
        yield start, LAST


def inside(expression: Expression) -> tuple[Expression, ...]:
    """The parts that an expression is made of."""
    match expression:
        case Sequence(parts) | Either(parts):
            return parts
        case Repeated(item):
            return (item,)
        case _:
            return ()


def names_in(expression: Expression) -> Iterator[str]:
    """The rules that it refers to."""
    todo = [expression]
    while todo:
        part = todo.pop()
        if isinstance(part, Named):
            yield part.name
        todo += inside(part)


class Place(msgspec.Struct, frozen=True):
    """A place in a client's grammar, for its errors."""

    path: str
    rule: str = ""
    line: int = 0

    def refuse(self, what: str, hint: str | None = None) -> RequestError:
        """The error for what cannot be taken there."""
        where = (
            f"line {self.line}" + (f", rule {self.rule[:64]!r}" if self.rule else "") if self.line else "the grammar"
        )
        return RequestError(f"{where}: {what}", code="invalid_grammar", position=Position(path=self.path), hint=hint)


def check_text(text: str, path: str) -> None:
    """Raises `RequestError` for a grammar's text that is too long, or no text."""
    if len(text) > MOST_CHARACTERS:
        raise Place(path).refuse(f"it has more than {MOST_CHARACTERS} characters", "Ask for less at once.")
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise Place(path).refuse("it holds what is no character")


def count_within(count: int, place: Place) -> int:
    """A repetition's count. Raises `RequestError` for one beyond the limit."""
    if count > LIMITS.count:
        raise place.refuse(f"a repetition of more than {LIMITS.count}", "Ask for less at once.")
    return count


# The tokens of Lark's notation, and the terminals that grammars import.

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\f]+|//[^\n]*|\#[^\n]*)
      | (?P<line>\n)
      | (?P<text>"(?:\\.|[^"\\\n])*"i?)
      | (?P<regex>/(?:\\.|[^/\\\n])+/[a-z]*)
      | (?P<command>%[a-z]+)
      | (?P<name>[?!]*[A-Za-z_][A-Za-z0-9_]*)
      | (?P<arrow>->)
      | (?P<dots>\.\.)
      | (?P<number>-?\d{1,9})
      | (?P<sign>[:|()\[\]*+?~,.{}&])
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
COMMON: Mapping[str, str] = {
    "DIGIT": "[0-9]", "HEXDIGIT": "[0-9a-fA-F]", "INT": "[0-9]+", "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": r"(?:[0-9]+\.[0-9]*|\.[0-9]+)",
    "FLOAT": r"(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    "SIGNED_FLOAT": r"[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    "NUMBER": r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "SIGNED_NUMBER": r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]", "UCASE_LETTER": "[A-Z]", "LETTER": "[a-zA-Z]", "WORD": "[a-zA-Z]+",
    "CNAME": "[_a-zA-Z][_a-zA-Z0-9]*", "WS_INLINE": r"[ \t]+", "WS": r"[ \t\f\r\n]+", "CR": r"\r", "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
}  # fmt: skip
"""The terminals of Lark's ``common`` that grammars import."""


class Token(msgspec.Struct, frozen=True):
    """``kind`` is text, regex, command, name, arrow, dots, number, sign, line or end."""

    kind: str
    text: str
    line: int


def tokens_of(text: str, path: str) -> list[Token]:
    """All of them, line breaks among them, and an end. Raises `RequestError` for a sign that no grammar has."""
    found: list[Token] = []
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind == "other":
            raise Place(path, "", line).refuse(f"{match[0]!r} is unexpected")
        if kind not in ("blank", "line"):
            found.append(Token(kind, match[0], line))
        elif kind == "line" and found and found[-1].kind != "line":
            found.append(Token(kind, "\n", line))
        line += match[0].count("\n")
    return [*found, Token("line", "\n", line), Token("end", "", line)]


# A grammar of Lark's as one pattern, where none of its rules leads back to itself.


def pattern_of(rules: NamedRules) -> str:
    r"""The pattern of the grammar's texts. Raises `RequestError` where there is none.

    >>> pattern_of(NamedRules((("start", Repeat(Reference("a"), 1)), ("a", Choice((Regex("[ab]"), Literal(".")))))))
    '(?:(?:(?:(?:[ab])|\\.))){1,}'
    """
    bodies, known = dict(rules.rules), dict[str, str]()
    try:
        for name in TopologicalSorter({name: set(_references(body)) for name, body in bodies.items()}).static_order():
            known[name] = _pattern(bodies[name], known, rules.path)
    except CycleError as error:
        raise Place(rules.path).refuse(
            f"the rule {error.args[1][0][:64]!r} leads back to itself",
            "The text of a call is held to rules that do not: write what repeats with * or +.",
        ) from None
    return known[rules.rules[0][0]]


def _references(body: Grammar) -> Iterator[str]:
    match body:
        case Reference(name):
            yield name
        case Chain(parts) | Choice(parts):
            for part in parts:
                yield from _references(part)
        case Repeat(item):
            yield from _references(item)


def _pattern(body: Grammar, known: Mapping[str, str], path: str) -> str:
    match body:
        case Literal(text):
            return quote(text)
        case Regex(pattern):
            return f"(?:{pattern})"
        case Reference(name):
            return f"(?:{known[name]})"
        case Repeat(item, least, most):
            return f"(?:{_pattern(item, known, path)}){{{least},{'' if most is None else most}}}"
        case Chain(parts) | Choice(parts):
            found = [_pattern(part, known, path) for part in parts]
            if sum(map(len, found)) > LIMITS.pattern:
                raise Place(path).refuse(f"it amounts to a pattern of more than {LIMITS.pattern} characters")
            return "".join(found) if isinstance(body, Chain) else f"(?:{'|'.join(found)})"
        case _:
            raise AssertionError("Lark's grammars are made of nothing else")
