"""Harmony as text and as the ids of gpt-oss's vocabulary: streaming both ways."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from antiphon.conversation import (
    Channel,
    Conversation,
    End,
    Incident,
    Intent,
    Loss,
    Message,
    MessageEnded,
    Role,
    Settings,
)
from antiphon.errors import ParseError, Position, RenderError
from antiphon.errors.codes import CODES
from antiphon.errors.place import Place
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import message_to_harmony, read_declaration
from antiphon.formats.openchatml.finding import Finding
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, Tokenizer, encode_pieces, spell, well_formed

from .form import Written, without_media

HARMONY = Harmony(names=True)
ENDS = {End.END: Control("<|end|>"), End.CALL: Control("<|call|>"), End.RETURN: Control("<|return|>")}
MESSAGE = Control("<|message|>")
LONGEST_ID = 10
"""Digits of an id, and of what an error repeats of one."""
SPELLED = re.compile("|".join(re.escape(control.spelling) for control in HARMONY.controls))


def _is_refused(pieces: Sequence[Piece]) -> bool:
    """Whether a strict reader refuses the header of a message that begins with these pieces."""
    header = pieces[: pieces.index(MESSAGE) + 1] if MESSAGE in pieces else pieces
    events = HARMONY.parser(reply_as=None).feed([*header, ENDS[End.END]])
    return any(isinstance(event, Incident) for event in events)


def as_harmony(message: Message) -> Message:
    """A message as Harmony means it: commentary to nobody is a preamble (A-H09), which Harmony's text does not mark."""
    announces = message.role is Role.ASSISTANT and message.channel == Channel.COMMENTARY and message.recipient is None
    return replace(message, intent=Intent.PREAMBLE) if announces and message.intent is None else message


class HarmonySource:
    """Reads Harmony's pieces, however they came; with a ``place``, those of a text, and errors have line and column."""

    def __init__(
        self, pieces: Callable[[bytes, bool], list[Piece]], *, lenient: bool, place: Place | None = None
    ) -> None:
        self._pieces = pieces
        self._place = place
        self._parser = HARMONY.parser(reply_as=None)
        self._lenient = lenient
        self._count = 0
        self.about = Conversation(verbatim=True)
        self.ready = False
        self.repairs: list[str] = []
        self.unread: list[Loss] = []

    def feed(self, chunk: bytes) -> list[Message]:
        return self._read(self._pieces(chunk, False))

    def close(self) -> list[Message]:
        return self._read(self._pieces(b"", True)) + self._messages(self._parser.close())

    def _read(self, pieces: list[Piece]) -> list[Message]:
        messages: list[Message] = []
        for piece in pieces:
            messages += self._messages(self._parser.feed((piece,)))
            if self._place is not None:
                self._place.pass_over(str(piece))
        return messages

    def _messages(self, events: Iterable[object]) -> list[Message]:
        messages: list[Message] = []
        for event in events:
            if isinstance(event, MessageEnded):
                messages.append(as_harmony(event.message))
            elif isinstance(event, Incident):
                self._repaired(event, self._count + len(messages))
        self._count += len(messages)
        self.ready = self.ready or bool(messages)
        return messages

    def _repaired(self, incident: Incident, number: int) -> None:
        problem = f"message {number}: {incident.code}" + (f", {incident.text[:60]!r}" if incident.text else "")
        at = self._place.position() if self._place is not None else None
        if not self._lenient:
            hint = "Convert with --lenient for the best reading."
            raise ParseError(problem, code=incident.code, position=at, hint=hint)
        self.repairs.append(f"{at}  {problem}" if at is not None else problem)


def text_pieces() -> Callable[[bytes, bool], list[Piece]]:
    """Reads UTF-8 cut anywhere; a line break at the very end is the file's, not the conversation's."""
    utf8 = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    scanner = ControlScanner(HARMONY.controls)
    buffered = ""

    def pieces(chunk: bytes, last: bool) -> list[Piece]:
        nonlocal buffered
        text = buffered + utf8.decode(chunk, last)
        buffered = "\n" if text.endswith("\n") else ""
        found = scanner.feed(text.removesuffix("\n"))
        return [*found, *scanner.close()] if last else found

    return pieces


def id_pieces(tokenizer: Tokenizer) -> Callable[[bytes, bool], list[Piece]]:
    """Reads decimal ids with blanks or commas between them, in brackets or not."""
    decoder, place = PieceDecoder(tokenizer), Place()
    buffered = b""

    def pieces(chunk: bytes, last: bool) -> list[Piece]:
        nonlocal buffered
        text = buffered + chunk
        buffered = b"" if last else text[len(text.rstrip(b"0123456789")) :]
        text = text[: len(text) - len(buffered)]
        if wrong := next(_no_ids(text, tokenizer.size), None):
            place.pass_over(text[: wrong.start()].decode("utf-8", "replace"))
            what = f"{wrong.group()[:LONGEST_ID]!r} is among the ids, and is none"
            raise ParseError(what, code="not_ids", position=place.position())
        place.pass_over(text.decode("ascii"))
        found = decoder.feed([int(id) for id in re.findall(rb"\d+", text)])
        return [*found, *decoder.close()] if last else found

    return pieces


def _no_ids(text: bytes, size: int) -> Iterator[re.Match[bytes]]:
    """Yields whatever is no id of a vocabulary of that size, in its order."""
    for found in re.finditer(rb"\d+|[^\d\s,\[\]]", text):
        id = found.group()
        if not id.isdigit() or len(id) > LONGEST_ID or int(id) >= size:
            yield found


class HarmonyTarget:
    """Writes Harmony's pieces; ``tokenizer`` None: as text, in which a text that spells a control is an error."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer
        self._parser = HARMONY.parser(reply_as=None)
        self._about = Conversation()
        self._lead: list[Message] | None = []
        self._channels: dict[str | None, str] = {}
        self._open: Message | None = None
        self._functions = False

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        """A developer's message has the tools, as far as types say what they are."""
        self._about = about
        if about.verbatim or "openchatml" in about.extra:
            return Written(), Conversation()
        parser = HARMONY.parser(reply_as=None)
        declared = [
            namespace
            for event in parser.feed(tuple(HARMONY.render(replace(about, messages=()), reply_as=None)))
            if isinstance(event, MessageEnded) and event.message.role is Role.DEVELOPER
            for namespace in read_declaration(event.message.text).namespaces
        ]
        return Written(), Conversation(tools=tuple(tool for namespace in declared for tool in namespace.tools))

    def write(self, message: Message) -> list[Written]:
        if self._lead is not None and message.role in (Role.SYSTEM, Role.DEVELOPER):
            self._lead.append(message)
            return []
        return [*self._begin(), *self._last(End.END), *self._frame(message)]

    def close(self, about: Conversation) -> list[Written]:
        return [*self._begin(), *self._last(End.NONE)]

    def _begin(self) -> Iterator[Written]:
        """The leading messages: as they are, or with tools and settings in them as Harmony renders those."""
        lead, self._lead = self._lead, None
        if lead is None:
            return
        about, own = self._about, self._about.verbatim or "openchatml" in self._about.extra
        if own or not (about.tools or about.builtins or about.response_format or about.settings != Settings()):
            for message in lead:
                yield from self._frame(message)
            return
        pieces = self._well_formed(
            HARMONY.render(replace(about, messages=tuple(map(without_media, lead))), reply_as=None)
        )
        yield Written(self._spelled(pieces), tuple(lead), tuple(self._read(pieces)))

    def _frame(self, message: Message) -> Iterator[Written]:
        if message.end is End.NONE:
            self._open = message
            return
        yield self._written(message, ENDS[message.end])

    def _last(self, end: End) -> Iterator[Written]:
        """A message without an end, which only the last one may be."""
        message, self._open = self._open, None
        if message is not None:
            yield self._written(message, ENDS.get(end))

    def _written(self, message: Message, end: Control | None) -> Written:
        shown = without_media(message)
        shown = shown if self._about.verbatim else message_to_harmony(shown, self._channels)
        self._functions = self._functions or any(getattr(part, "tools", None) for part in message.parts)
        pieces = self._opened(shown)
        pieces += [end] if end is not None else []
        read = self._read(pieces, last=end is None)
        return Written(self._spelled(pieces), (message,), tuple(read))

    def _opened(self, message: Message) -> list[Piece]:
        """The message up to its end, without what a header of Harmony's cannot have: a type, or a name."""
        pieces = self._well_formed(HARMONY.messages.opened(message, functions_offered=self._functions))
        if message.content_type is None and message.name is None:
            return pieces
        if message.content_type is not None and _is_refused(pieces):
            return self._opened(replace(message, content_type=None, constrained=False))
        if message.role is not Role.TOOL and message.name is not None and _is_refused(pieces):
            return self._opened(replace(message, name=None))
        return pieces

    def _well_formed(self, pieces: Iterable[Piece]) -> list[Piece]:
        """The pieces, with U+FFFD for what is no UTF-8 where ids are written; text carries such bytes as they are."""
        if self._tokenizer is None:
            return list(pieces)
        return [well_formed(piece) if isinstance(piece, str) else piece for piece in pieces]

    def _read(self, pieces: Sequence[Piece], *, last: bool = False) -> list[Message]:
        events = [*self._parser.feed(pieces), *(self._parser.close() if last else ())]
        for event in events:
            if isinstance(event, Incident):
                problem = f"Harmony has no header for this: {event.text[:60]!r}"
                raise RenderError(problem, code=event.code, hint="Convert with a sidecar, or to openchatml.")
        return [as_harmony(event.message) for event in events if isinstance(event, MessageEnded)]

    def _spelled(self, pieces: Sequence[Piece]) -> str:
        if self._tokenizer is not None:
            return " ".join(map(str, encode_pieces(pieces, self._tokenizer))) + "\n"
        for piece in pieces:
            if isinstance(piece, str) and (found := SPELLED.search(piece)):
                what = f"a text spells {found.group()}, which in Harmony's text would be the control"
                hint = "Convert to harmony-ids, where text and controls have ids of their own."
                raise RenderError(what, code="spelled_control", hint=hint)
        return spell(tuple(pieces))


# Harmony as text: what is wrong with it, and its canonical form.


def harmony_findings(chunks: Iterable[bytes]) -> Iterator[Finding]:
    """Everything in a text that a lenient reader of Harmony would have to repair, in its order."""
    pieces, place, parser = text_pieces(), Place(), HARMONY.parser(reply_as=None)
    for chunk, last in chain(((chunk, False) for chunk in chunks), [(b"", True)]):
        for piece in pieces(chunk, last):
            at = place.position()
            place.pass_over(str(piece))
            yield from (_finding(event, at) for event in parser.feed((piece,)) if isinstance(event, Incident))
    yield from (_finding(event, place.position()) for event in parser.close() if isinstance(event, Incident))


def _finding(incident: Incident, at: Position) -> Finding:
    row = CODES.get(incident.code)
    return Finding(incident.code, row.meaning.rstrip(".") if row else incident.code, at, text=incident.text)


def format_harmony(text: bytes) -> str:
    """A conversation in Harmony as our renderer writes it, and a line break.

    Raises `ParseError` for a text that has to be repaired.
    """
    source, messages = _read_strictly(text)
    target = HarmonyTarget()
    parts = [target.open(source.about)[0]]
    for message in messages:
        parts += target.write(replace(message, header=()))
    formatted = "".join(part.text for part in (*parts, *target.close(source.about))) + "\n"
    if _read_strictly(formatted.encode("utf-8", "surrogateescape"))[1] != messages:
        raise RenderError("the canonical form of this conversation does not read as the same messages")
    return formatted


def _read_strictly(text: bytes) -> tuple[HarmonySource, list[Message]]:
    source = HarmonySource(text_pieces(), lenient=False, place=Place())
    return source, [*source.feed(text), *source.close()]
