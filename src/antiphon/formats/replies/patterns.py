"""The regular expressions of response templates, where they are literals with named groups between.

>>> read_pattern(r"<call>\\s*<function=(?P<name>[^>\\n]+)>")
[Text(text='<call>'), Blanks(), Text(text='<function='), Group(name='name'), Text(text='>')]
"""

from __future__ import annotations

import re

import msgspec


class Text(msgspec.Struct, frozen=True):
    """Exactly this text."""

    text: str


class Blanks(msgspec.Struct, frozen=True):
    """Any number of blanks."""


class Group(msgspec.Struct, frozen=True):
    """A named group; what may stand in it is not kept."""

    name: str


class Maybe(msgspec.Struct, frozen=True):
    """This text, or nothing; blanks beside it are its own."""

    text: str


Part = Text | Blanks | Group | Maybe

_TOKEN = re.compile(
    r"(?P<blanks>(?:\\s|\\n|\n| )[*+?]\??|\[ ?\\n\\?t? ?\]\*)"
    r"|(?P<group>\(\?P<)|(?P<maybe>\(\?:)|(?P<escaped>\\.)|(?P<plain>[^\\.^$*+?{}\[\]|()])",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class NotLiteral(ValueError):
    """The pattern says more than literals and groups."""


def read_pattern(pattern: str) -> list[Part]:
    """The parts of the pattern. Raises `NotLiteral`."""
    parts: list[Part] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise NotLiteral(f"{pattern[at : at + 20]!r}")
        at = token.end()
        match token.lastgroup:
            case "group":
                end = _close(pattern, at)
                parts.append(Group(pattern[at : pattern.index(">", at)]))
                at = end
            case "maybe":
                end = _close(pattern, at)
                if pattern[end : end + 1] != "?":
                    raise NotLiteral(f"{pattern[at - 3 : end]!r}")
                parts.append(Maybe(_written(read_pattern(pattern[at : end - 1]))))
                at = end + 1
            case "blanks":
                parts.append(Blanks())
            case "escaped":
                _add(parts, _unescaped(token.group()[1]))
            case _:
                _add(parts, token.group())
    return parts


def _written(parts: list[Part]) -> str:
    if any(isinstance(part, (Group, Maybe)) for part in parts):
        raise NotLiteral("a group in a group")
    return "".join(part.text if isinstance(part, Text) else "\n" for part in parts)


def _add(parts: list[Part], text: str) -> None:
    last = parts[-1] if parts else None
    if isinstance(last, Text):
        parts[-1] = Text(last.text + text)
    else:
        parts.append(Text(text))


def _unescaped(char: str) -> str:
    if char.isalnum() and char not in _ESCAPES:
        raise NotLiteral(f"\\{char}")
    return _ESCAPES.get(char, char)


def _close(pattern: str, at: int) -> int:
    """Behind the bracket that closes the group whose inside begins at ``at``."""
    depth, in_set = 1, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char in "()":
            depth += 1 if char == "(" else -1
            if not depth:
                return at + 1
        at += 1
    raise NotLiteral("an open group")
