"""Streaming events → the messages that they are, for the other side of an `EventStream`."""

from __future__ import annotations

from dataclasses import replace

from antiphon.conversation import Channel, End, Intent, Message, Role, TextPart
from antiphon.conversation.calls import make_answer, make_call

from .body import canonical_call
from .events import WireEvent


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
        """Those that are over because another message follows."""
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
