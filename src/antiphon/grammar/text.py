r"""Regular expressions of free text without some spellings, in the dialect of llguidance's lexer.

>>> print(text_without(["<|end|>"], limit=None, escaped=False, closed=False))
/(?s:.*)/ & ~/(?s:.*)(<\|end\|>)(?s:.*)/
>>> print(text_without(["<|end|>"], limit=80, escaped=False, closed=False))
/([^<]|<[^<\|]){0,80}/

Patterns as ECMA-262 means them, in the engine's dialect, which is that of Rust's regex crate.

The two look alike and differ: to the engine ``\d`` and ``\w`` may be of any script, ``\s`` has U+0085 and lacks U+FEFF,
``.`` takes a carriage return, and a class has operators (``&&``, ``--``, ``[:alpha:]``) where ECMA-262 has characters.

>>> spelled_out(r"^\d+[a&&b-]$")
'^[0-9]+[a\\&\\&b\\-]$'
>>> spelled_out(".")
'[^\\n\\r\\u2028\\u2029]'
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

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


_SPECIAL = re.compile(r"[][\\^$.|?*+(){}/&~\-#]")

NOT_BLANK = r"/\S(?s:.*)/"
"""A text that does not begin with a blank, and is not empty."""


def quote(text: str) -> str:
    """The text as a pattern of itself, fit to be between slashes."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", r"\n").replace("\r", r"\r")


def quoted(text: str) -> str:
    """A Lark literal; empty for the empty text, which Lark has no need of."""
    return json.dumps(text, ensure_ascii=False) if text else ""


def not_first(char: str) -> str:
    """A text whose first character that is no blank is not this one."""
    return rf"/\s*([^\s{quote(char)}](?s:.*))?/"


def any_text(limit: int | None) -> str:
    """Any characters, at most ``limit``."""
    return r"/(?s:.*)/" if limit is None else rf"/(?s:.{{0,{limit}}})/"


def text_without(spellings: Collection[str], *, limit: int | None, escaped: bool, closed: bool) -> str:
    """Any characters that spell none of ``spellings``, as a body of a Lark terminal.

    ``escaped``: a spelling after ``<`` is text (``<<|end|>``). ``closed``: a spelled-out closer comes next, and would
    be text after a ``<``. A text with a ``limit`` spells not even their first two characters.
    """
    if not spellings:
        return any_text(limit)
    if limit is not None:
        return _bounded(spellings, limit)
    before = r"((?s:.*)[^<])?" if escaped else r"(?s:.*)"
    clear = f"{any_text(None)} & ~/{before}({'|'.join(map(quote, sorted(spellings)))})(?s:.*)/"
    return f"{clear} & /{before}/" if escaped and closed else clear


def _bounded(spellings: Collection[str], limit: int) -> str:
    """At most ``limit`` characters, or pairs that begin like a spelling and go on otherwise.

    A counted repetition met with a complement makes the engine's lexer give up in mid-reply; this costs what it says.
    """
    seconds: dict[str, set[str]] = {}
    for spelling in spellings:
        seconds.setdefault(spelling[0], set()).update(spelling[1:2])
    # After a spelling of one character nothing may come: that character is no text at all.
    alone = {spelling for spelling in spellings if len(spelling) == 1}
    firsts = "".join(map(quote, sorted(seconds)))
    pairs = [
        f"{quote(first)}[^{firsts}{''.join(map(quote, sorted(then - seconds.keys())))}]"
        for first, then in sorted(seconds.items())
        if first not in alone
    ]
    return f"/({'|'.join([f'[^{firsts}]', *pairs])}){{0,{limit}}}/"
