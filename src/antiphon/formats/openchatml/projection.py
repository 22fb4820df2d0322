"""The JSON projection (§10): one object a frame, both ways, and only what the text can represent (A-O38 … A-O40)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from antiphon.conversation import Channel, Conversation, End, Message, Role, Settings, ToolNamespace
from antiphon.errors import ParseError, Position, RenderError

from .document import VERSION, DocumentHeader
from .finding import E_CALL, E_HEADER
from .reader import Reader, TranscriptEnvelope
from .writer import Writer, envelope_of

Json = dict[str, Any]

_KEYS = {"role", "channel", "content", "tool_call", "thinking", "intent", "ocm"}
_CALL_KEYS = {"id", "recipient", "content_type", "arguments"}
_OCM_KEYS = {"to", "call_id", "name", "content_type", "constrain", "end", "channel"}
_OCM_KEYS_OF_CALLS = {"name", "constrain", "channel"}
_BODIES = ("thinking", "content", "tool_call")
"""The keys of which a frame has one, in the order in which a turn has their frames."""
_BESIDE: dict[str, Json] = {
    "thinking": {"role": "assistant", "channel": "analysis"},
    "tool_call": {"role": "assistant", "channel": "commentary"},
}
"""A frame that is made of a key beside another, whose channel and intent the object has."""


def to_json(conversation: Conversation) -> Json:
    """The transcript as one JSON value: ``version``, the header's other keys, ``messages``."""
    header = envelope_of(conversation).header or DocumentHeader()
    return {
        "version": header.version,
        "header": dict(header.fields),
        "messages": [message_to_json(message) for message in conversation.messages],
    }


def message_to_json(message: Message) -> Json:
    """One frame. ``tool_call`` only where ``<|call|>`` was written; reasoning is ``thinking``, never ``content``.

    What the specification's keys do not hold is under ``ocm``.
    """
    called = message.end is End.CALL
    thought = message.role is Role.ASSISTANT and message.channel == Channel.ANALYSIS and not called
    projected: Json = {
        "role": message.role.value,
        "channel": message.effective_channel,
        "content": None if called or thought else message.text,
    }
    if called:
        projected["tool_call"] = {
            "id": message.call_id,
            "recipient": message.recipient,
            "content_type": message.content_type,
            "arguments": message.text,
        }
    if thought:
        projected["thinking"] = message.text
    if message.intent is not None:
        projected["intent"] = message.intent
    ocm = dict(_extension(message, called))
    return {**projected, "ocm": ocm} if ocm else projected


def _extension(message: Message, called: bool) -> Iterable[tuple[str, Any]]:
    if not called:
        fields = (("to", message.recipient), ("call_id", message.call_id), ("content_type", message.content_type))
        yield from ((key, value) for key, value in fields if value is not None)
    if message.name is not None:
        yield "name", message.name
    if message.constrained:
        yield "constrain", True
    if not called and message.end is not End.END:
        yield "end", message.end.value
    if message.channel is None:
        yield "channel", None


def turn_to_json(messages: Sequence[Message]) -> Json:
    """A whole assistant turn as one object: a view that loses the order of its frames, and says so (A-O38)."""
    replies = [message for message in messages if message.role is Role.ASSISTANT]
    calls = [message_to_json(message)["tool_call"] for message in replies if message.end is End.CALL]
    thoughts = [m.text for m in replies if m.channel == Channel.ANALYSIS and not m.is_call]
    answers = [m.text for m in replies if m.effective_channel == Channel.FINAL and not m.is_call]
    turn: Json = {"role": "assistant", "channel": "final", "content": "".join(answers) if answers else None}
    if calls:
        turn["tool_call"] = calls[0]
    if thoughts:
        turn["thinking"] = "\n\n".join(thoughts)
    return {**turn, "ocm": {"lossy": True, **({"tool_calls": calls} if len(calls) > 1 else {})}}


def from_json(value: Any) -> Conversation:
    """The conversation that a projection stands for. Raises `ParseError` with the JSON path of what is wrong.

    A message alone (an object with a ``role``) is a transcript of one. An assistant's message may have several of
    thinking, content and a call, as in §10: each is a frame (A-O38). It is written as text and read back strictly, so
    a state that the text cannot represent is refused (OCM-111).
    """
    if not isinstance(value, Mapping):
        raise _error("a projection is an object", "$")
    if "role" in value:
        value = {"messages": [value]}
    _check_keys(value, {"version", "header", "messages"}, "")
    version, fields, frames = value.get("version", VERSION), value.get("header", {}), value.get("messages")
    if not isinstance(version, str) or not isinstance(fields, Mapping):
        raise _error("version is a string and header an object", "header")
    if not isinstance(frames, list):
        raise _error("messages is not a list", "messages")
    header = DocumentHeader(version, dict(fields))
    placed = [(path, message) for i, frame in enumerate(frames) for path, message in _frames(frame, f"messages[{i}]")]
    _check_representable(header, placed)
    return Conversation(
        messages=tuple(message for _, message in placed),
        builtins=tuple(ToolNamespace(name) for name in header.builtin_tools),
        settings=Settings(reasoning_effort=header.reasoning_effort),
        extra={"openchatml": TranscriptEnvelope(header)},
    )


def _frames(value: Any, path: str) -> Iterator[tuple[str, Message]]:
    """The frames of one object, each with its path."""
    present = [key for key in _BODIES if value.get(key) is not None] if isinstance(value, Mapping) else []
    if len(present) < 2 or value.get("role") != Role.ASSISTANT or value.get("ocm"):
        yield path, message_from_json(value, path)
        return
    own = "content" if "content" in present else "tool_call"
    for key in present:
        frame = {k: v for k, v in value.items() if k not in _BODIES} if key == own else _BESIDE[key]
        yield path, message_from_json({**frame, key: value[key]}, path)


def message_from_json(frame: Any, path: str = "message") -> Message:
    """One frame. Raises `ParseError` with the path of what is wrong in it."""
    if not isinstance(frame, Mapping):
        raise _error("a message is not an object", path)
    if "tool_calls" in frame:
        hint = "A turn never mixes <|call|> and tool_calls; use tool_call, one a frame."
        raise _error("tool_calls has no place here", f"{path}.tool_calls", hint, code=E_CALL)
    _check_keys(frame, _KEYS, path)
    ocm = _object(frame, "ocm", _OCM_KEYS, path)
    role = frame.get("role")
    if role not in tuple(Role):
        raise _error(f"unknown role {role!r}", f"{path}.role")
    message = Message(
        role=Role(role),
        name=_text(ocm, "name", f"{path}.ocm"),
        channel=_channel(frame, ocm, path),
        intent=_text(frame, "intent", path),
        constrained=_constrained(ocm, f"{path}.ocm"),
    )
    if frame.get("tool_call") is not None:
        return _with_call(message, frame, path)
    bodies = [text for text in (_text(frame, "content", path), _text(frame, "thinking", path)) if text is not None]
    if len(bodies) != 1:
        raise _error("a frame has either content, thinking or a tool_call", path)
    if frame.get("thinking") is not None and (message.role, message.channel) != (Role.ASSISTANT, Channel.ANALYSIS):
        raise _error("thinking is an assistant's, on the channel analysis", f"{path}.thinking")
    end = ocm.get("end", "end")
    if end == End.CALL or end not in tuple(End):
        hint = "return, none (an open frame) or end; a call stands in tool_call."
        raise _error(f"unknown end {end!r}", f"{path}.ocm.end", hint)
    addressed = _addressed(message, ocm, f"{path}.ocm", to="to", id="call_id")
    return replace(addressed, text=bodies[0], end=End(end))


def _with_call(message: Message, frame: Mapping[str, Any], path: str) -> Message:
    call, where = _object(frame, "tool_call", _CALL_KEYS, path), f"{path}.tool_call"
    if frame.get("content") is not None or frame.get("thinking") is not None:
        raise _error("a call's frame has no content beside its arguments", f"{path}.content")
    misplaced = next((key for key in frame.get("ocm") or () if key not in _OCM_KEYS_OF_CALLS), None)
    if misplaced is not None:
        raise _error(f"{misplaced} of a call is in its tool_call", f"{path}.ocm.{misplaced}")
    arguments = _text(call, "arguments", where)
    if arguments is None:
        raise _error("the call has no arguments", f"{where}.arguments", code=E_CALL)
    return replace(_addressed(message, call, where, to="recipient", id="id"), text=arguments, end=End.CALL)


def _addressed(message: Message, words: Mapping[str, Any], path: str, *, to: str, id: str) -> Message:
    recipient, call_id, content_type = (_text(words, key, path) for key in (to, id, "content_type"))
    return replace(message, recipient=recipient, call_id=call_id, content_type=content_type)


def _channel(frame: Mapping[str, Any], ocm: Mapping[str, Any], path: str) -> str | None:
    """``ocm.channel`` is null where none was written; then the frame reads as final."""
    channel = _text(frame, "channel", path)
    if "channel" not in ocm:
        return channel
    if ocm["channel"] is not None or channel not in (None, Channel.FINAL):
        raise _error("ocm.channel says null, and only of what reads as final", f"{path}.ocm.channel")
    return None


def _constrained(ocm: Mapping[str, Any], path: str) -> bool:
    constrained = ocm.get("constrain", False)
    if not isinstance(constrained, bool):
        raise _error("constrain is no boolean", f"{path}.constrain")
    return constrained


def _check_representable(header: DocumentHeader, placed: Sequence[tuple[str, Message]]) -> None:
    writer, reader = Writer(TranscriptEnvelope(header)), Reader(strict=True)
    path = "header"
    try:
        reader.feed(writer.header())
        for where, message in placed:
            path = where
            reader.feed(writer.write(message))
        if not placed or placed[-1][1].end is not End.NONE:
            reader.close()
    except (ParseError, RenderError) as error:
        code = error.code if error.code.startswith("E-") else E_HEADER
        raise _error(error.message, path, error.hint, code=code) from None


def _object(value: Mapping[str, Any], key: str, known: set[str], path: str) -> Mapping[str, Any]:
    found = value.get(key, {})
    if not isinstance(found, Mapping):
        raise _error(f"{key} is not an object", f"{path}.{key}")
    _check_keys(found, known, f"{path}.{key}")
    return found


def _check_keys(value: Mapping[str, Any], known: set[str], path: str) -> None:
    unknown = next((key for key in value if key not in known), None)
    if unknown is not None:
        where = f"{path}.{unknown}" if path else str(unknown)
        raise _error(f"unknown key {unknown!r}", where, f"The projection knows {', '.join(sorted(known))}.")


def _text(value: Mapping[str, Any], key: str, path: str) -> str | None:
    found = value.get(key)
    if found is not None and not isinstance(found, str):
        raise _error(f"{key} is not a string", f"{path}.{key}")
    return found


def _error(message: str, path: str, hint: str | None = None, *, code: str = E_HEADER) -> ParseError:
    return ParseError(message, code=code, position=Position(path=path), hint=hint)
