r"""Regular expressions of free text without some spellings, in the dialect of llguidance's lexer.

>>> print(text_without(["<|end|>"], limit=None, escaped=False, closed=False))
/(?s:.*)/ & ~/(?s:.*)(<\|end\|>)(?s:.*)/
>>> print(text_without(["<|end|>"], limit=80, escaped=False, closed=False))
/([^<]|<[^<\|]){0,80}/
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

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
