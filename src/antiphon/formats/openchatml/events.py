"""The streaming events of §9, projected from the one event stream (A-O19 … A-O21)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import replace
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
    Role,
    TextDelta,
    TurnEnded,
    visible_to_user,
)

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
    Each frame begins with ``frame.start``, which has its head, and ends with ``frame.end``.
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
                return self._started(message)
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
        """The result of a call that was answered on this side: a frame, unless its message has no end."""
        self._number += 1
        whole = message.end is not End.NONE
        events = self._frame_started(replace(message, text="")) if whole else []
        events += self._event(
            "tool.reply", call_id=message.call_id, name=message.name, channel=message.channel, content=message.text
        )
        return events + (self._frame_ended(message) if whole else [])

    def _started(self, message: Message) -> list[WireEvent]:
        if not self._is_sent(message):
            return []
        events = self._frame_started(message)
        if not message.is_call:
            return events
        if message.call_id is not None:
            self._calls[message.call_id] = self._number
        return events + self._event(
            "tool.call", call_id=message.call_id, recipient=message.recipient, channel=message.effective_channel,
            content_type=message.content_type,
        )  # fmt: skip

    def _is_sent(self, message: Message) -> bool:
        return self._debug is not None or message.is_call or visible_to_user(message)

    def _frame_started(self, message: Message) -> list[WireEvent]:
        """``text`` is what the frame has already, where it goes on with one that the transcript leaves open."""
        return self._event("frame.start", **frame_head(message), text=message.text)

    def _frame_ended(self, message: Message) -> list[WireEvent]:
        type, end = message.content_type, message.end.value
        return self._event("frame.end", end=end, content_type=type, constrain=type if message.constrained else None)

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
        if message.role is Role.TOOL:
            return self.tool_reply(message)
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
        if message.end is not End.NONE and self._is_sent(message):
            events += self._frame_ended(message)
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


def frame_head(message: Message) -> WireEvent:
    """A head in the words of §6. ``channel`` None: it names none; ``constrain``: the type behind ``<|constrain|>``."""
    return {
        "role": message.role.value,
        "to": message.recipient,
        "call_id": message.call_id,
        "name": message.name,
        "intent": message.intent,
        "channel": message.channel,
        "content_type": message.content_type,
        "constrain": message.content_type if message.constrained else None,
    }


def sse(event: WireEvent) -> bytes:
    """A wire event as a server-sent event: ``event:`` is its type, ``data:`` the whole of it (A-O21)."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


# Streaming events → the frames that they are, for the other side of an `EventStream`.


class EventReader:
    """Reads the events of one stream, as they come: its frames, which go behind the transcript that it is the turn of.

    A frame that is begun and not ended is none. One that goes on with the transcript's open frame stands in its place.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[WireEvent, list[str]]] = {}
        """The frames that are begun, by their ``message_id``: their heads and texts."""

    def feed(self, event: WireEvent) -> list[Message]:
        """The frames that are whole with this event."""
        id, type = event.get("message_id", ""), event.get("type")
        if type == "frame.start":
            self._open[id] = (event, [event["text"]])
        elif id in self._open and type == "frame.end":
            head, texts = self._open.pop(id)
            return [_message({**head, **event}, "".join(texts))]
        elif id in self._open:
            self._open[id][1].append(event.get("delta") or event.get("content") or "")
        return []


def _message(head: WireEvent, text: str) -> Message:
    return Message(
        role=Role(head["role"]), recipient=head["to"], call_id=head["call_id"], name=head["name"],
        intent=head["intent"], channel=head["channel"], content_type=head["content_type"],
        constrained=head["constrain"] is not None, text=text, end=End(head["end"]),
    )  # fmt: skip
