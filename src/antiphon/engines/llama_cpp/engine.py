"""The embedded engine: llama.cpp in a child process that is started again when it dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

from antiphon.engines.engine import Embeddings, EngineInfo, Sampling, Step
from antiphon.errors import AntiphonError, EngineError, OverloadedError, UnsupportedError

from .child_process import ChildProcess
from .client import LlamaClient, ServedModel
from .settings import LlamaCppSettings
from .slots import Slots
from .wire import MAX_LOGPROBS

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_STEADY_SECONDS = 60.0
"""A child that lived this long is trusted again: the next restart is quick."""


class LlamaCppEngine:
    """Made by `start`. A session (``affinity``) goes on in its slot while that is idle and still its own, else it finds
    its cache by its prompt, in a slot or in RAM; so nobody waits for a slot. ``restarts`` counts its lives
    after the first; ``last_failure`` is for the operator's log, not for callers: it may quote what they sent.
    """

    def __init__(self, settings: LlamaCppSettings, child: ChildProcess) -> None:
        self._settings = settings
        self._child: ChildProcess | None = child
        self._info = declared(child.model, embeddings=settings.embeddings)
        self._slots = Slots()
        self._pause = _FIRST_PAUSE
        self._watch = asyncio.create_task(self._keep_alive(child))
        self.restarts = 0
        self.last_failure: str | None = None

    @classmethod
    async def start(cls, settings: LlamaCppSettings) -> LlamaCppEngine:
        """Load the model. ModelError when it cannot be: no file, not GGUF, damaged, too large."""
        return cls(settings, await ChildProcess.start(settings))

    @property
    def info(self) -> EngineInfo:
        return self._info

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""
        return self._child.pid if self._child else None

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        affinity: str | None = None,
    ) -> AsyncGenerator[Step, None]:
        if self._settings.embeddings:
            raise UnsupportedError("this engine makes embeddings and does not generate")
        child, slots = self._alive(), self._slots
        place = slots.enter(prompt, affinity, n=n)
        steps = child.client.generate(
            prompt, sampling, child.model, n=n, grammar=grammar,
            slot=place.requested, placed=lambda slot: slots.settle(place, slot),
        )  # fmt: skip
        try:
            async with aclosing(steps):
                async for step in steps:
                    place.ids.extend(step.ids)
                    yield step
        finally:
            slots.leave(place)

    async def embed(self, inputs: Sequence[Sequence[int]]) -> Embeddings:
        if not self._settings.embeddings:
            raise UnsupportedError("this model was not loaded for embeddings")
        child = self._alive()
        return await child.client.embed(inputs, child.model)

    async def tokenize(self, text: str) -> list[int]:
        """Ids of ordinary text by the engine's own vocabulary; control spellings stay text."""
        return await self._client().tokenize(text)

    async def busy_slots(self) -> int:
        return await self._client().busy_slots()

    async def aclose(self) -> None:
        self._watch.cancel()
        with suppress(asyncio.CancelledError):
            await self._watch
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    def _client(self) -> LlamaClient:
        return self._alive().client

    def _alive(self) -> ChildProcess:
        if self._child is None:
            if self._watch.done():
                raise EngineError("the engine is closed")
            raise OverloadedError("the engine is being started again", retry_after=self._pause)
        return self._child

    async def _keep_alive(self, child: ChildProcess) -> None:
        """Wait for the child's death, pause, start it again; without end."""
        while True:
            born = time.monotonic()
            self.last_failure = f"it ended by {await child.gone()}"
            self._child = None
            await child.stop()
            if time.monotonic() - born > _STEADY_SECONDS:
                self._pause = _FIRST_PAUSE
            child = await self._again()
            self._child, self._slots = child, Slots()
            self.restarts += 1

    async def _again(self) -> ChildProcess:
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            try:
                return await ChildProcess.start(self._settings)
            except AntiphonError as error:  # Such as a model file that is being replaced; requests get the error.
                self.last_failure = str(error)


def declared(model: ServedModel, *, embeddings: bool = False) -> EngineInfo:
    """What this engine can do with a model."""
    return EngineInfo(
        name="llama_cpp",
        context=model.context,
        slots=model.slots,
        end_ids=model.ends,
        grammar=not embeddings,
        logprobs=MAX_LOGPROBS,
        embeddings=embeddings,
    )
