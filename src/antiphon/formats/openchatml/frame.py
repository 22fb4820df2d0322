"""A frame: as it was read and how it was written, while it comes in, and the text that is outside frames."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.conversation import Channel, End, Message, MessageStarted, Role, TextDelta
from antiphon.errors.place import Place
from antiphon.tokens import Piece, spell

from .finding import Finding, Problem
from .head import Head
from .markers import MarkerScanner, first_marker
from .spelling import BLANK, CALL, END, RETURN

MAX_HEAD = 4096
"""Characters between ``<|start|>`` and ``<|message|>``; a head that is longer is not one."""
MAX_SKIPPED = 65_536
"""Characters outside frames that are stored where not all of them are."""
FOOTERS = {END.spelling: End.END, CALL.spelling: End.CALL, RETURN.spelling: End.RETURN}
OUTSIDE = Problem(0, "text stands outside any frame", rule="text-outside")


@dataclass(frozen=True, slots=True)
class Trivia:
    """How a frame was written: the blanks before it, its head, its body. None: the canonical way.

    ``synthetic`` is a call id that the text does not carry (A-O12, A-O15).
    """

    before: str | None = None
    head: str | None = None
    body: str | None = None
    synthetic: str | None = None


@dataclass(slots=True)
class Places:
    """The places at which a frame, its body and its footer begin."""

    start: Place
    body: Place
    footer: Place


@dataclass(slots=True)
class Frame:
    """A message as read, with the places that a finding about it can point to."""

    message: Message
    head: Head
    head_text: str
    places: Places
    trivia: Trivia | None
    literal: bool = False
    bodiless: bool = False
    marker: Place | None = None
    """The place of a reflection marker in an assistant's body that is not on analysis."""

    @property
    def is_incomplete(self) -> bool:
        """Whether it is a call or a reply whose id or name is filled in by the frames before it."""
        message = self.message
        if message.role is Role.TOOL:
            return not self.head.is_unknown and None in (message.call_id, message.name)
        return message.is_call and message.call_id is None

    @property
    def behind(self) -> Place:
        """The place behind the footer."""
        end = self.message.end
        return self.places.footer.after("" if end is End.NONE else f"<|{end}|>")


Found = MessageStarted | TextDelta | Frame | Finding
"""The results of reading frames."""


class OpenFrame:
    """A frame while it comes in: first the pieces of its head, then its body.

    ``head`` and ``head_text`` are set when the body is opened; ``literal``: the body has a literal block.
    """

    head: Head
    head_text: str
    literal = False
    is_utf8 = True
    _length = 0
    _spelled: list[str] | None = None
    _undecided = False
    _markers: MarkerScanner | None = None

    def __init__(self, start: Place) -> None:
        self.start = start
        self.parts: list[Piece] = []

    # -- the head -----------------------------------------------------------------------------------------------------

    def add_to_head(self, text: str) -> str:
        """Takes text of the head; returns what is left of it once the head is too long to be one."""
        taken = text[: MAX_HEAD + 1 - self._length]
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += taken
        else:
            self.parts.append(taken)
        self._length += len(taken)
        return text[len(taken) :]

    @property
    def is_overlong(self) -> bool:
        return self._length > MAX_HEAD

    @property
    def spelled(self) -> str:
        """The head as text."""
        return spell(self.parts)

    # -- the body -----------------------------------------------------------------------------------------------------

    def open_body(self, head: Head, head_text: str, at: Place, *, keep: bool) -> None:
        """The body begins at ``at``. ``keep`` False: its text is not stored, unless a rule needs it."""
        self.head, self.head_text = head, head_text
        self._body_at = at
        self._keeps_body = keep or head.needs_body
        self._texts: list[str] = []
        if head.role is Role.ASSISTANT:
            self._undecided = not self._keeps_body
            self._markers = None if head.channel == Channel.ANALYSIS else MarkerScanner()

    def add_text(self, text: str, at: Place) -> None:
        """Text of the body, at ``at``, that is neither escaped nor in a literal block."""
        if self._markers is not None:
            self._markers.feed(text, at)
        self.add(text)

    def add(self, text: str) -> None:
        """Text of the body that is written as it reads."""
        if self._undecided and (begun := text.lstrip(BLANK)):
            # A rule needs to see an answer that is a JSON object.
            self._undecided, self._keeps_body = False, begun.startswith("{")
        if self._keeps_body:
            self._texts.append(text)
        if self._spelled is not None:
            self._spelled.append(text)

    def add_spelled(self, text: str, spelled: str) -> None:
        """Text that is written otherwise than it reads; from here on the body's spelling is stored too."""
        self._undecided = self._undecided and not text
        if self._markers is not None:
            self._markers.interrupt()
        if not self._keeps_body:
            return
        if self._spelled is None:
            self._spelled = self._texts[:]
        self._spelled.append(spelled)
        if text:
            self._texts.append(text)

    def close(self, end: End, at: Place, before: str | None) -> Frame:
        """The frame; its footer is at ``at``. ``before``: the blanks before it, None where they are canonical."""
        head = self.head
        trivia = _trivia(head, self.head_text, before, None if self._spelled is None else "".join(self._spelled))
        message = head.message("".join(self._texts), end, trivia)
        places = Places(self.start, self._body_at, at)
        marker = self._markers.found if self._markers else None
        return Frame(message, head, self.head_text, places, trivia, self.literal, not self._keeps_body, marker)


def whole_frame(
    head: Head, head_text: str, body: str, end: End, places: Places, before: str | None, *, keep: bool
) -> Frame:
    """The frame of a body that comes at once without escapes or controls, as `OpenFrame` reads it."""
    answers = head.role is Role.ASSISTANT
    keeps_body = keep or head.needs_body or (answers and body.lstrip(BLANK).startswith("{"))
    trivia = _trivia(head, head_text, before, None)
    marker = first_marker(body, places.body) if answers and head.channel != Channel.ANALYSIS else None
    message = head.message(body if keeps_body else "", end, trivia)
    return Frame(message, head, head_text, places, trivia, False, not keeps_body, marker)


def _trivia(head: Head, head_text: str, before: str | None, body: str | None) -> Trivia | None:
    """How a frame was written; None: in canonical form."""
    if head.canonical and before is None and body is None:
        return None
    return Trivia(before, None if head.canonical else head_text, body)


class OutsideText:
    """The text between frames: blanks, which belong to the frame behind them, and text that has no place there.

    ``skipped_at`` is where a run of such text began, None when there is none; ``problem`` is what is wrong with it.
    ``whole``: all of a run is stored, and it is reported when it is over; otherwise its first `MAX_SKIPPED` characters
    are, and it is reported when it has so many. ``reported``: it was.
    """

    def __init__(self, *, keep: bool, whole: bool) -> None:
        self._keep = keep
        self._whole = whole
        self.reported = False
        self._blanks: list[str] = []
        self._expected = ""
        self._skipped: list[str] = []
        self._length = 0
        self.skipped_at: Place | None = None
        self.problem = OUTSIDE
        self.repaired = False
        """Something was skipped since the last frame."""

    def add(self, text: str, at: Place) -> None:
        """Takes text that is at ``at``."""
        blank = 0
        if self.skipped_at is None:
            blank = len(text) - len(text.lstrip(BLANK))
            self.add_blanks(text[:blank])
        if blank < len(text):
            self.skip(text[blank:], at.after(text[:blank]))

    def add_blanks(self, blanks: str) -> None:
        if self._keep and blanks:
            self._blanks.append(blanks)

    def skip(self, text: str, at: Place, problem: Problem = OUTSIDE) -> None:
        """Text that no frame holds; ``problem`` says why, when a run of it begins."""
        if self.skipped_at is None:
            self.skipped_at, self.problem = at.copy(), problem
        stored = text if self._whole else text[: max(0, MAX_SKIPPED - self._length)]
        if stored:
            self._skipped.append(stored)
        self._length += len(stored)

    @property
    def is_full(self) -> bool:
        """No more of the run is stored."""
        return not self._whole and self._length >= MAX_SKIPPED

    @property
    def is_clean(self) -> bool:
        """Nothing was skipped since the last frame."""
        return self.skipped_at is None and not self.repaired

    @property
    def skipped(self) -> str:
        """The stored part of the run."""
        return "".join(self._skipped)

    def end_run(self) -> None:
        self.skipped_at, self._skipped, self._length, self.repaired, self.reported = None, [], 0, True, False

    def take_blanks(self, last: str = "") -> str | None:
        """The blanks before a frame that ends now, ``last`` behind those that came; None when they are canonical.

        Blanks around what was skipped belong to it: they may not make sense without it.
        """
        repaired, self.repaired = self.repaired, False
        if not self._keep:
            return None
        blanks, expected = "".join((*self._blanks, last)) if self._blanks else last, self._expected
        self._blanks, self._expected = [], "\n"
        return None if repaired or blanks == expected else blanks

    @property
    def blanks(self) -> str:
        return "".join(self._blanks)
