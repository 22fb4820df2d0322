"""Limits of sandboxed code, and the result of running a cell of it."""

from __future__ import annotations

import asyncio
import base64
import struct
from dataclasses import dataclass
from pathlib import Path

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Resources that an interpreter may use before it is ended.

    ``seconds`` a cell (wall clock), ``cpu`` seconds of processor time in all cells together; ``memory``, ``scratch``
    and ``output`` in bytes; ``files`` in the scratch folder; ``threads`` at once. ``packages``: a folder of installed
    packages that the code may import, read only (numpy, matplotlib …).
    """

    seconds: float = 120.0
    cpu: float = 600.0
    memory: int = 1 << 30
    scratch: int = 32 << 20
    files: int = 20_000
    threads: int = 256
    output: int = 64 << 10
    packages: Path | None = None


class Cell(msgspec.Struct, frozen=True):
    """Result of running a cell; ``images`` are PNG in base64, ``bytes`` is how much it printed.

    ``lost`` says why the interpreter is gone, with all its variables, when it is; ``late`` that the deadline was why.
    """

    ok: bool
    text: str
    bytes: int
    images: tuple[str, ...] = ()
    lost: str | None = None
    late: bool = False


# The one form of an interpreter's reply: a header of fixed size, then as many bytes as it says.
#
# The code runs in the process that writes replies, so anything may stand in that pipe. A reply therefore has no
# nesting, its size is bounded before it is read, and it begins with the nonce of its cell: what was written for
# another cell, or by somebody else, does not fit.

NONCE = 16
IMAGES = 8
IMAGE_BYTES = 2_000_000
HEADER = struct.Struct(f"!{NONCE}s?QI{IMAGES}I")
"""Nonce; whether the code raised nothing; bytes printed; bytes of the text that follows, and of each image after it."""


class UnexpectedReply(Exception):
    """Error of a pipe in which something else stands than the reply to this cell."""


async def read_reply(stream: asyncio.StreamReader, nonce: bytes, output: int) -> Cell:
    """The reply to the cell of ``nonce``, with at most ``output`` bytes of text.

    Raises `UnexpectedReply` for anything else, and EOFError where the pipe ends.
    """
    found, ok, printed, text_size, *image_sizes = HEADER.unpack(await stream.readexactly(HEADER.size))
    if found != nonce or text_size > output or max(image_sizes) > IMAGE_BYTES:
        raise UnexpectedReply
    text = await stream.readexactly(text_size)
    images = [await stream.readexactly(size) for size in image_sizes if size]
    return Cell(ok, text.decode("utf-8", "replace"), printed, tuple(base64.b64encode(one).decode() for one in images))
