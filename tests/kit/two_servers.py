"""Two servers over one file: an engine that waits within a reply, and a store that a server can be cut off from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from antiphon.engines import Sampling, ScriptedEngine, Step
from antiphon.engines.scripted import Script
from antiphon.errors import EngineLostError
from antiphon.store import Delete, Lease, SessionLimits, SqliteStore, Write
from kit.api import END, ids, rest_of, serving
from kit.responses import responses_app

LONG, SHORT = 60.0, 2.0
"""Seconds of a lease that lasts, whatever the machine does meanwhile, and of one that is to end."""
TEXT = "One two three four five six seven eight nine ten, and then some more words to the end. " * 3
REPLY = ids(TEXT, END)


class Gate:
    """Lets so many steps pass, and then waits until it is opened."""

    def __init__(self, free: int) -> None:
        self._left = free
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def passed(self) -> None:
        if self._left == 0:
            await self._opened.wait()
        else:
            self._left -= 1


class Said(ScriptedEngine):
    """Says one reply; after a prompt that ends with its beginning, the rest. ``gate`` is before each step."""

    def __init__(self, reply: Sequence[int] = REPLY, free: int = 10**6, before: Script | None = None) -> None:
        """``before``: what it says instead, as long as that is something."""
        super().__init__(
            lambda prompt, sampling, choice: (
                (before(prompt, sampling, choice) if before else []) or rest_of(reply, prompt)
            ),
            grammar=False,
        )
        self.gate = Gate(free)

    async def generate(self, prompt: Sequence[int], sampling: Sampling, **options: Any) -> AsyncGenerator[Step, None]:
        async for step in super().generate(prompt, sampling, **options):
            await self.gate.passed()
            yield step


class Lost(Said):
    """Is lost after so many steps, as often as ``times`` says, and there again at once."""

    def __init__(self, after: int, times: int = 1) -> None:
        super().__init__()
        self._after = after
        self._times = times

    async def generate(self, prompt: Sequence[int], sampling: Sampling, **options: Any) -> AsyncGenerator[Step, None]:
        left = self._after if self._times else -1
        self._times -= bool(self._times)
        async with aclosing(super().generate(prompt, sampling, **options)) as steps:
            async for step in steps:
                if left == 0:
                    raise EngineLostError("The engine died in the middle of a reply.")
                left -= 1
                yield step


class Cable(SqliteStore):
    """The store of a server that can be cut off from it: its calls wait then, as those of a process that is stopped."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.whole = asyncio.Event()
        self.whole.set()

    async def put_all(self, *writes: Write | Delete) -> None:
        await self.whole.wait()
        await super().put_all(*writes)

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        await self.whole.wait()
        return await super().renew(leases, seconds)


@asynccontextmanager
async def two_servers(
    folder: Path,
    one: ScriptedEngine,
    other: ScriptedEngine,
    *,
    model: str = "small",
    lease: float = LONG,
    **options: Any,
) -> AsyncIterator[tuple[str, str, Cable]]:
    """The URLs of both, and the store of the first. In the end nothing waits any more, so that both can end."""
    limits = options.pop("session_limits", SessionLimits(lease=lease))
    cable, store = Cable(folder / "responses.db"), SqliteStore(folder / "responses.db")
    first = responses_app(**{model: one}, store=cable, session_limits=limits, **options)
    second = responses_app(**{model: other}, store=store, session_limits=limits, **options)
    async with serving(first) as a, serving(second) as b:
        try:
            yield f"http://127.0.0.1:{a}", f"http://127.0.0.1:{b}", cable
        finally:
            cable.whole.set()
            for engine in (one, other):
                if isinstance(engine, Said):
                    engine.gate.open()


@asynccontextmanager
async def closing_session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client whose answers are closed with it, those that a test has not read to their end too."""
    answers: list[aiohttp.ClientResponse] = []

    async def keep(session: aiohttp.ClientSession, context: object, got: aiohttp.TraceRequestEndParams) -> None:
        answers.append(got.response)

    traced = aiohttp.TraceConfig()
    traced.on_request_end.append(keep)
    async with aiohttp.ClientSession(trace_configs=[traced]) as session:
        try:
            yield session
        finally:
            for answer in answers:
                answer.close()
