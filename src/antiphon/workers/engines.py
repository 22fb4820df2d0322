"""The supervisor's means for its workers: configuration, queue, and engines: a child process for each model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from antiphon.catalog.memory import ModelMemory, SleepingEngine
from antiphon.config import Config, EngineConfig, Layered, Limits, LoadedConfig, configuration
from antiphon.engines import EngineInfo
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.engines.llama_cpp.client import Seat, ServedModel
from antiphon.engines.llama_cpp.host import ChildHost
from antiphon.engines.registry import NO_KINDS
from antiphon.errors import EngineError
from antiphon.http.gate.admission import Admission
from antiphon.http.rules import Rules
from antiphon.store.address import MEMORY
from antiphon.structs import ready
from antiphon.tenancy import Tenant

from .peer import Grant, Service

# The configuration as the supervisor read it, on its way to the workers: all have the same, and one that is started
#
# later has the one that the others have.

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


class Opened(msgspec.Struct, frozen=True):
    """A model as a worker finds it. ``life`` is another one whenever the child is."""

    model: ServedModel
    socket: str
    key: str
    life: str
    pid: int | None
    restarts: int


class Turn(msgspec.Struct, frozen=True):
    """A worker's turn in an engine: where it is now, and the slot of each seat with whether it may be gone on with."""

    engine: Opened
    apart: bool
    seats: list[tuple[int | None, bool]]


class Placed(msgspec.Struct, frozen=True, tag="placed"):
    """The slot that a seat got."""

    seat: int
    slot: int


class Made(msgspec.Struct, frozen=True, tag="made"):
    """The ids that a seat's slot holds after the prompt."""

    seat: int
    ids: list[int]


class SharedEngines:
    """Loaded when the first worker opens them, unloaded when none has them any more. Memory is one budget for all."""

    def __init__(self, config: EngineConfig) -> None:
        self._memory = ModelMemory(budget=config.memory_mib * 2**20, idle=config.idle_unload)
        self._engines: dict[LlamaCppSettings, SleepingEngine] = {}
        self._users: dict[LlamaCppSettings, int] = {}

    @property
    def services(self) -> Mapping[str, Service]:
        return {"engine": self._open, "engine_now": self._now, "turn": self._turn}

    async def aclose(self) -> None:
        for engine in self._engines.values():
            await engine.aclose()

    @asynccontextmanager
    async def _open(self, name: str, size: int, settings: Any) -> AsyncGenerator[Grant, None]:
        """A worker has the model for as long as it stays."""
        key = settings_of(settings)
        if key not in self._engines:
            start = partial(LlamaCppEngine.start, key)
            self._engines[key] = SleepingEngine(name, size, start, self._memory, ASLEEP)
        engine = self._engines[key]
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with engine.using() as running:
                opened = opened_by(running)
            yield Grant(opened)
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._engines[key]
                await engine.retire()

    @asynccontextmanager
    async def _now(self, settings: Any) -> AsyncGenerator[Grant, None]:
        async with self._engine(settings).using() as running:
            yield Grant(opened_by(running))

    @asynccontextmanager
    async def _turn(
        self, settings: Any, tenant: Any, count: int, prompt: Sequence[int] | None
    ) -> AsyncGenerator[Grant, None]:
        async with self._engine(settings).using() as running:
            host = host_of(running)
            async with host.places(msgspec.convert(tenant, ready(Tenant)), count, prompt) as places:
                seats = [(seat.slot, seat.reuse) for seat in places.seats]
                yield Grant(Turn(opened_by(running), places.apart, seats), partial(_noted, places.seats))

    def _engine(self, settings: Any) -> SleepingEngine:
        found = self._engines.get(settings_of(settings))
        if found is None:
            raise EngineError("the engine is closed")
        return found


ASLEEP = EngineInfo(name="asleep", context=0, slots=0, honours=frozenset())


def settings_of(value: Any) -> LlamaCppSettings:
    """The settings as `msgspec.to_builtins` has them, paths as text."""
    return msgspec.convert(value, ready(LlamaCppSettings), dec_hook=lambda kind, text: kind(text))


def host_of(engine: object) -> ChildHost:
    assert isinstance(engine, LlamaCppEngine)
    assert isinstance(engine.host, ChildHost)
    return engine.host


def opened_by(engine: object) -> Opened:
    host = host_of(engine)
    child = host.child
    return Opened(host.model, child.socket, child.key, f"{child.pid}:{host.restarts}", host.pid, host.restarts)


def _noted(seats: Sequence[Seat], note: Any) -> None:
    match msgspec.convert(note, ready(Placed | Made)):
        case Placed(seat, slot):
            seats[seat].placed(slot)
        case Made(seat, ids):
            seats[seat].made.extend(ids)


# What the supervisor has for all of its workers: the queue of requests, and the engines.


class Shared:
    """``services`` are the contexts that each worker may enter."""

    def __init__(self, limits: Limits, engine: EngineConfig) -> None:
        self._rules = Rules(limits)
        self._admission = Admission(self._rules)
        self.engines = SharedEngines(engine)

    @property
    def services(self) -> Mapping[str, Service]:
        own: dict[str, Service] = {"check": self._check, "slot": self._slot, "background": self._background}
        return {**own, **self.engines.services}

    def take(self, limits: Limits) -> None:
        """From now on these hold."""
        self._rules.limits = limits
        self._admission.let_in()

    @asynccontextmanager
    async def _check(self, owner: str) -> AsyncGenerator[Grant, None]:
        self._admission.check(owner)
        yield Grant()

    @asynccontextmanager
    async def _slot(self, owner: str) -> AsyncGenerator[Grant, None]:
        async with self._admission.slot(owner):
            yield Grant()

    @asynccontextmanager
    async def _background(
        self, owner: str, model: str, slots: int, places: int, patience: float | None
    ) -> AsyncGenerator[Grant, None]:
        async with self._admission.background(owner, model=model, slots=slots, places=places, patience=patience):
            yield Grant()
