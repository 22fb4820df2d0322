"""Whether a text is JSON, however deeply it is nested: the standard library gives up at some thousand."""

from __future__ import annotations

import re

_TEXT = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?"
_BLANK = " \t\r\n"
_TOKEN = re.compile(rf"[ \t\r\n]*+(?:([\[{{])|([\]}}])|([,:])|({_TEXT})|({_NUMBER}|true|false|null))")


def is_json(text: str) -> bool:
    opened: list[str] = []
    expected: str | None = "value"
    at = 0
    while expected != "end":
        token = _TOKEN.match(text, at)
        expected = _after(token.lastindex or 0, token[0].lstrip(_BLANK), expected, opened) if token else None
        if token is None or expected is None:
            return False
        at = token.end()
    return not text[at:].strip(_BLANK)


def _after(kind: int, word: str, expected: str | None, opened: list[str]) -> str | None:
    """What is expected behind the word; None where it has no place. ``opened``: the brackets around it."""
    is_value = expected in ("value", "first item")
    match kind:
        case 1 if is_value:
            opened.append(word)
            return "first item" if word == "[" else "first key"
        case 2 if opened and word == {"[": "]", "{": "}"}[opened[-1]] and expected in _CLOSES[word]:
            opened.pop()
            return _behind_value(opened)
        case 3 if word == expected or (word == "," and expected == "more"):
            return "value" if word == ":" or opened[-1] == "[" else "key"
        case 4 if expected in ("key", "first key"):
            return ":"
        case 4 | 5 if is_value:
            return _behind_value(opened)
    return None


_CLOSES = {"]": ("first item", "more"), "}": ("first key", "more")}


def _behind_value(opened: list[str]) -> str:
    return "more" if opened else "end"
