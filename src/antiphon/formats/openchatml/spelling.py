"""Spelling: the nine controls, escapes in bodies, percent-encoding in heads (§3; A-O05, A-O22 … A-O25)."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

from antiphon.errors import RenderError
from antiphon.tokens import Control

START = Control("<|start|>")
CHANNEL = Control("<|channel|>")
MESSAGE = Control("<|message|>")
CALL = Control("<|call|>")
CONSTRAIN = Control("<|constrain|>")
RETURN = Control("<|return|>")
END = Control("<|end|>")
LITERAL = Control("<|literal|>")
ENDLITERAL = Control("<|endliteral|>")

STRUCTURE = (START, CHANNEL, MESSAGE, CALL, CONSTRAIN, RETURN, END)
"""The controls that a vocabulary must have for the format to be written in control tokens."""
CONTROLS = (*STRUCTURE, LITERAL, ENDLITERAL)
BY_SPELLING = {control.spelling: control for control in CONTROLS}
PREFIXES = frozenset(s[:n] for s in BY_SPELLING for n in range(1, len(s)))
LONGEST = max(map(len, BY_SPELLING))
BLANK = " \t\r\n"
"""The characters that may be between frames and before the header."""

_NAMES = "|".join(sorted((s[2:-2] for s in BY_SPELLING), key=len, reverse=True))
TOKEN = re.compile(rf"<\|(?:{_NAMES})\|>")
_ESCAPED = re.compile(rf"<(<\|(?:{_NAMES})\|>)")
# A run of `<` before a lone surrogate goes into the literal block with it: before `<|literal|>` it would
# read as an escape.
_LONE_SURROGATES = re.compile("(?<!<)<*+[\ud800-\udfff]++")


def next_control(text: str, start: int) -> tuple[int, int]:
    """The span of the next control's spelling; (-1, -1) when there is none."""
    found = TOKEN.search(text, start)
    return found.span() if found else (-1, -1)


def open_tail(text: str, start: int) -> int:
    """The start of a tail that may yet become a control or an escape; the text's end when there is none."""
    at = text.rfind("<", max(start, len(text) - LONGEST + 1))
    if at < 0 or text[at:] not in PREFIXES:
        return len(text)
    return at - (at > start and text[at - 1] == "<")


def escape(text: str) -> str:
    """Text that holds no control (A-O22): each run of ``<`` before a control's ``|name|>`` gets one more."""
    return TOKEN.sub(r"<\g<0>", text) if "<|" in text else text


def unescape(text: str) -> str:
    """The inverse of `escape`; a control (a run of one) stays as it is."""
    return _ESCAPED.sub(r"\1", text) if "<<|" in text else text


def is_utf8(text: str) -> bool:
    """Whether the text can be written as UTF-8, that is, has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode("utf-16-le")  # as strict as UTF-8, and faster: most of it is a copy
    except UnicodeEncodeError:
        return False
    return True


def spell_body(text: str) -> str:
    """A body in canonical form: escaped, with literal blocks only where an escape cannot represent it.

    That is a ``<`` at the very end, which would swallow the footer, and bytes that are not UTF-8 (A-O24).
    """
    head = text.rstrip("<")
    tail = text[len(head) :]
    spelled = escape(head) if is_utf8(head) else _spell_surrogates(head)
    return f"{spelled}{LITERAL}{tail}{ENDLITERAL}" if tail else spelled


def _spell_surrogates(text: str) -> str:
    spelled: list[str] = []
    start = 0
    for found in _LONE_SURROGATES.finditer(text):
        spelled += (escape(text[start : found.start()]), f"{LITERAL}{found.group()}{ENDLITERAL}")
        start = found.end()
    return "".join((*spelled, escape(text[start:])))


def spell_literal(text: str) -> str:
    """The text as a literal block. An end marker in it is written outside, escaped, between two blocks (A-O25)."""
    return f"<{ENDLITERAL}".join(f"{LITERAL}{part}{ENDLITERAL}" for part in text.split(ENDLITERAL.spelling))


_VALUE_SAFE = "!#$&'()*+,-./:;=?@[\\]^_`{}~"
VALUE = re.compile(r"[!-~]+")
"""A value in a head as it may be read: visible ASCII (§15), in which what percent-encodes UTF-8 is decoded (A-O05)."""
PLAIN_VALUE = r"[!#$&-;=?-{}~]++"
"""The pattern of a value that is written as it is: without ``< > | " %``, and so not a part of any control."""
_PLAIN = re.compile(PLAIN_VALUE)


def encode_value(value: str) -> str:
    """A value for a head, whatever a user put into it: it can neither end the head nor start another attribute."""
    if _PLAIN.fullmatch(value):
        return value
    if not value:
        raise RenderError("an attribute of a frame cannot be empty", code="E-PARSE-HEADER")
    try:
        return quote(value, safe=_VALUE_SAFE)
    except UnicodeEncodeError:
        raise RenderError(
            f"the attribute value {value!r} has a lone surrogate, which no header can carry", code="E-PARSE-HEADER"
        ) from None


def decode_value(value: str) -> str:
    """The value without its percent-encoding; as it stands where that is not UTF-8 (A-O05)."""
    if "%" not in value:
        return value
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeError:
        return value
