"""Engines that say some ids and then fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from antiphon.engines import ScriptedEngine, Step
from antiphon.errors import EngineLostError


class Breaking(ScriptedEngine):
    """Says some ids, then fails."""

    def __init__(self, ids: Sequence[int], error: Exception) -> None:
        super().__init__([])
        self._ids, self._error = ids, error

    async def generate(self, *args: Any, **options: Any) -> AsyncGenerator[Step, None]:
        for id in self._ids:
            await asyncio.sleep(0)
            yield Step((id,))
        raise self._error


class Losing(ScriptedEngine):
    """Plays its script, and is lost after ``after`` steps."""

    after = 3

    async def generate(self, *args: Any, **options: Any) -> AsyncGenerator[Step, None]:
        left = self.after
        async with aclosing(super().generate(*args, **options)) as steps:
            async for step in steps:
                if not left:
                    raise EngineLostError("the engine was lost")
                left -= 1
                yield step
