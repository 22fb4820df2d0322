"""Text cut anywhere, or pieces, become frames. The one reader under transcripts and replies."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from antiphon.conversation import End, Message, MessageStarted, TextDelta
from antiphon.errors import Position
from antiphon.tokens import Control, Piece, spell

from .finding import E_HEADER, E_TRUNCATED, Finding, Place, Problem, after
from .frame import FOOTERS, MAX_ASIDE, MAX_HEAD, Frame, Trivia
from .head import Head, ToolNames, read_head
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


class State(Enum):
    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()
    LITERAL = auto()


Found = MessageStarted | TextDelta | Frame | Finding


class FrameReader:
    """Reads frames; what it found since the last `take` is kept in order.

    ``strict`` raises the first error. ``deltas`` reports messages while they are read. ``keep`` False drops the bodies
    of messages that nobody needs to see whole, so that memory does not grow with them.
    """

    def __init__(self, *, strict: bool, deltas: bool = False, keep: bool = True, place: Place | None = None) -> None:
        self.tools = ToolNames()
        self.place = place or Place()
        self._strict = strict
        self._deltas = deltas
        self._keep = keep
        self._found: list[Found] = []
        self._state = State.BETWEEN
        self._held = ""
        self._between: list[str] = []
        self._mended = False
        self._aside: list[str] = []
        self._aside_length = 0
        self._aside_at: Position | None = None
        self._heads: dict[tuple[Piece, ...], Head] = {}
        self._first = True

    # -- in and out ---------------------------------------------------------------------------------------------------

    def take(self) -> list[Found]:
        found, self._found = self._found, []
        return found

    def feed(self, text: str) -> None:
        """Text in which controls are spelled out and escaped."""
        text, self._held = self._held + text, ""
        start = 0
        while True:
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
            self._report(
                E_TRUNCATED, "the text ends inside a head", text=self._drop_head(), place=self.place.position()
            )
        elif self._state is not State.BETWEEN:
            where = "a literal block" if self._state is State.LITERAL else "a message"
            self._report(
                E_TRUNCATED, f"the text ends inside {where}", "A message ends with <|end|>, <|return|> or <|call|>."
            )
            self._finish(End.NONE, "")

    @property
    def tail(self) -> str:
        """The blanks after the last frame."""
        return "".join(self._between)

    # -- what comes in ------------------------------------------------------------------------------------------------

    def _text(self, text: str) -> None:
        if not text:
            return
        match self._state:
            case State.BODY | State.LITERAL:
                self._body_text(text)
            case State.HEAD:
                self._head_text(text)
            case State.BETWEEN:
                self._between_text(text)
        self.place.pass_over(text)

    def _escape(self, raw: str) -> None:
        """``<<|name|>``: a control's spelling as text, outside literal blocks and only in a body (A-O22, A-O23)."""
        if self._state is State.BODY:
            self._body_text(raw[1:], raw)
            self.place.pass_over(raw)
        else:
            self._text(raw)

    def _control(self, control: Control) -> None:
        match self._state:
            case State.BODY:
                self._control_in_body(control)
            case State.LITERAL if control is ENDLITERAL:
                self._raw_text("", control.spelling)
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

    def _between_text(self, text: str) -> None:
        if not text.strip(" \t\r\n") and self._aside_at is None:
            self._between.append(text)
            return
        if self._aside_at is None:
            blank = len(text) - len(text.lstrip(" \t\r\n"))
            self._aside_at = after(self.place.position(), text[:blank])
        self._aside.append(text)
        self._aside_length += len(text)
        if self._aside_length > MAX_ASIDE:
            self._end_aside()

    def _control_between(self, control: Control) -> None:
        if control is START:
            self._end_aside()
            return self._open_head()
        if self._aside_at is None:
            self._aside_at = self.place.position()
        self._aside.append(control.spelling)
        return None

    def _end_aside(self) -> None:
        """Text outside frames is reported once for each run of it, and set aside."""
        if self._aside_at is None:
            return
        self._mended = True
        at, text = self._aside_at, "".join(self._aside)
        self._aside_at, self._aside, self._aside_length = None, [], 0
        self._report(E_HEADER, "text stands outside any frame", "A frame begins with <|start|>.", text=text, place=at)

    # -- in a head ----------------------------------------------------------------------------------------------------

    def _open_head(self) -> None:
        self._state = State.HEAD
        self._start = self.place.position()
        self._head_parts: list[Piece] = []
        self._head_length = 0

    def _head_text(self, text: str) -> None:
        parts = self._head_parts
        if parts and isinstance(parts[-1], str):
            parts[-1] += text
        else:
            parts.append(text)
        self._head_length += len(text)
        if self._head_length > MAX_HEAD:
            self._state = State.BETWEEN
            aside = self._drop_head()
            self._report(
                E_HEADER, f"no <|message|> within {MAX_HEAD} characters of a head", text=aside, place=self._start
            )

    def _control_in_head(self, control: Control) -> None:
        if control is MESSAGE:
            self._open_body()
        elif control is CHANNEL or control is CONSTRAIN:
            self._head_parts.append(control)
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
        self._mended = True
        return START.spelling + spell(self._head_parts)

    def _read_head(self) -> Head:
        """Heads repeat, so they are read once; the memory is small and starts over when full."""
        parts = tuple(self._head_parts)
        head = self._heads.get(parts)
        if head is None:
            if len(self._heads) >= 512:
                self._heads.clear()
            head = self._heads[parts] = read_head(parts, self.tools)
        return head

    def head_problem(self, problem: Problem, head_text: str, start: Position) -> Finding:
        at = after(start, START.spelling + head_text[: problem.offset])
        return Finding(problem.code, problem.message, at, problem.hint, problem.warning, head_text)

    # -- in a body ----------------------------------------------------------------------------------------------------

    def _open_body(self) -> None:
        self._head = self._read_head()
        self._head_spelled = spell(self._head_parts)
        for problem in self._head.problems:
            self._add(self.head_problem(problem, self._head_spelled, self._start))
        self._begin_body(after(self.place.position(), MESSAGE.spelling))

    def _begin_body(self, at: Position) -> None:
        self._state = State.BODY
        self._body_at = at
        self._body: list[str] = []
        self._raw: list[str] | None = None
        self._literal = False
        self._utf8 = True
        head = self._head
        self._wanted = self._keep or head.constrained or head.recipient is not None
        if self._deltas:
            self._found.append(MessageStarted(head.message()))

    def _body_text(self, text: str, raw: str | None = None) -> None:
        if self._utf8 and self._state is State.BODY and not is_utf8(text):
            self._not_utf8(text)
        if raw is not None:
            self._raw_text(text, raw)
        else:
            if self._wanted:
                self._body.append(text)
            if self._raw is not None:
                self._raw.append(text)
        if self._deltas:
            self._found.append(TextDelta(text))

    def _raw_text(self, text: str, raw: str) -> None:
        """Text that is written otherwise than it reads; from here on the body's spelling is kept too."""
        if not self._wanted:
            return
        if self._raw is None:
            self._raw = self._body[:]
        self._raw.append(raw)
        if text:
            self._body.append(text)

    def _not_utf8(self, text: str) -> None:
        self._utf8 = False  # said once for a body
        good = next(i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff")
        place = after(self.place.position(), text[:good])
        self._report(E_HEADER, "the body is not UTF-8", "Other bytes go into a literal block (§3).", place=place)

    def _control_in_body(self, control: Control) -> None:
        if control in FOOTERS:
            self._finish(FOOTERS[control], control.spelling)
        elif control is LITERAL:
            self._raw_text("", control.spelling)
            self._literal = True
            self._state = State.LITERAL
        else:
            self._stray(control)

    def _stray(self, control: Control) -> None:
        """A-O04: there is no nesting; a control that has no place in a body is text there."""
        self._report(E_HEADER, f"{control} stands in a body", f"As text it is written <{control} (§3).")
        self._body_text(control.spelling)

    def _finish(self, end: End, footer: str) -> None:
        head = self._head
        text = "".join(self._body)
        raw = None if self._raw is None else "".join(self._raw)
        spelled = self._head_spelled
        # Blanks around what was set aside belong to it: they may not make sense without it.
        before = None if self._mended or self.tail == ("" if self._first else "\n") else self.tail
        plain = head.canonical and raw is None and before is None
        trivia = None if plain else Trivia(before, None if head.canonical else spelled, raw)
        message = Message(
            role=head.role, text=text, name=head.name, recipient=head.recipient, channel=head.channel,
            content_type=head.content_type, constrained=head.constrained, call_id=head.call_id, intent=head.intent,
            end=end, extra={} if trivia is None else {"openchatml": trivia},
        )  # fmt: skip
        at = self.place.position()
        self._found.append(
            Frame(message, head, self._start, spelled, self._body_at, at, trivia, self._literal, not self._wanted)
        )
        self._first = self._mended = False
        self._between = []
        self._body, self._raw = [], None
        self._state = State.BETWEEN

    # -- findings -----------------------------------------------------------------------------------------------------

    def _report(
        self, code: str, message: str, hint: str | None = None, *, text: str = "", place: Position | None = None
    ) -> None:
        self._add(Finding(code, message, place or self.place.position(), hint, text=text))

    def _add(self, finding: Finding) -> None:
        if self._strict and not finding.warning:
            raise finding.error()
        self._found.append(finding)
