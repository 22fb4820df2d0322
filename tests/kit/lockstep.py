"""An engine whose slots go in step, as those of a real one do: each step gives every running reply one token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from antiphon.engines import Sampling, ScriptedEngine, Step
from antiphon.engines.engine import EngineEnd
from antiphon.tenancy import NOBODY, FairRoom, Tenant


class LockstepEngine(ScriptedEngine):
    """Says ``reply`` to whoever asks, to ``slots`` at once; others wait for a slot. ``steps`` counts all of them."""

    def __init__(self, reply: Sequence[int], *, slots: int) -> None:
        super().__init__(reply, slots=slots)
        self._reply = tuple(reply)
        self._slots = FairRoom(lambda: slots)
        self._ready = 0
        self._next = asyncio.Event()
        self.steps = 0

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        tenant: Tenant = NOBODY,
    ) -> AsyncGenerator[Step, None]:
        async with self._slots.places(tenant.owner):
            self.running += 1
            try:
                for id in self._reply[:-1]:
                    await self._step()
                    yield Step((id,), 0, (), cached_tokens=0)
                yield Step(self._reply[-1:], 0, (), end=EngineEnd.STOP, cached_tokens=0)
            finally:
                self.running -= 1
                self._go_on()

    async def _step(self) -> None:
        """Waits until every running reply is ready for the next token."""
        self._ready += 1
        next = self._next
        self._go_on()
        await asyncio.sleep(0)
        await next.wait()

    def _go_on(self) -> None:
        if 0 < self.running == self._ready:
            self.steps += 1
            self._ready = 0
            self._next.set()
            self._next = asyncio.Event()
