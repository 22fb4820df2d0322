"""Objects that are imported and made when they are first used."""

from __future__ import annotations

import asyncio
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a context has what is made of it
    from .context import Context


class LazyObject:
    """An object that the class at ``place`` (``module:Class``) makes of the context and of ``more``, once."""

    def __init__(self, context: Context, place: str, *more: object) -> None:
        self._context = context
        self._place = place
        self._more = more
        self.made: Any = None
        """The object; None until it is first used."""

    async def get(self) -> Any:
        """It, the same each time; imported beside the event loop."""
        if self.made is None:
            make = await asyncio.to_thread(resolve_name, self._place)
            self.made = self.made or make(self._context, *self._more)
        return self.made
