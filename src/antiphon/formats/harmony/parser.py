"""The default reader of Harmony: never raises, loses no text, lets no control into a field, and reports every repair.

R-07 has the rules, and F-01 … F-17 are the failures of real models that they answer. `machine` has the table of what
each control does in each state; here is what its actions do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from antiphon.conversation import Channel, End, Message, ParserEvent, Role, ToolSpec, recipients_of
from antiphon.formats.format import Rest, RestingParser
from antiphon.tokens import Control, Piece

from .controls import END, ENDOFTEXT, ENDS, START
from .header import LIMIT, Header, HeaderBuffer, HeaderStart, may_become_field, offered_names
from .header_reader import BLANK, HeaderReader, named_within
from .machine import TRANSITIONS, UNEXPECTED, HarmonyAction, HarmonyState, ReplyEvents
from .render import remembered

_ENDS = {**ENDS, ENDOFTEXT: End.RETURN}


class HarmonyParser(RestingParser):
    """Reads one reply, or with ``reply_as`` None a whole conversation.

    ``tools`` are the recipients that were offered (``functions.f``, ``python``); they decide what a bare name means.
    ``prefix`` is the message that the prompt left open: the reply begins in its content.
    """

    def __init__(
        self,
        reply_as: Role | None = Role.ASSISTANT,
        *,
        tools: Collection[ToolSpec | str] = (),
        prefix: Message | None = None,
    ) -> None:
        self._reply_as = reply_as
        self._tools = offered_names(recipients_of(tools))
        self._state = HarmonyState.BETWEEN
        # What a reply's header holds is longer where the renderer writes all fields out.
        self._buffer = HeaderBuffer(LIMIT if reply_as is not None else 4 * LIMIT)
        self._unknown: Header | None = None
        self._events = ReplyEvents(is_reply=reply_as is not None)
        self._ended: str | None = None
        if prefix is not None:
            self._start(prefix)
        elif reply_as is not None:
            self._begin_header(HeaderStart.IN_PROMPT)

    @property
    def ended(self) -> str | None:
        """The control that ended the reply. What is fed afterwards is still read, for those who parse transcripts."""
        return self._ended

    @property
    def in_content(self) -> bool:
        """Whether text that is fed now belongs to the open message."""
        return self._state is HarmonyState.CONTENT

    @property
    def rest(self) -> Rest | None:
        return self._events.rest if self._state is HarmonyState.CONTENT else None

    @property
    def position(self) -> int:
        """How many characters were fed, a control counted as one."""
        return self._events.position

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        events = self._events
        for piece in pieces:
            if isinstance(piece, Control):
                self._control(piece)
                events.advance(1)
            elif self._state is HarmonyState.CONTENT:
                events.read(piece)
            else:
                self._text(piece)
                events.advance(len(piece))
        return events.take()

    def add_content(self, text: str) -> None:
        """Feed text of the open message (`in_content`) without an event: the caller has made it."""
        self._events.add_silently(text)
        self._events.advance(len(text))

    def close(self) -> list[ParserEvent]:
        """The reply is over: what is open ends with `End.NONE`."""
        self._end(End.NONE)
        self._events.close()
        return self._events.take()

    # Text and controls by state

    def _text(self, text: str) -> None:
        match self._state:
            case HarmonyState.CONTENT:
                self._events.add(text)
            case HarmonyState.UNKNOWN_ROLE:
                self._events.add_silently(text)
            case HarmonyState.OVER:
                self._events.set_aside(text)
            case HarmonyState.HEADER | HarmonyState.BETWEEN:
                self._header_text(text)

    def _header_text(self, text: str) -> None:
        while len(text) > (room := self._buffer.room):
            self._buffer.add(text[:room])
            text = text[room:]
            self._give_up_header()
            if self._state not in (HarmonyState.HEADER, HarmonyState.BETWEEN):
                self._text(text)
                return
        self._buffer.add(text)

    def _control(self, control: Control) -> None:
        action = TRANSITIONS.get((self._state, control))
        if action is None:
            self._unexpected(control)
        elif action in _ON_END:
            if control != END:
                self._ended = self._ended or control.spelling
            if control == ENDOFTEXT:
                self._events.incident("endoftext", control.spelling)
            _ON_END[action](self, _ENDS[control], control.spelling)
        else:
            _ON_CONTROL[action](self, control)

    def _unexpected(self, control: Control) -> None:
        if code := UNEXPECTED[self._state]:
            self._events.incident(code, control.spelling)
        if self._state is HarmonyState.HEADER:
            self._buffer.skip_control()
            if self._buffer.room < 0:
                self._give_up_header()

    def _end(self, end: End, spelling: str = "") -> None:
        """End whatever is open, as an ``<|end|>`` would."""
        if action := TRANSITIONS.get((self._state, END)):
            _ON_END[action](self, end, spelling)

    # Actions

    def _open_header(self, control: Control) -> None:
        self._set_buffer_aside()
        self._begin_header(HeaderStart.CONTROL)

    def _restart_header(self, control: Control) -> None:
        if self._buffer.sections:
            self._end(End.END)
            self._control(control)
        else:
            self._events.incident("dup-start")
            self._begin_header(HeaderStart.CONTROL)

    def _assume_header(self, control: Control) -> None:
        self._events.incident("missing-start")
        self._state = HarmonyState.HEADER
        self._control(control)

    def _open_section(self, control: Control) -> None:
        self._buffer.open_section(control)
        if self._buffer.room < 0:
            self._give_up_header()

    def _open_content(self, control: Control) -> None:
        self._begin_content(self._read_header(complete=True))

    def _skip_message(self, control: Control) -> None:
        self._events.incident("stray-message" if self._events.has_text else "dup-message")

    def _end_first(self, control: Control) -> None:
        self._events.incident("missing-end")
        self._end(End.END)
        self._control(control)

    def _end_message(self, end: End, spelling: str) -> None:
        self._events.finish(end)
        self._go_between()

    def _decide_role(self, end: End, spelling: str) -> None:
        assert self._unknown is not None
        header, text = self._unknown, self._events.text
        if end is not End.CALL:
            if header.complete:
                self._go_over(header)
            else:
                self._read_as_text(header, text, end)
            return
        role, header.unknown_role = header.unknown_role or "", None
        self._events.incident("role-as-recipient", role)
        header.recipient = named_within((role,), self._tools) or role
        self._start(header.message(), complete_header=header.complete)
        self._events.add(text)
        self._end_message(end, spelling)

    def _read_as_text(self, header: Header, text: str, end: End) -> None:
        """Words without ``<|message|>``, the first of which is no role, are no message of another role, but text."""
        words = header.source.removesuffix(header.rest) + text
        self._start(Message(role=self._reply_as or Role.ASSISTANT), complete_header=False)
        self._events.add(words.lstrip(BLANK).removeprefix(self._reply_as or ""))
        self._end_message(end, "")

    def _end_header(self, end: End, spelling: str) -> None:
        """F-04: without ``<|message|>``, what is no field is the content."""
        if self._buffer.start is not HeaderStart.CONTROL and not self._buffer.text.strip(BLANK):
            self._stray_end(end, spelling)
            return
        if end is End.NONE and self._is_cut_before_field:
            self._drop_header(self._buffer.take())
            return
        if self._is_unmarked:
            self._end_unmarked(end, answer=end in (End.RETURN, End.NONE))
            return
        header = self._read_header(complete=False)
        is_empty = end is End.NONE or (header.channel is None and header.recipient is None)
        is_cut = end is End.NONE and may_become_field(header.rest, self._tools)
        if is_empty and (is_cut or not header.rest):
            self._events.incidents(header.repairs)
            self._drop_header(header.source)
            return
        self._begin_content(header)
        self._end(end)

    def _drop_header(self, source: str) -> None:
        """The reply ends inside a header, which is nobody's content."""
        if source := source.strip():
            self._events.incident("truncated-header", source)
        self._go_between()

    def _stray_end(self, end: End, spelling: str) -> None:
        if end is End.NONE and self._is_cut_before_field:
            self._drop_header(self._buffer.take())
            return
        if self._buffer.text.strip() and not self._events.answered and self._reply_as is Role.ASSISTANT:
            if self._is_unmarked:
                self._end_unmarked(end, answer=True)
            else:
                self._events.incident("missing-start")
                self._end_header(end, spelling)
            return
        self._set_buffer_aside()
        if end is not End.NONE:
            self._events.incident("stray-stop", spelling)
        self._go_between()

    # Steps of several actions

    def _begin_header(self, start: HeaderStart) -> None:
        self._state = HarmonyState.HEADER
        self._buffer.begin(start)

    def _go_between(self) -> None:
        self._state = HarmonyState.BETWEEN
        self._buffer.begin(HeaderStart.MISSING)

    def _go_over(self, header: Header) -> None:
        self._state = HarmonyState.OVER
        self._ended = self._ended or START.spelling
        self._events.set_message_aside(header.source)

    def _begin_content(self, header: Header) -> None:
        """A header was read: its message starts, unless it is of another role than the reply's."""
        if not header.complete:
            self._events.incident("missing-message")
        self._events.incidents(header.repairs)
        if self._reply_as is not None and header.role is not self._reply_as:
            self._go_over(header)
        elif header.unknown_role is not None:
            self._state, self._unknown = HarmonyState.UNKNOWN_ROLE, header
        else:
            message = header.message()
            message = remembered(message, self._buffer.written(message.role)) if header.complete else message
            self._start(message, complete_header=header.complete)
        if not header.complete:
            self._text(header.rest)

    def _start(self, message: Message, *, complete_header: bool = True) -> None:
        self._state = HarmonyState.CONTENT
        self._events.start(message, complete_header=complete_header)

    def _end_unmarked(self, end: End, *, answer: bool) -> None:
        """F-09: a bare text is the answer if the reply has none; one that other messages follow has no channel."""
        self._begin_unmarked(answer=answer)
        self._end_message(end, "")

    def _begin_unmarked(self, *, answer: bool) -> None:
        self._events.incident("unmarked-final" if answer else "missing-message")
        self._start(Message(role=self._reply_as or Role.ASSISTANT, channel=Channel.FINAL if answer else None))
        self._events.add(self._buffer.text)

    def _give_up_header(self) -> None:
        """The header is too long to be one (R-08): a message starts, and what follows is its content."""
        if self._state is HarmonyState.BETWEEN and (self._events.answered or self._reply_as is not Role.ASSISTANT):
            self._set_buffer_aside()
        elif self._is_unmarked:
            self._begin_unmarked(answer=True)
        else:
            self._begin_content(self._read_header(complete=False))

    def _set_buffer_aside(self) -> None:
        """Text between messages belongs to none (F-13)."""
        if text := self._buffer.take():
            self._events.incident("stray-text" if text.strip() else "stray-whitespace", text)

    @property
    def _is_unmarked(self) -> bool:
        """The buffer is text that shows no field of a header."""
        return self._buffer.is_plain_text and self._read_header(complete=False).rest == self._buffer.text.lstrip(BLANK)

    @property
    def _is_cut_before_field(self) -> bool:
        """The buffer is text alone, and begins what may stand there: a recipient, or the role of a new header."""
        begins = " to=" if self._buffer.start is HeaderStart.IN_PROMPT else (self._reply_as or "")
        return self._buffer.is_plain_text and bool(self._buffer.text) and begins.startswith(self._buffer.text)

    def _read_header(self, *, complete: bool) -> Header:
        return HeaderReader(self._reply_as, self._tools, complete=complete).read(self._buffer)


_ON_CONTROL: Mapping[HarmonyAction, Callable[[HarmonyParser, Control], None]] = {
    HarmonyAction.OPEN_HEADER: HarmonyParser._open_header,
    HarmonyAction.RESTART_HEADER: HarmonyParser._restart_header,
    HarmonyAction.ASSUME_HEADER: HarmonyParser._assume_header,
    HarmonyAction.OPEN_SECTION: HarmonyParser._open_section,
    HarmonyAction.OPEN_CONTENT: HarmonyParser._open_content,
    HarmonyAction.SKIP_MESSAGE: HarmonyParser._skip_message,
    HarmonyAction.END_FIRST: HarmonyParser._end_first,
}
_ON_END: Mapping[HarmonyAction, Callable[[HarmonyParser, End, str], None]] = {
    HarmonyAction.END_MESSAGE: HarmonyParser._end_message,
    HarmonyAction.END_HEADER: HarmonyParser._end_header,
    HarmonyAction.STRAY_END: HarmonyParser._stray_end,
    HarmonyAction.DECIDE_ROLE: HarmonyParser._decide_role,
}
