"""What limits sandboxed code, and what running a cell of it gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What an interpreter may use before it is ended.

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
    """What running a cell gave; ``images`` are PNG in base64, ``bytes`` is how much it printed.

    ``lost`` says why the interpreter is gone, with all its variables, when it is; ``late`` that the deadline was why.
    """

    ok: bool
    text: str
    bytes: int
    images: tuple[str, ...] = ()
    lost: str | None = None
    late: bool = False
