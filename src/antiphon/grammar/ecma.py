r"""Patterns as ECMA-262 means them, in the engine's dialect, which is that of Rust's regex crate.

The two look alike and differ: to the engine ``\d`` and ``\w`` may be of any script, ``\s`` has U+0085 and lacks U+FEFF,
``.`` takes a carriage return, and a class has operators (``&&``, ``--``, ``[:alpha:]``) where ECMA-262 has characters.

>>> spelled_out(r"^\d+[a&&b-]$")
'^[0-9]+[a\\&\\&b\\-]$'
>>> spelled_out(".")
'[^\\n\\r\\u2028\\u2029]'
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SIGN = re.compile(r"\\c[A-Za-z]|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)
_SETS = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
}
_DOT = r"[^\n\r\u2028\u2029]"
_DOT_IS_ANY = re.compile(r"\(\?[a-z]*s")
"""A flag after which ``.`` is any character."""
_OPERATORS = frozenset("[&~")
"""What has a meaning in an engine's class, and none in one of ECMA-262."""


def spelled_out(pattern: str) -> str:
    """The same texts for the engine. What ECMA-262 does not have, and what neither can read, is left as it is."""
    return "".join(parts(pattern))


def parts(pattern: str) -> Iterator[str]:
    """`spelled_out` in pieces: a class, or what is between classes, sign by sign."""
    dot = "." if _DOT_IS_ANY.search(pattern) else _DOT
    members: list[str] = []
    inside: _Class | None = None
    for match in _SIGN.finditer(pattern):
        sign = match[0]
        if inside is not None:
            members.append(inside.item(sign, last=pattern[match.end() : match.end() + 1] == "]"))
            if inside.closed:
                yield "".join(members)
                inside = None
        elif sign == "[":
            inside, members = _Class(), [sign]
        else:
            yield dot if sign == "." else _escape(sign, inside=False)
    if inside is not None:
        yield "".join(members)


class _Class:
    """A character class as it is read: whether a ``-`` makes a range there or is itself."""

    def __init__(self) -> None:
        self._first = True
        self._low = self._range = False
        self.closed = False

    def item(self, sign: str, *, last: bool) -> str:
        """One sign of it; ``last``: the class ends after it."""
        first, self._first = self._first, False
        if sign == "^" and first:
            return sign
        if sign == "]":
            self.closed = True
            return sign
        if sign == "-" and self._low and not last:
            self._low, self._range = False, True
            return sign
        # After a range, or a set, a `-` begins nothing.
        is_set = len(sign) == 2 and sign[1].lower() in _SETS
        self._low = not self._range and not is_set
        self._range = False
        return f"\\{sign}" if sign == "-" or sign in _OPERATORS else _escape(sign, inside=True)


def _escape(sign: str, *, inside: bool) -> str:
    letter = sign[1:2]
    if len(sign) == 3:  # \cJ, a control character
        return f"\\x{ord(sign[2].upper()) - 64:02x}"
    if len(sign) != 2 or letter.lower() not in _SETS:
        return sign
    members = _SETS[letter.lower()]
    return members if inside and letter.islower() else f"[{'^' * letter.isupper()}{members}]"
