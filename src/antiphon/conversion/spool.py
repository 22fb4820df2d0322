"""Buffers what must wait for the end of an input: in memory, and in a temporary file when it is long."""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Iterator
from typing import IO

import msgspec

from antiphon.conversation import Message
from antiphon.conversation.json import FullMessageJson, full_message_json, message_of
from antiphon.structs import ready

IN_MEMORY = 1 << 20
"""Bytes that stay in memory; more go to a temporary file."""


def temporary(owner: object) -> IO[bytes]:
    """A file that is closed, and gone, when its owner is."""
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - it lives as long as its owner
    weakref.finalize(owner, file.close)
    return file


class Spool:
    """Takes messages of texts and media, and gives them back once, in order; their OpenChatML spelling is lost."""

    def __init__(self) -> None:
        self._file = temporary(self)

    def add(self, message: Message) -> None:
        # JSON in ASCII has a spelling for every text, lone surrogates too.
        self._file.write(json.dumps(msgspec.to_builtins(full_message_json(message))).encode() + b"\n")

    def take(self) -> Iterator[Message]:
        self._file.seek(0)
        with self._file as file:
            for line in file:
                yield message_of(msgspec.convert(json.loads(line), ready(FullMessageJson)))
