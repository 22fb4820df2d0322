"""A header while it is coming in."""

from __future__ import annotations

from collections.abc import Collection

from antiphon.conversation import Role

from .controls import START
from .fields import Header, Opened, Section
from .header import BLANK, HeaderReader
from .offered import offered_names

HEADER_LIMIT = 256
"""Characters that a header without its end may have before the rest is read as content (R-08)."""


class UnreadHeader:
    """The sections of a header that is still coming in, or of text that may yet turn out to be one."""

    def __init__(self, expected: Role | None, tools: Collection[str]) -> None:
        self._expected = expected
        self._tools = offered_names(tools)
        self.opened = Opened.MISSING
        self.sections: list[Section] = []
        self.length = 0

    def begin(self, opened: Opened) -> None:
        self.opened, self.sections, self.length = opened, [], 0

    def add(self, text: str) -> None:
        """More text of the last section."""
        if self.sections:
            last = self.sections[-1]
            self.sections[-1] = Section(last.control, last.text + text)
        elif text:
            self.sections.append(Section(START, text))
        self.length += len(text)

    @property
    def room(self) -> int:
        """Characters that still fit; less than none when it is too long."""
        return HEADER_LIMIT - self.length

    def read(self, *, whole: bool) -> Header:
        """What it says; it is empty then."""
        header = HeaderReader(self._expected, self._tools, whole=whole).read(self.sections, self.opened)
        self.take()
        return header

    def take(self) -> str:
        """Its text; it is empty then."""
        text = self.text
        self.sections, self.length = [], 0
        return text

    @property
    def text(self) -> str:
        return "".join(section.text for section in self.sections)

    @property
    def is_bare(self) -> bool:
        """Text alone, where no ``<|start|>`` was."""
        return self.opened is not Opened.START and [s.control for s in self.sections] == [START]

    @property
    def is_unmarked(self) -> bool:
        """Text that shows no field of a header."""
        header = HeaderReader(self._expected, self._tools, whole=False).read(self.sections, self.opened)
        return header.rest == self.text.lstrip(BLANK)
