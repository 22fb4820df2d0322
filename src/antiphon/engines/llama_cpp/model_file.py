"""What a GGUF file says of itself before it is loaded: enough to refuse it clearly, and its split characters.

Only the header is read. (The `gguf` package's reader builds arrays for every tensor and takes seconds.)
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from antiphon.engines.fragments import Fragments
from antiphon.errors import ModelError

from .settings import LlamaCppSettings

Value = int | float | bool | bytes | list["Value"]

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_OVERHEAD = 64 * 2**20
"""Bytes that any model needs besides its weights and its cache; deliberately low."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A GGUF header. ``size`` is the file's, in bytes."""

    path: Path
    size: int
    values: dict[str, Value]

    def number(self, key: str, default: int = 0) -> int:
        """``key`` under the model's architecture."""
        value = self.values.get(f"{self.architecture}.{key}", default)
        return int(value) if isinstance(value, int | float) else default

    @property
    def architecture(self) -> str:
        name = self.values.get("general.architecture", b"")
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else ""

    def cache_bytes(self) -> int:
        """Bytes of key-value cache for one token at 16 bits; half of it where some layers look back only so far."""
        heads = self.values.get(f"{self.architecture}.attention.head_count_kv", self.number("attention.head_count"))
        layers = self.number("block_count")
        total = sum(h for h in heads if isinstance(h, int)) if isinstance(heads, list) else layers * int(heads or 0)
        default = self.number("embedding_length") // max(1, self.number("attention.head_count", 1))
        width = self.number("attention.key_length", default) + self.number("attention.value_length", default)
        return total * width * 2 // (2 if self.number("attention.sliding_window") else 1)

    def needs(self, settings: LlamaCppSettings) -> int:
        """The least memory, in bytes, with which the model can run as ``settings`` say."""
        cache = 0 if settings.embeddings else self.cache_bytes() * settings.context * settings.slots
        return self.size + cache + _OVERHEAD

    def fragments(self) -> Fragments:
        return Fragments(self._pieces())

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        tokens = self.values.get("tokenizer.ggml.tokens", [])
        if not isinstance(tokens, list):
            return
        bytewise = self.values.get("tokenizer.ggml.model") == b"gpt2"
        for id, token in enumerate(tokens):
            if not isinstance(token, bytes):
                continue
            if bytewise:
                data = _unmasked(token.decode("utf-8", "replace"))
                if data is not None:
                    yield id, data
            elif match := re.fullmatch(rb"<0x([0-9A-F]{2})>", token):
                yield id, bytes.fromhex(match[1].decode())


def read_model_file(path: Path) -> ModelFile:
    """The header of ``path``. ModelError when there is no such file, it is not GGUF, or it is cut short."""
    if not path.is_file():
        raise ModelError(f"there is no model file {path}", code="model_not_found")
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is not a GGUF file", code="model_format", hint="Convert the model to GGUF first.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                header = _Header(data)
                values, last = header.values(), header.last_tensor()
            except (struct.error, ValueError, IndexError) as error:
                raise _cut_short(path) from error
    if last > size:
        raise _cut_short(path)
    return ModelFile(path, size, values)


def check_memory(file: ModelFile, settings: LlamaCppSettings, free: int | None) -> None:
    """ModelError when it certainly cannot fit in ``free`` bytes; None is not known."""
    need = file.needs(settings)
    if free is None or settings.gpu_layers or need <= free:
        return
    raise ModelError(
        f"{file.path.name} needs at least {need / 2**20:.0f} MiB of memory and {free / 2**20:.0f} MiB are free",
        code="model_memory",
        hint=f"Lower context ({settings.context}) or slots ({settings.slots}), or take a smaller model.",
    )


def free_memory() -> int | None:
    """Bytes that a new process can have: the machine's, or what is left of the control group's if that is less."""
    found = []
    try:
        line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
        found.append(int(line.split()[1]) * 1024)
    except (OSError, StopIteration, ValueError):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        found.append(limit - used)
    except (OSError, ValueError):  # No control group, or one without a limit ("max").
        pass
    return min(found, default=None)


def _cut_short(path: Path) -> ModelError:
    return ModelError(f"{path} is cut short or damaged", code="model_damaged", hint="Fetch it again.")


class _Header:
    """A cursor over a GGUF header, version 2 and 3, little-endian."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 4
        version = self._number("I")
        if version not in (2, 3):
            raise ValueError(f"GGUF version {version}")
        self._tensors, self._count = self._number("Q"), self._number("Q")

    def values(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for _ in range(self._count):
            key = self._string().decode("utf-8", "replace")
            found[key] = self._value(self._number("I"))
        return found

    def last_tensor(self) -> int:
        """Where the last tensor starts: a file that ends before it is cut short."""
        last = 0
        for _ in range(self._tensors):
            self._string()
            dimensions = self._number("I")
            self._at += 8 * dimensions + 4
            last = max(last, self._number("Q"))
        return self._at + last

    def _number(self, kind: str) -> int:
        (value,) = struct.unpack_from("<" + kind, self._data, self._at)
        self._at += struct.calcsize("<" + kind)
        return int(value)

    def _string(self) -> bytes:
        length = self._number("Q")
        text = self._data[self._at : self._at + length]
        self._at += length
        if len(text) != length:
            raise ValueError("the file ends inside a string")
        return text

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        (value,) = struct.unpack_from("<" + _SCALARS[kind], self._data, self._at)
        self._at += struct.calcsize("<" + _SCALARS[kind])
        found: int | float | bool = value
        return found

    def _array(self) -> list[Value]:
        kind, length = self._number("I"), self._number("Q")
        if length > len(self._data):
            raise ValueError("an array longer than the file")
        if kind in _SCALARS:
            layout = f"<{length}{_SCALARS[kind]}"
            found = list(struct.unpack_from(layout, self._data, self._at))
            self._at += struct.calcsize(layout)
            return found
        return [self._value(kind) for _ in range(length)]


def _byte_characters() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others follow from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(hidden)}


_BYTES = _byte_characters()


def _unmasked(token: str) -> bytes | None:
    """The bytes of a token written in that alphabet; None for one that is not (a control)."""
    found = [_BYTES.get(character, -1) for character in token]
    return None if -1 in found else bytes(found)
