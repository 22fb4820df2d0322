"""Where a JSON value ends in a stream."""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import ClassVar

from .source import PlainTexts


def json_inside(text: str) -> str:
    """The text as a JSON string has it between its quotes."""
    return encode_basestring(text)[1:-1]


_OPENS = {"}": "{", "]": "["}


class JsonScan:
    """Finds where a JSON value ends, fed in pieces; it looks at brackets and strings only.

    ``broken``: the value goes on with what no JSON has there, which `feed` does not pass and `run_on` does.
    """

    _outside = re.compile(r'["{}\[\]]|[^\w\s:,.+\-"{}\[\]]')
    _inside = re.compile('["\\\\\n]')
    _inside_name = re.compile('["\\\\\n\ud800-\udfff]')
    _broken_outside = re.compile(r"""["'{}\[\]]""")
    _broken_inside: ClassVar = {'"': re.compile(r'["\\]'), "'": re.compile(r"\\|'(?=\s*(?:[,:\]})]|\Z))")}
    _undecided = re.compile(r"'\s*\Z")
    ends_plain = _inside.search
    """Finds what in a text is no more of an open string."""
    _plain = PlainTexts(ends_plain)
    _scalar_end = re.compile(r"[^\w.+\-]")

    def __init__(self, *, controls: bool = True) -> None:
        """``controls``: its strings may have some, as those of names may not."""
        self.done = False
        self.broken = False
        self.in_string = False
        self._open = ""
        """The brackets that are open."""
        self._quote = '"'
        self._escaped = False
        self._started = False
        self._scalar = False
        if not controls:
            self._inside = self._inside_name

    @classmethod
    def inside(cls, bracket: str) -> JsonScan:
        """A scan of what follows within the bracket."""
        scan = cls()
        scan._started, scan._open = True, bracket
        return scan

    @property
    def plain(self) -> PlainTexts | None:
        """Texts that may go on the open string; None outside strings."""
        return self._plain if self.in_string and not self._escaped else None

    def feed(self, text: str, start: int) -> int:
        """How far the value reaches in ``text`` from ``start``."""
        i = start
        while i < len(text) and not self.done and not self.broken:
            if not self._started:
                i = self._begin(text, i)
            elif self._scalar:
                found = self._scalar_end.search(text, i)
                self.done, i = found is not None, found.start() if found else len(text)
            elif self.in_string:
                i = self._in_string(text, i)
            else:
                i = self._between(text, i)
        return i

    def reach(self, text: str) -> int:
        """How far the value, which has begun, is sure to go on in a text that is not fed yet."""
        before = self.in_string, self._open, self._escaped
        end = self.feed(text, 0)
        over, self.done, self.broken = self.done or self.broken, False, False
        self.in_string, self._open, self._escaped = before
        return max(0, end - 1) if over else end

    def run_on(self, text: str, start: int, end: int, *, last: bool) -> int:
        """How far a broken value reaches, up to ``end``: to where its brackets close, strings in either quotes apart.

        ``last``: no more text comes than that up to ``end``.
        """
        if not last and (found := self._undecided.search(text, start, end)):
            end = found.start()
        i = start
        while i < end and not self.done:
            if self._escaped:
                self._escaped, i = False, i + 1
                continue
            pattern = self._broken_inside[self._quote] if self.in_string else self._broken_outside
            found = pattern.search(text, i, end)
            if found is None:
                return end
            i = found.end()
            match found.group():
                case "\\":
                    self._escaped = True
                case '"' | "'" as quote:
                    self.done = self.in_string and not self._open
                    self.in_string, self._quote = not self.in_string, quote
                case bracket:
                    self._bracket(bracket)
        return i

    def _bracket(self, bracket: str) -> None:
        """A bracket that closes ends those that were opened inside its own; without one of its own it says nothing."""
        opening = _OPENS.get(bracket)
        if opening is None:
            self._open += bracket
        elif (at := self._open.rfind(opening)) >= 0:
            self._open = self._open[:at]
            self.done = not at

    def _begin(self, text: str, i: int) -> int:
        self._started = True
        if text[i] not in '"{[':
            self.broken = self._scalar_end.match(text, i) is not None
            self._scalar = not self.broken
            return i
        return self._between(text, i)

    def _in_string(self, text: str, i: int) -> int:
        if self._escaped:
            self._escaped = False
            return i + 1
        found = self._inside.search(text, i)
        if found is None:
            return len(text)
        if found.group() == "\\":
            self._escaped = True
        elif found.group() == '"':
            self.in_string = False
            self.done = not self._open
        else:
            self.broken = True
            return found.start()
        return found.end()

    def _between(self, text: str, i: int) -> int:
        found = self._outside.search(text, i)
        if found is None:
            return len(text)
        match found.group():
            case '"':
                self.in_string = True
            case "{" | "[" as bracket:
                self._open += bracket
            case "}" | "]" as bracket if self._open[-1:] == _OPENS[bracket]:
                self._bracket(bracket)
            case _:
                self.broken = True
                return found.start()
        return found.end()


class JsonAnswer:
    """Follows an answer that may be a JSON text, to tell whether it stands inside a string of it."""

    def __init__(self, begins: str) -> None:
        self._begins = begins
        self.over = False
        """It is none, whatever follows."""
        self._text: JsonScan | None = None

    @property
    def in_string(self) -> bool:
        return self._text is not None and self._text.in_string

    @property
    def plain(self) -> PlainTexts | None:
        """Texts that may go on the open string, as far as the text is JSON; None outside strings."""
        return self._text.plain if self._text is not None else None

    def feed(self, text: str) -> None:
        """Text after a line break inside a string is no JSON, whatever it looked like before."""
        if self._text is None:
            text = text.lstrip()
            self.over = self.over or text[:1] not in self._begins
            if self.over or not text:
                return
            self._text = JsonScan()
        for i, line in enumerate(text.split("\n")):
            if self._text.done or self._text.broken or (i and self._text.in_string):
                self._text, self.over = None, True
                return
            self._text.feed(line, 0)
