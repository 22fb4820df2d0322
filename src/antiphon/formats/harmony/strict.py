"""Strict reading of pieces: the reference's messages as our events, and its errors as `ParseError`."""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.conversation import End, Message, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.tokens import Control, Piece, utf8

from .controls import CALL, CONSTRAIN, ENDS, RETURN
from .header import Header
from .reference import Envelope, ReferenceParser, State
from .render import Dialect


class StrictParser:
    """Reads one reply, or a whole conversation when ``reply_as`` is None."""

    def __init__(self, reply_as: Role | None, *, dialect: Dialect = "a", prefix: Message | None = None) -> None:
        self._machine = ReferenceParser(lambda id: b"", reply_as, dialect=dialect)
        self._said = 0
        self._ended: str | None = None
        self._events: list[ParserEvent] = []
        if prefix is not None:
            self._machine.open(Envelope(prefix.role, prefix.name, prefix.recipient, prefix.channel, _typed(prefix)))
            self._events.append(MessageStarted(prefix))

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
        if self._machine.state is State.CONTENT and before is not State.CONTENT:
            assert self._machine.envelope is not None
            self._events.append(MessageStarted(message_of(self._machine.envelope)))
        if self._machine.delta:
            self._said += len(self._machine.delta)
            self._events.append(TextDelta(self._machine.delta))
        self._note(finished, end)
        if piece in (RETURN, CALL) and self._machine.state is State.EXPECT_START:
            self._ended = self._ended or token

    def _note(self, finished: int, end: End) -> None:
        for message in self._machine.messages[finished:]:
            if held_back := message.text[self._said :]:
                self._events.append(TextDelta(held_back))
            self._events.append(MessageEnded(message_of(message.envelope, message.text, end)))
            self._said = 0

    def _take(self) -> list[ParserEvent]:
        events, self._events = self._events, []
        return events


def message_of(envelope: Envelope, text: str = "", end: End = End.END) -> Message:
    """The reference's header as a message of ours."""
    content_type = envelope.content_type
    constrained = content_type is not None and content_type.startswith(CONSTRAIN.spelling)
    header = Header(envelope.role, envelope.name, envelope.recipient, envelope.channel, content_type, constrained)
    if content_type is not None and constrained:
        header.content_type = content_type.removeprefix(CONSTRAIN.spelling)
    return header.message(text, end)


def _typed(message: Message) -> str | None:
    mark = CONSTRAIN.spelling if message.constrained else ""
    return None if message.content_type is None else mark + message.content_type
