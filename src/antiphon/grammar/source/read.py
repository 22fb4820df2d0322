r"""A client's grammar, in whichever of the two notations, as a grammar of ours.

llama.cpp's GBNF, and EBNF that is written like it, as rules.

>>> read_gbnf('root ::= "a" [0-9]{2} | root "b"', "grammar")["root"].options[1]
Sequence(parts=(Named(name='root'), Text(text='b')))
"""

from __future__ import annotations

import re

from antiphon.grammar.grammar import Chain, Choice, Grammar, Lexeme, Literal, NamedRules, Reference, Repeat
from antiphon.grammar.rules import quote

from .expression import (
    DEEPEST,
    LONGEST_TEXT,
    MOST_OPERATORS,
    MOST_PARTS,
    MOST_RULES,
    Chars,
    Either,
    Expression,
    Named,
    Place,
    Repeated,
    RuleSet,
    Sequence,
    Text,
    chars,
    check_text,
    count_within,
    names_in,
)
from .lark import read_lark
from .lexemes import Lexemes, in_runs, is_pattern, patterns

# NamedRules by characters (GBNF) → a grammar of ours that accepts just the same texts.

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


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RULE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)(?:[ \t\r\n]|#[^\n]*)*::=")
"""The beginning of a rule: its name, and the sign that defines it."""
_COUNT = re.compile(r"\{\s*(\d{1,9})\s*(?:(,)\s*(\d{1,9})?\s*)?\}")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_OPERATORS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ANY = Chars(((0, 0x10FFFF),))


def read_gbnf(text: str, path: str) -> RuleSet:
    """The rules by name, in order. Raises `RequestError`, naming rule and line, for what is none of GBNF."""
    return _GbnfReader(text, path).rules()


class _GbnfReader:
    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path
        self._at = 0
        self._rule = ""
        self._parts = 0

    def rules(self) -> RuleSet:
        found: dict[str, Expression] = {}
        self._skip()
        while self._at < len(self._text):
            name = self._begin_rule()
            if name in found:
                raise self._place().refuse("there are two rules of this name")
            if len(found) == MOST_RULES:
                raise self._place().refuse(f"there are more than {MOST_RULES} rules")
            found[name] = self._either(0)
            if self._at < len(self._text) and not _RULE.match(self._text, self._at):
                raise self._place().refuse(f"{self._text[self._at]!r} is unexpected")
        return found

    def _begin_rule(self) -> str:
        begins = _RULE.match(self._text, self._at)
        if begins is None:
            raise self._place().refuse("a rule begins with a name and ::=")
        self._at, self._rule = begins.end(), begins[1]
        self._skip()
        return begins[1]

    def _skip(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at

    def _place(self) -> Place:
        return Place(self._path, self._rule, self._text.count("\n", 0, self._at) + 1)

    def _either(self, depth: int) -> Expression:
        if depth > DEEPEST:
            raise self._place().refuse(f"groups are nested more than {DEEPEST} deep")
        options = [self._sequence(depth)]
        while self._next() == "|":
            self._at += 1
            self._skip()
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _sequence(self, depth: int) -> Expression:
        parts: list[Expression] = []
        while self._next() not in ("", "|", ")") and not _RULE.match(self._text, self._at):
            parts.append(self._repeated(self._one(depth)))
            self._parts += 1
            if self._parts > MOST_PARTS:
                raise self._place().refuse(f"the grammar has more than {MOST_PARTS} parts")
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _one(self, depth: int) -> Expression:
        char = self._next()
        name = _NAME.match(self._text, self._at)
        if name is not None:
            self._at = name.end()
            return Named(name[0])
        self._at += 1
        match char:
            case '"':
                return Text(self._literal())
            case "[":
                return self._class()
            case ".":
                return _ANY
            case "(":
                return self._group(depth)
            case "<" | "!":
                raise self._place().refuse("tokens cannot be named", "Write their text, which stays text.")
            case _:
                raise self._place().refuse(f"{char!r} is unexpected")

    def _group(self, depth: int) -> Expression:
        self._skip()
        if self._next() == "=":
            raise self._place().refuse("look-aheads are not possible")
        inner = self._either(depth + 1)
        if self._next() != ")":
            raise self._place().refuse("a group is not closed")
        self._at += 1
        return inner

    def _literal(self) -> str:
        out: list[str] = []
        while self._next() != '"':
            if not self._next() or self._next() == "\n":
                raise self._place().refuse("a text is not closed")
            out.append(self._char())
        self._at += 1
        if len(out) > LONGEST_TEXT:
            raise self._place().refuse(f"a text has more than {LONGEST_TEXT} characters")
        return "".join(out)

    def _char(self) -> str:
        """A character, which may be written as an escape."""
        escape = _ESCAPE.match(self._text, self._at)
        if escape is None:
            self._at += 1
            return self._text[self._at - 1]
        self._at = escape.end()
        digits = escape[1] or escape[2] or escape[3]
        if digits is None:
            return _LETTERS.get(escape[4], escape[4])
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self._place().refuse(f"{escape[0]} is no character")
        return chr(code)

    def _class(self) -> Chars:
        negated = self._next() == "^"
        self._at += negated
        ranges: list[tuple[int, int]] = []
        while self._next() != "]":
            if not self._next():
                raise self._place().refuse("a class is not closed")
            low = high = ord(self._char())
            if self._next() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = ord(self._char())
            if high < low:
                raise self._place().refuse("a range of a class runs backwards")
            ranges.append((low, high))
        self._at += 1
        found = chars(ranges, negated=negated)
        if not found.ranges:
            raise self._place().refuse("a class has no character")
        return found

    def _repeated(self, item: Expression) -> Expression:
        self._skip()
        operators = 0
        while (char := self._next()) in ("*", "+", "?", "{") and char:
            operators += 1
            if operators > MOST_OPERATORS:
                raise self._place().refuse(f"there are more than {MOST_OPERATORS} repetitions of one part")
            least, most = _OPERATORS[char] if char != "{" else self._count()
            self._at += char != "{"
            item = Repeated(item, least, most)
            self._skip()
        return item

    def _count(self) -> tuple[int, int | None]:
        found = _COUNT.match(self._text, self._at)
        if found is None:
            raise self._place().refuse("a repetition is {n}, {n,} or {n,m}")
        self._at = found.end()
        least = count_within(int(found[1]), self._place())
        most = least if found[2] is None else None if found[3] is None else count_within(int(found[3]), self._place())
        if most is not None and most < least:
            raise self._place().refuse("a repetition's bounds are the wrong way round")
        return least, most


_IS_GBNF = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*[A-Za-z_][A-Za-z0-9_-]*[ \t\r\n]*::=")
"""The first thing in it is the definition of a rule."""


def read_grammar(text: str, path: str) -> NamedRules:
    """The grammar of ``text``, which is at ``path`` of the request. GBNF defines with ``::=``, Lark with a colon.

    Raises `RequestError`, naming the rule and the line, for what is not possible.
    """
    check_text(text, path)
    rules = lowered(read_gbnf(text, path), "root", path) if _IS_GBNF.match(text) else read_lark(text, path)
    if rules.rules[0][0] not in _ending(rules):
        raise Place(path).refuse("no text of it ever ends", "Give each rule a way that does not lead back to it.")
    return rules


def _ending(rules: NamedRules) -> set[str]:
    """The rules that have a text with an end."""
    ending: set[str] = set()
    waiting = list(rules.rules)
    while True:
        waiting.reverse()  # What is defined in order, either way, takes two rounds.
        left = []
        for name, body in waiting:
            if _ends(body, ending):
                ending.add(name)
            else:
                left.append((name, body))
        if len(left) == len(waiting):
            return ending
        waiting = left


def _ends(body: Grammar, ending: set[str]) -> bool:
    match body:
        case Reference(name):
            return name in ending
        case Chain(parts):
            return all(_ends(part, ending) for part in parts)
        case Choice(options):
            return any(_ends(option, ending) for option in options)
        case Repeat(item, least, _):
            return least == 0 or _ends(item, ending)
        case _:
            return True
