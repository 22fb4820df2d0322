"""Sampled ids and texts → pieces, and which ids a finished text was sampled as."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec.structs import replace as replace_fields

from antiphon.conversation import (
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    TextDelta,
    TokenLogprob,
    visible_to_user,
)
from antiphon.formats import Format
from antiphon.generation.model import stop_ids
from antiphon.generation.plan import Draft
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, SampledText, Tokenizer, utf8

# The ids that end a reply and are none of the format's own words.


def requested_ends(plan: Draft) -> frozenset[int]:
    """The request's own stop ids, without those that end a reply in any case."""
    request = plan.request
    if request.ignore_eos or not request.stop_token_ids:
        return request.stop_token_ids
    return request.stop_token_ids - stop_ids(plan.format, plan.model.tokenizer) - plan.model.engine.info.end_ids


def foreign_ends(plan: Draft) -> frozenset[int]:
    """The model's end tokens that the format does not know: they end the reply and are no part of it.

    ``ignore_eos``: the format's own ends too, which then end nothing.
    """
    tokenizer, format = plan.model.tokenizer, plan.format
    if plan.request.ignore_eos:
        return plan.model.engine.info.end_ids | stop_ids(format, tokenizer)
    ends = plan.model.engine.info.end_ids
    return frozenset(id for id in ends if not _knows(format, tokenizer, id))


def _knows(format: Format, tokenizer: Tokenizer, id: int) -> bool:
    """Whether the id is one of the format's own words."""
    end = tokenizer.piece(id)
    if not isinstance(end, Control) or tokenizer.control_id(end) != id:
        return False
    return end in format.controls or end in format.stops


# A caller's stop strings, found in the decoded text of the answer.


class StopStrings:
    """Ends the answer at the first stop string: never half streamed, never leaked, nothing after it.

    Only text that a user may see is searched: reasoning and tool arguments are not the answer. A tail that may still
    become a stop string is buffered; it is never longer than the longest stop.
    """

    def __init__(self, stops: Iterable[str], *, included: bool = False) -> None:
        """``included``: the answer has the string that ends it."""
        self._included = included
        self._stops = tuple(Control(stop) for stop in stops)
        self._scanner: ControlScanner | None = None
        self._open: Message | None = None
        self._text: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self.matched: str | None = None

    @property
    def at_rest(self) -> bool:
        """Whether no text waits to become a stop string."""
        return self._scanner is None or not self._scanner.buffered

    def filter(self, events: Iterable[ParserEvent]) -> list[ParserEvent]:
        """The events as they may go on; after a match, the open message's end and no more."""
        if not self._stops:
            return list(events)
        passed: list[ParserEvent] = []
        for event in events:
            if self.matched is not None:
                break
            passed += self._one(event)
        return passed

    def _one(self, event: ParserEvent) -> list[ParserEvent]:
        match event:
            case MessageStarted(message):
                self._open = message
                self._text = []
                self._scanner = ControlScanner(self._stops) if visible_to_user(message) else None
                return [event]
            case TextDelta(text, logprobs) if self._scanner is not None:
                self._logprobs += logprobs
                return self._scan(self._scanner.feed(text))
            case MessageEnded(message) if self._scanner is not None:
                last = self._scan(self._scanner.close())
                self._scanner = None
                return last if self.matched is not None else [*last, event]
            case TextDelta() | MessageEnded() | Incident():
                return [event]

    def _scan(self, pieces: Sequence[Piece]) -> list[ParserEvent]:
        passed: list[ParserEvent] = []
        stop = next((i for i, piece in enumerate(pieces) if isinstance(piece, Control)), len(pieces))
        texts = [piece.spelling if isinstance(piece, Control) else piece for piece in pieces]
        shown = stop + 1 if self._included else stop
        if stop < len(pieces):
            self.matched = texts[stop]
            # The log probabilities of tokens whose text is not passed on go with it.
            left = len(("".join(texts[shown:]) + (self._scanner.buffered if self._scanner else "")).encode())
            while self._logprobs and 0 < len(self._logprobs[-1].data) <= left:
                left -= len(self._logprobs.pop().data)
        for text in texts[:shown]:
            self._text.append(text)
            passed.append(TextDelta(text, tuple(self._logprobs)))
            self._logprobs = []
        if self.matched is not None:
            assert self._open is not None
            passed.append(MessageEnded(replace(self._open, text="".join(self._text), end=End.END)))
        return passed


# Which text a log probability belongs to.


def spelled(one: TokenLogprob, tokenizer: Tokenizer) -> TokenLogprob:
    """The same with the spelling of a control, of which engines report no bytes."""
    piece = tokenizer.piece(one.id)
    top = tuple(spelled(other, tokenizer) for other in one.top)
    return replace_fields(one, data=piece.spelling.encode() if isinstance(piece, Control) else one.data, top=top)


class PendingLogprobs:
    """Log probabilities on their way to the text that their tokens become."""

    def __init__(self) -> None:
        self.waiting: list[TokenLogprob] = []

    def add(self, logprob: TokenLogprob, *, control: bool) -> None:
        """A control becomes no text, nor do the tokens that waited before it."""
        if control:
            self.clear()
        else:
            self.waiting.append(logprob)

    def take(self) -> tuple[TokenLogprob, ...]:
        taken, self.waiting = tuple(self.waiting), []
        return taken

    def clear(self) -> None:
        self.waiting = []


class IdReader:
    """Decodes what an engine samples. An engine without ids gives texts, in which controls are found by spelling."""

    def __init__(self, tokenizer: Tokenizer, format: Format) -> None:
        self._tokenizer = tokenizer
        self._decoder = PieceDecoder(tokenizer)
        self._controls = format.controls
        self._scanner: ControlScanner | None = None
        self._run: list[int] = []
        self._before: deque[tuple[int, ...]] = deque(maxlen=2)  # a header that a message remembers has two controls

    def feed(self, id: int) -> list[Piece]:
        """The pieces that are whole now; none while a character waits for its other bytes."""
        pieces = self._decoder.feed((id,))
        if not (pieces and isinstance(pieces[-1], Control)):
            self._run.append(id)
        return pieces

    def texts(self, ids: Sequence[int]) -> list[str | None]:
        """The text of each id by itself; None for one that has none, or only a part of a character."""
        return [_text(piece) for piece in map(self._tokenizer.piece, ids)]

    @property
    def buffering(self) -> bool:
        """Whether half a character waits for the rest of it."""
        return self._decoder.buffering

    @property
    def at_rest(self) -> bool:
        """Whether nothing waits for more: neither half a character nor the beginning of a control."""
        return not (self.buffering or (self._scanner is not None and self._scanner.buffered))

    def skip(self, ids: Sequence[int]) -> None:
        """Ids whose texts go on without being decoded here."""
        self._run += ids

    def feed_text(self, text: str) -> list[Piece]:
        if self._scanner is None:
            self._scanner = ControlScanner(self._controls)
        return self._scanner.feed(text)

    def drop_tail(self) -> str:
        """Text that waits to become a control, for a reply that was cut in it: it is none then, and no text."""
        if self._scanner is None:
            return ""
        tail, self._scanner.buffered = self._scanner.buffered, ""
        return tail

    def close(self) -> list[Piece]:
        """Flushes the buffer."""
        return [*(self._scanner.close() if self._scanner is not None else ()), *self._decoder.close()]

    def forget(self) -> None:
        """A control was read: the next text begins with the next id."""
        self._before.append(tuple(self._run))
        self._run = []

    def header_as_sampled(self, header: tuple[str, ...], role: str) -> tuple[str, ...]:
        """The header that was just read (`Message.header`), with the ids of its texts; the prompt may have its role."""
        texts = header[::2]
        runs = [*self._before, tuple(self._run)][-len(texts) :]
        if not header or len(runs) < len(texts):
            return header
        prompted = (role, *[""] * (len(texts) - 1))
        sampled = map(self._sampled, texts, runs, prompted)
        return tuple(piece if i % 2 else next(sampled) for i, piece in enumerate(header))

    def as_sampled(self, text: str) -> str:
        """The text with the ids that were sampled since the last control, where they decode to just this text.

        A text that was cut or repaired is another text than theirs, and is encoded anew in the next prompt.
        """
        run, self._run = tuple(self._run), []
        return self._sampled(text, run)

    def _sampled(self, text: str, run: tuple[int, ...], prompted: str = "") -> str:
        """The text with its ids where they are these; ``prompted`` may stand before them."""
        if not text:
            return text
        data = b"".join([piece for piece in map(self._tokenizer.piece, run) if isinstance(piece, bytes)])
        if data == utf8(text):
            return SampledText(text, run, self._tokenizer.name)
        if data and prompted and utf8(prompted) + data == utf8(text):
            return SampledText(text, (*self._tokenizer.encode(prompted), *run), self._tokenizer.name)
        return text

    def is_control(self, id: int) -> bool:
        return isinstance(self._tokenizer.piece(id), Control)


def _text(piece: bytes | Control) -> str | None:
    if isinstance(piece, Control):
        return None
    try:
        return piece.decode() or None
    except UnicodeDecodeError:
        return None
