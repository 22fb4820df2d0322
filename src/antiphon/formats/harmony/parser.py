"""The default reader of Harmony: never raises, loses no text, lets no control into a field, reports every repair.

R-07 has the rules, and F-01 … F-17 are the failures of real models that they answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum, auto

from antiphon.conversation import Channel, End, Message, ParserEvent, Role
from antiphon.tokens import Control, Piece

from .controls import CHANNEL, CONSTRAIN, END, ENDOFTEXT, ENDS, MESSAGE, START
from .fields import Header, Opened, Section
from .header import BLANK
from .said import Said
from .unread import UnreadHeader


class _State(Enum):
    BETWEEN = auto()
    HEADER = auto()
    CONTENT = auto()
    HELD = auto()
    """In the content of a message whose role only its end will tell."""
    OVER = auto()
    """Behind a turn of somebody else: nothing more is accepted."""


class HarmonyParser:
    """Reads one reply, or with ``reply_as`` None a whole conversation.

    ``tools`` are the recipients that were offered (``functions.f``, ``python``); they settle what a bare name means.
    ``said`` is what was read so far.
    """

    def __init__(
        self, reply_as: Role | None = Role.ASSISTANT, *, tools: Collection[str] = (), prefix: Message | None = None
    ) -> None:
        self._reply_as = reply_as
        self._state = _State.BETWEEN
        self._unread = UnreadHeader(reply_as, tools)
        self._header: Header | None = None
        self.said = Said()
        self._ended: str | None = None
        if prefix is not None:
            self._start(prefix)
        elif reply_as is not None:
            self._open_header(Opened.GIVEN)

    @property
    def ended(self) -> str | None:
        """The control that ended the reply. What is fed afterwards is still read, for those who parse transcripts."""
        return self._ended

    @property
    def in_content(self) -> bool:
        """Text that is fed now belongs to the open message."""
        return self._state is _State.CONTENT

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        for piece in pieces:
            if isinstance(piece, Control):
                self._control(piece)
                self.said.position += 1
            else:
                self._read(piece)
                self.said.position += len(piece)
        return self.said.take()

    def close(self) -> list[ParserEvent]:
        """The reply is over: what is open ends with `End.NONE`."""
        self._end(End.NONE, "")
        self.said.close()
        return self.said.take()

    # Text

    def _read(self, text: str) -> None:
        match self._state:
            case _State.CONTENT:
                self.said.add(text)
            case _State.HELD:
                self.said.parts.append(text)
            case _State.OVER:
                self.said.set_aside(text)
            case _State.HEADER | _State.BETWEEN:
                self._read_header(text)

    def _read_header(self, text: str) -> None:
        while len(text) > (room := self._unread.room):
            self._unread.add(text[:room])
            text = text[room:]
            self._open_without_message()
            if self._state not in (_State.HEADER, _State.BETWEEN):
                self._read(text)
                return
        self._unread.add(text)

    # Controls

    def _control(self, control: Control) -> None:
        if self._is_over:
            return
        if control in ENDS:
            self._ended = self._ended or (control.spelling if control != END else None)
            self._end(ENDS[control], control.spelling)
        elif control == ENDOFTEXT and self._state is not _State.HEADER:
            self._ended = self._ended or control.spelling
            self.said.incident("endoftext", control.spelling)
            self._end(End.RETURN, control.spelling)
        elif control == START:
            self._on_start()
        elif control == MESSAGE:
            self._on_message()
        elif control in (CHANNEL, CONSTRAIN):
            self._on_section(control)
        else:
            self._on_other(control)

    def _on_start(self) -> None:
        match self._state:
            case _State.CONTENT | _State.HELD:
                self.said.incident("missing-end")
                self._end(End.END, "")
            case _State.HEADER if not self._unread.sections:
                self.said.incident("dup-start")
            case _State.HEADER:
                self._end(End.END, "")
            case _:
                self._set_aside()
        if not self._is_over:
            self._open_header(Opened.START)

    def _on_message(self) -> None:
        match self._state:
            case _State.CONTENT | _State.HELD:
                self.said.incident("stray-message" if self.said.parts else "dup-message")
            case _:
                if self._state is _State.BETWEEN:
                    self.said.incident("missing-start")
                self._open_content(self._unread.read(whole=True))

    def _on_section(self, control: Control) -> None:
        match self._state:
            case _State.CONTENT | _State.HELD if control == CONSTRAIN:
                self.said.incident("stray-control", control.spelling)
                return
            case _State.CONTENT | _State.HELD:
                self.said.incident("missing-end")
                self._end(End.END, "")
                if self._is_over:
                    return
                self._open_header(Opened.MISSING)
                self.said.incident("missing-start")
            case _State.BETWEEN:
                self._state = _State.HEADER
                self.said.incident("missing-start")
            case _:
                pass
        self._unread.sections.append(Section(control, ""))
        self._count_control("")

    def _on_other(self, control: Control) -> None:
        if self._state is _State.HEADER:
            self.said.incident("header-noise", control.spelling)
            self._count_control(" ")
        else:
            self.said.incident("stray-control", control.spelling)

    def _count_control(self, separator: str) -> None:
        """A control makes a header longer, too; ``separator`` stands for one that only parts two words."""
        self._unread.add(separator)
        self._unread.length += 1
        if self._unread.room < 0:
            self._open_without_message()

    # Headers

    def _open_header(self, opened: Opened) -> None:
        self._state = _State.HEADER
        self._unread.begin(opened)

    def _open_content(self, header: Header) -> None:
        """A header is known: its message starts, unless it is somebody else's."""
        self.said.repaired(header)
        self.said.missed_message = False
        if self._reply_as is not None and header.role is not self._reply_as:
            self._set_over(header)
        elif header.unknown_role is not None:
            self._state, self._header, self.said.parts = _State.HELD, header, []
        else:
            self._start(header.message())

    def _start(self, message: Message) -> None:
        self._state = _State.CONTENT
        self.said.start(message)

    def _set_over(self, header: Header) -> None:
        self._state = _State.OVER
        self._ended = self._ended or START.spelling
        self.said.set_over(header)

    # Ends

    def _end(self, end: End, spelling: str) -> None:
        match self._state:
            case _State.CONTENT:
                self._finish(end)
            case _State.HELD:
                self._settle(end)
            case _State.HEADER if self._unread.text.strip(BLANK):
                self._end_header(end)
            case _State.HEADER if self._unread.opened is Opened.START:
                self._end_header(end)
            case _State.HEADER | _State.BETWEEN:
                self._end_between(end, spelling)
            case _State.OVER:
                pass

    def _finish(self, end: End) -> None:
        self.said.finish(end)
        self._between()

    def _between(self) -> None:
        self._open_header(Opened.MISSING)
        self._state = _State.BETWEEN

    def _settle(self, end: End) -> None:
        """A message from an unknown name ended: a call in disguise if so ended, else a turn of somebody else."""
        assert self._header is not None
        name, text = self._header.unknown_role or "", "".join(self.said.parts)
        if end is not End.CALL:
            self._set_over(self._header)
            return
        self.said.incident("role-as-recipient", name)
        self._header.recipient, self._header.unknown_role = name, None
        self._start(self._header.message())
        self.said.add(text)
        self._finish(end)

    def _end_header(self, end: End) -> None:
        """A header ended with no ``<|message|>`` in it (F-04): what of it is no field was the content."""
        if self._unread.is_bare and self._unread.is_unmarked:
            self._end_unmarked(end, answer=end in (End.RETURN, End.NONE))
            return
        header = self._unread.read(whole=False)
        says_nothing = end is End.NONE or (header.channel is None and header.recipient is None)
        if says_nothing and not header.rest:
            self.said.repaired(header)
            if spelled := header.spelled.strip():
                self.said.incident("truncated-header", spelled)
            self._between()
            return
        self._open_with_rest(header)
        self._end(end, "")

    def _open_with_rest(self, header: Header) -> None:
        self.said.incident("missing-message")
        self._open_content(header)
        self.said.missed_message = True
        self._read(header.rest)

    def _end_between(self, end: End, spelling: str) -> None:
        if self._unread.text.strip() and not self.said.answered and self._reply_as is Role.ASSISTANT:
            if self._unread.is_unmarked:
                self._end_unmarked(end, answer=True)
            else:
                self.said.incident("missing-start")
                self._end_header(end)
            return
        self._set_aside()
        if end is not End.NONE:
            self.said.incident("stray-stop", spelling)
        self._between()

    def _end_unmarked(self, end: End, *, answer: bool) -> None:
        """F-09: a bare text is the answer if the reply has none; one that other messages follow has no channel."""
        self._open_unmarked(answer=answer)
        self._finish(end)

    def _open_unmarked(self, *, answer: bool) -> None:
        text = self._unread.take()
        self.said.incident("unmarked-final" if answer else "missing-message")
        self._start(Message(role=self._reply_as or Role.ASSISTANT, channel=Channel.FINAL if answer else None))
        self.said.add(text)

    def _open_without_message(self) -> None:
        """The header is too long to be one (R-08): a message starts, and what follows is its content."""
        if self._state is _State.BETWEEN and (self.said.answered or self._reply_as is not Role.ASSISTANT):
            self._set_aside()
        elif self._unread.is_bare and self._unread.is_unmarked:
            self._open_unmarked(answer=True)
        else:
            self._open_with_rest(self._unread.read(whole=False))

    @property
    def _is_over(self) -> bool:
        return self._state is _State.OVER

    def _set_aside(self) -> None:
        """Text between messages belongs to none (F-13)."""
        if text := self._unread.take():
            self.said.incident("stray-text" if text.strip() else "stray-whitespace", text)
