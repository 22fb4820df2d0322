"""Strict reading of pieces: the reference's messages as our events, and its errors as `ParseError`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from antiphon.conversation import End, Message, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.tokens import Control, Piece, utf8

from .controls import CALL, CONSTRAIN, ENDS, RETURN, START, Dialect
from .header import Header, HeaderBuffer, HeaderStart
from .header_writer import envelope_of, remembered
from .reference import ReferenceEnvelope, ReferenceParser, ReferenceState


class StrictParser:
    """Reads one reply, or a whole conversation when ``reply_as`` is None."""

    def __init__(self, reply_as: Role | None, *, dialect: Dialect = "a", prefix: Message | None = None) -> None:
        self._machine = ReferenceParser(lambda id: b"", reply_as, dialect=dialect)
        self._header = HeaderBuffer()
        self._header.begin(HeaderStart.IN_PROMPT)
        self._open: Message | None = None
        self._streamed = 0
        self._ended: str | None = None
        self._events: list[ParserEvent] = []
        if prefix is not None:
            self._machine.open(envelope_of(prefix))
            self._start(prefix)

    @property
    def ended(self) -> str | None:
        """The control that ended the reply."""
        return self._ended

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        for piece in pieces:
            if isinstance(piece, Control):
                self._step(piece.spelling, piece, ENDS.get(piece, End.NONE))
            elif piece:
                self._step(repr(piece), utf8(piece), End.NONE)
        return self._take()

    def close(self) -> list[ParserEvent]:
        finished = len(self._machine.messages)
        self._machine.process_eos()
        self._note(finished, End.NONE)
        return self._take()

    def _step(self, token: str, piece: bytes | Control, end: End) -> None:
        before, finished = self._machine.state, len(self._machine.messages)
        self._machine.step(token, piece)
        if before is not ReferenceState.CONTENT:
            self._note_header(piece)
        if self._machine.delta:
            self._streamed += len(self._machine.delta)
            self._events.append(TextDelta(self._machine.delta))
        self._note(finished, end)
        if piece in (RETURN, CALL) and self._machine.state is ReferenceState.EXPECT_START:
            self._ended = self._ended or token

    def _note_header(self, piece: bytes | Control) -> None:
        if self._machine.state is ReferenceState.CONTENT:
            assert self._machine.envelope is not None
            message = message_of(self._machine.envelope)
            self._start(remembered(message, self._header.written(message.role)))
        elif piece == START:
            self._header.begin(HeaderStart.CONTROL)
        elif self._header.room < 0:
            return  # it is too long to be remembered
        elif isinstance(piece, Control):
            self._header.open_section(piece)
        else:
            self._header.add(str(piece, "utf-8"))

    def _start(self, message: Message) -> None:
        self._open = message
        self._events.append(MessageStarted(message))

    def _note(self, finished: int, end: End) -> None:
        for message in self._machine.messages[finished:]:
            assert self._open is not None
            if rest := message.text[self._streamed :]:
                self._events.append(TextDelta(rest))
            self._events.append(MessageEnded(replace(self._open, text=message.text, end=end)))
            self._streamed = 0

    def _take(self) -> list[ParserEvent]:
        events, self._events = self._events, []
        return events


def message_of(envelope: ReferenceEnvelope) -> Message:
    """The reference's header as a `Message`, but that a marked type which stands alone is no recipient."""
    recipient, content_type = envelope.recipient, envelope.content_type
    if recipient is not None and recipient.startswith(CONSTRAIN.spelling) and content_type is None:
        recipient, content_type = None, recipient
    constrained = content_type is not None and content_type.startswith(CONSTRAIN.spelling)
    header = Header(envelope.role, envelope.name, recipient, envelope.channel, content_type, constrained)
    if content_type is not None and constrained:
        header.content_type = content_type.removeprefix(CONSTRAIN.spelling)
    return header.message()
