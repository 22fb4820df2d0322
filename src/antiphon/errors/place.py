"""Lines and columns of a text that is read in parts."""

from __future__ import annotations

import re

from . import Position


class Place:
    """A moving position in a text: offset from 0, line and column from 1; only ``\\n`` ends a line."""

    __slots__ = ("column", "line", "offset")

    def __init__(self, offset: int = 0, line: int = 1, column: int = 1) -> None:
        self.offset: int = offset
        self.line: int = line
        self.column: int = column

    def pass_over(self, text: str) -> None:
        self.offset += len(text)
        lines = text.count("\n")
        if lines:
            self.line += lines
            self.column = len(text) - text.rfind("\n")
        else:
            self.column += len(text)

    def pass_in_line(self, text: str) -> None:
        """The same for a text without a line break."""
        self.offset += len(text)
        self.column += len(text)

    def copy(self) -> Place:
        return Place(self.offset, self.line, self.column)

    def after(self, text: str) -> Place:
        """The place that follows ``text``, which begins here."""
        length, lines = len(text), text.count("\n")
        column = length - text.rfind("\n") if lines else self.column + length
        return Place(self.offset + length, self.line + lines, column)

    def position(self) -> Position:
        return Position(self.offset, self.line, self.column)


_WORD = re.compile(r"<+\|\w+\|>|<|[^\s<]+")


def end_of_word(text: str, at: int) -> int:
    """The end of the control or the word that begins at ``at``; ``at`` itself at a blank or the text's end."""
    found = _WORD.match(text, at)
    return found.end() if found else at
