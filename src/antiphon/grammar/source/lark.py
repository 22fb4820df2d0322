r"""Lark's notation, as rules whose terminals are lexemes, as its own lexer and llguidance have them.

>>> rules = read_lark('start: GREETING "!"\nGREETING: "Hi" | "Ho"', "grammar").rules
>>> rules[0][1]
Chain(parts=(Regex(pattern='(?:Hi|Ho)', path='grammar'), Literal(text='!')))
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from antiphon.grammar.grammar import Chain, Choice, Grammar, Literal, NamedRules, Reference, Regex, Repeat
from antiphon.grammar.limits import LIMITS
from antiphon.grammar.rules import quote

from .expression import (
    COMMON,
    DEEPEST,
    LONGEST_TEXT,
    MOST_OPERATORS,
    MOST_PARTS,
    MOST_RULES,
    Place,
    Token,
    count_within,
    tokens_of,
)

_OPERATORS: Mapping[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _Terminal(msgspec.Struct, frozen=True):
    """A part of a rule that is one lexeme: as a text where it is just that, and as a pattern."""

    pattern: str
    text: str | None = None


_Part = _Terminal | Reference | Chain | Choice | Repeat


def read_lark(text: str, path: str) -> NamedRules:
    """The grammar; its first rule is ``start``. Raises `RequestError`, naming rule and line, for what is not held."""
    try:
        return _LarkReader(path, tokens_of(text, path)).rules()
    except RecursionError:
        raise Place(path).refuse("groups and terminals within each other are nested too deep") from None


@dataclass(slots=True)
class _Statement:
    """The tokens of one definition, read when all names are known."""

    name: str
    tokens: list[Token]
    at: int = 0


@dataclass(slots=True)
class _LarkReader:
    path: str
    tokens: list[Token]
    statements: dict[str, _Statement] = field(default_factory=dict)
    ignored: list[_Statement] = field(default_factory=list)
    terminals: dict[str, str] = field(default_factory=dict)
    resolving: list[str] = field(default_factory=list)
    parts: int = 0
    current: _Statement = field(init=False)

    def rules(self) -> NamedRules:
        """All of it: first the definitions, then the terminals, then the rules."""
        self._define()
        if "start" not in self.statements:
            raise Place(self.path).refuse("there is no rule 'start'", "That is the one with which a grammar begins.")
        blanks = [Regex(self._terminal_of(statement), self.path) for statement in self.ignored]
        rules = list(self._reached())
        bodies = {name: self._grammar(self._body(self.statements[name]), blanks) for name in rules}
        first = bodies.pop("start")
        start = Chain((self._blanks(blanks), first)) if blanks else first
        return NamedRules((("start", start), *bodies.items()), self.path)

    def _reached(self) -> Iterator[str]:
        """The rules that the first leads to."""
        seen, todo = {"start"}, ["start"]
        while todo:
            name = todo.pop()
            yield name
            for token in self.statements[name].tokens:
                used = token.text
                if token.kind == "name" and used in self.statements and used[0].islower() and used not in seen:
                    seen.add(used)
                    todo.append(used)

    # Definitions.

    def _define(self) -> None:
        at = 0
        while self.tokens[at].kind != "end":
            end = self._end_of(at)
            line = self.tokens[at:end]
            at = end + 1
            if line:
                self._statement(line)

    def _end_of(self, at: int) -> int:
        """The end of a statement: a line break, unless the next line begins with a bar or a bracket is open."""
        depth = 0
        while True:
            token = self.tokens[at]
            depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
            if token.kind == "end":
                return at - 1
            if token.kind == "line" and depth <= 0 and self.tokens[at + 1].text != "|":
                return at
            at += 1

    def _statement(self, line: list[Token]) -> None:
        head = line[0]
        body = [token for token in line if token.kind != "line"]
        if head.kind == "command":
            self._command(body)
            return
        name = head.text.lstrip("?!")
        place = Place(self.path, name, head.line)
        if head.kind != "name":
            raise place.refuse("a rule begins with a name and a colon")
        at = 3 if [token.kind for token in body[1:3]] == ["sign", "number"] and body[1].text == "." else 1
        if len(body) <= at or body[at].text != ":":
            raise place.refuse("a rule begins with a name and a colon", "Templates and attributes are not possible.")
        if name in self.statements:
            raise place.refuse("there are two rules of this name")
        if len(self.statements) == MOST_RULES:
            raise place.refuse(f"there are more than {MOST_RULES} rules")
        self.statements[name] = _Statement(name, [*body[at + 1 :], Token("end", "", head.line)])

    def _command(self, body: list[Token]) -> None:
        head, rest = body[0], body[1:]
        place = Place(self.path, "", head.line)
        if head.text == "%ignore":
            self.ignored.append(_Statement("%ignore", [*rest, Token("end", "", head.line)]))
        elif head.text == "%import" and [token.text for token in rest[:1]] == ["common"]:
            names = [token.text for token in rest[1:] if token.kind == "name"]
            self._import(names, renamed=any(token.kind == "arrow" for token in rest), place=place)
        else:
            raise place.refuse(f"{head.text[:32]} is not possible", "Write the rules out.")

    def _import(self, names: list[str], *, renamed: bool, place: Place) -> None:
        pairs = [(names[0], names[1])] if renamed and len(names) == 2 else [(name, name) for name in names]
        for name, as_name in pairs:
            if name not in COMMON:
                raise place.refuse(f"common has no terminal {name[:32]!r} here", f"Known: {', '.join(COMMON)}.")
            self.terminals[as_name] = COMMON[name]

    # Expressions.

    def _place(self) -> Place:
        return Place(self.path, self.current.name, self._token().line)

    def _token(self) -> Token:
        return self.current.tokens[self.current.at]

    def _take(self, text: str) -> bool:
        """Goes past the sign where it is next."""
        found = self._token().kind == "sign" and self._token().text == text
        self.current.at += found
        return found

    def _body(self, statement: _Statement) -> _Part:
        before = getattr(self, "current", None)
        self.current, statement.at = statement, 0
        part = self._either(0)
        if self._token().kind != "end":
            raise self._place().refuse(f"{self._token().text[:32]!r} is unexpected")
        if before is not None:
            self.current = before
        return part

    def _either(self, depth: int) -> _Part:
        if depth > DEEPEST:
            raise self._place().refuse(f"groups are nested more than {DEEPEST} deep")
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        if len(options) == 1:
            return options[0]
        patterns = [option.pattern for option in options if isinstance(option, _Terminal)]
        if self._is_terminal and len(patterns) == len(options):
            return self._within(f"(?:{'|'.join(patterns)})")
        return Choice(tuple(map(_whole, options, [self.path] * len(options))))

    def _sequence(self, depth: int) -> _Part:
        parts: list[_Part] = []
        while self._token().kind not in ("end", "arrow") and self._token().text not in ("|", ")", "]"):
            parts.append(self._repeated(self._one(depth)))
            self.parts += 1
            if self.parts > MOST_PARTS:
                raise self._place().refuse(f"the grammar has more than {MOST_PARTS} parts")
        if self._token().kind == "arrow":
            self.current.at += 2  # An alias names a node of a tree that nobody builds here.
        if len(parts) == 1:
            return parts[0]
        patterns = [part.pattern for part in parts if isinstance(part, _Terminal)]
        if self._is_terminal and len(patterns) == len(parts):
            return self._within("".join(patterns))
        return Chain(tuple(_whole(part, self.path) for part in parts))

    def _within(self, pattern: str) -> _Terminal:
        if len(pattern) > LIMITS.pattern:
            raise self._place().refuse(f"the terminal's pattern is longer than {LIMITS.pattern} characters")
        return _Terminal(pattern)

    @property
    def _is_terminal(self) -> bool:
        """Whether the statement that is read is one lexeme."""
        return (
            not self.current.name[0].islower() and self.current.name.lstrip("_")[:1].isupper()
        ) or self.current.name == "%ignore"

    def _one(self, depth: int) -> _Part:
        token = self._token()
        self.current.at += 1
        match token.kind:
            case "text":
                return self._text(token)
            case "regex":
                return self._regex(token)
            case "name":
                return self._named(token)
        if token.text == "(":
            return self._closed(self._either(depth + 1), ")")
        if token.text == "[":
            return self._times(self._closed(self._either(depth + 1), "]"), 0, 1)
        self.current.at -= 1
        raise self._place().refuse(f"{token.text[:32]!r} is unexpected")

    def _closed(self, part: _Part, bracket: str) -> _Part:
        if not self._take(bracket):
            raise self._place().refuse(f"{bracket!r} is missing")
        return part

    def _text(self, token: Token) -> _Part:
        literal, folded = (token.text[:-1], True) if token.text.endswith("i") else (token.text, False)
        try:
            text: str = json.loads(re.sub(r"\\x([0-9a-fA-F]{2})", r"\\u00\1", literal).replace("\\'", "'"))
        except ValueError:
            raise self._place().refuse(f"{token.text[:32]} is no text") from None
        if any("\ud800" <= char <= "\udfff" or char == "\0" for char in text):
            raise self._place().refuse(f"{token.text[:32]} holds what is no character")
        if len(text) > LONGEST_TEXT:
            raise self._place().refuse(f"a text has more than {LONGEST_TEXT} characters")
        if self._token().kind == "dots":
            return self._range(text)
        pattern = quote(text)
        return _Terminal(f"(?i:{pattern})") if folded else _Terminal(pattern, text)

    def _range(self, low: str) -> _Part:
        self.current.at += 1
        token = self._token()
        self.current.at += 1
        high = json.loads(token.text) if token.kind == "text" and not token.text.endswith("i") else ""
        if len(low) != 1 or len(high) != 1 or high < low:
            raise self._place().refuse("a range goes from one character up to another")
        return _Terminal(f"[{quote(low)}-{quote(high)}]")

    def _regex(self, token: Token) -> _Part:
        pattern, _, flags = token.text[1:].rpartition("/")
        if set(flags) - set("is"):
            raise self._place().refuse(f"the flags {flags[:16]!r} are not possible", "Known: i and s.")
        pattern = pattern.replace("\\/", "/")
        return _Terminal(f"(?{flags}:{pattern})" if flags else f"(?:{pattern})" if self._is_terminal else pattern)

    def _named(self, token: Token) -> _Part:
        name = token.text
        if name.lstrip("_")[:1].isupper():
            return _Terminal(self._terminal(name))
        if self._is_terminal:
            raise self._place().refuse(f"a terminal cannot hold the rule {name[:32]!r}")
        if name not in self.statements:
            raise self._place().refuse(f"there is no rule {name[:64]!r}")
        return Reference(name)

    def _terminal(self, name: str) -> str:
        """The pattern of a terminal, which may name others but never itself."""
        if name in self.terminals:
            return self.terminals[name]
        if name not in self.statements:
            raise self._place().refuse(f"there is no terminal {name[:64]!r}")
        if name in self.resolving or len(self.resolving) > DEEPEST:
            raise self._place().refuse(f"the terminal {name[:64]!r} leads back to itself, or too far")
        self.resolving.append(name)
        self.terminals[name] = self._terminal_of(self.statements[name])
        self.resolving.pop()
        return self.terminals[name]

    def _terminal_of(self, statement: _Statement) -> str:
        part = self._body(statement)
        if not isinstance(part, _Terminal):
            raise Place(self.path, statement.name, statement.tokens[-1].line).refuse(
                "a terminal needs a text or a pattern"
            )
        return part.pattern

    def _repeated(self, part: _Part) -> _Part:
        for _ in range(MOST_OPERATORS):
            token = self._token()
            if token.kind == "sign" and token.text in _OPERATORS:
                self.current.at += 1
                part = self._times(part, *_OPERATORS[token.text])
            elif self._take("~"):
                part = self._times(part, *self._count())
            else:
                return part
        return part

    def _count(self) -> tuple[int, int | None]:
        """``~ 3`` or ``~ 2..5``."""
        least = self._number()
        if self._token().kind != "dots":
            return least, least
        self.current.at += 1
        most = self._number()
        if most < least:
            raise self._place().refuse("a repetition's bounds are the wrong way round")
        return least, most

    def _number(self) -> int:
        token = self._token()
        if token.kind != "number" or token.text.startswith("-"):
            raise self._place().refuse("a repetition is ~ n or ~ n..m")
        self.current.at += 1
        return count_within(int(token.text), self._place())

    def _times(self, part: _Part, least: int, most: int | None) -> _Part:
        if self._is_terminal and isinstance(part, _Terminal):
            return self._within(f"(?:{part.pattern}){{{least},{'' if most is None else most}}}")
        return Repeat(_whole(part, self.path), least, most)

    # What is ignored between lexemes.

    def _grammar(self, part: _Part, blanks: list[Regex]) -> Grammar:
        return self._spaced(_whole(part, self.path), blanks) if blanks else _whole(part, self.path)

    def _spaced(self, node: Grammar, blanks: list[Regex]) -> Grammar:
        match node:
            case Literal() | Regex():
                return Chain((node, self._blanks(blanks)))
            case Chain(parts):
                return Chain(tuple(self._spaced(part, blanks) for part in parts))
            case Choice(options):
                return Choice(tuple(self._spaced(option, blanks) for option in options))
            case Repeat(item, least, most):
                return Repeat(self._spaced(item, blanks), least, most)
            case _:
                return node

    def _blanks(self, blanks: list[Regex]) -> Grammar:
        return Repeat(Choice(tuple(blanks)), 0, None)


def _whole(part: _Part, path: str) -> Grammar:
    """A part as a grammar: a pattern becomes a lexeme."""
    if not isinstance(part, _Terminal):
        return part
    return Regex(part.pattern, path) if part.text is None else Literal(part.text)
