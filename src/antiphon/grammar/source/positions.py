"""The characters of an expression as an automaton: which may come first, last, and after which (Glushkov's).

A repetition counts as one without bounds, so what an automaton takes may be more than its expression does, never less.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from .expression import LAST, Chars, Either, Expression, Named, Repeated, RuleSet, Sequence, Text, inside


class Alphabet:
    """Code points that no class tells apart are one bit; a set of characters is an `int`."""

    def __init__(self, expressions: Iterable[Expression]) -> None:
        starts = {0}
        for low, high in _ranges(expressions):
            starts |= {low, high + 1}
        self._starts = sorted(start for start in starts if start <= LAST)

    def bits(self, chars: Chars) -> int:
        """The set of a class."""
        bits = 0
        for low, high in chars.ranges:
            first, after = bisect_left(self._starts, low), bisect_left(self._starts, high + 1)
            bits |= (1 << after) - (1 << first)
        return bits

    def of(self, char: str) -> int:
        """The set of one character."""
        return 1 << bisect_left(self._starts, ord(char))


def _ranges(expressions: Iterable[Expression]) -> Iterator[tuple[int, int]]:
    todo = list(expressions)
    while todo:
        part = todo.pop()
        match part:
            case Chars(ranges):
                yield from ranges
            case Text(text):
                yield from ((ord(char), ord(char)) for char in text)
            case _:
                todo += inside(part)


@dataclass(slots=True)
class Automaton:
    """``sets`` has the characters of each position, ``follow`` the positions after it."""

    nullable: bool = True
    first: set[int] = field(default_factory=set)
    last: set[int] = field(default_factory=set)
    sets: list[int] = field(default_factory=list)
    follow: list[set[int]] = field(default_factory=list)

    @property
    def begins(self) -> int:
        """The characters that may come first."""
        return self.any_of(self.first)

    def any_of(self, positions: Iterable[int]) -> int:
        """The characters of some positions."""
        bits = 0
        for position in positions:
            bits |= self.sets[position]
        return bits


class _Part(msgspec.Struct, frozen=True):
    nullable: bool
    first: frozenset[int]
    last: frozenset[int]


_NOTHING = _Part(True, frozenset(), frozenset())


def automaton(expression: Expression, rules: RuleSet, alphabet: Alphabet) -> Automaton:
    """The automaton of an expression whose rules do not lead back to themselves."""
    made = Automaton()
    whole = _Builder(made, rules, alphabet).part(expression)
    made.nullable, made.first, made.last = whole.nullable, set(whole.first), set(whole.last)
    return made


class _Builder(msgspec.Struct, frozen=True):
    made: Automaton
    rules: Mapping[str, Expression]
    alphabet: Alphabet

    def part(self, expression: Expression) -> _Part:
        match expression:
            case Text(text):
                return self._joined([self._position(self.alphabet.of(char)) for char in text])
            case Chars():
                return self._position(self.alphabet.bits(expression))
            case Named(name):
                return self.part(self.rules[name])
            case Sequence(parts):
                return self._joined([self.part(part) for part in parts])
            case Either(options):
                found = [self.part(option) for option in options]
                return _Part(
                    any(part.nullable for part in found),
                    frozenset().union(*(part.first for part in found)),
                    frozenset().union(*(part.last for part in found)),
                )
            case Repeated(item, least, most):
                return self._again(self.part(item), least, most)

    def _position(self, bits: int) -> _Part:
        self.made.sets.append(bits)
        self.made.follow.append(set())
        only = frozenset({len(self.made.sets) - 1})
        return _Part(False, only, only)

    def _joined(self, parts: list[_Part]) -> _Part:
        whole = _NOTHING
        for part in parts:
            for position in whole.last:
                self.made.follow[position] |= part.first
            whole = _Part(
                whole.nullable and part.nullable,
                whole.first | part.first if whole.nullable else whole.first,
                whole.last | part.last if part.nullable else part.last,
            )
        return whole

    def _again(self, part: _Part, least: int, most: int | None) -> _Part:
        if most == 0:
            return _NOTHING
        if most != 1:
            for position in part.last:
                self.made.follow[position] |= part.first
        return _Part(part.nullable or least == 0, part.first, part.last)


def runs_on(one: Automaton, behind: int, other: Automaton) -> bool:
    """Whether a text of ``one`` with a character of ``behind`` after it begins a text of ``other``.

    Then an engine that takes the longest text would go on where it should have stopped.
    """
    todo = [(p, q) for p in one.first for q in other.first if one.sets[p] & other.sets[q]]
    seen = set(todo)
    while todo:
        p, q = todo.pop()
        if p in one.last and other.any_of(other.follow[q]) & behind:
            return True
        for pair in ((r, s) for r in one.follow[p] for s in other.follow[q] if one.sets[r] & other.sets[s]):
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    return False
