"""Regular expressions of free text that keeps clear of some spellings, in the dialect of llguidance's lexer."""

from __future__ import annotations

import re
from collections.abc import Collection

_SPECIAL = re.compile(r"[][\\^$.|?*+(){}/&~\-#]")


def quote(text: str) -> str:
    """The text as a pattern of itself, fit to stand between slashes."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", r"\n").replace("\r", r"\r")


def any_text(limit: int | None) -> str:
    """Any characters, at most ``limit``."""
    return r"/(?s:.*)/" if limit is None else rf"/(?s:.{{0,{limit}}})/"


def text_without(spellings: Collection[str], *, limit: int | None, escaped: bool, closed: bool) -> str:
    """Any characters that spell none of ``spellings``, as a body of a Lark terminal.

    ``escaped``: a spelling after ``<`` is text (``<<|end|>``). ``closed``: a spelled-out closer comes next, and would
    be text after a ``<``.
    """
    if not spellings:
        return any_text(limit)
    before = r"((?s:.*)[^<])?" if escaped else r"(?s:.*)"
    clear = f"{any_text(limit)} & ~/{before}({'|'.join(map(quote, sorted(spellings)))})(?s:.*)/"
    return f"{clear} & /{before}/" if escaped and closed else clear
