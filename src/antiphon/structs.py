"""Struct types that several threads may decode."""

from __future__ import annotations

from threading import Lock
from typing import TypeVar

import msgspec

Kind = TypeVar("Kind")

MOST = 1000
"""Types that are remembered: those of a library's callers may be made anew each time."""
_READY: set[object] = set()
_LOCK = Lock()


def ready(kind: Kind) -> Kind:
    """The type itself, when msgspec has worked out the fields of all Structs in it.

    It does so as it first decodes one, in Python; another thread that decodes one of them meanwhile reads through a
    null pointer, which ends the process. Whoever may share a type with another thread decodes it by this. Raises what
    `msgspec.json.Decoder` raises for what is no type.
    """
    if kind not in _READY:
        with _LOCK:
            msgspec.json.Decoder(kind)
            if len(_READY) == MOST:
                _READY.clear()
            _READY.add(kind)
    return kind
