"""Reads one reply as it streams. A model's deviations are repaired and reported, never raised, and no text is lost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from antiphon.conversation import End, Incident, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.tokens import Control, Piece, spell

from .body import constraint_problem
from .finding import E_HEADER, E_TRUNCATED, Finding, Place
from .frame import FOOTERS, Frame
from .frames import FrameReader, State
from .head import ATTRIBUTES, Head
from .rules import in_body
from .spelling import CHANNEL, CONSTRAIN, END, MESSAGE, START

_KEYS = "|".join(ATTRIBUTES)
_KEY_PREFIXES = "|".join(sorted({key[:n] for key in ATTRIBUTES for n in range(1, len(key) + 1)}, key=len, reverse=True))
_VALUE = r"[^\s<>|\"]"
_ATTRIBUTES = rf"(?:[ \t]+(?:{_KEYS})={_VALUE}+)*"
_MORE = rf"(?:[ \t]+(?:(?:{_KEY_PREFIXES})|(?:{_KEYS})={_VALUE}*)?)?[ \t\r\n]*\Z"
_SECTIONS = {None: r"[A-Za-z0-9_.-]*", CHANNEL: r"[ \t]?[A-Za-z0-9_-]*", CONSTRAIN: r"[ \t]?[A-Za-z0-9_/.+-]*"}
_VALID = {control: re.compile(first + _ATTRIBUTES) for control, first in _SECTIONS.items()}
_OPEN = {control: re.compile(first + _ATTRIBUTES + _MORE) for control, first in _SECTIONS.items()}
"""A section of a head that may yet become a valid one; anything else is the body of a head without ``<|message|>``."""


class ReplyReader(FrameReader):
    """Frames as models write them: every control acts wherever it stands, and unmarked text is the answer's."""

    def __init__(self, speaker: Role, *, strict: bool) -> None:
        super().__init__()
        self._strict = strict
        self._speaker = speaker
        self.ended: str | None = None
        self._role = ""

    def begin(self, opened: Sequence[Piece], *, spelled: bool) -> None:
        """Takes up where the prompt stops: inside a head, or inside a body that the model is to continue."""
        if spelled:
            self.feed(spell(list(opened)))
            self._flush()
        else:
            self.feed_pieces(opened)
        self.take()
        self.place = Place()
        if self._state is State.BODY:
            self._begin_body(self._frame.head, self.place.copy())
        elif self._state is State.HEAD:
            self._frame.start = self.place.copy()
            self._role = self._frame.spelled

    def close(self) -> None:
        self._flush()
        if self._state is State.HEAD:
            self._leave_head(E_TRUNCATED)
        super().close()

    def control(self, control: Control) -> None:
        """A control token; one that the format does not know ends the turn."""
        self._flush()
        self.feed_pieces([control])

    def _flush(self) -> None:
        held, self._held = self._held, ""
        self._text(held)

    def _whole_frames(self, text: str, start: int) -> int:
        """A reply is told while it is read."""
        return start

    def _foreign(self, control: Control) -> None:
        if self._state in (State.BODY, State.LITERAL):
            call = self._frame.head.recipient is not None
            hidden = self._frame.head.channel not in (None, "final")
            self._finish(End.CALL if call else End.END if hidden else End.RETURN, control.spelling)
        elif self._state is State.HEAD:
            self._leave_head()
        self._end(control.spelling)

    def _end(self, stop: str) -> None:
        if self.ended is None:
            self.ended = stop
        self._state = State.BETWEEN

    def _finish(self, end: End, footer: str) -> None:
        super()._finish(end, footer)
        if end in (End.CALL, End.RETURN) and footer:
            self.ended = self.ended or footer

    # -- between frames -----------------------------------------------------------------------------------------------

    def _control_between(self, control: Control) -> None:
        if self.ended is not None:
            self._between.set_aside(control.spelling, self.place)
        elif control is START:
            super()._control_between(control)
            self._role = ""
        elif control in (CHANNEL, MESSAGE):
            # The model forgot how a frame begins; what it means is plain.
            self._report(E_HEADER, f"{control} stands before any <|start|>")
            self._open_head()
            self._role = self._speaker.value
            self._frame.parts = [self._role]
            self._control_in_head(control)
        else:
            self._report(E_HEADER, f"{control} ends no message", text=control.spelling)

    # -- in a head ----------------------------------------------------------------------------------------------------

    def _head_text(self, text: str) -> None:
        super()._head_text(text)
        if self._state is not State.HEAD:
            return
        control, section = self._section()
        role = self._role if control is None and section.startswith(self._role) else ""
        rest = section[len(role) :]
        if (role and rest[:1].strip(" \t\r\n")) or not _OPEN[control].match(section):
            self._unmarked(len(role) if role and rest[:1].strip(" \t\r\n") else _valid(control, section))

    def _section(self) -> tuple[Control | None, str]:
        """The section that is being read, by the control that opened it."""
        parts = self._frame.parts
        text = parts[-1] if isinstance(parts[-1], str) else ""
        before = parts[-2] if len(parts) > 1 and text else parts[-1]
        return (before if isinstance(before, Control) else None), text

    def _unmarked(self, valid: int) -> None:
        """The head has no ``<|message|>``: what is no head any more is the body."""
        *before, section = self._frame.parts
        assert isinstance(section, str)
        head, body = section[:valid], section[valid:]
        self._frame.parts = [*before, *([head] if head else [])]
        self._report(E_HEADER, "the message has a body but no <|message|>")
        self._open_body()
        if self._state is State.BODY:
            self._body_text(body)
        else:
            self._between.set_aside(body, self.place)

    def _control_in_head(self, control: Control) -> None:
        if control in FOOTERS:
            self._leave_head()
            if control is not END:
                self._end(control.spelling)
        else:
            super()._control_in_head(control)

    def _leave_head(self, code: str = E_HEADER) -> None:
        """A head that ends without a body is set aside; one of which the model said nothing is no loss."""
        self._state = State.BETWEEN
        if self._frame.spelled != self._role:
            self._report(code, "a head ends without a body", text=self._drop_head())

    def _open_body(self) -> None:
        """A frame of somebody else's ends the turn: the model speaks for itself only."""
        head = self.heads.of(tuple(self._frame.parts))
        if head.role is self._speaker:
            return super()._open_body()
        self._end(START.spelling)
        self._between.set_aside(f"{START}{self._frame.spelled}{MESSAGE}", self.place)
        return None

    # -- in a body ----------------------------------------------------------------------------------------------------

    def _begin_body(self, head: Head, at: Place) -> None:
        super()._begin_body(head, at)
        self._found.append(MessageStarted(head.message()))

    def _body_text(self, text: str) -> None:
        super()._body_text(text)
        self._found.append(TextDelta(text))

    def _escaped_text(self, text: str, spelled: str) -> None:
        super()._escaped_text(text, spelled)
        self._found.append(TextDelta(text))

    def _stray(self, control: Control) -> None:
        """A control that has no place in a body: a frame's start ends the message, others are set aside."""
        if control not in (START, CHANNEL):
            return self._report(E_HEADER, f"{control} stands in a body", text=control.spelling)
        self._report(E_HEADER, f"{control} stands in a body that has not ended")
        super()._finish(End.END, "")
        return self._control_between(control)

    def _add(self, finding: Finding) -> None:
        if self._strict and not finding.warning:
            raise finding.error()
        super()._add(finding)


def _valid(control: Control | None, section: str) -> int:
    found = _VALID[control].match(section)
    return found.end() if found else 0


class ReplyParser:
    """A `Parser` for one reply.

    ``spelled``: the controls are text in the model's output, escapes included; a control piece is then the model's own
    end token. Incident positions count characters.
    """

    def __init__(self, opened: Sequence[Piece], *, speaker: Role, spelled: bool, strict: bool) -> None:
        self._reader = ReplyReader(speaker, strict=strict)
        self._spelled = spelled
        self._reader.begin(opened, spelled=spelled)

    @property
    def ended(self) -> str | None:
        return self._reader.ended

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        for piece in pieces:
            if isinstance(piece, Control):
                self._reader.control(piece)
            elif self._spelled:
                self._reader.feed(piece)
            else:
                self._reader.feed_pieces([piece])
        return self._events()

    def close(self) -> list[ParserEvent]:
        self._reader.close()
        return self._events()

    def _events(self) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        for found in self._reader.take():
            match found:
                case MessageStarted() | TextDelta():
                    events.append(found)
                case Frame(message=message):
                    events.append(MessageEnded(message))
                    problem = constraint_problem(message)
                    events += [_incident(in_body(found, problem))] if problem else []
                case Finding():
                    events.append(_incident(found))
        return events


def _incident(finding: Finding) -> Incident:
    return Incident(finding.code, finding.position.offset or 0, finding.text)
