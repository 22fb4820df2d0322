"""Many clients that behave badly, for minutes: ``soak.py [--seconds 180] [--streams 1000] [--model MODEL.gguf]``.

A server in a process of its own, over a scripted engine or a real one; clients that read to the end, hang up, read
slowly or send what is no request. Afterwards nothing may be left of them: no busy slot, no request, no task, no open
file, and no memory that still grows. The exit code says so, and a table what was done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

TESTS = Path(__file__).parents[1]
TICK = 0.5
CALM = 60.0
"""Seconds that the server has, once all are gone, to be as it was before they came."""
GROWTH = 4.0
"""MB that a server at rest may have more after the last round than after the one before; the first ones warm it."""


@dataclass(frozen=True, slots=True)
class State:
    """The server as its metrics, its process and its event loop tell it, ``at`` seconds after the start."""

    at: float
    requests: int
    waiting: int
    turns: int
    tasks: int
    files: int
    megabytes: float

    @property
    def idle(self) -> tuple[int, int, int, int, int]:
        return (self.requests, self.waiting, self.turns, self.tasks, self.files)


@dataclass(slots=True)
class Soak:
    """Clients of one server until ``deadline`` (of `time.perf_counter`); ``counts`` counts what they did and heard."""

    port: int
    server: psutil.Process
    deadline: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    samples: list[State] = field(default_factory=list)
    resting: list[float] = field(default_factory=list)
    """MB after each round."""
    started: float = field(default_factory=time.perf_counter)

    async def run(self, streams: int, seconds: float, rounds: int, seed: int) -> None:
        """Adds to ``faults`` what is not as it must be. After each of the rounds the server comes to rest."""
        await self.whole(random.Random(seed))  # What is made once, is made.
        before = await self.state()
        for number in range(rounds):
            self.deadline = time.perf_counter() + seconds / rounds
            chances = [random.Random(f"{seed}/{number}/{i}") for i in range(streams)]
            await asyncio.gather(self._watch(), *map(self._client, chances))
            await self._calm(before)
        await self.whole(random.Random(seed))
        self._judge_memory()

    async def _watch(self) -> None:
        """A busy server answers this, too, when it can."""
        while time.perf_counter() < self.deadline:
            await asyncio.sleep(TICK)
            self.samples.append(await self.state())

    async def _client(self, chance: random.Random) -> None:
        behaviours: list[tuple[Callable[[random.Random], Awaitable[None]], int]] = [
            (self.whole, 3), (self.stream, 6), (self.hang_up, 5), (self.read_slowly, 2), (self.nonsense, 3),
            (self.half, 1), (self.background, 1),
        ]  # fmt: skip
        kinds, weights = zip(*behaviours, strict=True)
        await asyncio.sleep(chance.random() * TICK)
        while time.perf_counter() < self.deadline:
            (behave,) = chance.choices(kinds, weights)
            self.counts[behave.__name__] += 1
            try:
                await behave(chance)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.faults.append(f"{behave.__name__}: {error!r}")

    async def whole(self, chance: random.Random) -> None:
        """An answer that is not streamed."""
        status, body = await self._ask("/v1/chat/completions", chat(chance, most=20))
        self._expect("whole", status, 200, body)

    async def stream(self, chance: random.Random) -> None:
        """A stream that is read to its end."""
        status, body = await self._ask("/v1/chat/completions", chat(chance, most=60, stream=True))
        self._expect("stream", status, 200, body)
        if not body.rstrip().endswith(b"data: [DONE]\n\n\r\n0"):
            self.faults.append(f"stream: it ended with {body[-80:]!r}")
        self.counts["tokens"] += body.count(b'"content":"')

    async def hang_up(self, chance: random.Random) -> None:
        """A client that goes in the middle, with a word or without."""
        reader, writer = await self._connected()
        writer.write(post("/v1/chat/completions", chat(chance, most=4000, stream=chance.random() < 0.9)))
        with suppress(TimeoutError, asyncio.IncompleteReadError):  # It may be over before.
            async with asyncio.timeout(chance.random() * 2):
                await reader.readexactly(chance.randrange(1, 8000))
        if chance.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()

    async def read_slowly(self, chance: random.Random) -> None:
        """A client with little room that reads seldom; it leaves before the end."""
        reader, writer = await self._connected(room=4096)
        body = chat(chance, most=4000, stream=True) | {"logprobs": True, "top_logprobs": 5}
        writer.write(post("/v1/chat/completions", body))
        for _ in range(chance.randrange(1, 20)):
            await reader.read(chance.randrange(1, 2000))
            await asyncio.sleep(chance.random() * 0.5)
            if time.perf_counter() > self.deadline:
                break
        writer.transport.abort()

    async def nonsense(self, chance: random.Random) -> None:
        """What cannot be answered is refused."""
        whole = json.dumps(chat(chance, most=5)).encode()
        body, statuses = chance.choice([
            (whole[: chance.randrange(len(whole) - 1)], (400,)), (b"", (400,)), (b"\xff\xfe{}", (400,)),
            (b'{"messages":' + b"[" * 5000, (400,)), (b'{"messages": 3}', (400,)),
            (json.dumps(chat(chance, most=5) | {"temperature": 9}).encode(), (400,)),
            (json.dumps(chat(chance, most=5) | {"model": "none"}).encode(), (404,)),
        ])  # fmt: skip
        status, answer = await self._ask("/v1/chat/completions", body)
        self._expect("nonsense", status, statuses[0], answer)

    async def half(self, chance: random.Random) -> None:
        """A body that never comes, or no HTTP at all."""
        reader, writer = await self._connected()
        request = post("/v1/chat/completions", chat(chance, most=5))
        writer.write(
            chance.choice([request[: chance.randrange(1, len(request) - 1)], b"HELO there\r\n\r\n", b"\x16\x03\x01"])
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.random()):
                await reader.read(2000)
        writer.transport.abort()

    async def background(self, chance: random.Random) -> None:
        """A response that is made without a client, and cancelled half the time."""
        question = {"input": "Hi", "background": True, "max_output_tokens": chance.randrange(1, 40)}
        status, body = await self._ask("/v1/responses", question)
        self._expect("background", status, 200, body)
        found = re.search(rb"resp_[0-9a-f]+", body)
        if found and chance.random() < 0.5:
            status, body = await self._ask(f"/v1/responses/{found.group().decode()}/cancel", {})
            self._expect("cancel", status, 200, body)

    def _expect(self, what: str, status: int, expected: int, body: bytes) -> None:
        self.counts[f"status {status}"] += 1
        if status != expected:
            self.faults.append(f"{what}: {status} instead of {expected}: {body[-300:]!r}")

    async def _ask(self, path: str, body: bytes | dict[str, object], method: str = "POST") -> tuple[int, bytes]:
        """The status and all that came; the connection is closed by the server."""
        reader, writer = await self._connected()
        writer.write(post(path, body, method=method))
        answer = await reader.read(-1)
        writer.close()
        status = re.match(rb"HTTP/1\.1 (\d{3})", answer)
        return int(status.group(1)) if status else 0, answer

    async def _connected(self, room: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = socket.socket()
        sock.setblocking(False)
        if room:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return await asyncio.open_connection(sock=sock, limit=room or 2**16)

    async def state(self) -> State:
        _, metrics = await self._ask("/metrics", b"", "GET")
        values = {
            name.decode(): float(value) for name, value in re.findall(rb"^(\w+)(?:\{.*?\})? (\S+)$", metrics, re.M)
        }
        _, tasks = await self._ask("/tasks", b"", "GET")
        return State(
            at=time.perf_counter() - self.started,
            requests=int(values["antiphon_requests_running"]),
            waiting=int(values["antiphon_requests_waiting"]),
            turns=int(values["antiphon_turns_running"]),
            tasks=int(tasks.rpartition(b"\n")[2]),
            files=await asyncio.to_thread(self.server.num_fds),
            megabytes=self.server.memory_info().rss / 2**20,
        )

    async def _calm(self, before: State) -> None:
        """Waits until the server is as it was before all this."""
        end = time.perf_counter() + CALM
        while (now := await self.state()).idle != before.idle and time.perf_counter() < end:
            await asyncio.sleep(TICK)
        self.samples.append(now)
        self.resting.append(now.megabytes)
        names = ("requests", "waiting", "turns", "tasks", "files")
        left = [
            f"{name} {was} → {now}" for name, was, now in zip(names, before.idle, now.idle, strict=True) if was != now
        ]
        if left:
            self.faults.append(f"left after {CALM:g} s: {', '.join(left)}")

    def _judge_memory(self) -> None:
        if len(self.resting) > 2 and self.resting[-1] - self.resting[-2] > GROWTH:
            self.faults.append(f"memory grows: {', '.join(f'{at:.0f} MB' for at in self.resting)} at rest")

    def table(self) -> str:
        """What was done, and the server meanwhile."""
        rows = [
            f"{'what':<16} {'count':>9}",
            *(f"{what:<16} {count:>9,}" for what, count in sorted(self.counts.items())),
        ]
        rows += ["", f"{'second':>7} {'requests':>9} {'waiting':>8} {'turns':>6} {'tasks':>6} {'files':>6} {'MB':>6}"]
        for now in self.samples[: -1 : max(1, len(self.samples) // 12)] + self.samples[-1:]:
            rows.append(
                f"{now.at:>7.0f} {now.requests:>9} {now.waiting:>8} {now.turns:>6} {now.tasks:>6} {now.files:>6}"
                f" {now.megabytes:>6.0f}"
            )
        rows += ["", f"at rest after each round: {', '.join(f'{megabytes:.1f}' for megabytes in self.resting)} MB"]
        kinds = Counter(fault[:120] for fault in self.faults)
        return "\n".join([*rows, "", *(f"FAULT {count} x {kind}" for kind, count in kinds.items())])


def chat(chance: random.Random, *, most: int, stream: bool = False) -> dict[str, object]:
    text = "word " * chance.randrange(1, 40)
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": chance.randrange(1, most), "stream": stream}
    return body | ({"session_id": f"s{chance.randrange(10**9)}"} if chance.random() < 0.1 else {})


def post(path: str, body: bytes | dict[str, object], *, method: str = "POST") -> bytes:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (
        f"{method} {path} HTTP/1.1\r\nhost: soak\r\nconnection: close\r\ncontent-type: application/json\r\n"
        f"content-length: {len(sent)}\r\n\r\n"
    ).encode() + sent


def serve(path: str | None, delay: float, store: Path) -> None:
    """The server; on a path of its own it also tells how many tasks its event loop has."""
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    from antiphon.api import Limits, create_app
    from antiphon.catalog.static import StaticCatalog
    from antiphon.engines import ScriptedEngine
    from antiphon.generation import Model
    from antiphon.http.server.server import Server, on_loop
    from antiphon.store import SqliteStore
    from kit.api import ids, model, scripted

    chosen: Model = model(scripted(ids("word " * 1500), delay=delay))

    async def tasks(request: Request) -> PlainTextResponse:
        if isinstance(chosen.engine, ScriptedEngine):
            chosen.engine.requests.clear()  # It remembers its requests.
        return PlainTextResponse(str(len(asyncio.all_tasks())))

    async def run() -> None:
        nonlocal chosen
        if path is not None:
            chosen = await real(Path(path))
        room = 4000 if path is None else chosen.engine.info.slots
        limits = Limits(
            max_concurrent=room, max_queue=4000, queue_timeout=600, stream_buffer=16 << 10, body_timeout=5, keep_alive=1
        )
        app = create_app(StaticCatalog({"small": chosen}), limits=limits, store=SqliteStore(store))
        app.router.routes.append(Route("/tasks", tasks))
        await Server(app, on_ready=lambda url: print(url, flush=True)).serve()
        await chosen.engine.aclose()

    on_loop(run())


async def real(path: Path):  # type: ignore[no-untyped-def]  # Model, which is imported where it is served
    from antiphon.engines.gguf_file import read_gguf_metadata
    from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
    from antiphon.formats.template import template_format
    from antiphon.generation import Model
    from antiphon.tokens import gguf_tokenizer

    engine = await LlamaCppEngine.start(LlamaCppSettings(model=path, context=2048, slots=4, threads=1))
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    return Model(
        name="small", engine=engine, tokenizer=tokenizer, format=template_format("chatml", tokenizer.controls.keys())
    )


def soak(*, seconds: float, streams: int, delay: float, rounds: int, seed: int = 1, model: str | None = None) -> Soak:
    """One run from start to end, its server included. ``delay``: seconds between the scripted engine's tokens."""
    with tempfile.TemporaryDirectory() as folder:
        return _soak(
            seconds, streams, rounds, seed, ["--delay", str(delay), *(["--model", model] if model else [])], folder
        )


def _soak(seconds: float, streams: int, rounds: int, seed: int, options: list[str], folder: str) -> Soak:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])}
    command = [sys.executable, __file__, "--serve", folder, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        run = Soak(int(child.stdout.readline().rpartition(":")[2]), psutil.Process(child.pid))
        try:
            asyncio.run(run.run(streams, seconds, rounds, seed))
        finally:
            child.terminate()
        if child.wait(60) != 0:
            run.faults.append(f"the server ended with {child.returncode}")
    return run


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments.add_argument("--seconds", type=float, default=180.0)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--streams", type=int, default=1000)
    arguments.add_argument("--delay", type=float, default=0.5, help="seconds between the scripted engine's tokens")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--model", help="a GGUF file: the embedded engine instead of the scripted one")
    given = arguments.parse_args()
    if given.serve:
        serve(given.model, given.delay, Path(given.serve) / "soak.db")
        return 0
    run = soak(
        seconds=given.seconds,
        streams=given.streams,
        delay=given.delay,
        rounds=given.rounds,
        seed=given.seed,
        model=given.model,
    )
    print(run.table())
    return 1 if run.faults else 0


if __name__ == "__main__":
    sys.exit(main())
