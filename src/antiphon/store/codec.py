"""Messages ⇄ the bytes of a store. Sampled ids stay with their text, so that history is never encoded anew."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from antiphon.conversation import Message
from antiphon.conversation.json import FullMessageJson, message_fields, message_of, parts_json
from antiphon.errors import StoreError
from antiphon.structs import ready
from antiphon.tokens import SampledText, well_formed


class StoredMessage(FullMessageJson, frozen=True):
    """A message, and where the model sampled its texts the ids, of the vocabulary that is named.

    ``header_ids``: of each piece of the header, () where none are known.
    """

    ids: tuple[int, ...] = ()
    header_ids: tuple[tuple[int, ...], ...] = ()
    vocabulary: str = ""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ready(StoredMessage))


def pack(message: Message) -> bytes:
    """The message as MessagePack; a lone surrogate in its text is U+FFFD, as it is in prompts and answers.

    Raises `FormatError` for system and developer content, which is never stored.
    """
    vocabulary = next((t.vocabulary for t in (message.text, *message.header) if isinstance(t, SampledText)), "")
    ids, *header_ids = (_ids(text, vocabulary) for text in (message.text, *message.header))
    values = message_fields(message)
    form = StoredMessage(
        **{**values, "text": well_formed(values.get("text", ""))},
        parts=parts_json(message.parts),
        ids=ids,
        header_ids=tuple(header_ids) if any(header_ids) else (),
        vocabulary=vocabulary,
    )
    return _ENCODER.encode(form)


def unpack(stored: bytes) -> Message:
    """The message that `pack` was given. Raises `StoreError` for other bytes."""
    try:
        form = _DECODER.decode(stored)
    except msgspec.DecodeError as error:
        raise StoreError("A stored message cannot be read.", code="store_corrupt") from error
    message = message_of(form)
    if not form.vocabulary:
        return message
    header_ids = form.header_ids if len(form.header_ids) == len(message.header) else ((),) * len(message.header)
    header = (_sampled(text, ids, form.vocabulary) for text, ids in zip(message.header, header_ids, strict=True))
    return replace(message, text=_sampled(message.text, form.ids, form.vocabulary), header=tuple(header))


def _ids(text: str, vocabulary: str) -> tuple[int, ...]:
    return text.ids if isinstance(text, SampledText) and text.vocabulary == vocabulary else ()


def _sampled(text: str, ids: tuple[int, ...], vocabulary: str) -> str:
    return SampledText(text, ids, vocabulary) if ids else text
