"""Reading Harmony from ids: token by token, or a finished completion at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import msgspec

from antiphon.conversation import (
    Channel,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    Role,
    TextDelta,
)
from antiphon.tokens import Control, PieceDecoder, Tokenizer

from .controls import ENDS
from .parser import HarmonyParser


class TokenDeltas(dict[int, TextDelta | None]):
    """The event of each id that is complete characters, None for the others; filled as ids are met.

    All parsers of a vocabulary can share one table.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    def __missing__(self, id: int) -> TextDelta | None:
        piece = self.tokenizer.piece(id)
        delta = None if isinstance(piece, Control) else _delta(piece)
        if 0 <= id < self.tokenizer.size:
            self[id] = delta
        return delta


def _delta(data: bytes) -> TextDelta | None:
    try:
        return TextDelta(data.decode()) if data else None
    except UnicodeDecodeError:
        return None


class StreamParser:
    """Reads one reply from the ids that an engine samples. Never raises on what a model writes.

    After each `feed`: ``role``, ``channel``, ``recipient`` and ``content_type`` of the open message (None between
    messages), ``delta`` (the text that the last ids completed, else None), ``messages`` (the finished ones),
    ``incidents``, ``content``. Reading any of them takes constant time, however long the reply is.
    """

    def __init__(
        self, tokenizer: Tokenizer | TokenDeltas, role: Role | None = Role.ASSISTANT, *, tools: Collection[str] = ()
    ) -> None:
        self._deltas = tokenizer if isinstance(tokenizer, TokenDeltas) else TokenDeltas(tokenizer)
        self._decoder = PieceDecoder(self._deltas.tokenizer)
        self._reader = HarmonyParser(role, tools=tools)
        self._parts: list[str] = []
        self._passed = 0
        self._joined = 0
        self._content = ""
        self._in_content = False
        self.role: Role | None = None
        self.channel: str | None = None
        self.recipient: str | None = None
        self.content_type: str | None = None
        self.delta: str | None = None
        self.messages: list[Message] = []
        self.incidents: list[Incident] = []

    @property
    def ended(self) -> str | None:
        """The control that ended the reply (``<|return|>``, ``<|call|>``)."""
        return self._reader.ended

    @property
    def content(self) -> str:
        """The text of the open message so far, "" between messages."""
        if self._joined < len(self._parts):
            # A str with a single reference grows in place, so that reading after every token stays O(1).
            text, self._content = self._content, ""
            text += "".join(self._parts[self._joined :])
            self._content = text
            self._joined = len(self._parts)
        return self._content

    def feed(self, ids: int | Sequence[int]) -> list[ParserEvent]:
        """Read one id, or as many as the engine gave at once, and return their events."""
        if not isinstance(ids, int):
            return self._read(ids)
        delta = self._deltas[ids]
        if delta is None or not self._in_content:
            return self._read((ids,))
        # Most ids are text of the open message: the parser gets it with the next id that is not.
        self.delta = text = delta.text
        self._parts.append(text)
        return [delta]

    def close(self) -> list[ParserEvent]:
        """The reply is over."""
        self._pass_text()
        return self._note([*self._reader.feed(self._decoder.close()), *self._reader.close()])

    def _read(self, ids: Sequence[int]) -> list[ParserEvent]:
        self._pass_text()
        return self._note(read_ids(ids, self._deltas.tokenizer.size, self._decoder, self._reader))

    def _pass_text(self) -> None:
        if self._passed < len(self._parts):
            self._reader.add_content("".join(self._parts[self._passed :]))

    def _note(self, events: list[ParserEvent]) -> list[ParserEvent]:
        texts = []
        for event in events:
            match event:
                case TextDelta(text):
                    texts.append(text)
                    self._parts.append(text)
                case MessageStarted(message):
                    self._open(message)
                case MessageEnded(message):
                    self.messages.append(message)
                    self._open(None)
                case Incident():
                    self.incidents.append(event)
        self.delta = "".join(texts) or None
        self._passed = len(self._parts)
        self._in_content = self._reader.in_content and not self._decoder.buffering
        return events

    def _open(self, message: Message | None) -> None:
        self._parts, self._joined, self._content = [], 0, ""
        self.role = message.role if message else None
        self.channel = message.channel if message else None
        self.recipient = message.recipient if message else None
        self.content_type = message.content_type if message else None


class Completion(msgspec.Struct, frozen=True):
    """A finished reply."""

    messages: tuple[Message, ...]
    incidents: tuple[Incident, ...]


def parse_completion(
    ids: Sequence[int],
    tokenizer: Tokenizer,
    *,
    role: Role | None = Role.ASSISTANT,
    tools: Collection[str] = (),
    stop: Control | None = None,
) -> Completion:
    """A finished completion, with its stop token or without it (HAR-21).

    Without it, ``stop`` says which it was; else the last message decides (A-H10): a call ended with ``<|call|>``, a
    final answer with ``<|return|>``, and anything else was cut off.
    """
    decoder = PieceDecoder(tokenizer)
    reader = HarmonyParser(role, tools=tools)
    events = read_ids(ids, tokenizer.size, decoder, reader)
    events += [*reader.feed(decoder.close()), *reader.close()]
    messages = [event.message for event in events if isinstance(event, MessageEnded)]
    if messages and messages[-1].end is End.NONE:
        messages[-1] = replace(messages[-1], end=ENDS[stop] if stop is not None else _assumed_end(messages[-1]))
    return Completion(tuple(messages), tuple(event for event in events if isinstance(event, Incident)))


def read_ids(ids: Sequence[int], size: int, decoder: PieceDecoder, reader: HarmonyParser) -> list[ParserEvent]:
    """The events of the ids; an id outside the vocabulary has no text and is an incident (F-14).

    Raises `TypeError` for text, which has no ids yet.
    """
    if isinstance(ids, str | bytes):
        raise TypeError('token ids are expected, not text; for text use antiphon.parse(text, "harmony")')
    if not ids or (min(ids) >= 0 and max(ids) < size):
        return reader.feed(decoder.feed(ids))
    events: list[ParserEvent] = []
    for id in ids:
        known = 0 <= id < size
        events += reader.feed(decoder.feed((id,))) if known else [Incident("unknown-id", reader.position, str(id))]
    return events


def _assumed_end(message: Message) -> End:
    if message.is_call:
        return End.CALL
    return End.RETURN if message.channel == Channel.FINAL else End.NONE
