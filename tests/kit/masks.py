"""What the mask of a grammar allows."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(10_000)
def allowed(mask: bytes, size: int) -> tuple[int, ...]:
    """The ids of a vocabulary of so many that may come next."""
    ids = (8 * place + bit for place, byte in enumerate(mask) if byte for bit in range(8) if byte >> bit & 1)
    return tuple(id for id in ids if id < size)
