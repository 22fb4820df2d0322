"""The streaming events of §9, projected from the one event stream (A-O19 … A-O21)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any, assert_never

from antiphon.conversation import (
    Channel,
    DebugCapability,
    End,
    Event,
    FinishReason,
    Incident,
    Intent,
    Message,
    MessageEnded,
    MessageStarted,
    Role,
    TextDelta,
    TextPart,
    TurnEnded,
    visible_to_user,
)
from antiphon.conversation.calls import make_answer, make_call

from .body import canonical_call
from .declarations import DeclaredTools
from .document import EVENTS
from .finding import E_TRUNCATED, SUMMARIES
from .markers import MarkerFilter

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
    ``tools`` are those that the transcript declares: a call that they do not take is an error, and not done.
    """

    def __init__(
        self,
        stream_id: str,
        *,
        accept: Collection[str] | None = None,
        debug: DebugCapability | None = None,
        tools: DeclaredTools | None = None,
    ) -> None:
        self._stream_id = stream_id
        sendable = {"error", REASONING_DELTA} if debug else {"error"}
        self._accepted = sendable.union(event for event in EVENTS if accept is None or event in accept)
        self._debug = debug
        self._tools = tools or DeclaredTools((), {})
        self._message: Message | None = None
        self._number = -1
        self._seq = 0
        self._line_breaks = ""
        self._markers = MarkerFilter()
        self._done = False
        self._cut = False
        self._calls: dict[str, int] = {}

    def feed(self, event: Event) -> list[WireEvent]:
        match event:
            case MessageStarted(message):
                self._message, self._line_breaks, self._done = message, "", False
                self._markers.close()
                self._number += 1
                return self._call_started(message) if message.is_call else []
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
        return self._event("tool.cancel", number=self._calls.get(call_id), call_id=call_id, reason=reason)

    def tool_reply(self, message: Message) -> list[WireEvent]:
        """The result of a call that was answered on this side: a message of its own."""
        self._number += 1
        return self._event(
            "tool.reply", call_id=message.call_id, name=message.name, channel=message.channel, content=message.text
        )

    def _call_started(self, message: Message) -> list[WireEvent]:
        if message.call_id is not None:
            self._calls[message.call_id] = self._number
        return self._event(
            "tool.call", call_id=message.call_id, recipient=message.recipient, channel=message.effective_channel,
            content_type=message.content_type,
        )  # fmt: skip

    def _event(self, type: str, *, number: int | None = None, **fields: Any) -> list[WireEvent]:
        """``number`` is that of the message; None: the latest."""
        if type not in self._accepted:
            return []
        number = max(self._number, 0) if number is None else number
        event = {"type": type, "message_id": f"{self._stream_id}.{number}", "seq": self._seq, **fields}
        self._seq += 1
        return [event]

    def _delta(self, text: str) -> list[WireEvent]:
        message = self._message
        if message is None:
            return []
        if message.is_call:
            return self._event("tool.call.delta", call_id=message.call_id, delta=text)
        if not visible_to_user(message):
            return self._event(REASONING_DELTA, channel=message.effective_channel, delta=text)
        return self._shown(message, text if self._debug else self._markers.feed(text))

    def _shown(self, message: Message, text: str) -> list[WireEvent]:
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
        self._cut = message.is_call and message.end is End.NONE
        rest = self._markers.close()
        events = self._shown(message, rest) if rest else []
        events += self._event("response.delta.flush") if visible_to_user(message) and message.text else []
        call: WireEvent = {"call_id": message.call_id} if message.is_call else {}
        broken = None if message.end is End.NONE else self._tools.problem(canonical_call(message))
        if broken is not None:
            self._done = True
            return events + self._event("error", code=broken.code, message=SUMMARIES[broken.code], **call)
        if message.end is End.RETURN or (message.is_call and message.end is not End.NONE):
            self._done = True
            end = End.CALL if message.is_call else message.end
            events += self._event("response.done", end_reason=end.value, **call)
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
                if self._cut:
                    return self._truncated(reason)
                return [] if self._done else self._event("response.done", end_reason=reason.value)
            case FinishReason.LENGTH_OUTPUT | FinishReason.LENGTH_CONTEXT | FinishReason.ERROR | FinishReason.TIMEOUT:
                return self._truncated(reason)
            case _:
                assert_never(reason)

    def _truncated(self, reason: FinishReason) -> list[WireEvent]:
        return self._event("error", code=E_TRUNCATED, message=SUMMARIES[E_TRUNCATED], reason=reason.value)


def sse(event: WireEvent) -> bytes:
    """A wire event as a server-sent event: ``event:`` is its type, ``data:`` the whole of it (A-O21)."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


# Streaming events → the messages that they are, for the other side of an `EventStream`.


class EventReader:
    """Reads the events of one stream, as they come; written behind its transcript, the messages go on with it.

    Calls, replies, preambles and the answer are messages. A call or an answer without ``response.done`` is incomplete
    or invalid, and none; neither is the reply to such a call.
    """

    def __init__(self) -> None:
        self._open: dict[str, Message] = {}
        self._called: set[str | None] = set()

    def feed(self, event: WireEvent) -> list[Message]:
        """The messages that are whole with this event."""
        id = str(event.get("message_id", ""))
        match event["type"]:
            case "response.delta":
                return [*self._preambles(id), *self._text(id, event)]
            case "tool.call":
                self._open[id] = _call(event)
                return self._preambles(id)
            case "tool.call.delta":
                self._open[id] = _longer(self._open[id], event)
            case "tool.reply":
                return [*self._preambles(id), *([_reply(event)] if event["call_id"] in self._called else [])]
            case "response.done":
                return [*self._preambles(id), *self._done(id)]
        return []

    def _text(self, id: str, event: WireEvent) -> list[Message]:
        intent = Intent.PREAMBLE if event["channel"] == Channel.COMMENTARY else None
        begun = Message(role=Role.ASSISTANT, channel=event["channel"], intent=intent)
        self._open[id] = _longer(self._open.get(id, begun), event)
        return []

    def _preambles(self, id: str) -> list[Message]:
        """The preambles that are over because another message follows."""
        over = [other for other, message in self._open.items() if other != id and message.is_preamble]
        return [self._open.pop(other) for other in over]

    def _done(self, id: str) -> list[Message]:
        message = self._open.pop(id, None)
        if message is None:
            return []
        if message.is_call:
            self._called.add(message.call_id)
            return [canonical_call(message)]
        return [message if message.is_preamble else replace(message, end=End.RETURN)]


def _longer(message: Message, event: WireEvent) -> Message:
    return replace(message, text=message.text + event["delta"])


def _call(event: WireEvent) -> Message:
    recipient, id = event["recipient"], event["call_id"]
    return make_call(recipient, "", id, kind=event["content_type"], channel=event["channel"])


def _reply(event: WireEvent) -> Message:
    return make_answer(event["name"], event["call_id"], [TextPart(event["content"])], channel=event["channel"])
