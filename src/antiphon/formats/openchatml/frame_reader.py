"""Text cut anywhere, or pieces, become frames, as the table in `machine` says. Transcripts and replies share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

from antiphon.conversation import End
from antiphon.errors.place import Place
from antiphon.tokens import Control, Piece

from .finding import E_HEADER, E_TRUNCATED, Finding, Problem, RuleName
from .frame import FOOTERS, MAX_HEAD, OUTSIDE, Found, Frame, OpenFrame, OutsideText, Places, whole_frame
from .head import Head, near_control
from .head_reader import HeadReader
from .machine import TRANSCRIPT, Action, FrameState, Input, Table, whole_frame_pattern
from .spelling import BY_SPELLING, ENDLITERAL, START, is_utf8, next_control, open_tail

WHOLE_FRAME = whole_frame_pattern(TRANSCRIPT)


class FrameReader:
    """Reads frames; what it found is stored in order until the next `take`.

    ``keep`` False drops the bodies of messages that no rule needs to see whole, and the blanks between them, so that
    memory does not grow with them; ``whole`` False does so with text outside frames, and reports it sooner.
    """

    def __init__(self, *, keep: bool = True, whole: bool = True, table: Table = TRANSCRIPT) -> None:
        self.heads = HeadReader()
        self.place = Place()
        self._keep = keep
        self._found: list[Found] = []
        self._buffer = ""
        self._footer: str | None = None
        self._outside = OutsideText(keep=keep, whole=whole)
        self._state = FrameState.OUTSIDE
        self._table = table
        self.actions = self._handlers()

    @classmethod
    def _handlers(cls) -> Mapping[Action, Callable[[Self, str], None]]:
        """The method of each action, by its name: it gets the text, or the control's spelling, that came in.

        Functions of the class: methods of a reader would refer to it, and what it has read would outlive it.
        """
        methods = ((action, getattr(cls, f"_{action.name.lower()}", None)) for action in Action)
        return {action: method for action, method in methods if method is not None}

    # -- in and out ---------------------------------------------------------------------------------------------------

    def take(self) -> list[Found]:
        found, self._found = self._found, []
        return found

    def feed(self, text: str) -> None:
        """Text in which controls are spelled out and escaped."""
        text, self._buffer = self._buffer + text, ""
        start = 0
        while True:
            if self._state is FrameState.OUTSIDE:
                start = self._whole_frames(text, start)
            at, end, escaped = self._next_control(text, start)
            if at < 0:
                break
            self._text(text[start:at])
            if escaped:
                self._step(Input.ESCAPE, text[at:end])
                self.place.pass_over(text[at:end])
            else:
                self._control(text[at:end])
            start = end
        tail = open_tail(text, start)
        self._text(text[start:tail])
        self._buffer = text[tail:]

    def feed_pieces(self, pieces: Sequence[Piece]) -> None:
        """Pieces of a model that has the controls: a text is text whatever it spells."""
        for piece in pieces:
            if not isinstance(piece, Control):
                self._text(piece)
            elif piece.spelling in BY_SPELLING:
                self._control(piece.spelling)
            else:
                self._step(Input.UNKNOWN, piece.spelling)
                self.place.pass_over(piece.spelling)

    def resume(self, frame: Frame) -> None:
        """Goes on behind a frame of the same text that another reader has read up to its footer."""
        self.place, self._footer = frame.behind, f"<|{frame.message.end}|>"
        self._outside.take_blanks()

    def close(self) -> None:
        """The end of the input: an open frame is incomplete (§9, E-STREAM-TRUNCATED)."""
        self._flush()
        self._step(Input.CLOSE, "")

    @property
    def tail(self) -> str:
        """The blanks after the last frame."""
        return self._outside.blanks

    # -- steps of the machine -----------------------------------------------------------------------------------------

    def _step(self, key: str, text: str) -> None:
        """One cell of the table: the state that follows, then the action, which may take further steps."""
        action, self._state = self._table[self._state][key]
        self.actions[action](self, text)

    def _text(self, text: str) -> None:
        if text:
            self._step(Input.TEXT, text)
            self.place.pass_over(text)

    def _control(self, spelling: str) -> None:
        self._step(spelling, spelling)
        self.place.pass_in_line(spelling)

    def _flush(self) -> None:
        """Adds the buffered text, in which a control may have begun."""
        text, self._buffer = self._buffer, ""
        self._text(text)

    def _next_control(self, text: str, start: int) -> tuple[int, int, bool]:
        """The span of the next control or escape, (-1, …) for none; and whether it is an escape."""
        if self._state is FrameState.LITERAL:
            at = text.find(ENDLITERAL.spelling, start)
            return at, at + len(ENDLITERAL.spelling), False
        at, end = next_control(text, start)
        escaped = at > start and text[at - 1] == "<"
        return at - escaped, end, escaped

    def _whole_frames(self, text: str, start: int) -> int:
        """Reads the frames that are whole in the text by one match each; where the first other one begins."""
        if not self._outside.is_clean:
            return start
        place, passed = self.place, start
        while whole := WHOLE_FRAME.match(text, start):
            blanks, head_text, body, footer = whole.groups()
            if len(head_text) > MAX_HEAD or not is_utf8(body):
                break
            begin = place.after(text[passed : whole.end(1)])
            body_at = begin.after(text[whole.end(1) : whole.start(3)])
            places = Places(begin, body_at, body_at.after(body))
            head = self.heads.read_text(head_text)
            if head.problems:
                self._found += head.findings(head_text, begin)
            before = self._outside.take_blanks(blanks)
            self._found.append(whole_frame(head, head_text, body, FOOTERS[footer], places, before, keep=self._keep))
            place, passed, start = places.footer, whole.start(4), whole.end()
            self._footer = footer
        self.place = place.after(text[passed:start])
        return start

    # -- outside frames -----------------------------------------------------------------------------------------------

    def _skip_text(self, text: str, at: Place | None = None) -> None:
        self._outside.add(text, at or self.place.copy())
        if self._outside.is_full:
            self._report_run()

    _skip_control = _skip_text

    def _report_skipped(self, _: str = "") -> None:
        """A run of text outside frames is over."""
        if self._outside.skipped_at is not None:
            self._report_run()
            self._outside.end_run()

    def _report_run(self) -> None:
        """Text outside frames is reported once for each run of it."""
        outside, at = self._outside, self._outside.skipped_at
        if at is not None and not outside.reported:
            outside.reported = True
            problem = outside.problem
            hint = "A frame is <|start|>ROLE<|message|>TEXT<|end|>."
            if self._footer is not None and problem == OUTSIDE:  # the footer before it may have been meant as text
                hint += f" If the {self._footer} before it is text, write <{self._footer} there."
            self._report(problem.rule, problem.message, hint, text=outside.skipped, place=at)

    # -- in a head ----------------------------------------------------------------------------------------------------

    def _open_head(self, _: str) -> None:
        self._report_skipped()
        self._frame = OpenFrame(self.place.copy())

    def _add_to_head(self, text: str) -> None:
        rest = self._frame.add_to_head(text)
        if self._frame.is_overlong:
            self._step(Input.OVERLONG, START.spelling + self._frame.spelled)
            self._skip_text(rest, self.place.after(text[: len(text) - len(rest)]))

    def _skip_head(self, spelled: str) -> None:
        problem = Problem(0, f"no <|message|> within {MAX_HEAD} characters of a head", rule="head-endless")
        self._outside.skip(spelled, self._frame.start, problem)

    def _add_section(self, spelling: str) -> None:
        self._frame.parts.append(BY_SPELLING[spelling])

    def _drop_head(self, spelling: str) -> None:
        """A control that has no place in a head ends it."""
        head = self._dropped_head()
        message = f"{spelling} stands in a head, before any <|message|>"
        self._report("control-in-head", message, near_control(head), text=head)

    def _reopen_head(self, spelling: str) -> None:
        self._drop_head(spelling)
        self._frame = OpenFrame(self.place.copy())

    def _truncate_head(self, _: str) -> None:
        head = self._dropped_head()
        self._report("truncated", "the text ends inside a head", near_control(head), text=head, code=E_TRUNCATED)

    def _dropped_head(self) -> str:
        self._outside.repaired = True
        return START.spelling + self._frame.spelled

    # -- in a body ----------------------------------------------------------------------------------------------------

    def _open_body(self, spelling: str) -> None:
        frame = self._frame
        self._enter_body(self.heads.read_pieces(tuple(frame.parts)), frame.spelled, self.place.after(spelling))

    def _enter_body(self, head: Head, head_text: str, at: Place) -> None:
        """Reports what is wrong with the head; its body begins at ``at``."""
        if head.problems:
            for finding in head.findings(head_text, self._frame.start):
                self._add(finding)
        self._frame.open_body(head, head_text, at, keep=self._keep)

    def _add_text(self, text: str) -> None:
        if self._frame.is_utf8 and not is_utf8(text):
            self._frame.is_utf8 = False  # reported once for a body
            good = next(i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff")
            hint = "Other bytes go into a literal block."
            self._report("body-not-utf8", "the body is not UTF-8", hint, place=self.place.after(text[:good]))
        self._frame.add_text(text, self.place)

    def _add_escaped(self, spelled: str) -> None:
        """``<<|name|>``: a control's spelling as text, outside literal blocks and only in a body (A-O22, A-O23)."""
        self._frame.add_spelled(spelled[1:], spelled)

    def _add_stray(self, spelling: str) -> None:
        """A-O04: there is no nesting; a control that has no place in a body is text there."""
        hint = f"As text it is written <{spelling}."
        self._report("control-in-body", f"{spelling} stands in a body", hint)
        self._add_text(spelling)

    def _open_literal(self, spelling: str) -> None:
        self._frame.add_spelled("", spelling)
        self._frame.literal = True

    _close_literal = _open_literal

    def _add_literal(self, text: str) -> None:
        self._frame.add(text)

    def _end_frame(self, footer: str) -> None:
        self._finish(FOOTERS[footer])

    def _truncate_body(self, _: str) -> None:
        self._truncate("a message")

    def _truncate_literal(self, _: str) -> None:
        self._truncate("a literal block")

    def _truncate(self, where: str) -> None:
        self._report_skipped()
        hint = "A message ends with <|end|>, <|return|> or <|call|>."
        self._report("truncated", f"the text ends inside {where}", hint, code=E_TRUNCATED)
        self._finish(End.NONE)

    def _finish(self, end: End) -> None:
        self._found.append(self._frame.close(end, self.place.copy(), self._outside.take_blanks()))
        self._footer = None if end is End.NONE else f"<|{end}|>"

    # -- findings -----------------------------------------------------------------------------------------------------

    def _report(
        self, rule: RuleName, message: str, hint: str | None = None, *, text: str = "", place: Place | None = None,
        code: str = E_HEADER,
    ) -> None:  # fmt: skip
        self._add(Finding(code, message, (place or self.place).position(), hint, text=text, rule=rule))

    def _add(self, finding: Finding) -> None:
        self._found.append(finding)
