"""The end of a JSON value in a stream."""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import ClassVar

import msgspec

from .literal import CLOSES, OPENS
from .source import SYMBOLS, PlainTexts


def json_inside(text: str) -> str:
    """The text as a JSON string has it between its quotes."""
    return encode_basestring(text)[1:-1]


Signs = dict[str, re.Pattern[str]]
"""Characters with a meaning, outside strings (the empty key) and in those of each quote."""
_JSON: Signs = {"": re.compile(r'["{}\[\]]|[^\w\s:,.+\-"{}\[\]]'), '"': re.compile('["\\\\\n]')}
_NAMES: Signs = {**_JSON, '"': re.compile(f'["\\\\\n{SYMBOLS}]')}
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


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*("?)|[{}\[\],]|[^"{}\[\],]+|.', re.DOTALL)
_LONG = 16
"""Characters of a string above which it is worth being cut."""
_ESCAPE = 12
"""The longest character in a string: two escapes of six."""


def shortened(text: str, start: int) -> str:
    """A shorter beginning of JSON, of which nothing before ``start`` is left out.

    Whatever goes on from ``text`` goes on from it, and makes both a JSON value or neither. What is left out are values
    with another one of the same array or object behind them, and the insides of strings.
    """
    kept: list[str] = []
    levels = [_Level()]
    for token in _TOKEN.finditer(text):
        level, spelled, at = levels[-1], token.group(), token.start()
        if spelled in "{[":
            kept.append(spelled)
            levels.append(_Level(spelled, len(kept), at >= start, len(kept)))
        elif spelled in "}]":
            kept.append(spelled)
            del levels[max(1, len(levels) - 1) :]
        elif spelled == ",":
            kept.append(spelled)
            level.settle(kept)
            level.is_whole = at + 1 >= start
        else:
            kept.append(_cut(spelled, start - at, closed=bool(token.group(1))) if spelled[0] == '"' else spelled)
    return "".join(kept)


class _Level:
    """An open array or object: where in what is kept its last value begins, and the one before that."""

    def __init__(self, bracket: str = "", begins: int = 0, is_whole: bool = False, before: int = 0) -> None:
        self._bracket, self._begins, self._before, self._leaves = bracket, begins, before, False
        self.is_whole = is_whole
        """The last value may be left out."""

    def settle(self, kept: list[str]) -> None:
        """Behind the last value is a comma: the one before that is left out, where it may be."""
        if self._leaves:
            del kept[self._before : self._begins]
            self._begins = self._before
        value, close = "".join(kept[self._begins : -1]), CLOSES.get(self._bracket, "")
        self._leaves = self.is_whole and bool(value.strip()) and _is_json(f"{self._bracket}{value}{close}")
        self._before, self._begins = self._begins, len(kept)


def _cut(string: str, start: int, *, closed: bool) -> str:
    """The string, without a part of it from ``start`` on that is whole characters."""
    end = len(string) - closed
    first, last = max(1, start), range(end, end - _ESCAPE, -1)
    begin = next((at for at in range(first, first + _ESCAPE) if _is_json(f'"{string[1:at]}"')), end)
    cut = next((at for at in last if at > begin + _LONG and _is_json(f'"{string[begin:at]}"')), begin)
    return string[:begin] + string[cut:]


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return True


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
