"""No format: the prompt is the text as it is, the reply is the text that comes.

For completions of raw prompts, and for models that embed: their ``begin`` and ``end`` frame each text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

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
from antiphon.tokens import Control, Piece

from .format import HistoryPolicy, Rest, RestingParser, SamplingDefaults

if TYPE_CHECKING:
    from antiphon.grammar import Grammar, ReplyShape

_ANSWER = Message(role=Role.ASSISTANT, channel=Channel.FINAL)


class RawFormat:
    """Texts without roles. Control spellings in a prompt stay text; `SampledText` brings the caller's own ids.

    ``stops`` end a reply. Other controls are no text and are left out, or with ``spelled`` written by their spelling.
    """

    name = "raw"
    framed = False
    arguments: frozenset[str] = frozenset()
    defaults: SamplingDefaults = SamplingDefaults()

    def __init__(
        self,
        controls: Collection[Control] = (),
        *,
        begin: Sequence[Control] = (),
        end: Sequence[Piece] = (),
        stops: Sequence[Control] = (),
        spelled: bool = False,
    ) -> None:
        self.controls = controls
        self.begin: tuple[Control, ...] = tuple(begin)
        self.end: tuple[Piece, ...] = tuple(end)
        self.stops: tuple[Control, ...] = tuple(stops)
        self._spelled = spelled

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        yield from self.begin
        for message in conversation.messages:
            yield message.text
        yield from self.end

    def parser(
        self,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        prompt: Sequence[Piece] = (),
        strict: bool = False,
        tools: Collection[ToolSpec | str] = (),
        response_format: ResponseFormat | None = None,
        calls: Collection[str] | None = None,
    ) -> RawParser:
        return RawParser(self.stops, spelled=self._spelled, strict=strict)

    def grammar(self, shape: ReplyShape, *, prompt: Sequence[Piece] = ()) -> Grammar:
        from antiphon.grammar import AnyText, EndOfTurn, chain  # rendering and parsing need not wait for it

        if shape.callable:
            raise UnsupportedError("a raw prompt cannot offer tools", position=Position(path=shape.tools_param))
        answer = shape.answer()
        return AnyText() if answer is None else chain(answer, EndOfTurn())


class FillInMiddle(msgspec.Struct, frozen=True):
    """How a model was trained to write what stands between two texts: prefix, suffix, then the middle.

    ``ends`` end the middle too: the marks again, and those of a file's end. ``repository`` and ``file`` begin the names
    of the repository, and of each file in it, where the model was trained on whole ones.
    """

    prefix: Control
    suffix: Control
    middle: Control
    ends: tuple[Control, ...] = ()
    repository: Control | None = None
    file: Control | None = None


class InfillFormat(RawFormat):
    """The reply is what stands before ``suffix`` and after the last message; those before it are other files."""

    def __init__(self, marks: FillInMiddle, suffix: str, raw: RawFormat) -> None:
        """``raw`` is the format of a prompt of the same model that is a text alone."""
        ends = dict.fromkeys([*raw.stops, marks.prefix, marks.suffix, marks.middle, *marks.ends])
        super().__init__(raw.controls, begin=raw.begin, end=(marks.suffix, suffix, marks.middle), stops=tuple(ends))
        self._marks = marks

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        *files, prefix = conversation.messages
        marks = self._marks
        yield from self.begin
        if files and marks.repository is not None:
            yield marks.repository
            yield "repository\n"
        for file in files:
            yield from _named(file.name or "file", marks.file)
            yield file.text
        if files and marks.file is not None:
            yield from _named("file", marks.file)
        yield marks.prefix
        yield prefix.text
        yield from self.end


def _named(file: str, mark: Control | None) -> tuple[Piece, ...]:
    return (f"\n\n--- {file} ---\n\n",) if mark is None else (mark, f"{file}\n")


class RawParser(RestingParser):
    """Reads a reply as a single final message with all the text."""

    def __init__(self, stops: Collection[Control], *, spelled: bool = False, strict: bool = False) -> None:
        self._stops = frozenset(stops)
        self._spelled = spelled
        self._strict = strict
        self._text: list[str] = []
        self._begun = self._over = False
        self._position = 0
        self.ended: str | None = None

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        for piece in pieces:
            events += self._read(piece)
            self._position += len(piece) if isinstance(piece, str) else 1
        return events

    @property
    def rest(self) -> Rest | None:
        return Rest() if self._begun and not self._over else None

    def close(self) -> list[ParserEvent]:
        return [] if self._over else self._finish(End.NONE)

    def _read(self, piece: Piece) -> list[ParserEvent]:
        if self.ended is not None:
            return self._set_aside("after_end", str(piece))
        if isinstance(piece, str):
            return self._add(piece)
        if piece in self._stops:
            self.ended = piece.spelling
            return self._finish(End.END)
        return self._add(piece.spelling) if self._spelled else self._set_aside("unexpected_control", piece.spelling)

    def _add(self, text: str) -> list[ParserEvent]:
        if not text:
            return []
        self._text.append(text)
        return [*self._begin(), TextDelta(text)]

    def _begin(self) -> list[ParserEvent]:
        begun, self._begun = self._begun, True
        return [] if begun else [MessageStarted(_ANSWER)]

    def _finish(self, end: End) -> list[ParserEvent]:
        self._over = True
        return [*self._begin(), MessageEnded(replace(_ANSWER, text="".join(self._text), end=end))]

    def _set_aside(self, code: str, text: str) -> list[ParserEvent]:
        if self._strict:
            where = Position(offset=self._position)
            raise ParseError(f"{code.replace('_', ' ')}: {text[:80]!r}", code=code, position=where)
        return [Incident(code, self._position, text)]
