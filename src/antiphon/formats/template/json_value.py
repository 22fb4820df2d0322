"""Where a JSON value ends in a stream."""

from __future__ import annotations

import re


class JsonValue:
    """Finds where a JSON value ends, fed in pieces; it looks at brackets and strings only."""

    _outside = re.compile(r'["{}\[\]]')
    _inside = re.compile(r'["\\]')
    _scalar_end = re.compile(r"[,}\]\s]")

    def __init__(self) -> None:
        self.depth = 0
        self.in_string = False
        self.done = False
        self._escaped = False
        self._started = False
        self._scalar = False

    def feed(self, text: str, start: int) -> int:
        """How far the value reaches in ``text`` from ``start``."""
        i = start
        while i < len(text) and not self.done:
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

    def _begin(self, text: str, i: int) -> int:
        self._started = True
        if text[i] not in '"{[':
            self._scalar = True
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
        else:
            self.in_string = False
            self.done = self.depth == 0
        return found.end()

    def _between(self, text: str, i: int) -> int:
        found = self._outside.search(text, i)
        if found is None:
            return len(text)
        match found.group():
            case '"':
                self.in_string = True
            case "{" | "[":
                self.depth += 1
            case _:
                self.depth -= 1
                self.done = self.depth <= 0
        return found.end()


class JsonAnswer:
    """Follows an answer that may be a JSON text, to tell whether it stands inside a string of it."""

    def __init__(self) -> None:
        self._value: JsonValue | None = None
        self._began = False

    @property
    def in_string(self) -> bool:
        return self._value is not None and self._value.in_string

    def feed(self, text: str) -> None:
        """Text after a line break inside a string is no JSON, whatever it looked like before."""
        if not self._began and text.strip():
            self._began = True
            self._value = JsonValue() if text.lstrip()[0] in '"{[' else None
            text = text.lstrip()
        for i, line in enumerate(text.split("\n")):
            if self._value is None or self._value.done or (i and self._value.in_string):
                self._value = None
                return
            self._value.feed(line, 0)
