"""NamedRules by characters (GBNF) → a grammar of ours that accepts just the same texts."""

from __future__ import annotations

from antiphon.grammar.grammar import Chain, Choice, Grammar, Lexeme, Literal, NamedRules, Reference, Repeat
from antiphon.grammar.text import quote

from .expression import Chars, Either, Expression, Named, Place, Repeated, RuleSet, Sequence, Text, names_in
from .lexemes import Lexemes, in_runs, is_pattern, patterns

_SURROGATES = (0xD800, 0xDFFF)


def lowered(rules: RuleSet, root: str, path: str) -> NamedRules:
    """The grammar whose texts are those of ``root``. Raises `RequestError` for a rule that is missing."""
    rules = _reached(rules, root, Place(path))
    known = patterns(rules)
    if root in known:
        return NamedRules((("root", _Lowering(rules, known).pattern(rules[root])),), path)
    runs = {name: body if name in known else in_runs(body, known) for name, body in rules.items()}
    for shape in (rules, runs):
        if Lexemes(shape, known).unsafe() == frozenset():
            return _Lowering(shape, known).rules(root, path)
    unsafe = Lexemes(rules, known).unsafe()
    return _Lowering(rules, known, unsafe).rules(root, path)


def _reached(rules: RuleSet, root: str, place: Place) -> RuleSet:
    """The rules that the first one leads to, it first."""
    if root not in rules:
        raise place.refuse(f"there is no rule {root!r}", "That is the one with which a grammar begins.")
    found: dict[str, Expression] = {}
    todo = [root]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        if name not in rules:
            raise place.refuse(f"there is no rule {name[:64]!r}, which another one names")
        found[name] = rules[name]
        todo += names_in(rules[name])
    return found


class _Lowering:
    """``unsafe`` patterns are written character by character; None: all of them."""

    def __init__(
        self, rules: RuleSet, known: frozenset[str], unsafe: frozenset[Expression] | None = frozenset()
    ) -> None:
        self._rules = rules
        self._known = known
        self._unsafe = unsafe
        self._spelled: dict[str, Grammar | None] = {}

    def rules(self, root: str, path: str) -> NamedRules:
        bodies = {name: self._lower(body) for name, body in self._rules.items() if name not in self._known}
        while missing := [name for name, body in self._spelled.items() if body is None]:
            for name in missing:
                self._spelled[name] = self._lower(self._rules[name], True)
        spelled = {f"{name} by characters": body for name, body in self._spelled.items() if body is not None}
        first = bodies.pop(root)
        return NamedRules(((root, first), *bodies.items(), *spelled.items()), path)

    def _lower(self, expression: Expression, spelled: bool = False) -> Grammar:
        """The expression, its patterns as lexemes; ``spelled``: character by character."""
        if not spelled and is_pattern(expression, self._known):
            if self._unsafe is None or expression in self._unsafe:
                return self._lower(expression, True)
            return self.pattern(expression)
        match expression:
            case Text(text):
                return Chain(tuple(Lexeme(_escaped(char)) for char in text)) if text else Literal("")
            case Chars():
                return Lexeme(_class(expression))
            case Named(name):
                if spelled:
                    self._spelled.setdefault(name, None)
                return Reference(f"{name} by characters" if spelled else name)
            case Sequence(parts):
                return Chain(tuple(self._lower(part, spelled) for part in parts))
            case Either(options):
                return Choice(tuple(self._lower(option, spelled) for option in options))
            case Repeated(item, least, most):
                return Repeat(self._lower(item, spelled), least, most)

    def pattern(self, expression: Expression) -> Grammar:
        """The expression as one lexeme, which may be left out where it may be empty."""
        least, most = self._lengths(expression)
        if most == 0:
            return Literal("")
        pattern = self._regex(expression)
        return Lexeme(pattern) if least else Repeat(Lexeme(pattern, but_empty=True), 0, 1)

    def _regex(self, expression: Expression) -> str:
        match expression:
            case Text(text):
                return "".join(map(_escaped, text))
            case Chars():
                return _class(expression)
            case Named(name):
                return self._regex(self._rules[name])
            case Sequence(parts):
                return "".join(map(self._regex, parts))
            case Either(options):
                return f"(?:{'|'.join(map(self._regex, options))})"
            case Repeated(item, least, most):
                return f"(?:{self._regex(item)}){{{least},{'' if most is None else most}}}"

    def _lengths(self, expression: Expression) -> tuple[int, int]:
        """The length of its shortest text, and of a longest that takes each repetition once: 0 where all are empty."""
        match expression:
            case Text(text):
                return len(text), len(text)
            case Chars():
                return 1, 1
            case Named(name):
                return self._lengths(self._rules[name])
            case Sequence(parts) | Either(parts):
                found = [self._lengths(part) for part in parts]
                shortest = [least for least, _ in found]
                least = sum(shortest) if isinstance(expression, Sequence) else min(shortest, default=1)
                return least, sum(most for _, most in found)
            case Repeated(item, least, most):
                shortest_item, longest_item = self._lengths(item)
                return least * shortest_item, 0 if most == 0 else longest_item


def _escaped(char: str) -> str:
    return quote(char) if char.isprintable() else f"\\x{{{ord(char):x}}}"


def _class(chars: Chars) -> str:
    """A class of the engine's, which has no surrogates."""
    low, high = _SURROGATES
    parts = [
        (start, end)
        for first, last in chars.ranges
        for start, end in ((first, min(last, low - 1)), (max(first, high + 1), last))
        if start <= end
    ]
    return "[" + "".join(rf"\x{{{start:x}}}-\x{{{end:x}}}" for start, end in parts) + "]"
