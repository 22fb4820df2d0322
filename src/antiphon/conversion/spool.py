"""What must wait until an input is whole: in a temporary file when it is long."""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Iterator
from typing import IO, Any

from antiphon.conversation import End, Message, OpaquePart, Part, Role, TextPart

_PLAIN = ("text", "name", "recipient", "channel", "content_type", "constrained", "call_id", "intent")
IN_MEMORY = 1 << 20
"""Bytes that are kept in memory; more go to a temporary file."""


def temporary(owner: object) -> IO[bytes]:
    """A file that is closed, and gone, when its owner is."""
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - it lives as long as its owner
    weakref.finalize(owner, file.close)
    return file


class Spool:
    """Takes messages of texts and media, and gives them back once, in their order; their spelling is not kept."""

    def __init__(self) -> None:
        self._file = temporary(self)

    def add(self, message: Message) -> None:
        self._file.write(json.dumps(_kept(message)).encode() + b"\n")

    def take(self) -> Iterator[Message]:
        self._file.seek(0)
        with self._file as file:
            for line in file:
                yield _message(json.loads(line))


def _kept(message: Message) -> dict[str, Any]:
    """JSON in ASCII has a spelling for every text, lone surrogates too."""
    plain = {name: getattr(message, name) for name in _PLAIN}
    return {**plain, "role": message.role, "end": message.end, "parts": list(map(_part_kept, message.parts))}


def _part_kept(part: Part) -> list[Any]:
    match part:
        case TextPart(text):
            return [text]
        case OpaquePart(kind, data):
            return [kind, data]
        case _:
            raise AssertionError(f"a {type(part).__name__} is refused before it comes here")


def _message(kept: dict[str, Any]) -> Message:
    parts = tuple(TextPart(*part) if len(part) == 1 else OpaquePart(*part) for part in kept.pop("parts"))
    return Message(role=Role(kept.pop("role")), end=End(kept.pop("end")), parts=parts, **kept)
