"""Chat messages → conversation. A chat message that bundles reasoning, text and calls becomes one frame for each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from antiphon.conversation import FUNCTIONS, Channel, End, Intent, Message, OpaquePart, Role, TextPart, text_and_parts
from antiphon.conversation.calls import NAMELESS, GivenCalls, OpenCalls, make_answer, make_call
from antiphon.wire.documents import text_file
from antiphon.wire.errors import refused, unreadable
from antiphon.wire.json import encode
from antiphon.wire.projection import CUSTOM_INPUT

from .schema import ChatMessage, Content, ContentPart, CustomCall, FunctionCall, ToolCall

OWN_ID = "Give each call an id of its own."
TEXT_PARTS = ("text", "input_text", "output_text")


class TextLike(Protocol):
    """A part of a wire's content."""

    type: str
    text: str | None
    refusal: str | None


def to_messages(
    messages: Sequence[ChatMessage],
    *,
    continue_last: bool = False,
    earlier: Iterable[Message] | OpenCalls = (),
    in_order: bool = False,
    first: int = 0,
) -> tuple[Message, ...]:
    """The frames of the chat. ``continue_last``: the last message, the assistant's, is left open to go on with.

    The calls of ``earlier`` frames, or those given, may be answered here; strict ones refuse results of no call that
    waits, calls under the id of one that does, and what has neither text nor name. ``in_order``: tools' messages
    without an id answer the calls that wait, the oldest first. ``first`` is the number that errors give the first
    message. Raises `RequestError` at the message that cannot be read.
    """
    if not messages:
        raise refused("messages", "there must be at least one message.")
    calls = earlier if isinstance(earlier, OpenCalls) else GivenCalls(earlier)
    frames = [
        frame
        for i, message in enumerate(messages)
        for frame in _frames(message, f"messages[{first + i}]", calls, in_order=in_order)
    ]
    if continue_last:
        if not frames or frames[-1].role is not Role.ASSISTANT or frames[-1].is_call:
            raise refused("continue_final_message", "the last message is not an assistant's text.")
        frames[-1] = replace(frames[-1], end=End.NONE)
    return tuple(frames)


def place_of(frame: int, messages: Sequence[ChatMessage], earlier: Sequence[Message] = ()) -> int | None:
    """The number of the chat message that became frame number ``frame``; None for an earlier one, or none of these."""
    calls, frames = GivenCalls(earlier), len(earlier)
    if frame < frames:
        return None
    for i, message in enumerate(messages):
        frames += sum(1 for _ in _frames(message, f"messages[{i}]", calls, in_order=True))
        if frame < frames:
            return i
    return None


def _frames(message: ChatMessage, path: str, calls: OpenCalls, *, in_order: bool) -> Iterator[Message]:
    if message.tool_calls and message.role != "assistant":
        raise refused(f"{path}.tool_calls", "only an assistant's message has tool calls.")
    match message.role:
        case "system":
            yield _plain(Role.SYSTEM, message, path)
        case "developer":
            yield _plain(Role.DEVELOPER, message, path)
        case "user":
            yield _plain(Role.USER, message, path)
        case "assistant":
            yield from _assistant(message, path, calls)
        case "tool" | "function":
            yield _result(message, path, calls, in_order=in_order)


def _plain(role: Role, message: ChatMessage, path: str) -> Message:
    if message.content is None:
        raise refused(f"{path}.content", f"a {message.role} message needs content.", code="missing_required_parameter")
    parts = _parts(message.content, path, images=role is Role.USER)
    text, several = text_and_parts(parts)
    return Message(role=role, text=text, name=message.name, parts=several)


def _assistant(message: ChatMessage, path: str, calls: OpenCalls) -> Iterator[Message]:
    """Its reasoning, then its text, then its calls: one frame each."""
    reasoning = message.reasoning or message.reasoning_content
    tool_calls = list(message.tool_calls or ())
    if reasoning:
        yield Message(role=Role.ASSISTANT, channel=Channel.ANALYSIS, text=reasoning)
    parts = _parts(message.content, path)
    text, several = text_and_parts(parts)
    text = text or message.refusal or ""
    called = bool(tool_calls) or message.function_call is not None
    answered = message.content is not None or message.refusal is not None
    if calls.strict and not (answered or called or reasoning):
        raise refused(
            f"{path}.content", "an assistant message needs content or tool_calls.", code="missing_required_parameter"
        )
    if called and text:
        yield Message(
            role=Role.ASSISTANT, channel=Channel.COMMENTARY, intent=Intent.PREAMBLE, text=text, name=message.name
        )
    if (answered or not reasoning) and not called:
        yield Message(
            role=Role.ASSISTANT,
            channel=Channel.FINAL,
            text=text,
            name=message.name,
            parts=several,
        )
    for i, call in enumerate(tool_calls):
        at = f"{path}.tool_calls[{i}]"
        yield followed(_called(call, at, calls), calls, f"{at}.id")
    if message.function_call is not None:
        yield _call(message.function_call, f"{path}.function_call", None, calls)


def _called(call: ToolCall, path: str, calls: OpenCalls) -> Message:
    match call:
        case ToolCall(type="function", function=FunctionCall() as function):
            return _call(function, f"{path}.function", call.id, calls)
        case ToolCall(type="custom", custom=CustomCall(name, text)):
            arguments = msgspec.Raw(encode(json.dumps({CUSTOM_INPUT: text})))
            return _call(FunctionCall(name, arguments), f"{path}.custom", call.id, calls)
        case _:
            raise refused(f"{path}.{call.type}", f"a {call.type} call needs it.", code="missing_required_parameter")


def _call(function: FunctionCall, path: str, id: str | None, calls: OpenCalls) -> Message:
    if calls.strict and not function.name:
        raise refused(f"{path}.name", "the name is empty.")
    return make_call(recipient_of(function.name), arguments_text(function.arguments, path), id)


def arguments_text(raw: msgspec.Raw, path: str) -> str:
    """A call's arguments as the client sent it: a string's content, or an object's own spelling."""
    data = bytes(raw)
    match data[:1]:
        case b'"':
            try:
                return msgspec.json.decode(data, type=str)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise refused(f"{path}.arguments", "the text is malformed.", code="invalid_json") from None
        case b"{":
            return data.decode()
        case b"n":
            return ""
        case _:
            raise refused(f"{path}.arguments", "must be a string of JSON, or an object.", code="invalid_type")


def _result(message: ChatMessage, path: str, calls: OpenCalls, *, in_order: bool) -> Message:
    """A tool's answer. Resolution X-18: it names a call that was made and has no answer yet."""
    parts = _parts(message.content, path, images=True)
    if message.role == "function":
        if not message.name:
            raise refused(f"{path}.name", "a function message needs its name.", code="missing_required_parameter")
        return make_answer(recipient_of(message.name), None, parts)
    path = f"{path}.tool_call_id"
    if not (message.tool_call_id or in_order):
        raise refused(path, "a tool message needs the id of its call.", code="missing_required_parameter")
    id = message.tool_call_id or calls.oldest()
    return make_answer(answered(id, calls, path) if id else NAMELESS, id or None, parts)


def followed(message: Message, calls: OpenCalls, path: str) -> Message:
    """The message: a call waits from now on. Raises `RequestError` for one under the id of one that waits."""
    if not calls.follow(message):
        raise refused(path, f"another call {(message.call_id or '')[:80]!r} waits for its answer.", hint=OWN_ID)
    return message


def answered(id: str, calls: OpenCalls, path: str) -> str:
    """The recipient of the call that is answered. Raises `RequestError` where none waits under the id."""
    recipient = calls.answer(id)
    if recipient is None:
        raise refused(path, f"no call {id[:80]!r} before this waits for an answer.")
    return recipient


def recipient_of(name: str) -> str:
    """The recipient of a call by a function's name: names on this wire have no namespace."""
    return f"{FUNCTIONS}.{name}"


def _parts(content: Content, path: str, *, images: bool = False) -> tuple[TextPart | OpaquePart, ...]:
    """``images``: whether the message may have some.

    Of a message that only calls, or of the operator's texts, no prompt has a place for one.
    """
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    return tuple(_part(part, f"{path}.content[{i}]", images=images) for i, part in enumerate(content))


def _part(part: ContentPart, path: str, *, images: bool) -> TextPart | OpaquePart:
    if images and part.type == "image_url":
        return OpaquePart(part.type, {"type": part.type, "image_url": part.image_url}, path)
    if part.type == "file" and isinstance(part.file, dict):
        return text_file(part.file.get("file_data"), part.file.get("filename"), path, part.type)
    return text_part(part, path, TEXT_PARTS)


def text_part(part: TextLike, path: str, types: Sequence[str]) -> TextPart:
    """The text of a part of one of the ``types``, or its refusal. Raises `RequestError` for any other."""
    if part.type not in (*types, "refusal"):
        raise unreadable(path, part.type)
    field = "refusal" if part.type == "refusal" else "text"
    text: str | None = getattr(part, field)
    if text is None:
        raise refused(f"{path}.{field}", f"a part of type {part.type} needs it.", code="missing_required_parameter")
    return TextPart(text)
