"""Transcripts: read as they stream, strictly or with the best reading; checked in bounded memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from antiphon.conversation import (
    Conversation,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    Settings,
    TextDelta,
    ToolNamespace,
    ToolSpec,
)
from antiphon.errors.place import Place
from antiphon.tokens import Control, Piece

from .document import DocumentHeader
from .finding import E_HEADER, Finding, Problem
from .frame import Found, Frame
from .frame_reader import FrameReader
from .rules import Rules, cited
from .spelling import LONGEST
from .yaml_header import MAX_HEADER, HeaderScanner, frames_behind, read_header

# Texts that are no OpenChatML but something like it: what they are, and how they are read.

_JSON = re.compile(r"\s*[\[{]\s*[\"\[{]")
_ROLES = re.compile(r'"(?:messages|role|input)"\s*:')


def other_form(text: str) -> Problem | None:
    """The form of a text whose header cannot be read, by its first characters; None for an unknown one."""
    if text.lstrip().startswith(("<|im_start|>", "<|begin_of_text|>", "[INST]")):
        return _other("this is a chat template's prompt", "A prompt cannot be read back as a transcript.")
    if not _JSON.match(text):
        return None
    if _ROLES.search(text):
        hint = "Use --from chat; `antiphon convert --from chat --to openchatml` makes a transcript of it."
        return _other("this is chat JSON, not a transcript", hint)
    return _other("this is JSON, not a transcript", "A transcript is a YAML header, then frames.")


def _other(message: str, hint: str) -> Problem:
    return Problem(0, message, hint, rule="other-form")


Read = Message | Finding

STEP = 2**17
"""Bytes that are decoded at once."""
MAX_PENDING = 1000
"""Findings about one frame that are sorted by their place before they are given."""


@dataclass(frozen=True, slots=True)
class TranscriptEnvelope:
    """The rest of a transcript around its messages: the header, how it was written, and the blanks at the end.

    Stands in ``Conversation.extra["openchatml"]``. ``header`` None: a fragment, which has none.
    ``tail`` None: the canonical line break.
    """

    header: DocumentHeader | None
    text: str = ""
    tail: str | None = None


class Reader:
    """Reads a transcript cut anywhere, from text or from UTF-8 bytes; `feed` and `close` give messages in order.

    ``strict`` raises `ParseError` with the specification's code and place at the first error; otherwise what is wrong
    comes as `Finding`s among the messages, and the messages are the best reading. ``fragment``: a transcript without a
    header is no error. ``harmony``: the rules of HIP-1 whatever the header says. ``tools``: check calls against their
    schemas. ``keep`` False: bodies are not stored, so that memory does not grow with the transcript.
    """

    def __init__(
        self,
        *,
        strict: bool = True,
        fragment: bool = False,
        harmony: bool = False,
        tools: Sequence[ToolSpec] = (),
        keep: bool = True,
    ) -> None:
        self.header: DocumentHeader | None = None
        self.header_text = ""
        self._strict = strict
        self._fragment = fragment
        self._harmony = harmony
        self._tools = {tool.recipient: tool for tool in tools}
        self._frames = FrameReader(keep=keep, whole=keep and not strict)
        self._pending: list[Finding] = []
        self._rules: Rules | None = None
        self._scanner: HeaderScanner | None = HeaderScanner()
        self._skipped: str | None = None
        self._taken: frozenset[str] = frozenset()
        self._utf8 = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, text: str | bytes) -> list[Read]:
        if isinstance(text, bytes):
            text = self._decoded(text)
        return self._open(text) + self._emit_in_order()

    def feed_pieces(self, pieces: Iterable[Piece]) -> list[Read]:
        """The same for a transcript in control tokens (ids, decoded): its texts are text whatever they spell."""
        read: list[Read] = []
        for piece in pieces:
            if self._scanner is None:
                self._frames.feed_pieces([piece])
            elif isinstance(piece, Control):
                read += self._open("", last=True)
                self._frames.feed_pieces([piece])
            else:
                read += self._open(piece)
        return read + self._emit_in_order()

    def feed_found(self, found: Iterable[Found], end: Place) -> list[Read]:
        """Frames that were read already, behind the header that was fed; they end at ``end``, and stay as they are."""
        read = self._open("", last=True)
        self._frames.place = end.copy()
        copies = [replace(one) if isinstance(one, Frame) and one.is_incomplete else one for one in found]
        return read + self._emit_in_order(copies)

    def close(self) -> list[Read]:
        """The end of the transcript; an open frame or header is an error."""
        read = self._open(self._utf8.decode(b"", True), last=True) + self._emit_in_order()
        self._frames.close()
        read += self._emit_in_order(last=True)
        if self._rules is not None:
            read += map(self._checked, self._rules.close(self._frames.place.position()))
        return read

    @property
    def envelope(self) -> TranscriptEnvelope:
        return TranscriptEnvelope(self.header, self.header_text, self._frames.tail)

    def _decoded(self, data: bytes) -> str:
        """Step by step, so that none holds other threads up: bytes that are no UTF-8 take long."""
        return "".join([self._utf8.decode(data[start : start + STEP]) for start in range(0, len(data), STEP)])

    # -- the header ---------------------------------------------------------------------------------------------------

    def _open(self, text: str, *, last: bool = False) -> list[Read]:
        scanner = self._scanner
        if scanner is None:
            self._frames.feed(text)
            return []
        if self._skipped is not None:
            return self._skip(text)
        if not scanner.feed(text, last=last):
            return []
        start = Place(len(scanner.bom))
        self._frames.place.offset = start.offset
        if scanner.overlong:
            return self._give_up(scanner.text, start)
        read = self._header(scanner, start)
        self._begin(scanner.text, scanner.frames_at or 0)
        return read

    def _header(self, scanner: HeaderScanner, start: Place) -> list[Read]:
        raw = scanner.text[: scanner.frames_at]
        if not raw.strip(" \t\r\n"):
            self.header_text = scanner.bom + raw
            hint = 'Begin with a YAML header: version: "2.2".'
            missing = Finding(E_HEADER, "the transcript has no header", start.position(), hint, rule="header-missing")
            return [] if self._fragment else [self._checked(missing)]
        header = read_header(scanner.text[: scanner.yaml_end], start)
        if isinstance(header, Finding):
            return [self._checked(_of_other_form(scanner.text, header, start))]
        self.header, self.header_text = header, scanner.bom + raw
        self._frames.heads.declare(header.builtin_tools)
        return []

    def _give_up(self, text: str, start: Place) -> list[Read]:
        """A header without end is skipped; frames may still follow it."""
        begun = start.copy()
        start.pass_over(text[:MAX_HEADER])
        hint = f"A header has at most {MAX_HEADER} characters. Is this an OpenChatML transcript?"
        skipped = text[:MAX_HEADER]
        finding = Finding(E_HEADER, "the header does not end", start.position(), hint, False, skipped, "header-endless")
        finding = _of_other_form(text, finding, begun)
        self._skipped = ""
        return [self._checked(finding), *self._skip(text)]

    def _skip(self, text: str) -> list[Read]:
        text = (self._skipped or "") + text
        at = frames_behind(text)
        if at >= 0:
            self._begin(text, at)
        else:
            # What may be needed to see, with the next chunk, that a line begins with <|start|>.
            passed = max(0, len(text) - LONGEST)
            self._frames.place.pass_over(text[:passed])
            self._skipped = text[passed:]
        return []

    def _begin(self, text: str, end: int) -> None:
        self._scanner = None
        self._rules = Rules(self.header, harmony=self._harmony, tools=self._tools, taken=self._taken)
        self._frames.place.pass_over(text[:end])
        self._frames.feed(text[end:])

    # -- the frames ---------------------------------------------------------------------------------------------------

    def _emit_in_order(self, read_before: Sequence[Found] = (), *, last: bool = False) -> list[Read]:
        """Messages, each behind what is wrong with it in the order of its text, however the text was cut."""
        read: list[Read] = []
        for found in read_before or self._frames.take():
            if isinstance(found, Frame):
                findings = self._check(found)
                if findings or self._pending:
                    self._pending += findings
                    read += self._ordered()
                read.append(found.message)
            elif isinstance(found, Finding):
                self._pending.append(found)
        if last or len(self._pending) > MAX_PENDING:
            read += self._ordered()
        return read

    def _check(self, frame: Frame) -> list[Finding]:
        return self._rules.check_frame(frame) if self._rules is not None else []

    def _ordered(self) -> list[Finding]:
        findings, self._pending = self._pending, []
        findings.sort(key=lambda finding: finding.position.offset or 0)
        return [self._checked(finding) for finding in findings]

    def _checked(self, finding: Finding) -> Finding:
        if self._strict and not finding.warning:
            raise replace(finding, hint=cited(finding)).error()
        return finding


def _of_other_form(text: str, finding: Finding, start: Place) -> Finding:
    """The problem of a header that cannot be read, in other words when the text is of another form."""
    other = other_form(text)
    if other is None:
        return finding
    return replace(finding, message=other.message, hint=other.hint, position=start.position(), rule=other.rule)


def iter_read(transcript: str | bytes | Iterable[str | bytes], reader: Reader) -> Iterator[Read]:
    """Messages and findings of a transcript that may come in chunks, as soon as they are known."""
    for chunk in (transcript,) if isinstance(transcript, str | bytes) else transcript:
        yield from reader.feed(chunk)
    yield from reader.close()


def read(
    transcript: str | bytes | Iterable[str | bytes], *, fragment: bool = False, harmony: bool = False,
    tools: Sequence[ToolSpec] = (),
) -> Conversation:  # fmt: skip
    """A valid transcript as a conversation. Raises `ParseError` (code, line, column) at the first error."""
    reader = Reader(strict=True, fragment=fragment, harmony=harmony, tools=tools)
    return _conversation(reader, [found for found in iter_read(transcript, reader) if isinstance(found, Message)])


def repair(
    transcript: str | bytes | Iterable[str | bytes], *, fragment: bool = True, harmony: bool = False
) -> tuple[Conversation, tuple[Finding, ...]]:
    """The best reading of any text, and everything that is wrong with it. Never raises on what it reads."""
    reader = Reader(strict=False, fragment=fragment, harmony=harmony)
    found = list(iter_read(transcript, reader))
    messages = [item for item in found if isinstance(item, Message)]
    return _conversation(reader, messages), tuple(item for item in found if isinstance(item, Finding))


def validate(
    transcript: str | bytes | Iterable[str | bytes], *, fragment: bool = False, harmony: bool = False,
    tools: Sequence[ToolSpec] = (),
) -> Iterator[Finding]:  # fmt: skip
    """Everything that is wrong with a transcript of any length, in its order, in bounded memory."""
    reader = Reader(strict=False, fragment=fragment, harmony=harmony, tools=tools, keep=False)
    return (found for found in iter_read(transcript, reader) if isinstance(found, Finding))


def _conversation(reader: Reader, messages: Sequence[Message]) -> Conversation:
    header = reader.header or DocumentHeader()
    return Conversation(
        messages=tuple(messages),
        builtins=tuple(ToolNamespace(name) for name in header.builtin_tools),
        settings=Settings(reasoning_effort=header.reasoning_effort),
        extra={"openchatml": reader.envelope},
    )


# A whole transcript as a parser's events: what `OpenChatML.parser` gives where no reply is read.

_TRANSCRIPT = re.compile(r"\ufeff?\s*(?:---[ \t]*\r?\n|version[ \t]*:|<\|start\|>(?!assistant\b))")


def begins_transcript(text: str) -> bool:
    """Whether a text is a transcript by its first characters (a header, or somebody else's frame), and no reply."""
    return _TRANSCRIPT.match(text) is not None


class TranscriptParser:
    """A `Parser` for a transcript, with a header or without. ``spelled``: controls are text, escapes included.

    ``strict`` raises `ParseError`; otherwise each finding is an `Incident`, in front of the message that it is about.
    """

    ended: str | None = None

    def __init__(self, *, spelled: bool, strict: bool) -> None:
        self._reader = Reader(strict=strict, fragment=True)
        self._spelled = spelled

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        for piece in pieces:
            if self._spelled and not isinstance(piece, Control):
                events += _events(self._reader.feed(piece))
            else:
                events += _events(self._reader.feed_pieces([piece]))
        return events

    def close(self) -> list[ParserEvent]:
        return _events(self._reader.close())


def _events(found: Iterable[Message | Finding]) -> list[ParserEvent]:
    events: list[ParserEvent] = []
    for item in found:
        if isinstance(item, Finding):
            events += [] if item.warning else [Incident(item.code, item.position.offset or 0, item.text)]
        else:
            text = [TextDelta(item.text)] if item.text else []
            events += [MessageStarted(replace(item, text="")), *text, MessageEnded(item)]
    return events
