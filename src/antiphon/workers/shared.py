"""What the supervisor has for all of its workers: the queue of requests, and the engines."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from antiphon.config import EngineConfig, Limits
from antiphon.http.gate.admission import Admission
from antiphon.http.rules import Rules

from .engines import SharedEngines
from .peer import Offer, Share


class Shared:
    """``offers`` are the contexts that each worker may enter."""

    def __init__(self, limits: Limits, engine: EngineConfig) -> None:
        self._rules = Rules(limits)
        self._admission = Admission(self._rules)
        self.engines = SharedEngines(engine)

    @property
    def offers(self) -> Mapping[str, Offer]:
        return {
            "check": self._check,
            "slot": self._slot,
            "background": self._background,
            **self.engines.offers,
        }

    def take(self, limits: Limits) -> None:
        """From now on these hold."""
        self._rules.limits = limits
        self._admission.let_in()

    @asynccontextmanager
    async def _check(self, owner: str) -> AsyncGenerator[Share, None]:
        self._admission.check(owner)
        yield Share()

    @asynccontextmanager
    async def _slot(self, owner: str) -> AsyncGenerator[Share, None]:
        async with self._admission.slot(owner):
            yield Share()

    @asynccontextmanager
    async def _background(
        self, owner: str, model: str, slots: int, places: int, patience: float | None
    ) -> AsyncGenerator[Share, None]:
        async with self._admission.background(owner, model=model, slots=slots, places=places, patience=patience):
            yield Share()
