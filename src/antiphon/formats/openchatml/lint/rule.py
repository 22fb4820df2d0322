"""Rules of the linter, and their diagnostics."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from antiphon.conversation import Message, Role
from antiphon.errors import Position, RenderError
from antiphon.errors.place import Place, end_of_word
from antiphon.formats.openchatml.document import DocumentHeader
from antiphon.formats.openchatml.edited import EditedFrames, GivenFrames
from antiphon.formats.openchatml.finding import Finding
from antiphon.formats.openchatml.frame import Found, Frame
from antiphon.formats.openchatml.head import head_pieces
from antiphon.formats.openchatml.head_reader import HeadReader
from antiphon.formats.openchatml.reader import Reader, validate
from antiphon.formats.openchatml.spelling import START
from antiphon.formats.openchatml.yaml_header import HeaderScanner, read_header
from antiphon.tokens import spell

# A transcript as its rules see it: text, header and frames with their places, whatever is wrong with them.

NEW_ID = "call_"
_LATER_HEAD = re.compile(r"(?<=\n)<\|start\|>((?:(?!<\|(?:start|message)\|>)[^\n])*)<\|message\|>")


class LintedText:
    """Everything is read once, when it is first asked for. ``edited``: the frames of the text before a change."""

    def __init__(self, text: str, edited: EditedFrames | GivenFrames | None = None) -> None:
        self.text = text
        self._edited = edited or EditedFrames()
        self.heads = HeadReader()
        self._lost_footers: dict[int, dict[int, bool]] = {}
        scanner = HeaderScanner()
        scanner.feed(text, last=True)
        self.header_start = len(scanner.bom)
        self.yaml_end = self.header_start + scanner.yaml_end
        self.frames_at = self.header_start + (scanner.frames_at or 0)
        self._overlong = scanner.overlong
        header = None if scanner.overlong else read_header(scanner.text[: scanner.yaml_end], Place())
        self.header: DocumentHeader | None = None if isinstance(header, Finding) else header
        if self.header is not None:
            self.heads.declare(self.header.builtin_tools)

    @property
    def header_text(self) -> str:
        """The header with its fences and what follows it up to the first frame."""
        return self.text[self.header_start : self.frames_at]

    @cached_property
    def _read(self) -> EditedFrames | GivenFrames:
        begin = Place(self.header_start)
        begin.pass_over(self.header_text)
        self._edited.read(self.text, begin, () if self.header is None else self.header.builtin_tools)
        return self._edited

    @property
    def found(self) -> Sequence[Found]:
        """The frames and what is wrong with their form, in the order of the text."""
        return self._read.found

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        return tuple(found for found in self.found if isinstance(found, Frame))

    def findings(self, *, fragment: bool = False, harmony: bool = False) -> Iterator[Finding]:
        """What `validate` finds."""
        if self._overlong:
            return validate(self.text, fragment=fragment, harmony=harmony)
        reader = Reader(strict=False, fragment=fragment, harmony=harmony)
        header, frames = reader.feed(self.text[: self.frames_at]), reader.feed_found(self.found, self._read.end)
        return (found for found in (*header, *frames, *reader.close()) if isinstance(found, Finding))

    @cached_property
    def _starts(self) -> list[int]:
        return [frame.places.start.offset for frame in self.frames]

    def frame_at(self, offset: int) -> Frame | None:
        """The frame in which an offset is, or behind which it is."""
        number = bisect_right(self._starts, offset) - 1
        return self.frames[number] if number >= 0 else None

    # -- places -------------------------------------------------------------------------------------------------------

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def position(self, offset: int) -> Position:
        """An offset with its line and column; a byte order mark takes no column."""
        line = bisect_right(self._lines, offset)
        column = offset - self._lines[line - 1] + 1
        return Position(offset, line, column - self.header_start if line == 1 else column)

    def end_of(self, offset: int) -> int:
        """Where what begins at an offset ends: a control, a word, else one character; none at a line's end."""
        end = end_of_word(self.text, offset)
        one_more = end == offset and self.text[offset : offset + 1].strip("\r\n") != ""
        return end + one_more

    # -- heads --------------------------------------------------------------------------------------------------------

    def head_span(self, frame: Frame) -> tuple[int, int]:
        """Where the frame's head begins and ends."""
        start = frame.places.start.offset + len(START.spelling)
        return start, start + len(frame.head_text)

    def body(self, frame: Frame) -> str:
        """The frame's body as it is written."""
        return self.text[frame.places.body.offset : frame.places.footer.offset]

    def spell_head(self, message: Message) -> str | None:
        """The canonical head of a message; None when it would not be read as this message."""
        try:
            spelled = spell(list(head_pieces(message)))
        except RenderError:
            return None
        head = self.heads.read_text(spelled)
        return spelled if not head.problems and head.matches(message) else None

    def lost_footers(self, frame: Frame) -> dict[int, bool]:
        """Where in a frame's body a line begins with the head of another message, which the one before has not ended.

        For each, whether the message before is a call. Offsets are in the order of the text.
        """
        at = frame.places.start.offset
        if at not in self._lost_footers:
            lost = self._lost_footers[at] = {}
            is_call = frame.message.is_call
            for found in _LATER_HEAD.finditer(self.text, frame.places.body.offset, frame.places.footer.offset):
                head = self.heads.read_text(found[1])
                if not head.problems:
                    lost[found.start()] = is_call
                    is_call = head.message().is_call
        return self._lost_footers[at]

    # -- calls --------------------------------------------------------------------------------------------------------

    def calls(self) -> Iterator[Frame]:
        """The frames that call a tool."""
        return (frame for frame in self.frames if frame.message.is_call)

    @cached_property
    def recipients(self) -> dict[str, str]:
        """The tool that each call is addressed to, by the call's id."""
        return {
            f.message.call_id: f.message.recipient for f in self.calls() if f.message.call_id and f.message.recipient
        }

    @cached_property
    def reply_ids(self) -> dict[int, str]:
        """The id of each reply without one of whose tool only one call waits, by the offset of its frame."""
        found: dict[int, str] = {}
        waiting: dict[str | None, dict[str, None]] = {}
        for frame in self.frames:
            message = frame.message
            if message.is_call and message.call_id is not None:
                waiting.setdefault(message.recipient, {})[message.call_id] = None
            elif message.role is Role.TOOL and message.call_id is not None:
                waiting.get(self.recipients.get(message.call_id), {}).pop(message.call_id, None)
            elif message.role is Role.TOOL and len(ids := waiting.get(message.name, {})) == 1:
                found[frame.places.start.offset] = ids.popitem()[0]
        return found

    @cached_property
    def new_ids(self) -> dict[int, str]:
        """An id for each call that has none, by the offset of its frame; no other frame has it."""
        used = {frame.message.call_id for frame in self.frames}
        free = (f"{NEW_ID}{n}" for n in range(1, 2 * len(self.frames) + 2) if f"{NEW_ID}{n}" not in used)
        lacking = [frame for frame in self.calls() if frame.message.call_id is None]
        return {frame.places.start.offset: next(free) for frame in lacking}


# Frames that the examples of several rules begin with.

FINAL = "<|start|>assistant<|channel|>final<|message|>4<|return|>"
CALL = "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n"
USER = "<|start|>user<|message|>Hi<|end|>\n"


class Severity(StrEnum):
    """How grave a finding is; ``off``: it is not reported."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a text: ``text`` in place of the characters from ``start`` to ``end``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A fault by a rule: its beginning and end, a message, a hint, and the change that mends it.

    ``rule`` is the rule's name, ``code`` the specification's code where it has one.
    """

    rule: str
    level: Severity
    message: str
    start: Position
    end: Position
    code: str | None = None
    hint: str | None = None
    fix: Edit | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """A fault that a check found, by its offsets in the text."""

    start: int
    end: int
    message: str
    hint: str | None = None


Fix = Callable[[LintedText, int], Edit | None]
"""The change that mends what was found at an offset; None where no change is certain to be meant."""


@dataclass(frozen=True, slots=True)
class LintRule:
    """One rule: its name, what it requires, and an example that breaks it and one that keeps it.

    A rule of our own has a ``check``; one of the specification has none, since the reader finds where it is broken.
    """

    name: str
    what: str
    bad: str
    good: str
    fix: Fix | None = None
    level: Severity = Severity.ERROR
    check: Callable[[LintedText], Iterator[Spot]] | None = None
    flags: tuple[str, ...] = ()
    """What the examples need: ``harmony``, the rules of HIP-1."""
