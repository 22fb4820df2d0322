"""Replies whose controls are gone: ``analysisThey ask for two and two.assistantfinalFour.``

Some servers leave special tokens out of the text that they give. What is left of the structure are the words of
headers, joined to the text around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from antiphon.conversation import Channel, Incident, ParserEvent
from antiphon.formats.format import Parser, Rest, RestingParser, last_events, rest_of
from antiphon.tokens import Control, ControlScanner, Piece

from .controls import CHANNEL, CONTROLS, END, MESSAGE, START

# Harmony for models whose vocabulary lacks its controls: structure is spelled, and text cannot spell it.
#
# In text, a run of ``<`` before ``|name|>`` grows by one ``<`` for each of Harmony's names (``<|end|>`` is written
# ``<<|end|>``), and shrinks again when read: no text opens a frame, and every text comes back as it was.

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


class LiteralParser(RestingParser):
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

    @property
    def rest(self) -> Rest | None:
        return None if self._scanner.buffered else rest_of(self._parser)

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
        """Drops the buffered beginning of a control, which is no text."""
        tail, self._scanner.buffered = self._scanner.buffered, ""
        cut = [Incident("truncated-header", 0, tail)] if tail else []
        return [*cut, *last_events(self._parser, cut=True)]

    def _scanned(self, pieces: list[Piece]) -> list[ParserEvent]:
        first = next((i for i, piece in enumerate(pieces) if isinstance(piece, Control)), None)
        if first is None or not self._report:
            return self._parser.feed(_unescaped(pieces))
        self._report = False
        before = self._parser.feed(_unescaped(pieces[:first]))
        return [*before, Incident("textual-specials", 0), *self._parser.feed(_unescaped(pieces[first:]))]


def _unescaped(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        yield ESCAPED.get(piece, piece) if isinstance(piece, Control) else piece


_LONGEST = 96
"""Characters of a beginning, or of a header, after which no more is waited for."""
_BORDER = re.compile(r"assistant(analysis|commentary|final)")
"""The border between two messages, without its controls."""
_TAILS = {f"assistant{channel}"[:n] for channel in Channel for n in range(1, len(f"assistant{channel}"))}
"""Beginnings of a border."""
_FIRST = re.compile(r"\s*(?:assistant)?(analysis|commentary|final)(?=\S| to=)")
"""How such a reply begins: with a channel to which text, or a recipient, is joined."""
_WORD = re.compile(r"\s*(?:final(?:ly|i[sz]|e\b|s\b)|(?:analysis|commentary|final)[.,:;!?)'-])")
"""How other text begins, whose first word is that channel's by chance."""
_OPEN = re.compile(r"\s*(?:assistant)?(?:(?:analysis|commentary|final)(?s:.){0,3})?")
"""A beginning of which more is needed; so is one that may become a border."""
_BEGUN = re.compile(r"\s*(?:assistant)?(?:analysis|commentary|final)(?: (?:t(?:o(?:=[^\s{[]*)?)?)?)?")
"""A beginning that was cut behind its channel, or in its recipient."""
_TO = re.compile(r"""( to=[^\s{(\["'`<]+?)(?: +(json|code)(?=.)|(json)(?=[{\[])| ?(?=[{\[]))""", re.DOTALL)
"""A recipient, and the type of what it gets, before the first character of that."""


class _State(Enum):
    BEGINNING = auto()
    """Whether the reply has controls is not known yet."""
    HEADER = auto()
    """Behind a channel: a recipient may follow."""
    CONTENT = auto()
    PLAIN = auto()
    """The reply has controls, or is plain text: nothing is inserted."""


class BareParser(RestingParser):
    """A `Parser` before another, which gets the controls that a reply without any has lost."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._state = _State.BEGINNING
        self._buffer = ""
        self._found = False
        """The reply turned out to have lost its controls, and this was not reported yet."""

    @property
    def ended(self) -> str | None:
        return self._parser.ended

    @property
    def rest(self) -> Rest | None:
        return None if self._buffer else rest_of(self._parser)

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        read: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, Control):
                self._state = _State.PLAIN
                read += [*self._take(), piece]
            else:
                read += self._text(piece)
        return self._passed(read)

    def close(self) -> list[ParserEvent]:
        return [*self._passed(self._text("", last=True)), *self._parser.close()]

    def cut(self) -> list[ParserEvent]:
        """Drops the buffered beginning of a header, which is no text."""
        tail = self._open_tail()
        self._buffer = self._buffer.removesuffix(tail)
        cut = [Incident("truncated-header", 0, tail)] if tail.strip() else []
        return [*cut, *self.close()]

    def _open_tail(self) -> str:
        """The end of the buffer that waits to become a header; empty for a text of another kind."""
        match self._state:
            case _State.BEGINNING:
                return self._buffer if _BEGUN.fullmatch(self._buffer) or self._buffer.lstrip() in _BEGINNINGS else ""
            case _State.HEADER:
                return self._buffer if " to=".startswith(self._buffer[:4]) else ""
            case _State.CONTENT:
                return self._buffer[self._without_tail() :]
            case _State.PLAIN:
                return ""

    def _passed(self, pieces: list[Piece]) -> list[ParserEvent]:
        events = self._parser.feed(pieces)
        if self._found:
            events.insert(0, Incident("missing-controls", 0))
            self._found = False
        return events

    def _text(self, text: str, *, last: bool = False) -> list[Piece]:
        self._buffer += text
        pieces: list[Piece] = []
        while self._buffer and (more := self._step(last)):
            pieces += more
        return pieces

    def _step(self, last: bool) -> list[Piece]:
        """Takes the pieces that the buffer begins with; none while it may become something else."""
        match self._state:
            case _State.BEGINNING:
                return self._beginning(last)
            case _State.HEADER:
                return self._header(last)
            case _State.CONTENT:
                return self._content(last)
            case _State.PLAIN:
                return self._take()

    def _beginning(self, last: bool) -> list[Piece]:
        start = self._buffer[:_LONGEST]
        waits = _OPEN.fullmatch(start) or start.lstrip() in _BEGINNINGS
        if waits and not last and len(start) < _LONGEST:
            return []
        found = None if _WORD.match(start) else _FIRST.match(start)
        if found is None:
            self._state = _State.PLAIN
            return self._take()
        self._state, self._found = _State.HEADER, True
        self._take(found.end())
        return [CHANNEL, found[1]]

    def _header(self, last: bool) -> list[Piece]:
        start = self._buffer[:_LONGEST]
        found = _TO.match(start)
        waits = " to=".startswith(start) or (start.startswith(" to=") and len(start) < _LONGEST)
        if found is None and waits and not last:
            return []
        self._state = _State.CONTENT
        if found is None:
            return [MESSAGE]
        self._take(found.end())
        return [" ".join(filter(None, found.groups())), MESSAGE]

    def _content(self, last: bool) -> list[Piece]:
        found = _BORDER.search(self._buffer)
        if found is None:
            return self._take(len(self._buffer) if last else self._without_tail())
        self._state = _State.HEADER
        before = self._take(found.start())
        self._take(found.end() - found.start())
        return [*before, END, START, "assistant", CHANNEL, found[1]]

    def _without_tail(self) -> int:
        """How much of the buffer can be no part of a border any more."""
        length = len(self._buffer)
        return next((i for i in range(max(0, length - 20), length) if self._buffer[i:] in _TAILS), length)

    def _take(self, length: int | None = None) -> list[Piece]:
        length = len(self._buffer) if length is None else length
        taken, self._buffer = self._buffer[:length], self._buffer[length:]
        return [taken] if taken else []


_BEGINNINGS = _TAILS | {channel.value[:n] for channel in Channel for n in range(1, len(channel.value))}
