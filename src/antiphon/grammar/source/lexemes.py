"""Finds the parts of a client's rules that are safe as one lexeme, which is the longest text and never taken back.

A part that leads to no rule within itself is a pattern. As a lexeme it is quick, but only exact where no text of it,
with what may come next, begins a lexeme that might be meant there: elsewhere its characters are lexemes one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import msgspec

from .expression import LAST, Chars, Either, Expression, Named, Repeated, RuleSet, Sequence, Text, inside, names_in

# The characters of an expression as an automaton: which may come first, last, and after which (Glushkov's).
#
# A repetition counts as one without bounds, so what an automaton takes may be more than its expression does, never
# less.


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


MOST_POSITIONS = 400
"""Characters of all patterns together that are compared with each other."""
LARGEST = 16 * 1024
"""A pattern with its repetitions and rules written out, in characters."""
MOST_PARTS = 2_000
"""Parts of rules that are looked through again and again."""
MOST_STEPS = 60
"""How deep the parts of a pattern may be nested, its rules written out."""


def patterns(rules: RuleSet) -> frozenset[str]:
    """The rules that are patterns: none of those they refer to leads back to itself, nor are they too large."""
    waiting = {name: set(names_in(body)) for name, body in rules.items()}
    users: dict[str, list[str]] = {name: [] for name in rules}
    for name, used in waiting.items():
        for other in used:
            users[other].append(name)
    sizes: dict[str, tuple[int, int]] = {}
    ready = [name for name, used in waiting.items() if not used]
    while ready:
        name = ready.pop()
        size, depth = _measured(rules[name], sizes)
        if size > LARGEST or depth > MOST_STEPS:
            continue
        sizes[name] = size, depth
        for user in users[name]:
            waiting[user].discard(name)
            if not waiting[user]:
                ready.append(user)
    return frozenset(sizes)


def _measured(expression: Expression, sizes: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Characters with repetitions written out, and how deep it is."""
    match expression:
        case Text(text):
            return len(text) + 1, 1
        case Chars():
            return 1, 1
        case Named(name):
            size, depth = sizes.get(name, (1, 0))
            return size, depth + 1
        case Repeated(item, _, most):
            size, depth = _measured(item, sizes)
            return size * max(1, most or 1), depth + 1
        case _:
            parts = [_measured(part, sizes) for part in inside(expression)]
            return sum(size for size, _ in parts) + 1, max((depth for _, depth in parts), default=0) + 1


def is_pattern(expression: Expression, known: frozenset[str]) -> bool:
    """Whether it refers to nothing but patterns, and is not too large."""
    return all(name in known for name in names_in(expression))


def in_runs(expression: Expression, known: frozenset[str]) -> Expression:
    """The same with patterns that stand side by side as one."""
    match expression:
        case Sequence(parts):
            joined: list[Expression] = []
            run: list[Expression] = []
            for part in (*parts, None):
                if part is not None and is_pattern(part, known):
                    run.append(part)
                    continue
                joined += [run[0] if len(run) == 1 else Sequence(tuple(run))] if run else []
                run = []
                joined += [in_runs(part, known)] if part is not None else []
            return Sequence(tuple(joined))
        case Either(options):
            return Either(tuple(in_runs(option, known) for option in options))
        case Repeated(item, least, most):
            return Repeated(in_runs(item, known), least, most)
        case _:
            return expression


@dataclass(slots=True)
class _Pattern:
    automaton: Automaton
    behind: int = 0


@dataclass(slots=True)
class Lexemes:
    """The patterns of ``rules``, those of ``known`` among them left out: what may stand behind each."""

    rules: RuleSet
    known: frozenset[str]
    _alphabet: Alphabet = field(init=False)
    _found: dict[Expression, _Pattern] = field(default_factory=dict)
    _nullable: set[str] = field(default_factory=set)
    _first: dict[str, int] = field(default_factory=dict)
    _behind: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._alphabet = Alphabet(self.rules.values())

    def unsafe(self) -> frozenset[Expression] | None:
        """The patterns that are no lexemes; None: there are too many to tell."""
        bodies = {name: body for name, body in self.rules.items() if name not in self.known}
        positions = 0
        if sum(map(_size, bodies.values())) > MOST_PARTS:
            return None
        for pattern in (part for body in bodies.values() for part in self._patterns(body)):
            if pattern not in self._found:
                made = automaton(pattern, self.rules, self._alphabet)
                positions += len(made.sets)
                if positions > MOST_POSITIONS:
                    return None
                self._found[pattern] = _Pattern(made)
        self._first = dict.fromkeys(bodies, 0)
        self._behind = dict.fromkeys(bodies, 0)
        self._until_still(self._begin, bodies)
        self._until_still(lambda name, body: self._walk(body, self._behind[name]), bodies)
        return self._running_on()

    def _until_still(self, step: Callable[[str, Expression], None], bodies: RuleSet) -> None:
        """Takes a step with each rule, again and again, until nothing changes any more."""
        state: object = None
        while state != (state := self._state()):
            for name, body in bodies.items():
                step(name, body)

    def _state(self) -> object:
        behind = tuple(found.behind for found in self._found.values())
        return len(self._nullable), tuple(self._first.values()), tuple(self._behind.values()), behind

    def _patterns(self, expression: Expression) -> Iterator[Expression]:
        if is_pattern(expression, self.known):
            yield expression
            return
        for part in inside(expression):
            yield from self._patterns(part)

    def _begin(self, name: str, body: Expression) -> None:
        nullable, first = self._start(body)
        self._first[name] |= first
        if nullable:
            self._nullable.add(name)

    def _start(self, expression: Expression) -> tuple[bool, int]:
        """Whether it may be empty, and the characters that may come first."""
        found = self._found.get(expression)
        if found is not None:
            return found.automaton.nullable, found.automaton.begins
        match expression:
            case Named(name):
                return name in self._nullable, self._first[name]
            case Sequence(parts):
                return self._start_of_all(parts)
            case Either(options):
                starts = [self._start(option) for option in options]
                return any(nullable for nullable, _ in starts), reduce(or_, (first for _, first in starts), 0)
            case Repeated(item, least, most):
                nullable, first = self._start(item)
                return nullable or least == 0, 0 if most == 0 else first
            case _:
                raise AssertionError("a text and a class are patterns")

    def _start_of_all(self, parts: tuple[Expression, ...]) -> tuple[bool, int]:
        bits = 0
        for part in parts:
            nullable, first = self._start(part)
            bits |= first
            if not nullable:
                return False, bits
        return True, bits

    def _walk(self, expression: Expression, behind: int) -> None:
        found = self._found.get(expression)
        if found is not None:
            found.behind |= behind
            return
        match expression:
            case Named(name):
                self._behind[name] |= behind
            case Sequence(parts):
                for part in reversed(parts):
                    self._walk(part, behind)
                    nullable, first = self._start(part)
                    behind = first | behind if nullable else first
            case Either(options):
                for option in options:
                    self._walk(option, behind)
            case Repeated(item, _, most):
                _, first = self._start(item)
                self._walk(item, behind if most == 1 else behind | first)
            case _:
                raise AssertionError("a text and a class are patterns")

    def _running_on(self) -> frozenset[Expression]:
        unsafe: set[Expression] = set()
        for one, first in self._found.items():
            for other, second in self._found.items():
                if runs_on(first.automaton, first.behind, second.automaton):
                    unsafe |= {one, other}
        while more := [
            p for p in self._found.keys() - unsafe if any(self._is_taken(self._found[u], p) for u in unsafe)
        ]:
            unsafe.update(more)
        return frozenset(unsafe)

    def _is_taken(self, single: _Pattern, pattern: Expression) -> bool:
        """Whether a character of a pattern that is read by characters, and the next, begin another pattern."""
        chars, whole = single.automaton, self._found[pattern].automaton
        for position, bits in enumerate(chars.sets):
            behind = chars.any_of(chars.follow[position]) | (single.behind if position in chars.last else 0)
            if any(whole.sets[q] & bits and whole.any_of(whole.follow[q]) & behind for q in whole.first):
                return True
        return False


def _size(expression: Expression) -> int:
    return 1 + sum(map(_size, inside(expression)))
