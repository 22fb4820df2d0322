"""Tasks that may be run in a process of their own, with their limits."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.errors import Position, RequestError

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Task:
    """The function at ``place`` (``module:name``), which makes bytes of bytes and raises `AntiphonError`.

    ``prepare`` is a function of ours at such a place, which is called once before the first piece: what it makes and
    keeps is there in every process. ``processor`` are seconds that a piece may compute, ``memory`` the bytes that
    it may have beside what its process begins with. ``what`` the piece is, and ``path``, its place in the request, are
    for errors.
    """

    place: str
    what: str
    path: str | None = None
    prepare: str | None = None
    processor: float = 1.0
    memory: int = 256 * MIB

    def too_much(self) -> RequestError:
        """The error of a piece whose process came to one of its limits."""
        return RequestError(
            f"{self.what} takes more than the {self.processor:g} seconds of processor time or "
            f"{self.memory // MIB} MiB of memory that one request may",
            code="work_limit",
            position=None if self.path is None else Position(path=self.path),
            hint="Send something smaller or simpler.",
        )
