"""Text cut anywhere, or pieces, become frames. The one reader under transcripts and replies."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from antiphon.conversation import End
from antiphon.tokens import Control, Piece

from .between import Between
from .finding import E_HEADER, E_TRUNCATED, Finding, Place
from .frame import FOOTERS, MAX_HEAD, Found
from .head import Head
from .heads import Heads
from .open_frame import OpenFrame
from .spelling import (
    BY_SPELLING,
    CHANNEL,
    CONSTRAIN,
    END,
    ENDLITERAL,
    LITERAL,
    MESSAGE,
    START,
    is_utf8,
    next_control,
    open_tail,
)
from .whole_frames import WholeFrames


class State(Enum):
    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()
    LITERAL = auto()


class FrameReader:
    """Reads frames; what it found since the last `take` is kept in order.

    ``keep`` False drops the bodies of messages that nobody needs to see whole, and the blanks between them, so that
    memory does not grow with them.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self.heads = Heads()
        self.place = Place()
        self._keep = keep
        self._found: list[Found] = []
        self._state = State.BETWEEN
        self._held = ""
        self._between = Between(keep=keep)
        self._whole = WholeFrames(self.heads, self.place, self._between, keep)

    # -- in and out ---------------------------------------------------------------------------------------------------

    def take(self) -> list[Found]:
        found, self._found = self._found, []
        return found

    def feed(self, text: str) -> None:
        """Text in which controls are spelled out and escaped."""
        text, self._held = self._held + text, ""
        start = 0
        while True:
            if self._state is State.BETWEEN:
                start = self._whole_frames(text, start)
            if self._state is State.LITERAL:
                at = text.find(ENDLITERAL.spelling, start)
                end = at + len(ENDLITERAL.spelling)
                control, escaped = ENDLITERAL, False
            else:
                at, end = next_control(text, start)
                control = BY_SPELLING[text[at:end]] if at >= 0 else END
                escaped = at > start and text[at - 1] == "<"
            if at < 0:
                break
            self._text(text[start : at - escaped])
            if escaped:
                self._escape(text[at - 1 : end])
            else:
                self._control(control)
            start = end
        hold = open_tail(text, start)
        self._text(text[start:hold])
        self._held = text[hold:]

    def feed_pieces(self, pieces: Sequence[Piece]) -> None:
        """Pieces of a model that has the controls: a text is text whatever it spells."""
        for piece in pieces:
            if not isinstance(piece, Control):
                self._text(piece)
            elif piece.spelling in BY_SPELLING:
                self._control(BY_SPELLING[piece.spelling])
            else:
                self._foreign(piece)

    def close(self) -> None:
        """The end of the input: an open frame is incomplete (§9, E-STREAM-TRUNCATED)."""
        held, self._held = self._held, ""
        self._text(held)
        self._end_aside()
        if self._state is State.HEAD:
            self._report(E_TRUNCATED, "the text ends inside a head", text=self._drop_head())
        elif self._state is not State.BETWEEN:
            where = "a literal block" if self._state is State.LITERAL else "a message"
            self._report(
                E_TRUNCATED, f"the text ends inside {where}", "A message ends with <|end|>, <|return|> or <|call|>."
            )
            self._finish(End.NONE, "")

    @property
    def tail(self) -> str:
        """The blanks after the last frame."""
        return self._between.blanks

    # -- what comes in ------------------------------------------------------------------------------------------------

    def _whole_frames(self, text: str, start: int) -> int:
        """Takes the frames that need none of the states below; where the first begins that does."""
        return self._whole.read(text, start, self._found)

    def _text(self, text: str) -> None:
        if not text:
            return
        match self._state:
            case State.BODY | State.LITERAL:
                self._body_text(text)
            case State.HEAD:
                self._head_text(text)
            case State.BETWEEN:
                self._between_text(text, self.place)
        self.place.pass_over(text)

    def _escape(self, raw: str) -> None:
        """``<<|name|>``: a control's spelling as text, outside literal blocks and only in a body (A-O22, A-O23)."""
        if self._state is State.BODY:
            self._escaped_text(raw[1:], raw)
            self.place.pass_over(raw)
        else:
            self._text(raw)

    def _control(self, control: Control) -> None:
        match self._state:
            case State.BODY:
                self._control_in_body(control)
            case State.LITERAL if control is ENDLITERAL:
                self._frame.add_spelled("", control.spelling)
                self._state = State.BODY
            case State.LITERAL:
                self._body_text(control.spelling)
            case State.HEAD:
                self._control_in_head(control)
            case State.BETWEEN:
                self._control_between(control)
        self.place.pass_in_line(control.spelling)

    def _foreign(self, control: Control) -> None:
        """A control of the vocabulary that the format does not know; here it is text like any other."""
        self._text(control.spelling)

    # -- between frames -----------------------------------------------------------------------------------------------

    def _between_text(self, text: str, at: Place) -> None:
        at = at.copy()
        while text:
            taken = self._between.add(text, at)
            at.pass_over(text[:taken])
            text = text[taken:]
            if self._between.is_full:
                self._end_aside()

    def _control_between(self, control: Control) -> None:
        if control is START:
            self._end_aside()
            return self._open_head()
        self._between.set_aside(control.spelling, self.place)
        return self._end_aside() if self._between.is_full else None

    def _end_aside(self) -> None:
        """Text outside frames is reported once for each run of it, and set aside."""
        between, at = self._between, self._between.aside_at
        if at is not None:
            hint = "A frame is <|start|>ROLE<|message|>TEXT<|end|>."
            self._report(E_HEADER, between.problem, hint, text=between.take_aside(), place=at)

    # -- in a head ----------------------------------------------------------------------------------------------------

    def _open_head(self) -> None:
        self._state = State.HEAD
        self._frame = OpenFrame(self.place.copy())

    def _head_text(self, text: str) -> None:
        taken = self._frame.add_to_head(text)
        if self._frame.is_too_long:
            self._state = State.BETWEEN
            problem = f"no <|message|> within {MAX_HEAD} characters of a head"
            self._between.set_aside(START.spelling + self._frame.spelled, self._frame.start, problem)
            self._between_text(text[taken:], self.place.after(text[:taken]))

    def _control_in_head(self, control: Control) -> None:
        if control is MESSAGE:
            self._open_body()
        elif control is CHANNEL or control is CONSTRAIN:
            self._frame.parts.append(control)
        else:
            self._broken_head(control)

    def _broken_head(self, control: Control) -> None:
        """Any other control ends a head that has no body; it is set aside."""
        self._report(E_HEADER, f"{control} stands in a head, before any <|message|>", text=self._drop_head())
        if control is START:
            self._open_head()
        else:
            self._state = State.BETWEEN

    def _drop_head(self) -> str:
        self._between.mended = True
        return START.spelling + self._frame.spelled

    # -- in a body ----------------------------------------------------------------------------------------------------

    def _open_body(self) -> None:
        frame = self._frame
        head = self.heads.of(tuple(frame.parts))
        for finding in head.findings(frame.spelled, frame.start):
            self._add(finding)
        self._begin_body(head, self.place.after(MESSAGE.spelling))

    def _begin_body(self, head: Head, at: Place) -> None:
        self._state = State.BODY
        self._frame.open_body(head, at, keep=self._keep)

    def _body_text(self, text: str) -> None:
        if self._frame.is_utf8 and self._state is State.BODY and not is_utf8(text):
            self._not_utf8(text)
        self._frame.add(text)

    def _escaped_text(self, text: str, spelled: str) -> None:
        self._frame.add_spelled(text, spelled)

    def _not_utf8(self, text: str) -> None:
        self._frame.is_utf8 = False  # said once for a body
        good = next(i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff")
        place = self.place.after(text[:good])
        self._report(E_HEADER, "the body is not UTF-8", "Other bytes go into a literal block (§3).", place=place)

    def _control_in_body(self, control: Control) -> None:
        if control in FOOTERS:
            self._finish(FOOTERS[control], control.spelling)
        elif control is LITERAL:
            self._frame.add_spelled("", control.spelling)
            self._frame.literal = True
            self._state = State.LITERAL
        else:
            self._stray(control)

    def _stray(self, control: Control) -> None:
        """A-O04: there is no nesting; a control that has no place in a body is text there."""
        self._report(E_HEADER, f"{control} stands in a body", f"As text it is written <{control} (§3).")
        self._body_text(control.spelling)

    def _finish(self, end: End, footer: str) -> None:
        self._found.append(self._frame.close(end, self.place.copy(), self._between.take_blanks()))
        self._state = State.BETWEEN

    # -- findings -----------------------------------------------------------------------------------------------------

    def _report(
        self, code: str, message: str, hint: str | None = None, *, text: str = "", place: Place | None = None
    ) -> None:
        self._add(Finding(code, message, (place or self.place).position(), hint, text=text))

    def _add(self, finding: Finding) -> None:
        self._found.append(finding)
