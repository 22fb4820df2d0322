"""Messages ⇄ bytes: what a store keeps. Sampled ids are kept with their text, so that history is never encoded anew."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.conversation import End, Message, OpaquePart, Part, Role, TextPart
from antiphon.errors import FormatError
from antiphon.tokens import SampledText


class StoredPart(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str
    text: str | None = None
    data: Any = None


class StoredMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """`Message`, field by field, with the ids of its text if the model sampled it."""

    role: Role
    text: str = ""
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None
    constrained: bool = False
    call_id: str | None = None
    intent: str | None = None
    end: End = End.END
    parts: tuple[StoredPart, ...] = ()
    ids: tuple[int, ...] = ()
    vocabulary: str = ""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(StoredMessage)


def pack(message: Message) -> bytes:
    """The message as MessagePack. Raises `FormatError` for generated parts, which a store never needs."""
    text = message.text
    ids, vocabulary = (text.ids, text.vocabulary) if isinstance(text, SampledText) else ((), "")
    return _ENCODER.encode(
        StoredMessage(
            role=message.role,
            text=str(text),
            name=message.name,
            recipient=message.recipient,
            channel=message.channel,
            content_type=message.content_type,
            constrained=message.constrained,
            call_id=message.call_id,
            intent=message.intent,
            end=message.end,
            parts=tuple(_packed(part) for part in message.parts),
            ids=ids,
            vocabulary=vocabulary,
        )
    )


def unpack(stored: bytes) -> Message:
    """The message that `pack` was given. Raises `FormatError` for other bytes."""
    try:
        kept = _DECODER.decode(stored)
    except msgspec.DecodeError as error:
        raise FormatError(f"the stored message cannot be read: {error}", code="store_corrupt") from error
    text = SampledText(kept.text, kept.ids, kept.vocabulary) if kept.ids else kept.text
    return Message(
        role=kept.role,
        text=text,
        name=kept.name,
        recipient=kept.recipient,
        channel=kept.channel,
        content_type=kept.content_type,
        constrained=kept.constrained,
        call_id=kept.call_id,
        intent=kept.intent,
        end=kept.end,
        parts=tuple(_unpacked(part) for part in kept.parts),
    )


def _packed(part: Part) -> StoredPart:
    match part:
        case TextPart(text):
            return StoredPart("text", text)
        case OpaquePart(kind, data):
            return StoredPart(f"opaque:{kind}", data=data)
        case _:
            raise FormatError(f"{type(part).__name__} is generated, not stored", code="not_storable")


def _unpacked(part: StoredPart) -> Part:
    if part.kind == "text":
        return TextPart(part.text or "")
    return OpaquePart(part.kind.removeprefix("opaque:"), part.data)
