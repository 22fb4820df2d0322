"""The line of a source that an error is about, with carets under its place."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from antiphon.errors import AntiphonError, FormatError, Position
from antiphon.errors.place import Place, end_of_word
from antiphon.tokens import Piece

from .terminal import UNSAFE

REMEMBERED = 1 << 20
"""Characters of a source that are remembered behind the last one read; one further back has no line."""
BEFORE, AFTER = 60, 50
"""Characters of a long line that are shown before and behind the place."""
_UNSHOWN = re.compile(rf"{UNSAFE.pattern}|[\t\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


def excerpt(text: str, start: int, end: int, line: int) -> str:
    """Two lines: that of ``text`` with the characters ``start`` to ``end`` in it, numbered, and the carets below."""
    first = text.rfind("\n", 0, start) + 1
    newline = text.find("\n", start)
    last = len(text) if newline < 0 else newline
    left, right = max(first, start - BEFORE), min(last, start + AFTER)
    before = ("…" if left > first else "") + _shown(text[left:start])
    marked = _shown(text[start : min(max(end, start), right)])
    behind = _shown(text[start + len(marked) : right]) + ("…" if right < last else "")
    number, margin = f"{line:>5}", " " * 5
    carets = " " * _columns(before) + "^" * max(1, _columns(marked))
    return f"{number} | {before}{marked}{behind}".rstrip() + f"\n{margin} | {carets}"


def _shown(text: str) -> str:
    """One character for each, without those that would move a terminal's cursor."""
    return _UNSHOWN.sub(lambda found: " " if found.group() in "\t\r" else "\N{REPLACEMENT CHARACTER}", text)


def _columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class RecentText:
    """The last part of a source that is read in parts, in which the places of errors are looked up."""

    def __init__(self) -> None:
        self._text = ""
        self._start = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, which are remembered as they pass."""
        for chunk in chunks:
            self._add(self._utf8.decode(chunk))
            yield chunk

    def watch_text(self, chunks: Iterable[str]) -> Iterator[str]:
        """The same for text."""
        for chunk in chunks:
            self._add(chunk)
            yield chunk

    def _add(self, text: str) -> None:
        dropped = max(0, len(self._text) - REMEMBERED)
        self._text, self._start = self._text[dropped:] + text, self._start + dropped

    def excerpt(self, position: Position | None) -> str | None:
        """The source at a place, None when it is not known or no longer remembered."""
        if position is None or position.offset is None or position.line is None:
            return None
        at = position.offset - self._start
        if not 0 <= at <= len(self._text):
            return None
        return excerpt(self._text, at, end_of_word(self._text, at), position.line)

    @contextmanager
    def shown_with_errors(self) -> Iterator[None]:
        """An error with a place in the source leaves with the line that it is about, as a note."""
        try:
            yield
        except AntiphonError as error:
            source = self.excerpt(error.position)
            if source is not None:
                error.add_note(source)
            raise


class PlacedPieces:
    """The pieces of a text one by one, with the place of the last; ``recent`` None: of ids, which have no lines."""

    def __init__(self, pieces: Iterable[list[Piece]], recent: RecentText | None) -> None:
        self._pieces = pieces
        self._recent = recent
        self._place = Place()

    def __iter__(self) -> Iterator[list[Piece]]:
        for some in self._pieces:
            for piece in some:
                yield [piece]
                self._place.pass_over(str(piece))

    def excerpt(self) -> str | None:
        """The source where the last piece begins."""
        return self._recent.excerpt(self._place.position()) if self._recent else None

    @contextmanager
    def shown_with_errors(self) -> Iterator[None]:
        """An error of a text leaves with the place of the last piece, and the line of that."""
        if self._recent is None:
            yield
            return
        with self._recent.shown_with_errors():
            try:
                yield
            except FormatError as error:
                if error.position is None or error.position.line is None:
                    error.position = self._place.position()
                raise
