"""Answers of a chat: a whole reply, and the pieces of one that is streamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from antiphon.conversation import Conversation, FinishReason, Message, Usage
from antiphon.tools import ToolCall, ToolResult

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Generic[Parsed]):
    """One answer, whole.

    ``text`` is what an end user may read, ``reasoning`` what the model thought before. ``calls`` are tool calls that
    nobody here answered: they are the caller's. ``parsed`` is the answer as the requested type, None
    without one, or when the answer was cut before its end. ``messages`` are all messages of the answer, with those of
    the tools that ran, and ``conversation`` is the whole conversation: hand it in as ``history`` to go on.
    """

    text: str
    parsed: Parsed | None
    reasoning: str
    calls: tuple[ToolCall, ...]
    messages: tuple[Message, ...]
    conversation: Conversation
    finish_reason: FinishReason
    usage: Usage

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(Generic[Parsed]):
    """New part of a stream; exactly one field is filled.

    ``text`` is more of the visible answer, ``reasoning`` more of what the model thinks. ``call`` is a call of a tool
    that runs here, and ``result`` its result. ``reply`` comes last: the whole reply.
    """

    text: str = ""
    reasoning: str = ""
    call: ToolCall | None = None
    result: ToolResult | None = None
    reply: Reply[Parsed] | None = None
