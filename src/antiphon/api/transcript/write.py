"""A turn's frames behind its transcript, or the turn's events (OpenChatML §9) as server-sent events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from antiphon.conversation import (
    Channel,
    Conversation,
    End,
    FinishReason,
    Message,
    MessageEnded,
    Role,
    TurnEnded,
    visible_to_user,
)
from antiphon.errors import AntiphonError, ParseError, RenderError
from antiphon.formats.openchatml import (
    EventStream,
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
from antiphon.formats.openchatml.spelling import spell_body
from antiphon.generation import RoundEvent, StepEvents
from antiphon.tools import ToolCancelled, ToolEnded, ToolResult, ToolStarted
from antiphon.tools.call import CALL_SCHEMA, TOOL_UNKNOWN
from antiphon.wire.writer import StreamForm

# A turn as frames that are valid behind their transcript, whatever the model wrote and its header allows.

CUT = (FinishReason.LENGTH_OUTPUT, FinishReason.LENGTH_CONTEXT, FinishReason.TIMEOUT, FinishReason.ERROR,
       FinishReason.CANCELLED)  # fmt: skip
"""A turn that ended so is not whole: its last message has no ``<|return|>`` (§9)."""
NOTHING = "the turn has no frame that may be shown"
PROBE = Message(role=Role.ASSISTANT, channel=Channel.FINAL, text="-", end=End.RETURN)


def open_message(conversation: Conversation) -> Message | None:
    """The assistant's message at the end that the transcript leaves open, to be continued."""
    last = conversation.messages[-1] if conversation.messages else None
    return last if last is not None and last.role is Role.ASSISTANT and last.end is End.NONE else None


class Answer:
    """The frames of a turn behind the transcript ``conversation``; ``notes`` says what was changed or left out.

    ``revealed``: hidden messages are written too. Raises `RenderError` where the header excludes every answer.
    """

    def __init__(self, conversation: Conversation, *, revealed: bool) -> None:
        self.notes: list[str] = []
        self._revealed = revealed
        self._tools = tools_behind(conversation)
        self._continued = open_message(conversation)
        envelope = TranscriptEnvelope(envelope_of(conversation).header)
        self._writer, self._fixer = Writer(envelope), Fixer(envelope.header, texts=True)
        for message in conversation.messages:
            if message.is_call or message.role is Role.TOOL:
                self._writer.skip(self._fixer.message(message))
        probe = Writer(envelope)
        probe.write(Fixer(envelope.header).message(PROBE))

    def frames(self, messages: Sequence[Message], reason: FinishReason) -> str:
        """Writes the frames behind the transcript's text. Raises `ParseError` for one that breaks its promise."""
        first, rest = self._continuation(messages)
        shown = [message for message in rest if self._is_written(message)]
        frames = [self._frame(message) for message in self._ended(shown, reason)]
        written = "".join(f"{frame}\n" for frame in frames if frame)
        if self._continued is None and not written:
            self._note(NOTHING)
        return self._rest(first, last=not shown, reason=reason) + written

    def without_media(self, reply: Message) -> Message:
        """A tool's reply as a frame can hold it: the text alone."""
        if reply.parts:
            self._note(f"the reply of {reply.name} has media, which are left out")
        return replace(reply, parts=())

    def _is_written(self, message: Message) -> bool:
        exchanged = message.role is Role.TOOL or (message.is_call and message.recipient != "")
        return self._revealed or visible_to_user(message) or exchanged

    # -- an open frame ------------------------------------------------------------------------------------------------

    def _continuation(self, messages: Sequence[Message]) -> tuple[Message | None, Sequence[Message]]:
        """The message that goes on with the open frame, and those behind it."""
        first = messages[0] if messages else None
        if self._continued is None or first is None or first.is_call:
            return None, messages
        same = first.effective_channel == self._continued.effective_channel
        return (first, messages[1:]) if same else (None, messages)

    def _rest(self, first: Message | None, *, last: bool, reason: FinishReason) -> str:
        """Ends the open frame: more of its text, and its footer."""
        opened = self._continued
        if opened is None:
            return ""
        more = Message(role=Role.ASSISTANT) if first is None else first
        whole = replace(opened, text=opened.text + more.text, end=more.end if last else End.END)
        (ended,) = self._ended([whole], reason if last else FinishReason.STOP_EOS)
        fixed = self._fixed(ended)
        if fixed.constrained != opened.constrained:
            raise ParseError("the answer was cut before its JSON was whole", code=E_CONSTRAINT)
        return f"{spell_body(fixed.text[len(opened.text) :])}<|{fixed.end}|>\n"

    # -- frames -------------------------------------------------------------------------------------------------------

    def _ended(self, messages: Sequence[Message], reason: FinishReason) -> Iterator[Message]:
        """A turn ends with ``<|return|>`` or ``<|call|>``, however the model's own format says that.

        One that was cut does not (§9), and a call that was cut is none.
        """
        for i, message in enumerate(messages):
            last = i == len(messages) - 1
            cut = message.end is End.NONE and (not last or reason in CUT)
            if message.role is not Role.ASSISTANT:
                yield replace(message, end=End.END)
            elif message.is_call:
                if cut:
                    self._note(f"the call of {message.recipient} was cut and is left out")
                else:
                    yield self._whole(canonical_call(replace(message, end=End.CALL)))
            elif cut:
                yield replace(message, end=End.END)
            else:
                returns = last and reason not in CUT and message.effective_channel == Channel.FINAL
                yield self._whole(replace(message, end=End.RETURN if returns else End.END))

    def _frame(self, message: Message) -> str:
        """Hidden messages that the header excludes are left out; any other is an error."""
        try:
            return self._writer.write(self._fixed(replace(message, extra={}))).removeprefix("\n")
        except RenderError as error:
            if visible_to_user(message) or message.is_call:
                raise
            self._note(f"a message on {message.effective_channel} is left out: {error.message}")
            return ""

    def _fixed(self, message: Message) -> Message:
        before = len(self._fixer.fixes)
        fixed = self._fixer.message(message)
        for fix in self._fixer.fixes[before:]:
            self._note(str(fix))
        return fixed

    def _whole(self, message: Message) -> Message:
        """Raises `ParseError` (§6, §8) for a body that is not what its head or the declaration of its tool promises."""
        problem = self._tools.problem(message)
        if problem is not None:
            raise ParseError(f"the model's message breaks its promise: {problem.message}", code=problem.code)
        return message

    def _note(self, note: str) -> None:
        self.notes.append(note)


Report = Callable[[FinishReason, Sequence[str]], None]
"""Takes why the turn ended, and what of it was changed or left out, before the answer is sent."""


class TranscriptWriter:
    """The `Writer` of OpenChatML: ``stream`` makes the events; whole, the turn's frames follow ``body``."""

    media_type = "text/x-openchatml; charset=utf-8"

    def __init__(
        self, conversation: Conversation, body: bytes, stream: EventStream, *, revealed: bool, report: Report
    ) -> None:
        self.form = StreamForm(error_event)
        self._answer = Answer(conversation, revealed=revealed)
        self._continues = open_message(conversation) is not None
        self._body = body
        self._stream = stream
        self._report = report
        self._messages: list[Message] = []
        self._reason = FinishReason.ERROR

    def change(self, step: StepEvents[RoundEvent]) -> bytes:
        return b"".join([sse(event) for happened in step.events for event in self._sent(happened)])

    def _sent(self, event: RoundEvent) -> list[WireEvent]:
        match event:
            case ToolStarted():
                return []
            case ToolCancelled(call_id, reason):
                return self._stream.tool_cancel(call_id, reason)
            case ToolEnded(result):
                return self._stream.tool_reply(result.message(envelope=True))
            case _:
                return self._stream.feed(event)

    def end(self) -> bytes:
        return b""

    def add(self, step: StepEvents[RoundEvent]) -> None:
        for event in step.events:
            if isinstance(event, MessageEnded):
                self._messages.append(event.message)
            elif isinstance(event, ToolEnded):
                self._add_result(event.result)
            elif isinstance(event, TurnEnded):
                self._reason = event.reason

    def _add_result(self, result: ToolResult) -> None:
        """A call that no tool understands is no part of the transcript, where calls are of tools and have arguments."""
        reply = result.message(envelope=True)
        if result.error is not None and result.error.code in (CALL_SCHEMA, TOOL_UNKNOWN):
            self._messages = [one for one in self._messages if not (one.is_call and one.call_id == reply.call_id)]
        else:
            self._messages.append(self._answer.without_media(reply))

    def whole(self) -> bytes:
        frames = self._answer.frames(self._messages, self._reason)
        self._report(self._reason, self._answer.notes)
        between = "" if self._continues or not frames or self._body.endswith(b"\n") else "\n"
        return self._body + (between + frames).encode("utf-8", "surrogateescape")


def error_event(error: AntiphonError) -> bytes:
    return sse({"type": "error", "code": error.code, "message": error.message})
