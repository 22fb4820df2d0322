"""What goes to a tool and what comes back: values, with the machine-readable reply envelope of OpenChatML §8.3."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from antiphon.conversation import Channel, Message, OpaquePart, Part, TextPart
from antiphon.conversation.calls import make_answer

CALL_SCHEMA = "E-CALL-SCHEMA"
"""A call does not fit its tool's parameters."""
CALL_ID = "E-CALL-ID"
"""Another call of the conversation has this id."""
TOOL_BUSY = "E-TOOL-BUSY"
"""Everything that could run the call is at work; it may be tried again."""
TOOL_TIMEOUT = "E-TOOL-TIMEOUT"
"""The tool did not answer before its deadline."""
TOOL_CANCELLED = "E-TOOL-CANCELLED"
"""The call was cancelled before the tool answered."""
TOOL_UNKNOWN = "E-TOOL-UNKNOWN"
"""There is no tool of this name."""
TOOL_FAILED = "E-TOOL-FAILED"
"""The tool raised an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as the model wrote it. ``body`` is the text of the call's frame and of no other: tools never see analysis.

    ``channel`` is where the call stood; its reply goes to the same one (resolution A-H04). ``owner`` is who makes the
    request (a key's name, empty without keys): tools that share something out count by it.
    """

    call_id: str
    recipient: str
    body: str
    content_type: str | None = None
    channel: str = Channel.COMMENTARY
    session: str = ""
    owner: str = ""

    @property
    def idempotency_key(self) -> tuple[str, str]:
        """The same for every attempt to run this call (OCM-93): its session and its id."""
        return self.session, self.call_id

    @classmethod
    def of(cls, message: Message, *, fallback_id: str, session: str = "", owner: str = "") -> ToolCall:
        """The call that a message is; ``fallback_id`` where the model gave no id (Harmony has none)."""
        assert message.is_call, "not a call"
        assert message.recipient is not None, "a call has a recipient"
        return cls(
            call_id=message.call_id or fallback_id,
            recipient=message.recipient,
            body=message.text,
            content_type=message.content_type,
            channel=message.channel or Channel.COMMENTARY,
            session=session,
            owner=owner,
        )


@dataclass(frozen=True, slots=True)
class ToolError:
    """Why a call has no result, for the model and for programs. ``retryable``: the same call may succeed later."""

    code: str
    message: str
    retryable: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "retryable": self.retryable} | (
            {"details": dict(self.details)} if self.details else {}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool returns: ``content`` is text or JSON; ``media`` (images …) goes with it; ``provenance``: whence."""

    content: Any
    media: tuple[OpaquePart, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    plain: bool = False
    """The model is to read ``content`` as it is, without an envelope (the built-ins of gpt-oss)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The one answer to a call: an output or an error, never both."""

    call: ToolCall
    output: ToolOutput | None = None
    error: ToolError | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.error is None

    def text(self, *, envelope: bool) -> str:
        """The reply's body. An error is always the envelope, so that a model and a program can tell it from content.

        Lone surrogates, which cannot be written, are question marks.
        """
        if self.output is not None and (self.output.plain or not envelope):
            content = self.output.content
            return without_surrogates(content if isinstance(content, str) else dump(content))
        return without_surrogates(dump(self.envelope()))

    def envelope(self) -> dict[str, Any]:
        """``{ok, content, error, provenance}`` (OCM-94, resolution A-O17)."""
        return {
            "ok": self.ok,
            "content": self.output.content if self.output else None,
            "error": self.error.as_json() if self.error else None,
            "provenance": dict(self.output.provenance) if self.output else {},
        }

    def message(self, *, envelope: bool = False) -> Message:
        """The reply as a frame of the conversation, addressed to the assistant."""
        media = self.output.media if self.output else ()
        parts: tuple[Part, ...] = (TextPart(self.text(envelope=envelope)), *media)
        return make_answer(self.call.recipient, self.call.call_id, parts, channel=self.call.channel)


def without_surrogates(text: str) -> str:
    """The text with a question mark for each lone surrogate: those are no characters, and no encoding has them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def dump(value: Any) -> str:
    """JSON for a model: one line, other scripts as they are, and what JSON does not have as text (``"NaN"``)."""
    try:
        return _line(value)
    except ValueError:
        text = json.dumps(value, default=str)
        return _line(json.loads(text, parse_constant=str))


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str, allow_nan=False)
