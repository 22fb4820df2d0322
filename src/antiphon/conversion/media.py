"""Parts that are no text: carried as they came to forms that have a place for them."""

from __future__ import annotations

from dataclasses import replace

from antiphon.conversation import Message, OpaquePart, TextPart


def without_media(message: Message) -> Message:
    """The message for a form that has no images, sounds and files; the report then lists them."""
    if not any(isinstance(part, OpaquePart) for part in message.parts):
        return message
    rest = tuple(part for part in message.parts if not isinstance(part, OpaquePart))
    plain = len(rest) < 2 and all(isinstance(part, TextPart) for part in rest)
    return replace(message, parts=() if plain else rest)
