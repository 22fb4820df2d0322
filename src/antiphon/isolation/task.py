"""Tasks that may be run in a process of their own, with their limits, and how a piece of one ended."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from antiphon.errors import AntiphonError, Position, RequestError
from antiphon.errors.fault import Fault

DONE, REFUSED, SPENT, BROKEN = b"d", b"r", b"s", b"b"
"""The result; an error of ours as a `Fault`; memory, stack or a counter of a library did not suffice; what failed
without being foreseen."""
MIB = 2**20


def outcome_of(function: Callable[[bytes], bytes] | None, piece: bytes | BaseException) -> tuple[bytes, bytes]:
    """Runs ``function`` on the piece, and gives its bytes or its error."""
    try:
        if function is None or isinstance(piece, BaseException):
            assert isinstance(piece, BaseException)
            raise piece
        return DONE, function(piece)
    except AntiphonError as error:
        return REFUSED, msgspec.msgpack.encode(Fault.of(error))
    except (MemoryError, RecursionError):
        return SPENT, b""
    except Exception as error:  # noqa: BLE001 - it ends here, and the server's log has it
        return BROKEN, "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
    except BaseException:  # noqa: BLE001 - a panic of Rust's, such as of more states than a grammar may have
        return SPENT, b""


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
