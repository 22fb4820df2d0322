"""A turn's frames behind its transcript, or the turn's events (OpenChatML §9) as server-sent events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from antiphon.conversation import Conversation, End, Event, Message, MessageEnded, Role, visible_to_user
from antiphon.errors import AntiphonError
from antiphon.formats.openchatml import EventStream, TranscriptEnvelope, Writer, envelope_of, sse
from antiphon.generation import StepEvents
from antiphon.wire.writer import StreamForm


class TranscriptWriter:
    """The `Writer` of OpenChatML: ``stream`` makes the events; whole, the turn's frames follow ``body``."""

    media_type = "text/x-openchatml; charset=utf-8"

    def __init__(self, conversation: Conversation, body: bytes, stream: EventStream, *, revealed: bool) -> None:
        self.form = StreamForm(error_event)
        self._conversation = conversation
        self._body = body
        self._stream = stream
        self._revealed = revealed
        self._messages: list[Message] = []

    def change(self, step: StepEvents[Event]) -> bytes:
        return b"".join([sse(event) for happened in step.events for event in self._stream.feed(happened)])

    def end(self) -> bytes:
        return b""

    def add(self, step: StepEvents[Event]) -> None:
        self._messages += (event.message for event in step.events if isinstance(event, MessageEnded))

    def whole(self) -> bytes:
        return continued(self._conversation, self._body, self._messages, revealed=self._revealed)


def error_event(error: AntiphonError) -> bytes:
    return sse({"type": "error", "code": error.code, "message": error.message})


def continued(conversation: Conversation, body: bytes, reply: Sequence[Message], *, revealed: bool) -> bytes:
    """The transcript with the reply's frames behind it: answers, preambles, calls; reasoning where revealed."""
    envelope = envelope_of(conversation)
    writer = Writer(TranscriptEnvelope(envelope.header))
    text = "" if body.endswith(b"\n") else "\n"
    shown = [message for message in reply if revealed or visible_to_user(message) or message.is_call]
    for message in shown:
        text += writer.write(_ended(message, last=message is shown[-1]))
    return body + (text + writer.close()).encode("utf-8", "surrogateescape")


def _ended(message: Message, *, last: bool) -> Message:
    """A turn ends with ``<|return|>`` or ``<|call|>``, however the model's own format says that."""
    if message.end is End.NONE or message.role is not Role.ASSISTANT:
        return message if last else replace(message, end=End.END)
    if message.is_call:
        return replace(message, end=End.CALL)
    return replace(message, end=End.RETURN if last else End.END)
