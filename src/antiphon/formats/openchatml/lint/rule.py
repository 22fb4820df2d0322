"""A transcript as the linter's rules see it, what they report of it, and the edits that mend it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from antiphon.conversation import Message, visible_to_user
from antiphon.errors import FormatError, Position, RenderError
from antiphon.errors.place import Place, end_of_word
from antiphon.formats.openchatml.document import VERSION, DocumentHeader
from antiphon.formats.openchatml.edited import EditedFrames, GivenFrames
from antiphon.formats.openchatml.finding import Finding, Severity, nearest
from antiphon.formats.openchatml.frame import Frame
from antiphon.formats.openchatml.head import ATTRIBUTES, head_pieces
from antiphon.formats.openchatml.head_reader import HeadReader
from antiphon.formats.openchatml.reader import Reader
from antiphon.formats.openchatml.rules import RULES, TextRule
from antiphon.formats.openchatml.spelling import CALL, END, START
from antiphon.formats.openchatml.state import RuleState
from antiphon.formats.openchatml.writer import format_header, format_transcript
from antiphon.formats.openchatml.yaml_header import HeaderScanner, read_header
from antiphon.tokens import Control, spell

_LATER_HEAD = re.compile(r"(?<=\n)<\|start\|>((?:(?!<\|(?:start|message)\|>)[^\n])*)<\|message\|>")
_WORD = re.compile(r"[^\s<|\"=]+")
_CALL_ID = re.compile(r"call_id=([!-;=?-~]+)")
_LOSSY = frozenset({"attribute-unknown", "attribute-conflict", "section-twice", "section-empty"})
"""A head that breaks one of these has a word that is in none of its fields."""
HEADER = f'---\nversion: "{VERSION}"\n---\n'


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a text: ``text`` in place of the characters from ``start`` to ``end``.

    ``reveals``: users are shown a message then that was hidden, so a person decides.
    """

    start: int
    end: int
    text: str
    reveals: bool = False


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


class _MendingReader(Reader):
    """The best reading with its frames, and what the mend of each rule that a frame breaks makes of it."""

    def __init__(self, taken: frozenset[str], *, fragment: bool, harmony: bool) -> None:
        super().__init__(strict=False, fragment=fragment, harmony=harmony)
        self.frames: list[Frame] = []
        self.mends: dict[tuple[int, str], Message] = {}
        self._taken = taken

    def _check(self, frame: Frame) -> list[Finding]:
        assert self._rules is not None, "frames follow a header"
        found, state = self._rules.judge(frame), self._rules.state
        for name in {*(problem.rule for problem in frame.head.problems), *(finding.rule for finding in found)}:
            mend = RULES[name].mend
            if mend is not None and (mended := mend(written(frame), state)) is not None:
                self.mends[frame.places.start.offset, name] = mended
        state.follow(frame)
        self.frames.append(frame)
        return found


def written(frame: Frame) -> Message:
    """The message that the frame's text says, without what a reader fills in."""
    return replace(frame.head.message(), text=frame.message.text, end=frame.message.end)


class LintedText:
    """A transcript, header and frames with their places, whatever is wrong with them. It is read once, when asked for.

    ``edited``: the frames of the text before a change.
    """

    def __init__(
        self, text: str, edited: EditedFrames | GivenFrames | None = None, *, fragment: bool = False,
        harmony: bool = False,
    ) -> None:  # fmt: skip
        self.text = text
        self.heads = HeadReader()
        self._edited = edited or EditedFrames()
        self._flags = {"fragment": fragment, "harmony": harmony}
        self._lost_footers: dict[int, dict[int, bool]] = {}
        scanner = HeaderScanner()
        scanner.feed(text, last=True)
        self.header_start = len(scanner.bom)
        self.yaml_end = self.header_start + scanner.yaml_end
        self.frames_at = self.header_start + (scanner.frames_at or 0)
        self.overlong = scanner.overlong
        header = None if scanner.overlong else read_header(scanner.text[: scanner.yaml_end], Place())
        self.header: DocumentHeader | None = None if isinstance(header, Finding) else header
        self.state = RuleState(self.header, harmony=harmony)
        if self.header is not None:
            self.heads.declare(self.header.builtin_tools)

    @cached_property
    def read(self) -> EditedFrames | GivenFrames:
        """The frames, not judged yet."""
        begin = Place(self.header_start)
        begin.pass_over(self.header_text)
        self._edited.read(self.text, begin, () if self.header is None else self.header.builtin_tools)
        return self._edited

    @cached_property
    def _judged(self) -> tuple[_MendingReader, list[Finding]]:
        reader = _MendingReader(frozenset(_CALL_ID.findall(self.text)), **self._flags)
        found = reader.feed(self.text if self.overlong else self.text[: self.frames_at])
        if not self.overlong:
            found += reader.feed_found(self.read.found, self.read.end)
        return reader, [one for one in (*found, *reader.close()) if isinstance(one, Finding)]

    @property
    def findings(self) -> list[Finding]:
        return self._judged[1]

    @property
    def frames(self) -> list[Frame]:
        return self._judged[0].frames

    @cached_property
    def _starts(self) -> list[int]:
        return [frame.places.start.offset for frame in self.frames]

    @property
    def header_text(self) -> str:
        """The header with its fences and what follows it up to the first frame."""
        return self.text[self.header_start : self.frames_at]

    def frame_at(self, offset: int) -> Frame | None:
        """The frame in which an offset is, or behind which it is."""
        number = bisect_right(self._starts, offset) - 1
        return self.frames[number] if number >= 0 else None

    def calls(self) -> Iterator[Frame]:
        """The frames that call a tool."""
        return (frame for frame in self.frames if frame.message.is_call)

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
        """The end of what begins at an offset: a control, a word, else one character; none at a line's end."""
        end = end_of_word(self.text, offset)
        one_more = end == offset and self.text[offset : offset + 1].strip("\r\n") != ""
        return end + one_more

    def head_span(self, frame: Frame) -> tuple[int, int]:
        """The offsets of the frame's head: begin and end."""
        start = frame.places.start.offset + len(START.spelling)
        return start, start + len(frame.head_text)

    # -- mends --------------------------------------------------------------------------------------------------------

    def mend(self, rule: TextRule, at: int) -> Edit | None:
        """The change by which the frame at an offset keeps the rule; None where no change is certain to be meant."""
        frame = self.frame_at(at)
        if frame is None or rule.mend is None:
            return None
        mended = self._judged[0].mends.get((frame.places.start.offset, rule.name))
        if rule.name not in RULES:
            mended = rule.mend(written(frame), self.state)
        return self._edit(frame, mended) if mended is not None else None

    def _edit(self, frame: Frame, mended: Message) -> Edit | None:
        """The head in canonical form with the message's fields, or another footer."""
        reveals = visible_to_user(mended) and not visible_to_user(frame.message)
        if mended.end is not frame.message.end:
            at = frame.places.footer.offset
            return Edit(at, at + len(f"<|{frame.message.end}|>"), f"<|{mended.end}|>", reveals)
        head = frame.head
        broken = {problem.rule for problem in head.problems}
        if not head.author or (head.is_unknown and mended.name == head.name) or broken & _LOSSY:
            return None
        try:
            spelled = spell(list(head_pieces(mended, author=self.state.author(mended))))
        except RenderError:
            return None
        again = self.heads.read_text(spelled)
        if not again.matches(mended) or not {problem.rule for problem in again.problems} <= broken:
            return None
        return Edit(*self.head_span(frame), spelled, reveals)

    def lost_footers(self, frame: Frame) -> dict[int, bool]:
        """Finds lines of a frame's body that begin with the head of another message, which lacks its footer before it.

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


# Edits of what is in no message: controls, words that no field has, the header.

Fix = Callable[[LintedText, int], Edit | None]
"""The change that mends what was found at an offset; None where no change is certain to be meant."""


def _name_attribute(source: LintedText, at: int) -> Edit | None:
    """The word at the place becomes the attribute that it is nearest to."""
    found = _WORD.match(source.text, at)
    meant = nearest(found[0], ATTRIBUTES) if found else None
    return Edit(*found.span(), meant) if found and meant else None


def _escape_control(source: LintedText, at: int) -> Edit | None:
    """A control in a body is text; but a head on a line of its own begins a message, and the one before has no end."""
    frame = source.frame_at(at)
    if frame is None:
        return None
    lost = source.lost_footers(frame)
    if not lost or at < min(lost):
        return Edit(at, at, "<")
    return _end_before(source, at, CALL if lost[at] else END) if at in lost else None


def _end_before(source: LintedText, at: int, footer: Control) -> Edit | None:
    end = at
    while source.text[end - 1] in "\r\n":
        end -= 1
    return None if source.text[end - 1] == "<" else Edit(end, at, f"{footer}\n")


def _add_header(source: LintedText, at: int) -> Edit | None:
    """A text of frames gets a header."""
    if source.header_text.strip() or not source.frames:
        return None
    return Edit(source.header_start, source.frames_at, HEADER)


def _add_version(source: LintedText, at: int) -> Edit | None:
    yaml = source.text[source.header_start : source.yaml_end]
    fence = re.match(r"\s*---[ \t]*\r?\n", yaml)
    begin = fence.end() if fence else 0
    line = f'version: "{VERSION}"\n'
    if isinstance(read_header(yaml[:begin] + line + yaml[begin:], Place()), Finding):
        return None
    return Edit(source.header_start + begin, source.header_start + begin, line)


def _rewrite_header(source: LintedText, at: int) -> Edit | None:
    """The header between fences, its version quoted."""
    try:
        header = None if source.header is None else format_header(source.header, source.text)
    except RenderError:  # too long with its fences
        return None
    return None if header is None else Edit(source.header_start, source.frames_at, header)


def canonical_text(source: LintedText, at: int = 0) -> Edit | None:
    try:
        formatted = format_transcript(source.text, fragment=True)
    except FormatError:
        return None
    return Edit(0, len(source.text), formatted) if formatted != source.text else None


EDITS: dict[str, Fix] = {
    "header-missing": _add_header,
    "header-version-missing": _add_version,
    "header-bare": _rewrite_header,
    "header-version-bare": _rewrite_header,
    "attribute-unknown": _name_attribute,
    "control-in-body": _escape_control,
    "not-canonical": canonical_text,
}
"""The edit of each rule that is of no message."""
