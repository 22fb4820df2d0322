"""A turn's frames behind its transcript, or the turn's events (OpenChatML §9) as server-sent events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from antiphon.conversation import (
    Channel,
    Conversation,
    End,
    Event,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    Role,
    TextDelta,
    TurnEnded,
    visible_to_user,
)
from antiphon.errors import AntiphonError, ParseError, RenderError
from antiphon.formats.openchatml import (
    EventStream,
    Fix,
    Fixer,
    TranscriptEnvelope,
    WireEvent,
    Writer,
    canonical_call,
    envelope_of,
    sse,
    tools_behind,
)
from antiphon.formats.openchatml.finding import E_CONSTRAINT
from antiphon.formats.openchatml.markers import without_markers
from antiphon.formats.openchatml.rules import differences
from antiphon.formats.openchatml.spelling import spell_body
from antiphon.generation import RoundEvent, StepEvents
from antiphon.tools import ToolCancelled, ToolEnded, ToolStarted
from antiphon.wire.writer import StreamForm

# A turn as frames that are valid behind their transcript, whatever the model wrote and its header allows.

CUT = (FinishReason.LENGTH_OUTPUT, FinishReason.LENGTH_CONTEXT, FinishReason.TIMEOUT, FinishReason.ERROR,
       FinishReason.CANCELLED)  # fmt: skip
"""A turn that ended so is not whole: its last message has no ``<|return|>`` (§9)."""
MOST_TEXT = 80
"""Characters of dropped text in a note, at most."""
NOTHING = "the turn has no frame that may be shown"
PROBE = Message(role=Role.ASSISTANT, channel=Channel.FINAL, text="-", end=End.RETURN)


def open_message(conversation: Conversation) -> Message | None:
    """The assistant's message at the end that the transcript leaves open, to be continued."""
    last = conversation.messages[-1] if conversation.messages else None
    return last if last is not None and last.role is Role.ASSISTANT and last.end is End.NONE else None


class Gate:
    """Passes a turn's events on as those of frames that are valid behind the transcript, whatever the model wrote.

    The head of a message is as the transcript's header allows it from its start on; what only its end decides (its
    footer, whether its body is what its head promises) comes there, or, where that depends on what follows, then.
    ``written`` are the frames as text, ``notes`` says what was changed or left out. ``revealed``: hidden messages are
    frames too. ``refuses`` returns whether a call is left out, and with it its reply.
    Raises `RenderError` where the header excludes every answer, or what came; `ParseError` for a broken promise.
    """

    def __init__(
        self, conversation: Conversation, *, revealed: bool, refuses: Callable[[Message], bool] = lambda call: False
    ) -> None:
        self.notes: list[str] = []
        self.written: list[str] = []
        self._revealed, self._refuses = revealed, refuses
        self._tools = tools_behind(conversation)
        self._continued = self._awaited = open_message(conversation)
        self._header = envelope_of(conversation).header
        self._number = len(conversation.messages) - 1
        self._writer, self._fixer = Writer(TranscriptEnvelope(self._header)), Fixer(self._header, texts=True)
        for message in conversation.messages:
            if message.is_call or message.role is Role.TOOL:
                self._writer.skip(self._fixer.message(message))
        Writer(TranscriptEnvelope(self._header)).write(self._whole(PROBE))
        self._ids: dict[str | None, str | None] = {}
        """The ids of calls in frames, by the model's own ids; None: the call is no frame."""
        self._open: Message | None = None
        """The head of the frame that is open."""
        self._ended: Message | None = None
        """A frame that has all its text, and whose footer depends on what follows."""
        self._blanks: str | None = None
        """Buffered blanks of a call; None once there is other text."""

    def feed(self, event: RoundEvent) -> list[Event | ToolCancelled]:
        """The events of frames that are decided now. A tool's reply is its end alone, without one where it is none."""
        match event:
            case MessageStarted(message):
                return self._start(message)
            case TextDelta(text):
                return self._text(event, text)
            case MessageEnded(message):
                return self._end(message)
            case ToolEnded(result):
                return self._reply(result.message(envelope=True))
            case TurnEnded(reason):
                events = [*self._continue(None), *self._finish(reason), event]
                self.notes += [] if self.written else [NOTHING]
                return events
            case ToolCancelled():
                return [event]
            case Incident(code, position, text):
                self._note(f"{code} at {position}: {text[:MOST_TEXT]!r}" if text else f"{code} at {position}")
                return []
            case ToolStarted():
                return []

    # -- heads --------------------------------------------------------------------------------------------------------

    def _start(self, message: Message) -> list[Event | ToolCancelled]:
        continued = self._continue(message)
        if self._open is not None or not self._is_written(message):
            return continued
        finished = self._finish(None)
        self._open = self._head(message)
        self._blanks = "" if self._open.is_call else None
        return [*continued, *finished, MessageStarted(self._open)]

    def _is_written(self, message: Message) -> bool:
        return self._revealed or visible_to_user(message) or (message.is_call and message.recipient != "")

    def _continue(self, message: Message | None) -> list[Event | ToolCancelled]:
        """Reopens the frame that the transcript leaves open: ``message`` continues it, or it is ended."""
        opened, self._awaited = self._awaited, None
        if opened is None:
            return []
        if message is not None and not message.is_call and message.effective_channel == opened.effective_channel:
            self._open = opened
        else:
            self._ended = replace(opened, end=End.END)
        return [MessageStarted(opened)]

    def _head(self, message: Message) -> Message:
        """The head as the header allows it, with an id of its own. The type of its body is decided at its end."""
        self._number += 1
        bare = replace(message, text="", parts=(), extra={})
        head = canonical_call(replace(bare, end=End.CALL)) if bare.is_call else bare
        fixed = replace(self._fixer.message(head), content_type=head.content_type, constrained=head.constrained)
        self._note_changes(replace(head, end=fixed.end, text=fixed.text), fixed)
        self._ids[head.call_id] = fixed.call_id
        return replace(fixed, text="", end=End.END)

    def _text(self, delta: TextDelta, text: str) -> list[Event | ToolCancelled]:
        """The event, or none while a call has only blanks: a call without arguments is written with others."""
        if self._open is None or self._blanks is None:
            return [delta] if self._open is not None else []
        text = self._blanks + text
        self._blanks = None if text.strip() else text
        return [TextDelta(text)] if self._blanks is None else []

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _end(self, message: Message) -> list[Event | ToolCancelled]:
        head, self._open = self._open, None
        if head is None:
            return []
        text = message.text if self._revealed or not visible_to_user(head) else without_markers(message.text)
        if len(text) != len(message.text):
            self._note("reflection markers are left out")
        own = head if head is self._continued else message
        self._ended = replace(
            head, text=head.text + text, end=message.end, content_type=own.content_type, constrained=own.constrained
        )
        waits = message.end is End.NONE or (not head.is_call and head.effective_channel == Channel.FINAL)
        return [] if waits else self._finish(None)

    def _finish(self, reason: FinishReason | None) -> list[Event | ToolCancelled]:
        """Ends the frame whose text is complete: ``reason`` is the turn's, None where another frame follows.

        A turn ends with ``<|return|>`` or ``<|call|>``, however the model's format writes that. One that was cut does
        not (§9), and a call that was cut is none.
        """
        message, self._ended = self._ended, None
        if message is None:
            return []
        cut = message.end is End.NONE and (reason is None or reason in CUT)
        if message.is_call and cut:
            self._note(f"the call of {message.recipient} was cut and is left out")
            return [MessageEnded(message)]
        if message.is_call:
            whole = canonical_call(replace(message, end=End.CALL))
            if self._refuses(whole):
                self._ids = {had: None if id == whole.call_id else id for had, id in self._ids.items()}
                return []
        else:
            returns = reason is not None and reason not in CUT and message.effective_channel == Channel.FINAL
            whole = replace(message, end=End.RETURN if returns else End.END)
        if not cut:
            self._check(whole)
        return self._written(message, whole)

    def _check(self, message: Message) -> None:
        problem = self._tools.problem(message)
        if problem is not None:
            raise ParseError(f"the model's message breaks its promise: {problem.message}", code=problem.code)

    def _written(self, message: Message, ended: Message) -> list[Event | ToolCancelled]:
        """Writes a frame and returns its end. Hidden frames that the header excludes are left out."""
        fixed = self._whole(ended)
        self._note_changes(ended, fixed)
        if fixed.is_call:
            self._check(canonical_call(fixed))
        if self._continued is not None and not self.written:
            if fixed.constrained != self._continued.constrained:
                raise ParseError("the answer was cut before its JSON was whole", code=E_CONSTRAINT)
            self.written.append(f"{spell_body(fixed.text[len(self._continued.text) :])}<|{fixed.end}|>\n")
        elif not self._write(fixed):
            return []
        more = fixed.text[len(message.text) if self._blanks is None else 0 :]
        return [*([TextDelta(more)] if more else []), MessageEnded(fixed)]

    def _whole(self, message: Message) -> Message:
        """The message as the header allows it, whatever came before it."""
        return Fixer(self._header, texts=True).message(message)

    def _write(self, message: Message) -> bool:
        try:
            self.written.append(self._writer.write(message).removeprefix("\n") + "\n")
        except RenderError as error:
            if visible_to_user(message) or message.is_call:
                raise
            self._note(f"a message on {message.effective_channel} is left out: {error.message}")
            return False
        return True

    def _reply(self, reply: Message) -> list[Event | ToolCancelled]:
        """A tool's reply as a frame: its text alone."""
        id, finished = self._ids.get(reply.call_id, reply.call_id), self._finish(None)
        if id is None:
            return [*finished, MessageEnded(replace(reply, end=End.NONE))]
        if reply.parts:
            self._note(f"the reply of {reply.name} has media, which are left out")
        self._number += 1
        bare = replace(reply, parts=(), extra={}, call_id=id)
        fixed = self._fixer.message(bare)
        self._note_changes(bare, fixed)
        return [*finished, *([MessageEnded(fixed)] if self._write(fixed) else [])]

    def _note_changes(self, before: Message, after: Message) -> None:
        for name, had, has in differences(before, after):
            self._note(str(Fix(f"messages[{self._number}].{name}", had, has)))

    def _note(self, note: str) -> None:
        self.notes.append(note)


Report = Callable[[FinishReason, Sequence[str]], None]
"""Takes why the turn ended, and what of it was changed or left out, before the answer is sent."""


class TranscriptWriter:
    """The `Writer` of OpenChatML: ``stream`` makes the events; whole, the turn's frames follow ``body``."""

    media_type = "text/x-openchatml; charset=utf-8"

    def __init__(self, gate: Gate, body: bytes, stream: EventStream, *, continues: bool, report: Report) -> None:
        self.form = StreamForm(error_event)
        self._gate = gate
        self._continues = continues
        self._body = body
        self._stream = stream
        self._report = report
        self._reason = FinishReason.ERROR

    def change(self, step: StepEvents[RoundEvent]) -> bytes:
        return b"".join([sse(event) for happened in step.events for event in self._sent(happened)])

    def _sent(self, event: RoundEvent) -> Iterator[WireEvent]:
        for passed in self._gate.feed(event):
            if isinstance(passed, ToolCancelled):
                yield from self._stream.tool_cancel(passed.call_id, passed.reason)
            else:
                yield from self._stream.feed(passed)

    def end(self) -> bytes:
        return b""

    def add(self, step: StepEvents[RoundEvent]) -> None:
        for event in step.events:
            self._gate.feed(event)
            if isinstance(event, TurnEnded):
                self._reason = event.reason

    def whole(self) -> bytes:
        frames = "".join(self._gate.written)
        self._report(self._reason, self._gate.notes)
        between = "" if self._continues or not frames or self._body.endswith(b"\n") else "\n"
        return self._body + (between + frames).encode("utf-8", "surrogateescape")


def error_event(error: AntiphonError) -> bytes:
    return sse({"type": "error", "code": error.code, "message": error.message})
