"""Fetching models while a catalog serves: each is fetched once, whoever waits for it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from antiphon.config import ModelEntry

from .files.store import InstalledModel, ModelStore

_FETCHING = ThreadPoolExecutor(2, thread_name_prefix="pull")
"""A fetch may take hours and cannot be stopped: others have the event loop's own threads."""


@dataclass(slots=True)
class Pull:
    """One model that is being fetched. Sizes are in bytes; ``digest`` is the SHA-256 that is expected, in hex.

    ``done`` raises what `ModelStore.pull` raises. It goes on when nobody waits for it any more.
    """

    name: str
    digest: str | None
    total: int | None
    completed: int = 0
    done: asyncio.Future[InstalledModel] = field(init=False)

    @classmethod
    def begun(cls, store: ModelStore, name: str, entry: ModelEntry) -> Pull:
        pull = cls(name, entry.sha256, entry.size)
        pull.done = asyncio.get_running_loop().run_in_executor(_FETCHING, store.pull, name, entry, pull.note)
        return pull

    def note(self, completed: int, total: int | None) -> None:
        """How far it is: called in the thread that fetches."""
        self.completed, self.total = completed, total or self.total
