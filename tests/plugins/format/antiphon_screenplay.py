"""A format of another package: speakers in capitals, one turn a line, ended by a control where the model has it.

USER: Hi!<|im_end|>
ASSISTANT: Hello.<|im_end|>
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from antiphon.conversation import (
    Channel,
    Conversation,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    ResponseFormat,
    Role,
    TextDelta,
    ToolSpec,
)
from antiphon.errors import ParseError, Position, UnsupportedError
from antiphon.formats import Format, HistoryPolicy, SamplingDefaults
from antiphon.grammar import AnyText, Grammar, ReplyShape
from antiphon.tokens import Control, Piece

STOP = Control("<|im_end|>")
ANSWER = Message(role=Role.ASSISTANT, channel=Channel.FINAL)


class Screenplay:
    name = "screenplay"
    controls = (STOP,)
    stops = (STOP,)
    framed = False
    arguments = frozenset[str]()
    defaults = SamplingDefaults()

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        for message in conversation.messages:
            yield f"{message.role.upper()}: {message.text}"
            if message.end is End.NONE:
                return
            yield STOP
            yield "\n"
        if reply_as is not None:
            yield f"{reply_as.upper()}: "

    def parser(
        self,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        prompt: Sequence[Piece] = (),
        strict: bool = False,
        tools: Collection[ToolSpec | str] = (),
        response_format: ResponseFormat | None = None,
        calls: Collection[str] | None = None,
    ) -> Reader:
        return Reader(strict=strict)

    def grammar(self, shape: ReplyShape, *, prompt: Sequence[Piece] = ()) -> Grammar:
        if shape.callable:
            raise UnsupportedError("a screenplay has no tools", position=Position(path=shape.tools_param))
        return shape.answer() or AnyText()


class Reader:
    """Reads one reply: one message, until the stop."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._text: list[str] = []
        self._open = False
        self._position = 0
        self.ended: str | None = None

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        for piece in pieces:
            events += self._read(piece)
            self._position += len(piece) if isinstance(piece, str) else 1
        return events

    def close(self) -> list[ParserEvent]:
        return [] if self.ended else self._end(End.NONE)

    def _read(self, piece: Piece) -> list[ParserEvent]:
        if self.ended:
            return self._odd("after_end", piece)
        if piece == STOP:
            self.ended = STOP.spelling
            return self._end(End.END)
        if isinstance(piece, Control):
            return self._odd("unexpected_control", piece)
        self._text.append(piece)
        return [*self._begin(), TextDelta(piece)] if piece else []

    def _begin(self) -> list[ParserEvent]:
        begun, self._open = self._open, True
        return [] if begun else [MessageStarted(ANSWER)]

    def _end(self, end: End) -> list[ParserEvent]:
        return [*self._begin(), MessageEnded(replace(ANSWER, text="".join(self._text), end=end))]

    def _odd(self, code: str, piece: Piece) -> list[ParserEvent]:
        if self._strict:
            raise ParseError(f"{code}: {piece}", code=code, position=Position(offset=self._position))
        return [Incident(code, self._position, str(piece))]


def screenplay(controls: Collection[Control]) -> Format:
    """The format, for a vocabulary with these controls."""
    return Screenplay()
