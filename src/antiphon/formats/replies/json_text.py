"""The end of a JSON value in a stream."""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import ClassVar

from .literal import OPENS
from .source import PlainTexts


def json_inside(text: str) -> str:
    """The text as a JSON string has it between its quotes."""
    return encode_basestring(text)[1:-1]


Signs = dict[str, re.Pattern[str]]
"""Characters with a meaning, outside strings (the empty key) and in those of each quote."""
_JSON: Signs = {"": re.compile(r'["{}\[\]]|[^\w\s:,.+\-"{}\[\]]'), '"': re.compile('["\\\\\n]')}
_NAMES: Signs = {**_JSON, '"': re.compile('["\\\\\n\ud800-\udfff]')}
_BROKEN: Signs = {
    "": re.compile(r"""["'{}\[\]]"""),
    '"': re.compile(r'["\\]'),
    "'": re.compile(r"\\|'(?=\s*(?:[,:\]})]|\Z))"),
}
_UNDECIDED = re.compile(r"'\s*\Z")
_SCALAR_END = re.compile(r"[^\w.+\-]")


class JsonScan:
    """Finds where a JSON value ends, fed in pieces; it looks at brackets and strings only.

    ``broken``: the value goes on with what no JSON has there, which `feed` does not pass and `run_on` does.
    """

    ends_plain: ClassVar = _JSON['"'].search
    """Finds what in a text is no more of an open string."""
    _plain = PlainTexts(ends_plain)

    def __init__(self, *, controls: bool = True, open: str = "") -> None:
        """``controls``: its strings may have some, as those of names may not. ``open``: the bracket it stands in."""
        self.done = False
        self.broken = False
        self.open = open
        """The brackets that are open."""
        self._quote = ""
        """That of the open string."""
        self._escaped = False
        self._started = bool(open)
        self._scalar = False
        self._signs = _JSON if controls else _NAMES

    @property
    def in_string(self) -> bool:
        return bool(self._quote)

    @property
    def plain(self) -> PlainTexts | None:
        """Texts that may go on the open string; None outside strings."""
        return self._plain if self._quote and not self._escaped else None

    def feed(self, text: str, start: int) -> int:
        """How far the value reaches in ``text`` from ``start``."""
        if not self._started and start < len(text):
            self._started = True
            self._scalar = text[start] not in '"{['
            self.broken = self._scalar and _SCALAR_END.match(text, start) is not None
        if self.broken or self.done:
            return start
        if self._scalar:
            found = _SCALAR_END.search(text, start)
            self.done = found is not None
            return found.start() if found else len(text)
        return self._scan(self._signs, text, start, len(text))

    def reach(self, text: str) -> int:
        """How far the value, which has begun, is sure to go on in a text that is not fed yet."""
        before = self._quote, self.open, self._escaped
        end = self.feed(text, 0)
        over, self.done, self.broken = self.done or self.broken, False, False
        self._quote, self.open, self._escaped = before
        return max(0, end - 1) if over else end

    def run_on(self, text: str, start: int, end: int, *, last: bool) -> int:
        """How far a broken value reaches, up to ``end``: to where its brackets close, strings in either quotes apart.

        ``last``: no more text comes than that up to ``end``.
        """
        if not last and (found := _UNDECIDED.search(text, start, end)):
            end = found.start()
        return self._scan(_BROKEN, text, start, end)

    def _scan(self, signs: Signs, text: str, at: int, end: int) -> int:
        while at < end and not self.done:
            found = None if self._escaped else signs[self._quote].search(text, at, end)
            if found is None:
                at, self._escaped = at + 1 if self._escaped else end, False
                continue
            sign, opens = found.group(), OPENS.get(found.group())
            if sign == "\\" and self._quote:
                self._escaped = True
            elif sign in signs:
                self._quote = "" if self._quote else sign
                self.done = not self._quote and not self.open
            elif sign in "{[":
                self.open += sign
            elif opens is not None and (signs is _BROKEN or self.open[-1:] == opens):
                # It ends those that were opened inside its own; without one of its own it says nothing.
                before, own, _ = self.open.rpartition(opens)
                self.open = before if own else self.open
                self.done = bool(own) and not before
            else:
                self.broken = True
                return found.start()
            at = found.end()
        return at


class JsonAnswer:
    """Follows an answer that may be a JSON text, to tell whether it stands inside a string of it."""

    def __init__(self, begins: str) -> None:
        self._begins = begins
        self.over = False
        """It is none, or whole, whatever follows."""
        self._text: JsonScan | None = None

    @property
    def plain(self) -> PlainTexts | None:
        """Texts that may go on the open string, as far as the text is JSON; None outside strings."""
        return self._text.plain if self._text is not None and not self.over else None

    @property
    def in_string(self) -> bool:
        return self._text is not None and self._text.in_string and not self.over

    def feed(self, text: str) -> None:
        """Text after a line break inside a string is no JSON, whatever it looked like before."""
        if self._text is None and (text := text.lstrip()):
            self._text, self.over = JsonScan(), text[0] not in self._begins
        if self._text is not None and not self.over:
            self._text.feed(text, 0)
            self.over = self._text.done or self._text.broken
