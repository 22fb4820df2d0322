"""A turn's frames behind its transcript, or the turn's events (OpenChatML §9) as server-sent events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon.conversation import Conversation, FinishReason, Message, MessageEnded, TurnEnded
from antiphon.errors import AntiphonError
from antiphon.formats.openchatml import EventStream, WireEvent, sse
from antiphon.generation import RoundEvent, StepEvents
from antiphon.tools import ToolCancelled, ToolEnded, ToolResult, ToolStarted
from antiphon.tools.call import CALL_SCHEMA
from antiphon.wire.writer import StreamForm

from .answer import Answer, open_message

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
        """A call that its tool does not understand is no part of the transcript, where calls have valid arguments."""
        reply = result.message(envelope=True)
        if result.error is not None and result.error.code == CALL_SCHEMA:
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
