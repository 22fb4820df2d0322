"""The tokens of Lark's notation, and the terminals that grammars import."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from .expression import Place

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
