"""The configuration as the supervisor read it, on its way to the workers: all have the same, and one that is started
later has the one that the others have."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from antiphon.config import Config, Layered, Limits, LoadedConfig, configuration
from antiphon.engines.registry import NO_KINDS
from antiphon.store.address import MEMORY

_STORE = ("sessions", "store")


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Each key's value and its origin, for one of so many ``workers``. ``folder`` goes with the server."""

    values: list[tuple[tuple[str, ...], Any, str]]
    folder: str
    workers: int

    def config(self) -> Config:
        """A worker's own configuration: what bounds one process is its part of what all may have together.

        The engines are the supervisor's, and so are the times and the memory that they have.
        """
        whole = configuration({key: Layered(value, origin) for key, value, origin in self.values}, NO_KINDS)
        part = part_of(whole.limits, self.workers)
        engine = msgspec.structs.replace(whole.engine, idle_unload=0.0, memory_mib=0)
        return msgspec.structs.replace(whole, limits=part, engine=engine)


def part_of(limits: Limits, workers: int) -> Limits:
    """The part of the limits that one of so many workers has."""
    return msgspec.structs.replace(
        limits,
        max_connections=max(1, limits.max_connections // workers),
        max_bodies=max(limits.max_body, limits.max_bodies // workers),
    )


class Memory:
    """The store ``sessions.store = memory`` of so many ``workers``: a file in a folder that goes with the server."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def __enter__(self) -> Memory:
        self._folder = tempfile.mkdtemp(prefix="antiphon-workers-")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def given(self, loaded: LoadedConfig) -> WorkerConfig:
        values = [(key, layered.value, layered.origin) for key, layered in loaded.given.items()]
        if loaded.config.sessions.store == MEMORY:
            file = str(Path(self._folder) / "sessions.db")
            values = [row for row in values if row[0] != _STORE] + [(_STORE, file, "memory, for all workers")]
        return WorkerConfig(values, self._folder, self._workers)
