"""What a client's rule says, and the limits of a client's grammar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from antiphon.errors import Position, RequestError
from antiphon.grammar.limits import LIMITS

MOST_CHARACTERS = 64 * 1024
"""Of a grammar's text."""
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

    def overlaps(self, other: Chars) -> bool:
        """Whether a character is in both."""
        return any(low <= end and start <= high for low, high in self.ranges for start, end in other.ranges)


class Named(msgspec.Struct, frozen=True):
    """What the rule of that name says."""

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
    """Where in a client's grammar something stands, for its errors."""

    path: str
    rule: str = ""
    line: int = 0

    def refuse(self, what: str, hint: str | None = None) -> RequestError:
        """The error for what cannot be taken there."""
        where = (
            f"line {self.line}" + (f", rule {self.rule[:64]!r}" if self.rule else "") if self.line else "the grammar"
        )
        return RequestError(f"{where}: {what}", code="invalid_grammar", position=Position(path=self.path), hint=hint)


def count_within(count: int, place: Place) -> int:
    """A repetition's count. Raises `RequestError` for one beyond the limit."""
    if count > LIMITS.count:
        raise place.refuse(f"a repetition of more than {LIMITS.count}", "Ask for less at once.")
    return count
