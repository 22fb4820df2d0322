"""Messages ⇄ the bytes of a store. Sampled ids stay with their text, so that history is never encoded anew."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from antiphon.conversation import Message
from antiphon.conversation.json import FullMessageJson, message_fields, message_of, parts_json
from antiphon.errors import StoreError
from antiphon.tokens import SampledText


class StoredMessage(FullMessageJson, frozen=True):
    """A message, and where the model sampled its text the ids, of the vocabulary that is named."""

    ids: tuple[int, ...] = ()
    vocabulary: str = ""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(StoredMessage)


def pack(message: Message) -> bytes:
    """The message as MessagePack. Raises `FormatError` for system and developer content, which is never stored."""
    text = message.text
    ids, vocabulary = (text.ids, text.vocabulary) if isinstance(text, SampledText) else ((), "")
    parts = parts_json(message.parts)
    return _ENCODER.encode(StoredMessage(**message_fields(message), parts=parts, ids=ids, vocabulary=vocabulary))


def unpack(stored: bytes) -> Message:
    """The message that `pack` was given. Raises `StoreError` for other bytes."""
    try:
        form = _DECODER.decode(stored)
    except msgspec.DecodeError as error:
        raise StoreError("A stored message cannot be read.", code="store_corrupt") from error
    message = message_of(form)
    return replace(message, text=SampledText(message.text, form.ids, form.vocabulary)) if form.ids else message
