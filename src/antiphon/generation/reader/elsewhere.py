"""Reads a reply that is sampled elsewhere as the turn of its request would read it: at once, or part by part.

Between two parts all that was read is left in a few bytes, however long the reply is: what the readers of its rest need
to stand where these stand. A text of which nothing depends any more is no part of them (`Rest`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from antiphon.conversation import Event, Incident, MessageEnded, MessageStarted, TextDelta, TurnEnded
from antiphon.engines import EngineEnd, Sampling, Step
from antiphon.errors import FormatError
from antiphon.formats.format import Rest
from antiphon.formats.other_calls.parser import LEAD
from antiphon.formats.replies.json_text import shortened
from antiphon.generation.model import Model
from antiphon.generation.plan import Draft
from antiphon.generation.request import TurnRequest
from antiphon.structs import ready
from antiphon.tokens import Piece, PieceDecoder, spell, well_formed

from .choice import ChoiceReader
from .confidence import REPEATED

MOST_PACKED, MOST_UNITS = 2**16, 4096
"""Bytes and parts of what is kept of a reply, unpacked: the next part waits until all of it is read again."""
_UNIT = re.compile(r"\s*[^\s<>\[\]|]{1,16}|\s+|.")
"""Parts of a text that are read one by one, as tokens are; a control that is spelled ends where a part does."""


class Plain(msgspec.Struct, frozen=True, array_like=True):
    """A text that stands for what came, and is text whatever it spells."""

    text: str


Unit = int | str | Plain
"""An id, a part of a text in which controls are spelled, or what stands for several."""


class KeptReply(msgspec.Struct, frozen=True, array_like=True):
    """A reply so far, as far as the rest of it depends on that. ``text``: it comes as text, not as ids.

    ``read`` counts its ids, or the characters of a text.
    """

    units: tuple[Unit, ...] = ()
    read: int = 0
    text: bool | None = None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[KeptReply] = msgspec.msgpack.Decoder(ready(KeptReply))


def pack_kept(kept: KeptReply) -> bytes | None:
    """The bytes of what is kept; None where that is too much."""
    raw = _ENCODER.encode(kept)
    return zlib.compress(raw, 9) if len(raw) <= MOST_PACKED and len(kept.units) <= MOST_UNITS else None


def unpack_kept(packed: bytes) -> KeptReply:
    """Raises `FormatError` for other bytes than `pack_kept` gives, and for too many."""
    unpacking = zlib.decompressobj()
    try:
        raw = unpacking.decompress(packed, MOST_PACKED)
        if not unpacking.eof:
            raise FormatError("what is kept of a reply is too long, or not whole")
        return _DECODER.decode(raw)
    except (zlib.error, msgspec.DecodeError) as error:
        raise FormatError("what is kept of a reply cannot be read") from error


def draft_elsewhere(model: Model, request: TurnRequest, prompt: Sequence[Piece], *, strict: bool = False) -> Draft:
    """The draft of a turn whose reply is sampled elsewhere; it has no ids, and cannot be run."""
    request = replace(request, return_token_ids=False)
    return Draft(model, request, tuple(prompt), (), Sampling(max_tokens=0), strict=strict)


class ReplyReading:
    """Reads one reply to ``draft``; with ``kept`` in parts, of which it goes on where another such reading stopped.

    ``replayed`` are the events of what was kept: they bring those who follow the events to where they were.
    """

    def __init__(self, draft: Draft, kept: KeptReply | None = None) -> None:
        self._reader = ChoiceReader(draft)
        self._tokenizer = draft.model.tokenizer
        self._units: list[Unit] = []
        self._places: list[_Place] = []
        """Places in the open message at which the readers were at rest."""
        self._said: list[str] = []
        """The text of the open message."""
        self._length = 0
        self._text = kept.text if kept else None
        self.over: TurnEnded | None = None
        """The end of the reply, once it is there."""
        self._count: int | None = None
        """Counts what was read of a reply that comes in parts; None: the parser's own places count."""
        self.replayed = [event for unit in (kept.units if kept else ()) for event in self._read(unit)]
        if kept is not None:
            self._count, self._reader.counts.completion = kept.read, 0 if kept.text else kept.read

    def read_ids(self, ids: Sequence[int]) -> list[Event]:
        """The events of more of the reply. Raises `FormatError` where it came as text so far."""
        return self._read_all(ids, text=False)

    def read_whole(self, ids: Sequence[int], end: EngineEnd) -> list[Event]:
        """The events of a whole reply: sooner than in parts, and nothing is kept of it."""
        counts = self._reader.counts
        events = self._reader.read(Step(tuple(ids)))
        behind = ids[counts.completion :]
        events += self._after_end(behind) if behind else self.end(end)
        self.over = next((event for event in events if isinstance(event, TurnEnded)), self.over)
        return self._of_reply(events)

    def read_text(self, text: str) -> list[Event]:
        """The same for a text in which controls are spelled. Raises `FormatError` where it came as ids."""
        return self._read_all([part.group() for part in _UNIT.finditer(well_formed(text))], text=True)

    def _read_all(self, units: Sequence[Unit], *, text: bool) -> list[Event]:
        if self._text not in (None, text):
            raise FormatError("a reply comes as ids or as text, and not as both")
        self._text = text
        events: list[Event] = []
        for i, unit in enumerate(units):
            if self.over is not None:
                return [*events, *self._after_end(units[i:])]
            events += self._placed(self._read(unit), unit)
        return events

    def _placed(self, events: list[Event], unit: Unit) -> list[Event]:
        """The events behind a unit; of a reply in parts, incidents are where it ends."""
        if self._count is None:
            return events
        self._count = place = self._count + (len(unit) if isinstance(unit, str) else 1)
        return [Incident(one.code, place, one.text) if isinstance(one, Incident) else one for one in events]

    def _after_end(self, units: Sequence[Unit]) -> list[Event]:
        return [Incident("after_end", self._reader.counts.completion, self._spelled(units))]

    def end(self, end: EngineEnd) -> list[Event]:
        """The events of the reply's end, which its sampler reports; none where it has ended."""
        return [] if self.over is not None else self._noted(self._reader.read(Step(end=end)))

    def keep(self) -> KeptReply:
        """Returns what a reading needs to go on from here."""
        self._leave_out(LEAD)
        return KeptReply(tuple(self._units), self._count or 0, self._text)

    def _read(self, unit: Unit) -> list[Event]:
        match unit:
            case int():
                events = self._reader.read(Step((unit,)))
            case str():
                events = self._reader.read(Step(text=unit))
            case Plain(text):
                events = self._reader.read_plain(text)
        self._units.append(unit)
        return self._noted(events)

    def _noted(self, events: Sequence[Event]) -> list[Event]:
        """The events but for one of the whole turn's; what is kept is what they leave to know."""
        for event in events:
            match event:
                case TextDelta(text):
                    self._said.append(text)
                    self._length += len(text)
                case MessageStarted() | Incident():
                    self._places.clear()
                    if isinstance(event, MessageStarted):
                        self._said, self._length = [], 0
                case MessageEnded():
                    self._leave_out(0)
                    self._places.clear()
                case TurnEnded():
                    self.over = event
        if (rest := self._reader.rest) is not None:
            self._places.append(_Place(rest, len(self._units), self._length))
        return self._of_reply(events)

    @staticmethod
    def _of_reply(events: Sequence[Event]) -> list[Event]:
        """The events without what is told of a whole turn: that a call was made before."""
        return [event for event in events if not (isinstance(event, Incident) and event.code == REPEATED)]

    def _leave_out(self, last: int) -> None:
        """Leaves out of what is kept all on which nothing depends, but for the ``last`` characters of the message."""
        if not self._places:
            return
        most, said = self._places[-1].length - last, "".join(self._said)
        units, at = list[Unit](), 0
        for first, behind in _pairs(self._places, most):
            units += self._units[at : first.units]
            if first.rest.json:
                units += self._shorter(said[: behind.length], first, behind)
            at = behind.units
        self._units, self._places = [*units, *self._units[at:]], []

    def _shorter(self, said: str, first: _Place, behind: _Place) -> Sequence[Unit]:
        """Replaces the units between two places of a JSON text by a shorter text, where they were just text."""
        between = self._units[first.units : behind.units]
        came = self._spelled(between)
        if came != said[first.length :]:
            return between
        text = shortened(said, first.length)[first.length :]
        return [Plain(text)] if text and len(text) < len(came) else between if text else ()

    def _spelled(self, units: Sequence[Unit]) -> str:
        """The text of units, controls spelled out."""
        decoder, pieces = PieceDecoder(self._tokenizer), list[Piece]()
        for unit in units:
            match unit:
                case int():
                    pieces += decoder.feed((unit,))
                case Plain(text) | (str() as text):
                    pieces += (*decoder.close(), text)
        return spell([*pieces, *decoder.close()])


class _Place(msgspec.Struct, frozen=True):
    """A place where the readers are at rest: behind so many units, and characters of the open message."""

    rest: Rest
    units: int
    length: int


def _pairs(places: Sequence[_Place], most: int) -> Iterator[tuple[_Place, _Place]]:
    """Yields equal places, each pair as far apart as can be; the second has at most ``most`` characters before it."""
    latest = {place.rest: i for i, place in enumerate(places) if place.length <= most}
    at = 0
    while at < len(places):
        behind = latest.get(places[at].rest, at)
        if behind > at:
            yield places[at], places[behind]
        at = max(at, behind) + 1
