"""What a test has in its own process, used from workers that were forked from it: engines, a store, tools, a clock.

Objects are named by their number in a list that both processes have. Calls and what comes of them are pickled.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from antiphon.conversation import JsonSchema, TokenLogprob, ToolNamespace, ToolSpec
from antiphon.engines import Embeddings, Engine, EngineInfo, Ranking, Sampling, Step
from antiphon.generation import Model
from antiphon.store import Store
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tools import Tool, Toolbox, ToolCall, ToolOutput, ToolSet
from antiphon.workers.peer import Grant, Peer, Service


class Over(Exception):
    """There are no more steps."""


def answered(value: object) -> bytes:
    """A value, or an exception, which is raised there with what it has."""
    if isinstance(value, BaseException):
        return pickle.dumps((type(value), value.args, value.__dict__))
    return pickle.dumps((None, value, {}))


def value_of(answer: bytes) -> Any:
    """The value again; raises what was raised."""
    kind, value, fields = pickle.loads(answer)
    if kind is None:
        return value
    error = kind.__new__(kind, *value)
    error.__dict__.update(fields)
    raise error


class Lender:
    """The test's side, for one worker: ``services`` are what that may enter."""

    def __init__(self, objects: Sequence[object]) -> None:
        self._objects = objects
        self._streams: dict[int, tuple[AsyncGenerator[Any, None], asyncio.Lock]] = {}

    @property
    def services(self) -> Mapping[str, Service]:
        return {"call": self._call, "stream": self._stream, "step": self._step}

    @asynccontextmanager
    async def _call(self, number: int, method: str, arguments: bytes) -> AsyncGenerator[Grant, None]:
        """What the object's coroutine returns."""
        values, names = pickle.loads(arguments)
        try:
            answer = answered(await getattr(self._objects[number], method)(*values, **names))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised there
            answer = answered(error)
        yield Grant(answer)

    @asynccontextmanager
    async def _stream(self, id: int, number: int, arguments: bytes) -> AsyncGenerator[Grant, None]:
        """An engine's reply, which is closed where the worker leaves."""
        values, names = pickle.loads(arguments)
        steps, alone = cast(Engine, self._objects[number]).generate(*values, **names), asyncio.Lock()
        self._streams[id] = steps, alone
        try:
            yield Grant()
        finally:
            del self._streams[id]
            async with alone:  # A step that was cancelled may have to end first.
                await steps.aclose()

    @asynccontextmanager
    async def _step(self, id: int) -> AsyncGenerator[Grant, None]:
        """Its next step."""
        try:
            steps, alone = self._streams[id]
            async with alone:
                answer = answered(await anext(steps))
        except StopAsyncIteration:
            answer = answered(Over())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised there
            answer = answered(error)
        yield Grant(answer)


@dataclass(frozen=True, slots=True)
class Borrowed:
    """An object of the test's, as a worker has it. ``own`` is its copy of the object, of the moment of the fork."""

    peer: Peer
    number: int
    own: Any

    async def call(self, method: str, *values: Any, **names: Any) -> Any:
        return value_of(await self.peer.call("call", self.number, method, pickle.dumps((values, names))))


class BorrowedEngine:
    """Its steps are made where the test is, one at a time, as they are asked for."""

    _last = 0

    def __init__(self, borrowed: Borrowed) -> None:
        self._borrowed = borrowed

    @property
    def info(self) -> EngineInfo:
        info: EngineInfo = self._borrowed.own.info
        return info

    async def generate(self, prompt: Sequence[int], sampling: Sampling, **options: Any) -> AsyncGenerator[Step, None]:
        BorrowedEngine._last += 1
        peer, id = self._borrowed.peer, BorrowedEngine._last
        plain = replace(sampling, logit_bias=dict(sampling.logit_bias))
        arguments = pickle.dumps(((tuple(prompt), plain), options))
        async with peer.enter("stream", id, self._borrowed.number, arguments):
            while True:
                try:
                    step: Step = value_of(await peer.call("step", id))
                except Over:
                    return
                yield step

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        call = self._borrowed.call("score", tuple(prompt), alternatives=alternatives, tenant=tenant)
        return cast(tuple[TokenLogprob | None, ...], await call)

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        return cast(Embeddings, await self._borrowed.call("embed", [tuple(one) for one in inputs], tenant=tenant))

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> Ranking:
        return cast(Ranking, await self._borrowed.call("rank", query, list(documents), tenant=tenant))

    async def tokenize(self, text: str) -> list[int] | None:
        return cast(list[int] | None, await self._borrowed.call("tokenize", text))

    async def aclose(self) -> None:
        """Nothing: the test's process closes it."""


class BorrowedStore:
    """Each call is one of the test's own store, which is one for all workers."""

    def __init__(self, borrowed: Borrowed) -> None:
        self._borrowed = borrowed

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*values: Any, **names: Any) -> Any:
            return await self._borrowed.call(name, *values, **names)

        return call

    async def aclose(self) -> None:
        """Nothing: the test's process closes it."""


class BorrowedTool:
    def __init__(self, borrowed: Borrowed) -> None:
        self._borrowed = borrowed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._borrowed.own, name)

    @property
    def recipient(self) -> str:
        return cast(Tool, self._borrowed.own).recipient

    @property
    def parameters(self) -> JsonSchema | None:
        return cast(Tool, self._borrowed.own).parameters

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        return cast(ToolOutput, await self._borrowed.call("run", call, dict(arguments)))


class BorrowedSet:
    def __init__(self, own: ToolSet, tools: Sequence[BorrowedTool]) -> None:
        self._own = own
        self.tools: tuple[Tool, ...] = tuple(tools)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._own.specs

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        return self._own.builtins

    async def aclose(self) -> None:
        """Nothing: the test's process closes it."""


class Loan:
    """All that workers use of the test's; made before they are forked. ``objects`` are for `Lender`."""

    def __init__(self, models: Mapping[str, Model], store: Store | None, toolbox: object) -> None:
        self._models = models
        self._store = store
        self._toolbox = toolbox
        self._tools = [list(one.tools) for one in toolbox.sets] if isinstance(toolbox, Toolbox) else []
        engines = [model.engine for model in models.values()]
        self.objects: list[object] = [*engines, store, *(tool for tools in self._tools for tool in tools)]

    def models(self, peer: Peer) -> dict[str, Model]:
        """The models with engines that are the test's."""
        return {
            name: replace(model, engine=BorrowedEngine(self._borrowed(peer, model.engine)))
            for name, model in self._models.items()
        }

    def store(self, peer: Peer) -> Store | None:
        return None if self._store is None else cast(Store, BorrowedStore(self._borrowed(peer, self._store)))

    def toolbox(self, peer: Peer) -> Any:
        """A toolbox of the test's tools; what is no toolbox stays as it is."""
        if not isinstance(self._toolbox, Toolbox):
            return self._toolbox
        sets = [
            BorrowedSet(own, [BorrowedTool(self._borrowed(peer, tool)) for tool in tools])
            for own, tools in zip(self._toolbox.sets, self._tools, strict=True)
        ]
        return Toolbox(sets, self._toolbox.router.limits)

    def _borrowed(self, peer: Peer, own: object) -> Borrowed:
        number = next(number for number, one in enumerate(self.objects) if one is own)
        return Borrowed(peer, number, own)


class LentClock:
    """The test's clock for a worker, which asks over a socket and waits for the answer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._here, self._there = socket.socketpair()
        self._one = threading.Lock()
        self._thread = threading.Thread(target=self._tell, args=(clock, self._here), daemon=True)
        self._thread.start()

    @staticmethod
    def _tell(clock: Callable[[], float], end: socket.socket) -> None:
        with end, suppress(OSError):  # A worker was killed as it asked.
            while end.recv(1):
                end.send(struct.pack("!d", clock()))

    @property
    def descriptor(self) -> int:
        """Of the worker's end."""
        return self._there.fileno()

    def __call__(self) -> float:
        with self._one:
            self._there.send(b"?")
            (now,) = struct.unpack("!d", self._there.recv(8))
        return float(now)

    def close(self) -> None:
        """The test's ends; the worker's own ends with it."""
        self._there.close()
        with suppress(OSError):
            self._here.shutdown(socket.SHUT_RDWR)
        self._thread.join()
