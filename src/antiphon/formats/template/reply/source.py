"""A reply's text as it comes: a reading takes what it needs and waits where there is no more."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TypeVar

from .marks import Marks

T = TypeVar("T")

Reading = Generator[None, None, T]
"""Reads on when it is resumed, and returns what it read."""

_BLANKS = re.compile(r"\s*")


class Source:
    """What was fed and not yet taken. A reading waits (yields) where it needs more than there is."""

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.position = 0
        """How much was taken, in characters; a control is one."""
        self.last = False
        """No more comes."""
        self.plain: tuple[re.Pattern[str], Callable[[str], None]] | None = None
        """While a reading waits with nothing held back: what it looks for, and where text without any of it goes."""
        self._taken: list[str] | None = None

    def feed(self, text: str) -> None:
        self.text += text

    def more(self, marks: re.Pattern[str] | None = None, put: Callable[[str], None] | None = None) -> Reading[bool]:
        """Waits for more; False where the reply is over. Text in which nothing matches ``marks`` goes to ``put``."""
        if self.last:
            return False
        self.text, self.at = self.text[self.at :], 0
        if marks is not None and put is not None and not self.text and self._taken is None:
            self.plain = (marks, put)
        yield
        self.plain = None
        return True

    def take(self, end: int) -> str:
        """The text up to ``end``, which is taken with that."""
        taken, self.at = self.text[self.at : end], end
        self.position += len(taken)
        if self._taken is not None:
            self._taken.append(taken)
        return taken

    def record(self, mark: str = "") -> None:
        """Remembers the mark and what is taken from here on, for a reading that may have to be undone."""
        self._taken = [mark]

    def recorded(self) -> str:
        """What was taken since `record`, which ends with that."""
        taken, self._taken = self._taken or [], None
        return "".join(taken)

    def peek(self) -> Reading[str]:
        """The next character, which stays; empty at the reply's end."""
        while self.at >= len(self.text):
            if not (yield from self.more()):
                return ""
        return self.text[self.at]

    def after_blanks(self) -> Reading[str]:
        """Takes blanks; the character behind them, which stays."""
        while True:
            found = _BLANKS.match(self.text, self.at)
            self.take(found.end() if found else self.at)
            if self.at < len(self.text):
                return self.text[self.at]
            if not (yield from self.more()):
                return ""

    def until(self, marks: Marks, put: Callable[[str], None]) -> Reading[str]:
        """Puts the text before the next of the marks, as it comes, and takes the mark; empty at the reply's end."""
        while True:
            start, end = marks.find(self.text, self.at, last=self.last)
            if start > self.at:
                put(self.take(start))
            if end > start:
                return self.take(end)
            if not (yield from self.more(marks.begins, put)):
                return ""

    def skip(self, literal: str) -> Reading[bool]:
        """Takes blanks and the literal where it follows; where not, the blanks alone."""
        yield from self.after_blanks()
        while True:
            ahead = self.text[self.at : self.at + len(literal)]
            if ahead == literal:
                self.take(self.at + len(literal))
                return True
            if not literal.startswith(ahead) or not (yield from self.more()):
                return False

    def put_back(self, mark: str) -> None:
        """What was just taken is read again."""
        self.at -= len(mark)
        self.position -= len(mark)
        if self._taken:
            self._taken.pop()

    def ahead(self, marks: Marks) -> Reading[str]:
        """Takes blanks, and the mark that follows them; empty where none does."""
        yield from self.after_blanks()
        while self.at < len(self.text):
            start, end = marks.find(self.text, self.at, last=self.last)
            if start > self.at:
                return ""
            if end > start:
                return self.take(end)
            if not (yield from self.more()):
                return ""
        return ""

    def skip_exactly(self, literal: str) -> Reading[None]:
        """Takes the literal where it is next."""
        while literal and literal.startswith(ahead := self.text[self.at : self.at + len(literal)]):
            if ahead == literal:
                self.take(self.at + len(literal))
                return
            if not (yield from self.more()):
                return
