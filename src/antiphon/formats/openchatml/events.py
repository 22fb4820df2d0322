"""The streaming events of §9, projected from the one event stream (A-O19 … A-O21)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, assert_never

from antiphon.conversation import (
    DebugCapability,
    End,
    Event,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    TextDelta,
    TurnEnded,
    visible_to_user,
)

from .body import canonical_call, constraint_problem
from .document import EVENTS
from .finding import E_CONSTRAINT, E_TRUNCATED, SUMMARIES

WireEvent = dict[str, Any]
"""``{"type", "message_id", "seq", …}``."""

REASONING_DELTA = "response.reasoning_text.delta"
"""For subscribers with the debug capability only (A-O20)."""

_PARAGRAPH = re.compile(r"(?<=\n\n)(?=[^\n])")


class EventStream:
    """One turn as wire events: what end users may see, and nothing else.

    Each message of the turn has its own ``message_id`` (``stream_id`` and its number), so streams may interleave
    (§9, A-O50); ``seq`` counts the events of the stream from 0. ``accept``: the event types that the other side
    takes, None for all. ``debug`` adds the hidden messages' text as `REASONING_DELTA`.
    """

    def __init__(
        self, stream_id: str, *, accept: Collection[str] | None = None, debug: DebugCapability | None = None
    ) -> None:
        self._stream_id = stream_id
        sendable = {"error", REASONING_DELTA} if debug else {"error"}
        self._accepted = sendable.union(event for event in EVENTS if accept is None or event in accept)
        self._debug = debug
        self._message: Message | None = None
        self._number = -1
        self._seq = 0
        self._line_breaks = ""
        self._done = False

    def feed(self, event: Event) -> list[WireEvent]:
        match event:
            case MessageStarted(message):
                self._message, self._line_breaks, self._done = message, "", False
                self._number += 1
                return []
            case TextDelta(text):
                return self._delta(text)
            case MessageEnded(message):
                return self._ended(message)
            case TurnEnded(reason):
                return self._turn_ended(reason)
            case Incident():
                return []
            case _:
                assert_never(event)

    def tool_cancel(self, call_id: str, reason: str) -> list[WireEvent]:
        """§8: a call was cancelled; for the router, not for display."""
        return self._event("tool.cancel", call_id=call_id, reason=reason)

    def _event(self, type: str, **fields: Any) -> list[WireEvent]:
        if type not in self._accepted:
            return []
        event = {"type": type, "message_id": f"{self._stream_id}.{max(self._number, 0)}", "seq": self._seq, **fields}
        self._seq += 1
        return [event]

    def _delta(self, text: str) -> list[WireEvent]:
        message = self._message
        if message is None:
            return []
        if not visible_to_user(message):
            return self._event(REASONING_DELTA, channel=message.effective_channel, delta=text)
        whole, before = self._line_breaks + text, len(self._line_breaks)
        self._line_breaks = whole[len(whole.rstrip("\n")) :][-2:]
        parts = _PARAGRAPH.split(whole)
        parts[0] = parts[0][before:]
        events: list[WireEvent] = []
        for i, part in enumerate(parts):
            events += self._event("response.delta.flush") if i else []
            events += self._event("response.delta", channel=message.effective_channel, delta=part) if part else []
        return events

    def _ended(self, message: Message) -> list[WireEvent]:
        self._message = None
        events = self._event("response.delta.flush") if visible_to_user(message) and message.text else []
        if message.end is not End.NONE and constraint_problem(canonical_call(message)):
            self._done = True
            return events + self._event("error", code=E_CONSTRAINT, message=SUMMARIES[E_CONSTRAINT])
        if message.end in (End.RETURN, End.CALL):
            self._done = True
            events += self._event("response.done", end_reason=message.end.value)
        return events

    def _turn_ended(self, reason: FinishReason) -> list[WireEvent]:
        match reason:
            case FinishReason.CANCELLED:
                return self._event("response.cancel", reason=reason.value)
            case (
                FinishReason.STOP_EOS
                | FinishReason.STOP_SEQUENCE
                | FinishReason.TOOL_CALL
                | FinishReason.CONTENT_FILTER
            ):
                return [] if self._done else self._event("response.done", end_reason=reason.value)
            case FinishReason.LENGTH_OUTPUT | FinishReason.LENGTH_CONTEXT | FinishReason.ERROR | FinishReason.TIMEOUT:
                return self._event("error", code=E_TRUNCATED, message=SUMMARIES[E_TRUNCATED], reason=reason.value)
            case _:
                assert_never(reason)


def sse(event: WireEvent) -> bytes:
    """A wire event as a server-sent event: ``event:`` is its type, ``data:`` the whole of it (A-O21)."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
