"""Frames → the messages that chat templates know: reasoning, text and calls of one turn bundled, roles mapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import msgspec
from msgspec.structs import replace

from antiphon.conversation import IMAGES, Channel, End, Message, OpaquePart, Role, TextPart
from antiphon.errors import Position, RenderError
from antiphon.formats import HistoryPolicy
from antiphon.formats.format import is_answer


class ChatCall(msgspec.Struct, frozen=True):
    """``arguments`` is the text that the model wrote."""

    name: str
    arguments: str
    call_id: str | None = None


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """``role``: system, user, assistant or tool. ``open``: the model is to continue it.

    ``parts`` are texts and images of a user or a tool in their order, where there are images; ``content`` is the texts
    then too.
    """

    role: str
    content: str = ""
    reasoning: str = ""
    calls: tuple[ChatCall, ...] = ()
    name: str | None = None
    call_id: str | None = None
    open: bool = False
    parts: tuple[TextPart | OpaquePart, ...] = ()


def chat_messages(messages: Sequence[Message], history: HistoryPolicy, *, images: bool = False) -> list[ChatMessage]:
    """The conversation in the form of the chat APIs.

    A developer's text is merged into the system text before it (resolution X-07). Raises `RenderError` for parts that
    are no text, but for ``images`` of users and tools.
    """
    chat: list[ChatMessage] = []
    last = len(messages) - 1
    for i, message in without_dropped_reasoning(messages, history):
        parts = _read_parts(message, i, images=images)
        if message.role is Role.ASSISTANT:
            new = _assistant(message, open=i == last and message.end is End.NONE and not message.is_call)
        else:
            content = "".join(part.text for part in parts if isinstance(part, TextPart)) if parts else message.text
            new = ChatMessage(
                role=message.role.value, content=content, name=message.name, call_id=message.call_id, parts=parts
            )
        previous = chat[-1] if chat else None
        before = messages[i - 1]
        # A final frame ends its turn, unless the calls that it announces follow.
        goes_on = before.role is Role.ASSISTANT and (message.is_call or not is_answer(before))
        if previous and previous.role == new.role == "assistant" and goes_on:
            chat[-1] = _bundled(previous, new)
        elif message.role is Role.DEVELOPER:
            chat[-1:] = _developer(previous, new)
        else:
            chat.append(new)
    return chat


def without_dropped_reasoning(messages: Sequence[Message], history: HistoryPolicy) -> Iterator[tuple[int, Message]]:
    """The messages that the policy keeps, by place (resolution A-H03). REFERENCE keeps all, as KEEP_ALL does.

    A final text that announces calls is no answer: the turn goes on.
    """
    followed = zip_longest(messages, messages[1:])
    answers = (i for i, (m, after) in enumerate(followed) if is_answer(m) and not (after and after.is_call))
    final = max(answers, default=-1)
    for i, message in enumerate(messages):
        reasoning = message.role is Role.ASSISTANT and message.channel == Channel.ANALYSIS and not message.is_call
        dropped = history is HistoryPolicy.DROP_ALL or (history is HistoryPolicy.GUIDE and i < final)
        if not (reasoning and dropped):
            yield i, message


def _assistant(message: Message, *, open: bool) -> ChatMessage:
    if message.is_call:
        name = (message.recipient or "").removeprefix("functions.")
        call = ChatCall(name, message.text, message.call_id)
        return ChatMessage(role="assistant", calls=(call,))
    if message.channel == Channel.ANALYSIS:
        return ChatMessage(role="assistant", reasoning=message.text, open=open)
    return ChatMessage(role="assistant", content=message.text, name=message.name, open=open)


def _bundled(first: ChatMessage, second: ChatMessage) -> ChatMessage:
    """Two frames of one turn. A text that stands alone keeps its sampled ids."""
    return replace(
        first,
        content=_both(first.content, second.content),
        reasoning=_both(first.reasoning, second.reasoning),
        calls=first.calls + second.calls,
        open=second.open,
    )


def _both(first: str, second: str) -> str:
    return first + "\n\n" + second if first and second else first or second


def _developer(previous: ChatMessage | None, new: ChatMessage) -> list[ChatMessage]:
    if previous is None:
        return [replace(new, role="system")]
    if previous.role == "system":
        return [replace(previous, content=_both(previous.content, new.content))]
    return [previous, replace(new, role="system")]


def _read_parts(message: Message, i: int, *, images: bool) -> tuple[TextPart | OpaquePart, ...]:
    """The parts of a message with images; none of one that is a text."""
    found: list[TextPart | OpaquePart] = []
    for part in message.parts:
        match part:
            case TextPart():
                found.append(part)
            case OpaquePart(kind) if images and kind in IMAGES and message.role in (Role.USER, Role.TOOL):
                found.append(part)
            case OpaquePart(kind):
                raise RenderError(
                    f"this template cannot write a part of kind {kind!r}",
                    code="unsupported_content",
                    position=Position(path=f"messages[{i}].content"),
                    hint="Send text.",
                )
    return tuple(found) if any(isinstance(part, OpaquePart) for part in found) else ()
