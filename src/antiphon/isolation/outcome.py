"""How a piece of work ended, on its way back to the server."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import msgspec

from antiphon.errors import AntiphonError
from antiphon.errors.fault import Fault

DONE, REFUSED, SPENT, BROKEN = b"d", b"r", b"s", b"b"
"""The result; an error of ours as a `Fault`; memory, stack or a counter of a library did not suffice; what failed
without being foreseen."""


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
