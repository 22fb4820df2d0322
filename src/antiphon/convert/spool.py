"""What must wait until an input is whole: in a temporary file when it is long."""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Iterator
from typing import IO

from antiphon.conversation import Message

IN_MEMORY = 1 << 20
"""Bytes that are kept in memory; more go to a temporary file."""


def temporary(owner: object) -> IO[bytes]:
    """A file that is closed, and gone, when its owner is."""
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - it lives as long as its owner
    weakref.finalize(owner, file.close)
    return file


class Spool:
    """Takes messages, and gives them back once, in their order."""

    def __init__(self) -> None:
        self._file = temporary(self)
        self._count = 0

    def add(self, message: Message) -> None:
        pickle.dump(message, self._file, pickle.HIGHEST_PROTOCOL)
        self._count += 1

    def take(self) -> Iterator[Message]:
        self._file.seek(0)
        with self._file as file:
            for _ in range(self._count):
                yield pickle.load(file)  # noqa: S301 - what we wrote, in a file that nobody else can name
