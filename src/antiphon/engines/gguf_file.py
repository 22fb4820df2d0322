"""The metadata of a GGUF file (versions 2 and 3), read without touching its tensors.

The `gguf` library takes seconds and an import of numpy for what a start-up needs; this takes some tens of milliseconds.
No number that the file claims is believed before the file is seen to be long enough for it.
"""

from __future__ import annotations

import mmap
import struct
from math import prod
from pathlib import Path
from typing import Final

import msgspec

from antiphon.errors import ModelError, Position, words_of

GgufValue = int | float | bool | str | list["GgufValue"]

_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final = {
    kind: struct.Struct(f"<{letter}") for kind, letter in zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True)
}
_MAX_DEPTH: Final = 4
_MAX_DIMENSIONS: Final = 8
"""Twice as many as tensors have."""


class GgufFile(msgspec.Struct, frozen=True):
    """``metadata``: every key and its value. ``parameters``: the numbers of all tensors; None: malformed."""

    metadata: dict[str, GgufValue]
    parameters: int | None


def is_gguf(path: Path) -> bool:
    """Whether the file, whatever it is called, begins as a GGUF file does. Raises `OSError`."""
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def read_gguf_metadata(path: Path) -> dict[str, GgufValue]:
    """Every key of the file and its value. Errors are those of `read_gguf`."""
    return read_gguf(path).metadata


def read_gguf(path: Path) -> GgufFile:
    """Reads everything before the tensors' own data.

    Errors: `ModelError`, code ``model_unreadable``, ``not_gguf``, ``gguf_truncated`` or ``gguf_malformed``, with the
    byte offset where the reading failed.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ModelError(f"{path} is not a GGUF file", code="not_gguf", hint="Its first bytes are not “GGUF”.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                reader = _Reader(content, path)
                return GgufFile(reader.metadata(), reader.parameters())
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}", code="model_unreadable") from None


def read_gguf_tensors(path: Path) -> list[str]:
    """The names of the file's tensors. Errors are those of `read_gguf_metadata`."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            reader = _Reader(content, path)
            reader.metadata()
            return [name for name, _ in reader.tensors()]
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {words_of(error)}", code="model_unreadable") from None


class _Reader:
    def __init__(self, content: mmap.mmap, path: Path) -> None:
        self._content = content
        self._path = path
        self._at = 4
        self._tensors = 0

    def metadata(self) -> dict[str, GgufValue]:
        version = self._scalar(4)
        if version not in (2, 3):
            raise self._error(f"has version {version}, and 2 and 3 are known", code="gguf_malformed")
        self._tensors = int(self._scalar(10))
        keys = int(self._scalar(10))
        values: dict[str, GgufValue] = {}
        for _ in range(self._affordable(keys, 13)):
            key = self._string()
            values[key] = self._value(int(self._scalar(4)))
        return values

    def tensors(self) -> list[tuple[str, int]]:
        """Behind the metadata: each tensor's name, and how many numbers it has."""
        return [self._tensor() for _ in range(self._affordable(self._tensors, 24))]

    def parameters(self) -> int | None:
        """Behind the metadata: the numbers of all tensors."""
        try:
            total = sum(numbers for _, numbers in self.tensors())
        except ModelError:  # Whoever loads the tensors says what is wrong with them.
            return None
        return total if total < 2**63 else None

    def _tensor(self) -> tuple[str, int]:
        name, dimensions = self._string(), int(self._scalar(4))
        if dimensions > _MAX_DIMENSIONS:
            raise self._error(f"has a tensor of {dimensions} dimensions", code="gguf_malformed")
        numbers = prod(int(self._scalar(10)) for _ in range(dimensions))
        self._skip(4 + 8)  # its type, and where its data is
        return name, numbers

    def _value(self, type: int, depth: int = 0) -> GgufValue:
        if type == _STRING:
            return self._string()
        if type in _SCALARS:
            return self._scalar(type)
        if type == _ARRAY and depth < _MAX_DEPTH:
            return self._array(depth + 1)
        raise self._error(f"has a value of an unknown kind {type}", code="gguf_malformed")

    def _array(self, depth: int) -> list[GgufValue]:
        type, count = int(self._scalar(4)), int(self._scalar(10))
        if type in _SCALARS:
            one = _SCALARS[type]
            start = self._skip(self._affordable(count, one.size) * one.size)
            return list(struct.unpack_from(f"<{count}{one.format[-1]}", self._content, start))
        if type == _STRING:
            return [*self._strings(self._affordable(count, 8))]
        return [self._value(type, depth) for _ in range(self._affordable(count, 12))]

    def _scalar(self, type: int) -> int | float | bool:
        one = _SCALARS[type]
        value: int | float | bool = one.unpack_from(self._content, self._skip(one.size))[0]
        return value

    def _string(self) -> str:
        return self._strings(1)[0]

    def _strings(self, count: int) -> list[str]:
        """``count`` strings, one behind the other. A vocabulary has a hundred thousand: nothing is called for each."""
        content, size, length = self._content, len(self._content), _SCALARS[10].unpack_from
        strings: list[str] = []
        end = self._at
        for _ in range(count):
            self._at, start = end, end + 8
            if start > size:
                raise self._cut()
            end = start + length(content, end)[0]
            if end > size:
                self._at = start
                raise self._cut()
            # Some files in the wild hold bytes that are not UTF-8; one such token must not make its model unusable.
            strings.append(content[start:end].decode("utf-8", "replace"))
        self._at = end
        return strings

    def _affordable(self, count: int, least: int) -> int:
        """``count`` items of at least ``least`` bytes, when the rest of the file can hold them."""
        if count * least > len(self._content) - self._at:
            raise self._error(f"ends before the {count} items that it announces", code="gguf_truncated")
        return count

    def _skip(self, length: int) -> int:
        start, end = self._at, self._at + length
        if end > len(self._content):
            raise self._cut()
        self._at = end
        return start

    def _cut(self) -> ModelError:
        return self._error("ends in the middle of its metadata", code="gguf_truncated")

    def _error(self, what: str, *, code: str) -> ModelError:
        hint = "Fetch the model again." if code == "gguf_truncated" else None
        return ModelError(f"{self._path} {what}", code=code, position=Position(offset=self._at), hint=hint)
