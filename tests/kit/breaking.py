"""An engine that says some ids and then fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from antiphon.engines import Sampling, ScriptedEngine, Step
from antiphon.tenancy import NOBODY, Tenant


class Breaking(ScriptedEngine):
    """Says some ids, then fails."""

    def __init__(self, ids: Sequence[int], error: Exception) -> None:
        super().__init__([])
        self._ids, self._error = ids, error

    async def generate(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int = 1, grammar: str | None = None,
        tenant: Tenant = NOBODY,
    ) -> AsyncGenerator[Step, None]:  # fmt: skip
        for id in self._ids:
            await asyncio.sleep(0)
            yield Step((id,))
        raise self._error
