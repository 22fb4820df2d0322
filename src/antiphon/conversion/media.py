"""Parts that are no text: carried as they came, for forms that have a word for them."""

from __future__ import annotations

from dataclasses import replace

from antiphon.conversation import Message, OpaquePart, TextPart


def without_media(message: Message) -> Message:
    """The message as a form can say it that has no images, sounds and files; the report then lists them."""
    if not any(isinstance(part, OpaquePart) for part in message.parts):
        return message
    kept = tuple(part for part in message.parts if not isinstance(part, OpaquePart))
    plain = len(kept) < 2 and all(isinstance(part, TextPart) for part in kept)
    return replace(message, parts=() if plain else kept)
