"""Reading a record, changing it and writing it back, so that no change of another is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from antiphon.errors import ConflictError

TRIES = 64
"""Each time that one fails, another's change was written."""


async def until_written(write: Callable[[], Awaitable[None]]) -> None:
    """Runs ``write``, which reads a record and writes it with the version that it read, until nobody was faster.

    Raises `ConflictError` (``write_conflict``) where somebody always is.
    """
    for _ in range(TRIES - 1):
        if await unless_changed(write()):
            return
    await write()


async def unless_changed(write: Awaitable[None]) -> bool:
    """Whether it was written; False where the record has not the expected version any more."""
    try:
        await write
    except ConflictError as error:
        if error.code != "write_conflict":
            raise
        return False
    return True
