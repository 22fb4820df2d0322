"""Reads one reply as it streams. A model's deviations are repaired and reported, never raised, and no text is lost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from antiphon.conversation import End, Incident, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.errors.place import Place
from antiphon.formats.format import Rest, RestingParser
from antiphon.tokens import Control, Piece, spell

from .body import body_type, constraint_problem, is_function, shape_problem
from .finding import E_HEADER, E_TRUNCATED, Finding
from .frame import Frame, OpenFrame
from .frame_reader import FrameReader
from .head import ATTRIBUTES, Head
from .judges import in_body
from .machine import REPLY, FrameState, Input
from .spelling import BLANK, BY_SPELLING, CHANNEL, CONSTRAIN, MESSAGE, START

_KEYS = "|".join(ATTRIBUTES)
_KEY_PREFIXES = "|".join(sorted({key[:n] for key in ATTRIBUTES for n in range(1, len(key) + 1)}, key=len, reverse=True))
_VALUE = r"[^\s<>|\"]"
_ATTRIBUTES = rf"(?:[ \t]+(?:{_KEYS})={_VALUE}+)*"
_MORE = rf"(?:[ \t]+(?:(?:{_KEY_PREFIXES})|(?:{_KEYS})={_VALUE}*)?)?[ \t\r\n]*\Z"
_SECTIONS = {None: r"[A-Za-z0-9_.-]*", CHANNEL: r"[ \t]?[A-Za-z0-9_-]*", CONSTRAIN: r"[ \t]?[A-Za-z0-9_/.+-]*"}
_VALID = {control: re.compile(first + _ATTRIBUTES) for control, first in _SECTIONS.items()}
_BEGUN = {**_SECTIONS, CHANNEL: rf"(?:{_SECTIONS[CHANNEL]}|[ \t]?[\w?!-]{{1,24}})"}
"""A channel that there is not may be a word of any language, or marks."""
_OPEN = {control: re.compile(first + _ATTRIBUTES + _MORE) for control, first in _BEGUN.items()}
"""A section of a head that may yet become a valid one; anything else is the body of a head without ``<|message|>``."""


class ReplyReader(FrameReader):
    """Frames as models write them, read by the table `REPLY`; ``ended`` is what ended the turn, None before its end."""

    def __init__(self, speaker: Role, *, strict: bool) -> None:
        super().__init__(table=REPLY)
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
        if self._state is FrameState.BODY:
            prompt, self._frame = self._frame, OpenFrame(self._frame.start)
            self._frame.open_body(prompt.head, prompt.head_text, self.place.copy(), keep=True)
            self._found.append(MessageStarted(prompt.head.message()))
        elif self._state is FrameState.HEAD:
            self._frame.start = self.place.copy()
            self._role = self._frame.spelled

    @property
    def rest(self) -> Rest | None:
        """A place in the open body; none where what its head promises of it is told at its end, and is not JSON."""
        if self._state is not FrameState.BODY or self._buffer:
            return None
        message = self._frame.head.message()
        promised = message.constrained or (message.is_call and is_function(message))
        is_json = body_type(message.content_type) in (None, "json")
        return None if promised and not is_json else Rest(self._frame.is_utf8, promised)

    def drop_tail(self) -> None:
        """Drops the buffered beginning of a control, which is no text."""
        tail, self._buffer = self._buffer, ""
        if tail:
            self._report("truncated", "the reply ends inside a control", text=tail, code=E_TRUNCATED)

    def control(self, control: Control) -> None:
        """A control token; one that the format does not know ends the turn."""
        self._flush()
        if control.spelling in BY_SPELLING:
            self._control(control.spelling)
        else:
            self._step(Input.UNKNOWN, control.spelling)

    def _whole_frames(self, text: str, start: int) -> int:
        """No frames: the events of a reply come while it is read."""
        return start

    def _control(self, spelling: str) -> None:
        if self._state is FrameState.HEAD and spelling == MESSAGE.spelling:
            self._step(self._message_input(), spelling)
            self.place.pass_in_line(spelling)
        else:
            super()._control(spelling)

    def _message_input(self) -> str:
        """A reply has messages of its speaker only: ``<|message|>`` after another author's head is another input."""
        head = self.heads.read_pieces(tuple(self._frame.parts))
        return MESSAGE.spelling if head.role is self._speaker else Input.OTHER_AUTHOR

    def _end_turn(self, stop: str) -> None:
        if self.ended is None:
            self.ended = stop

    # -- outside frames -----------------------------------------------------------------------------------------------

    def _open_head(self, spelling: str) -> None:
        super()._open_head(spelling)
        self._role = ""

    def _imply_head(self, spelling: str) -> None:
        """The model forgot how a frame begins; what it means is plain."""
        self._report("other", f"{spelling} stands before any <|start|>")
        self._frame = OpenFrame(self.place.copy())
        self._role = self._speaker.value
        self._frame.parts = [self._role]
        self._step(spelling, spelling)

    # -- in a head ----------------------------------------------------------------------------------------------------

    def _add_to_head(self, text: str) -> None:
        super()._add_to_head(text)
        if self._state is not FrameState.HEAD:
            return
        control, section = self._section()
        role = self._role if control is None and section.startswith(self._role) else ""
        rest = section[len(role) :]
        if (role and rest[:1].strip(BLANK)) or not _OPEN[control].match(section):
            valid = len(role) if role and rest[:1].strip(BLANK) else _valid(control, section)
            self._frame.parts = [*self._frame.parts[:-1], *([section[:valid]] if valid else [])]
            self._step(Input.UNMARKED, section[valid:])

    def _section(self) -> tuple[Control | None, str]:
        """The section that is being read, by the control that opened it."""
        parts = self._frame.parts
        text = parts[-1] if isinstance(parts[-1], str) else ""
        before = parts[-2] if len(parts) > 1 and text else parts[-1]
        return (before if isinstance(before, Control) else None), text

    def _insert_message(self, body: str) -> None:
        """The head has no ``<|message|>``: what is no head any more is the body."""
        self._report("other", "the message has a body but no <|message|>")
        self._step(self._message_input(), MESSAGE.spelling)
        self._step(Input.TEXT, body)

    def _skip_frame(self, message: str) -> None:
        """A frame of another author ends the turn."""
        self._end_turn(START.spelling)
        self._outside.skip(f"{START}{self._frame.spelled}{message}", self.place)

    def _leave_head(self, spelling: str) -> None:
        self._report_bodiless(E_HEADER)
        if self._state is FrameState.ENDED:
            self._end_turn(spelling)

    def _truncate_head(self, _: str) -> None:
        self._report_bodiless(E_TRUNCATED)
        self._report_skipped()

    def _report_bodiless(self, code: str) -> None:
        """A head without a body is skipped; one to which the model added nothing is no loss."""
        if self._frame.spelled != self._role:
            self._report("other", "a head ends without a body", text=self._dropped_head(), code=code)

    # -- in a body ----------------------------------------------------------------------------------------------------

    def _enter_body(self, head: Head, head_text: str, at: Place) -> None:
        super()._enter_body(head, head_text, at)
        self._found.append(MessageStarted(head.message()))

    def _add_text(self, text: str) -> None:
        super()._add_text(text)
        self._found.append(TextDelta(text))

    def _add_literal(self, text: str) -> None:
        super()._add_literal(text)
        self._found.append(TextDelta(text))

    def _add_escaped(self, spelled: str) -> None:
        super()._add_escaped(spelled)
        self._found.append(TextDelta(spelled[1:]))

    def _report_stray(self, spelling: str) -> None:
        """A control that has no place here is reported, and is in no message."""
        what = "stands in a body" if self._state is FrameState.BODY else "ends no message"
        self._report("other", f"{spelling} {what}", text=spelling)

    def _imply_end(self, spelling: str) -> None:
        self._report("other", f"{spelling} stands in a body that has not ended")
        self._finish(End.END)
        self._step(spelling, spelling)

    def _end_frame(self, footer: str) -> None:
        super()._end_frame(footer)
        if self._state is FrameState.ENDED:
            self._end_turn(footer)

    def _stop_frame(self, spelling: str) -> None:
        """A control that the format does not know ends the message as its head has it, and the turn."""
        head = self._frame.head
        hidden = head.channel not in (None, "final")
        self._finish(End.CALL if head.recipient is not None else End.END if hidden else End.RETURN)
        self._end_turn(spelling)

    # -- findings -----------------------------------------------------------------------------------------------------

    def _add(self, finding: Finding) -> None:
        if self._strict and not finding.warning:
            raise finding.error()
        super()._add(finding)


def _valid(control: Control | None, section: str) -> int:
    found = _VALID[control].match(section)
    return found.end() if found else 0


class ReplyParser(RestingParser):
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

    @property
    def rest(self) -> Rest | None:
        return self._reader.rest

    def close(self) -> list[ParserEvent]:
        self._reader.close()
        return self._events()

    def cut(self) -> list[ParserEvent]:
        self._reader.drop_tail()
        return self.close()

    def _events(self) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        for found in self._reader.take():
            match found:
                case MessageStarted() | TextDelta():
                    events.append(found)
                case Frame(message=message):
                    events.append(MessageEnded(message))
                    problem = constraint_problem(message) or shape_problem(message)
                    events += [_incident(in_body(found, problem))] if problem else []
                case Finding():
                    events.append(_incident(found))
        return events


def _incident(finding: Finding) -> Incident:
    return Incident(finding.code, finding.position.offset or 0, finding.text)
