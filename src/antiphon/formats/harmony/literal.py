"""Harmony for models whose vocabulary lacks its controls: structure is spelled, and text cannot spell it.

In text, a run of ``<`` before ``|name|>`` grows by one ``<`` for each of Harmony's names (``<|end|>`` is written
``<<|end|>``), and shrinks again when read: no text opens a frame, and every text comes back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from antiphon.conversation import Incident, ParserEvent
from antiphon.formats.format import Parser, last_events
from antiphon.tokens import Control, ControlScanner, Piece

from .controls import CONTROLS

ESCAPED = {Control(f"<{control.spelling}"): control.spelling for control in CONTROLS}
"""The spelling with one ``<`` more, which stands for a control's spelling in text, → that spelling."""

_SPELLING = re.compile("|".join(re.escape(control.spelling) for control in CONTROLS))


def escape(text: str) -> str:
    """The text with one ``<`` more before each control's spelling."""
    return _SPELLING.sub(lambda found: f"<{found[0]}", text)


def spelled_out(pieces: Iterable[Piece]) -> Iterator[str]:
    """The pieces as one text, since the vocabulary has no token borders between them."""
    yield "".join(piece.spelling if isinstance(piece, Control) else escape(piece) for piece in pieces)


def pieces_of(spelled: Iterable[Piece]) -> list[Piece]:
    """The inverse of `spelled_out`."""
    scanner = ControlScanner((*CONTROLS, *ESCAPED))
    text = "".join(str(piece) for piece in spelled)
    return list(_unescaped([*scanner.feed(text), *scanner.close()]))


class LiteralParser:
    """Reads spelled controls, and feeds a `Parser` with pieces.

    ``report``: spellings are not what this model should write (F-15), so the first one found is an `Incident`.
    """

    def __init__(self, parser: Parser, *, report: bool = False) -> None:
        self._parser = parser
        self._report = report
        self._scanner = ControlScanner((*CONTROLS, *ESCAPED))

    @property
    def ended(self) -> str | None:
        return self._parser.ended

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        for piece in pieces:
            if isinstance(piece, Control):
                events += self._scanned(self._scanner.close())
                events += self._parser.feed((piece,))
            else:
                events += self._scanned(self._scanner.feed(piece))
        return events

    def close(self) -> list[ParserEvent]:
        return [*self._scanned(self._scanner.close()), *self._parser.close()]

    def cut(self) -> list[ParserEvent]:
        """What may have become a control is none, and is no text."""
        tail, self._scanner.buffered = self._scanner.buffered, ""
        cut = [Incident("truncated-header", 0, tail)] if tail else []
        return [*cut, *last_events(self._parser, cut=True)]

    def _scanned(self, pieces: list[Piece]) -> list[ParserEvent]:
        events = self._parser.feed(_unescaped(pieces))
        if self._report and any(isinstance(piece, Control) for piece in pieces):
            self._report = False
            events.insert(0, Incident("textual-specials", 0))
        return events


def _unescaped(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        yield ESCAPED.get(piece, piece) if isinstance(piece, Control) else piece
