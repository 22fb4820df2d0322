"""From one form to another: part by part, with what is lost on the way."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice

from antiphon.conversation import Conversation, Loss, Message, Role
from antiphon.errors import AntiphonError, NotFoundError, ParseError, RenderError, near
from antiphon.errors.place import Place
from antiphon.formats import Format, HistoryPolicy
from antiphon.formats.format import strictly
from antiphon.tokens import o200k_harmony, spell, well_formed

from .detect import ENOUGH, HarmonyJsonReader, HarmonyJsonTarget, JsonReader, JsonSource, ShareGptReader, Survey, detect
from .form import Source, Target, Written, without_media
from .harmony import HarmonySource, HarmonyTarget, id_pieces, text_pieces
from .sidecar import Sidecar, SidecarWriter, about_losses, message_losses
from .transcripts import TranscriptSource, TranscriptTarget

# Chat templates: one way, because their texts have no escapes.

ROLES = {Role.SYSTEM: Role.SYSTEM, Role.DEVELOPER: Role.SYSTEM, Role.USER: Role.USER,
         Role.ASSISTANT: Role.ASSISTANT, Role.TOOL: Role.USER}  # fmt: skip


class TemplateTarget:
    """Writes what a template makes of the whole conversation. Of a message only role and text survive."""

    def __init__(self, format: Format) -> None:
        self._format = format
        self._about = Conversation()
        self._messages: list[Message] = []

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        self._about = about
        return Written(), Conversation()

    def write(self, message: Message) -> list[Written]:
        self._messages.append(message)
        return []

    def close(self, about: Conversation) -> list[Written]:
        whole = replace(self._about, messages=tuple(map(without_media, self._messages)))
        text = spell(list(strictly(self._format.render(whole, reply_as=None, history=HistoryPolicy.KEEP_ALL))))
        parts = []
        for i, message in enumerate(self._messages):  # a reader gets role and text, or nothing where that is left out
            read = Message(role=ROLES[message.role], text=message.text, channel=None)
            there = (read,) if message.text in text else ()
            parts.append(Written("", (message,), there, self._spelled(i, message)))
        return [*parts, Written(text)]

    def _spelled(self, number: int, message: Message) -> tuple[Loss, ...]:
        """A text that spells a marker is the marker for whoever reads the template's text."""
        marks = dict.fromkeys(str(mark) for mark in (*self._format.controls, *self._format.stops))
        return tuple(
            Loss(f"messages[{number}].text", repr(mark), f"a marker of {self._format.name}")
            for mark in marks
            if mark in message.text
        )


def _chat() -> Target:
    # The wire's schemas take long to import; the other forms do without them.
    from .chat import ChatTarget

    return ChatTarget()


def _responses() -> Target:
    from .responses import ResponsesTarget

    return ResponsesTarget()


def _chat_reader(survey: Survey) -> JsonReader:
    from .chat import ChatReader

    return ChatReader(survey)


def _responses_reader(survey: Survey) -> JsonReader:
    from .responses import ResponsesReader

    return ResponsesReader(survey)


TARGETS: dict[str, Callable[[], Target]] = {
    "openchatml": TranscriptTarget,
    "harmony": HarmonyTarget,
    "harmony-ids": lambda: HarmonyTarget(o200k_harmony()),
    "harmony-json": HarmonyJsonTarget,
    "chat": _chat,
    "responses": _responses,
}
"""The forms that are written, by their names: what makes a writer of each."""
JSON: dict[str, Callable[[Survey], JsonReader]] = {
    "harmony-json": HarmonyJsonReader,
    "chat": _chat_reader,
    "responses": _responses_reader,
    "sharegpt": ShareGptReader,
}
SOURCES = ("openchatml", "harmony", "harmony-ids", *JSON)
"""The names of the forms that are read."""


def target_named(name: str) -> Target:
    """Raises `NotFoundError` with near names."""
    if name in TARGETS:
        return TARGETS[name]()
    from antiphon.catalog.known_formats import KNOWN_CONTROLS, known_formats  # all templates take long to import

    formats = known_formats()
    if name in formats.names:
        return TemplateTarget(formats.get(name, KNOWN_CONTROLS))
    if name in JSON:
        hint = "chat is the form that data sets have it in."
        raise NotFoundError(f"the form {name} is read, not written", code="format_not_found", hint=hint)
    openai = "OpenAI's chat requests are the form chat, its Responses the form responses."
    hint = openai if name == "openai" else near(name, [*TARGETS, *formats.names])
    raise NotFoundError(f"unknown form {name!r}", code="format_not_found", hint=hint)


def source_named(name: str, *, lenient: bool = False) -> Source:
    """A reader; ``json`` finds out which JSON it is. Raises `NotFoundError`."""
    match name:
        case "openchatml":
            return TranscriptSource(lenient=lenient)
        case "harmony":
            return HarmonySource(text_pieces(), lenient=lenient, place=Place())
        case "harmony-ids":
            return HarmonySource(id_pieces(o200k_harmony()), lenient=lenient)
        case "json":
            return JsonSource(lambda survey: JSON[survey.form](survey))
        case _ if name in JSON:
            return JsonSource(JSON[name])
    from antiphon.catalog.known_formats import known_formats  # all templates take long to import

    hint = "A chat template is one way." if name in known_formats().names else near(name, SOURCES)
    raise NotFoundError(f"{name!r} cannot be read back", code="format_not_found", hint=hint)


@dataclass(slots=True)
class Conversion:
    """One conversion. `run` gives the output part by part, and the other fields fill meanwhile.

    ``input_sidecar`` belongs to the input, and is ignored, with a warning, when the input changed since; with it the
    input is read whole before anything is written. ``sidecar_writer`` gathers a sidecar for the output. ``on_loss`` is
    called with each loss as it is found, ``on_warning`` with each repair. ``unread`` of the losses are of what no field
    took of the input, which no sidecar has either.
    """

    to: str
    source: str | None = None
    lenient: bool = False
    input_sidecar: Sidecar | None = None
    on_loss: Callable[[Loss], None] = lambda loss: None
    on_warning: Callable[[str], None] = lambda warning: None
    sidecar_writer: SidecarWriter | None = None
    losses: int = 0
    unread: int = 0
    about: Conversation = field(default_factory=Conversation)
    _number: int = 0
    _begun: bool = False

    def run(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Raises `FormatError` for an input that cannot be read, or that the other form cannot write."""
        target = target_named(self.to)
        if self.input_sidecar is not None:
            yield from self._restored(self.input_sidecar, list(chunks), target)
            return
        chunks = iter(chunks)
        source, begun = self._source(chunks, lenient=self.lenient)
        for chunk in chain(begun, chunks):
            yield from self._write(target, source.feed(chunk), source)
        yield from self._write(target, source.close(), source, last=True)
        self._report(source)

    def sidecar(self) -> Sidecar | None:
        """The sidecar of all that is not in the output, once `run` is over; None without a ``sidecar_writer``."""
        return self.sidecar_writer.sidecar(self.about) if self.sidecar_writer else None

    def _source(self, chunks: Iterator[bytes], *, lenient: bool) -> tuple[Source, list[bytes]]:
        if self.source is not None:
            return source_named(self.source, lenient=lenient), []
        begun: list[bytes] = []
        while sum(map(len, begun)) < ENOUGH and (chunk := next(chunks, b"")):
            begun.append(chunk)
        return source_named(detect(b"".join(begun)), lenient=lenient), begun

    def _restored(self, sidecar: Sidecar, chunks: list[bytes], target: Target) -> Iterator[bytes]:
        """Yields the output with the sidecar's part of an input in its place: nothing is to be repaired in that."""
        belongs = sidecar.digest == f"sha256:{hashlib.sha256(b''.join(chunks)).hexdigest()}"
        source, _ = self._source(iter(chunks), lenient=self.lenient or belongs)
        messages = [message for chunk in chunks for message in source.feed(chunk)]
        messages += source.close()
        about = source.about
        if belongs:
            messages, about = sidecar.restored(messages), sidecar.conversation
            source.repairs.clear()
        else:
            self.on_warning("the sidecar belongs to another file and is ignored")
        yield from self._open(target, about)
        yield from self._all(target, messages, source)
        yield from self._emit(target.close(about))
        self._report(source)

    def _write(
        self, target: Target, messages: Iterable[Message], source: Source, *, last: bool = False
    ) -> Iterator[bytes]:
        self._report(source)
        if not self._begun and (last or source.ready):
            yield from self._open(target, source.about)
        yield from self._all(target, messages, source)
        if last:
            self.about = source.about
            yield from self._emit(target.close(source.about))

    def _open(self, target: Target, about: Conversation) -> Iterator[bytes]:
        self._begun, self.about = True, about
        written, read = target.open(about)
        for loss in about_losses(about, read):
            self._lose(loss)
        yield from self._emit([written])

    def _all(self, target: Target, messages: Iterable[Message], source: Source) -> Iterator[bytes]:
        for message in messages:
            self._report(source)
            try:
                yield from self._emit(target.write(message))
            except (RenderError, ParseError) as error:
                raise RenderError(
                    f"message {self._number}: {error.message}", code=error.code, position=None, hint=error.hint
                ) from None

    def _emit(self, written: Iterable[Written]) -> Iterator[bytes]:
        for part in written:
            expected = part.messages if part.expected is None else part.expected
            for loss in (*message_losses(self._number, expected, part.read), *part.ambiguous):
                self._lose(loss)
            self._number += len(part.messages)
            try:
                output = part.text.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError as error:
                raise RenderError(f"a lone surrogate at character {error.start} stands for no byte") from None
            if self.sidecar_writer is not None:
                self.sidecar_writer.wrote(output, part.messages, part.read)
            if output:
                yield output

    def _lose(self, loss: Loss) -> None:
        self.losses += 1
        self.on_loss(loss)

    def _report(self, source: Source) -> None:
        for repair in source.repairs:
            self.on_warning(repair)
        source.repairs.clear()
        for loss in source.unread:
            self.unread += 1
            self._lose(loss)
        source.unread.clear()


# Data sets: a conversation a line, in and out.

WRAPPED = re.compile(rb'\s*\{\s*"(text|ids)"\s*:')
"""The beginning of a line that has a form that is no JSON, as a text or as ids."""


@dataclass(slots=True)
class LineConversions:
    """Conversions of lines of JSON, each of which is a conversation. One line is in memory at once.

    A form that is no JSON is written as ``{"text": …}``, or ``{"ids": […]}``, and read so. At most ``limit`` lines are
    read that are not blank. Losses, warnings and errors come with the number of their line; a line that has an error
    has no output.
    """

    to: str
    source: str | None = None
    lenient: bool = False
    limit: int | None = None
    on_loss: Callable[[int, Loss], None] = lambda line, loss: None
    on_warning: Callable[[int, str], None] = lambda line, warning: None
    on_error: Callable[[int, AntiphonError], None] = lambda line, error: None
    read: int = 0
    failed: int = 0

    def run(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yields the lines of the output. Raises `NotFoundError` for a form that is not known."""
        target_named(self.to)
        if self.source is not None:
            source_named(self.source)
        for number, line in islice(numbered_lines(chunks), self.limit):
            self.read += 1
            losses, warn = list[Loss](), partial(self.on_warning, number)
            conversion = Conversion(self.to, self.source, self.lenient, on_loss=losses.append, on_warning=warn)
            try:
                output = as_line(self.to, b"".join(conversion.run([unwrapped(line)])))
            except AntiphonError as error:
                self.failed += 1
                self.on_error(number, error)
                continue
            for loss in losses:
                self.on_loss(number, loss)
            yield output


def numbered_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of a text that came in parts, each with its number from 1; blank ones are left out."""
    number, begun = 1, list[bytes]()
    for chunk in chain(chunks, (b"\n",)):
        first, *rest = chunk.split(b"\n")
        begun.append(first)
        for part in rest:
            line, begun = b"".join(begun), [part]
            if line.strip():
                yield number, line
            number += 1


def unwrapped(line: bytes) -> bytes:
    """The conversation of a line. Raises `ParseError` where JSON has no text or no ids under that name."""
    if not WRAPPED.match(line):
        return line
    try:
        match json.loads(line):
            case {"text": str(text), **rest} if not rest:
                return text.encode("utf-8", "surrogateescape")
            case {"ids": list(ids), **rest} if not rest:
                return " ".join(map(str, ids)).encode()
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {error}", code="not_json") from None
    return line


def as_line(to: str, output: bytes) -> bytes:
    """An output as one line of JSON."""
    if to in JSON:
        return output.replace(b"\n", b"") + b"\n"  # Within a string of JSON there is none.
    if to == "harmony-ids":
        return json.dumps({"ids": list(map(int, output.split()))}).encode() + b"\n"
    text = output.decode("utf-8", "surrogateescape")
    return json.dumps({"text": text}, ensure_ascii=well_formed(text) != text).encode() + b"\n"
