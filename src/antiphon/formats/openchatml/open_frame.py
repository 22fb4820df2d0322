"""A frame while it comes in: first its head, then its body."""

from __future__ import annotations

from antiphon.conversation import End
from antiphon.tokens import Piece, spell

from .finding import Place
from .frame import MAX_HEAD, Frame, Places, frame_of
from .head import Head


class OpenFrame:
    """``parts`` are the pieces of the head; ``head`` is what they say, once the body is open."""

    __slots__ = ("_body_at", "_length", "_spelled", "_texts", "_wanted", "head", "head_text", "is_utf8", "literal",
                 "parts", "start")  # fmt: skip

    head: Head
    head_text: str

    def __init__(self, start: Place) -> None:
        self.start = start
        self.parts: list[Piece] = []
        self._length = 0

    # -- the head -----------------------------------------------------------------------------------------------------

    def add_to_head(self, text: str) -> int:
        """Takes text of the head; how many characters, until it is too long for one."""
        text = text[: MAX_HEAD + 1 - self._length]
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += text
        else:
            self.parts.append(text)
        self._length += len(text)
        return len(text)

    @property
    def is_too_long(self) -> bool:
        return self._length > MAX_HEAD

    @property
    def spelled(self) -> str:
        """The head as text."""
        return spell(self.parts)

    # -- the body -----------------------------------------------------------------------------------------------------

    def open_body(self, head: Head, at: Place, *, keep: bool) -> None:
        """``keep`` False: the body is not needed, unless a rule asks for it."""
        self.head, self.head_text = head, self.spelled
        self._body_at = at
        self._wanted = keep or head.needs_body
        self._texts: list[str] = []
        self._spelled: list[str] | None = None
        self.literal = False
        self.is_utf8 = True

    def add(self, text: str) -> None:
        """Text of the body that is written as it reads."""
        if self._wanted:
            self._texts.append(text)
        if self._spelled is not None:
            self._spelled.append(text)

    def add_spelled(self, text: str, spelled: str) -> None:
        """Text that is written otherwise than it reads; from here on the body's spelling is kept too."""
        if not self._wanted:
            return
        if self._spelled is None:
            self._spelled = self._texts[:]
        self._spelled.append(spelled)
        if text:
            self._texts.append(text)

    def close(self, end: End, at: Place, before: str | None) -> Frame:
        """The frame; its footer stands at ``at``."""
        return frame_of(
            self.head, "".join(self._texts), end, Places(self.start, self._body_at, at),
            head_text=self.head_text, before=before,
            body_text=None if self._spelled is None else "".join(self._spelled),
            literal=self.literal, bodiless=not self._wanted,
        )  # fmt: skip
