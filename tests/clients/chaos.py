"""Kills a server and its engine while many write: ``chaos.py [--kills 100] [--turns 2000] [--real]``.

The server is ``antiphon serve``, in a process of its own with its store in a file; writers use sessions, responses,
conversations and work in the background, streamed and not. SIGKILL comes at seeded points. Afterwards every turn that
was acknowledged must be there, just as it was, and none twice. A table says what was done; the exit code says whether
it holds. First, the engine is killed under eight streams, to see how soon clients are told and how soon it answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from antiphon.api.responses.archive import ResponseArchive
from antiphon.catalog.files.store import ModelStore
from antiphon.config import load_config, shipped_entries
from antiphon.conversation import Role
from antiphon.store import Key, SqliteStore, unpack
from antiphon.store.archive import Archive

PROGRAM = (sys.executable, "-c", "from antiphon.cli import main; main()", "serve", "--json")
WRITERS, STREAMS = 16, 8
PAUSE = 0.02
"""Seconds between two looks at a server that is not there."""
LENGTH = 6
"""Turns of one session, conversation or chain; longer ones would cost time and show nothing more."""
CONTEXT = 768
"""Tokens of the real model: enough for `LENGTH` turns, and little to load."""
TOLD, ANSWERED = 0.3, 2.5
"""Seconds within which, on a quiet machine, clients hear of a killed engine and the next one answers."""


@dataclass(slots=True)
class Program:
    """``antiphon serve`` in a home of its own, always on one port."""

    home: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    starts: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, client: aiohttp.ClientSession) -> None:
        """Returns when the model is there."""
        begun = time.perf_counter()
        self.port = self.port or free_port()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
        with (self.home / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(
                [*PROGRAM, "--port", str(self.port)], stdout=log, stderr=log,
                env={**clean, "ANTIPHON_HOME": str(self.home)},
            )  # fmt: skip
        while not await self.ready(client):
            assert self.process.poll() is None, (self.home / "log.txt").read_text()[-2000:]
            await asyncio.sleep(PAUSE)
        self.starts.append(time.perf_counter() - begun)

    async def ready(self, client: aiohttp.ClientSession) -> bool:
        with suppress(aiohttp.ClientError, TimeoutError):
            async with client.get(f"{self.url}/health") as answer:
                return answer.status == 200
        return False

    def engines(self) -> list[psutil.Process]:
        assert self.process is not None
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children()
        return []

    def kill(self) -> None:
        """The engine has to notice by itself."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@dataclass(slots=True)
class Chaos:
    """The writers and the killer of one server, and what the writers were told."""

    program: Program
    client: aiohttp.ClientSession
    turns: int
    kills: int
    deadline: float
    seed: int
    tried: Counter[str] = field(default_factory=Counter)
    acknowledged: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    sessions: dict[str, list[str]] = field(default_factory=dict)
    conversations: dict[str, list[str]] = field(default_factory=dict)
    responses: dict[str, dict[str, Any]] = field(default_factory=dict)
    once: list[str] = field(default_factory=list)
    """Texts that were sent again under their idempotency key until they were answered."""
    faults: list[str] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)

    @property
    def over(self) -> bool:
        done = self.acknowledged.total() >= self.turns and self.killed.total() >= self.kills
        return done or time.perf_counter() > self.deadline

    async def run(self) -> None:
        await self.program.start(self.client)
        kinds = [self.session, self.streamed_session, self.chain, self.streamed_chain,
                 self.conversation, self.background, self.idempotent, self.session]  # fmt: skip
        writers = [self._write(number, kinds[number % len(kinds)]) for number in range(WRITERS)]
        await asyncio.gather(self._kill(random.Random(self.seed)), *writers)

    async def _write(self, number: int, behave: Callable[[str], Awaitable[None]]) -> None:
        turn = 0
        while not self.over:
            turn += 1
            with suppress(aiohttp.ClientError, TimeoutError, ConnectionError, json.JSONDecodeError):
                await behave(f"w{number}t{turn}")
                continue
            await asyncio.sleep(PAUSE)

    async def _kill(self, chance: random.Random) -> None:
        """After some turns, at any moment of the next one, now the server and now its engine."""
        while not self.over:
            enough = self.acknowledged.total() + chance.randrange(1, 2 * max(2, self.turns // self.kills))
            while self.acknowledged.total() < enough and not self.over:
                await asyncio.sleep(PAUSE / 4)
            await asyncio.sleep(chance.random() * 0.1)
            engines = self.program.engines()
            if engines and chance.random() < 0.7:
                self.killed["engine"] += 1
                with suppress(psutil.NoSuchProcess):
                    engines[0].kill()
            else:
                self.killed["server"] += 1
                self.program.kill()
                await self.program.start(self.client)

    async def session(self, text: str, *, stream: bool = False) -> None:
        """A turn of a session, whose name says which it is."""
        name = f"s{text.partition('t')[0]}-{int(text.partition('t')[2]) // LENGTH}{'-streamed' if stream else ''}"
        self.tried["streamed_session" if stream else "session"] += 1
        if await self._chat(text, session_id=name, stream=stream):
            self.sessions.setdefault(name, []).append(text)
            self.acknowledged["streamed_session" if stream else "session"] += 1

    async def streamed_session(self, text: str) -> None:
        await self.session(text, stream=True)

    async def _chat(self, text: str, **fields: object) -> bool:
        """Whether the turn was acknowledged: a whole answer, or a stream that got to its end."""
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 2, **fields}
        async with self.client.post(f"{self.program.url}/v1/chat/completions", json=body) as answer:
            content = await answer.read()
        if not fields.get("stream"):
            return answer.status == 200 and bool(json.loads(content)["choices"])
        return content.endswith(b"data: [DONE]\n\n") and b'"error"' not in content

    async def chain(self, text: str, *, stream: bool = False) -> None:
        """A response that goes on from the writer's last one."""
        kind = "streamed_chain" if stream else "chain"
        writer, _, turn = text.partition("t")
        earlier = [id for id, made in self.responses.items() if made["writer"] == writer]
        begins = not earlier or int(turn) % LENGTH == 0
        self.tried[kind] += 1
        response = await self._respond(text, stream=stream, previous_response_id=None if begins else earlier[-1])
        if response is not None:
            self._got(kind, text, response)

    async def streamed_chain(self, text: str) -> None:
        await self.chain(text, stream=True)

    async def conversation(self, text: str) -> None:
        """A response of a conversation."""
        writer, _, turn = text.partition("t")
        mine = [id for id in self.conversations if self.conversations[id][0] == writer]
        if not mine or int(turn) % LENGTH == 0:
            async with self.client.post(f"{self.program.url}/v1/conversations", json={}) as answer:
                mine.append((await answer.json())["id"])
                self.conversations[mine[-1]] = [writer]
        self.tried["conversation"] += 1
        response = await self._respond(text, conversation=mine[-1])
        if response is not None:
            self.conversations[mine[-1]].append(text)
            self._got("conversation", text, response)

    async def background(self, text: str) -> None:
        """A response that goes on by itself; it is looked for until it is over, in whichever life of the server."""
        self.tried["background"] += 1
        response = await self._respond(text, background=True)
        while response is not None and response["status"] in ("queued", "in_progress") and not self.over:
            with suppress(aiohttp.ClientError, TimeoutError, ConnectionError):
                async with self.client.get(f"{self.program.url}/v1/responses/{response['id']}") as answer:
                    if answer.status == 404:
                        self.faults.append(f"the queued response {response['id']} is gone")
                        return
                    response = await answer.json()
            await asyncio.sleep(PAUSE)
        if response is not None and response["status"] in ("completed", "incomplete"):
            self._got("background", text, response)

    async def idempotent(self, text: str) -> None:
        """A response that is requested under its key until it is there: it is made once."""
        self.tried["idempotent"] += 1
        while not self.over:
            with suppress(aiohttp.ClientError, TimeoutError, ConnectionError):
                response = await self._respond(text, key=text)
                if response is not None:
                    self.once.append(text)
                    self._got("idempotent", text, response)
                    return
            await asyncio.sleep(PAUSE)

    async def _respond(self, text: str, *, key: str | None = None, **fields: object) -> dict[str, Any] | None:
        """The response, if it was acknowledged."""
        body = {"input": text, "max_output_tokens": 2, **fields}
        headers = {"idempotency-key": key} if key else {}
        async with self.client.post(f"{self.program.url}/v1/responses", json=body, headers=headers) as answer:
            content = await answer.read()
        if answer.status != 200:
            return None
        if fields.get("stream"):
            if not content.endswith(b"data: [DONE]\n\n"):
                return None
            content = content.split(b"data: ")[-2].strip()
        response: dict[str, Any] = json.loads(content).get("response") if fields.get("stream") else json.loads(content)
        ended = response["status"] in ("completed", "incomplete") or bool(fields.get("background"))
        return response if ended else None

    def _got(self, kind: str, text: str, response: dict[str, Any]) -> None:
        self.acknowledged[kind] += 1
        self.responses[response["id"]] = {"writer": text.partition("t")[0], "text": text, "told": response}

    async def kill_under_streams(self, rounds: int) -> None:
        """Measures, with the engine killed under `STREAMS` streams, when they are told and when the next answer is."""
        for _ in range(rounds):
            begun = [asyncio.Event() for _ in range(STREAMS)]
            streams = [asyncio.ensure_future(self._until_told(event)) for event in begun]
            await asyncio.gather(*(event.wait() for event in begun))
            self.program.engines()[0].kill()
            at = time.perf_counter()
            self.told.append(max(await asyncio.gather(*streams)) - at)
            while not await self._chat("again"):
                await asyncio.sleep(PAUSE)
            self.answered.append(time.perf_counter() - at)

    async def _until_told(self, begun: asyncio.Event) -> float:
        """When a long stream ended, whose model would not have."""
        body = {"messages": [{"role": "user", "content": "Tell me all."}], "max_tokens": 4000, "stream": True,
                "ignore_eos": True}  # fmt: skip
        async with self.client.post(f"{self.program.url}/v1/chat/completions", json=body) as answer:
            last = b""
            async for line in answer.content:
                begun.set()
                last = line if line.strip() and b"[DONE]" not in line else last
        if b'"error"' not in last:
            self.faults.append(f"a stream ended with {last[:100]!r}")
        return time.perf_counter()

    async def judge(self) -> None:
        """Adds to ``faults`` what was acknowledged and is not there as it was, and what is there twice."""
        for id, made in self.responses.items():
            async with self.client.get(f"{self.program.url}/v1/responses/{id}") as answer:
                if await answer.json() != made["told"]:
                    self.faults.append(f"the response {id} is another")
        self.program.kill()
        path = next(self.program.home.rglob("sessions.db"))
        store = SqliteStore(path)
        for name, texts in self.sessions.items():
            entries = await store.entries(Key("session", "", name))
            self._compare(f"session {name}", texts, questions(entries))
        archive = ResponseArchive(Archive(store, time.time))
        for id, (_, *texts) in self.conversations.items():
            self._compare(f"conversation {id}", texts, await said(archive, Key("conversation", "", id)))
        keys = [Key("response", "", id) for id in await store.names("response", "")]
        everything = [text for key in keys for text in await said(archive, key)]
        self._compare("responses", [made["text"] for made in self.responses.values()], everything)
        self._compare("idempotency keys", self.once, everything)
        await store.aclose()
        checked = sqlite3.connect(path)
        if checked.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            self.faults.append("SQLite finds the file damaged")
        checked.close()

    def _compare(self, where: str, acknowledged: Sequence[str], stored: Sequence[str]) -> None:
        self.faults += [f"{where}: {text} is lost" for text in set(acknowledged) - set(stored)]
        twice = {text: count for text, count in Counter(stored).items() if count > 1}
        self.faults += [f"{where}: {text} is there {count} times" for text, count in twice.items()]

    def table(self) -> str:
        rows = [f"{'turns':<18} {'tried':>7} {'acknowledged':>13}"]
        rows += [f"{kind:<18} {count:>7,} {self.acknowledged[kind]:>13,}" for kind, count in sorted(self.tried.items())]
        rows += [f"{'all':<18} {self.tried.total():>7,} {self.acknowledged.total():>13,}", ""]
        rows += [f"{'killed':<18} {'times':>7}"]
        rows += [f"{what:<18} {count:>7}" for what, count in sorted(self.killed.items())]
        rows += ["", f"{'seconds':<34} {'median':>7} {'most':>7}"]
        for what, times in (
            ("from a start to a server with model", self.program.starts),
            (f"engine killed: {STREAMS} streams told", self.told),
            ("engine killed: the next answer", self.answered),
        ):
            rows += [f"{what:<34} {statistics.median(times):>7.2f} {max(times):>7.2f}"] if times else []
        return "\n".join([*rows, "", *(f"FAULT {fault}" for fault in self.faults[:40]), f"{len(self.faults)} faults"])


async def said(archive: ResponseArchive, key: Key) -> list[str]:
    """The texts of the user's messages that are stored there."""
    return [text for entry in await archive._entries(key) for text in questions(entry.messages)]


def questions(stored: Sequence[bytes]) -> list[str]:
    """The texts of the user's messages; a model may repeat them."""
    return [str(message.text) for message in map(unpack, stored) if message.role is Role.USER]


def default_model() -> Path:
    """The file of the model that ``antiphon pull`` fetched."""
    path = ModelStore(Path(load_config(os.environ).config.store.folder)).path("smollm2", shipped_entries()["smollm2"])
    assert path is not None, "run make model"
    return path


def free_port() -> int:
    """A port below those that connections get, so that none of another process has it while its server is down."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", port := random.randrange(20_000, 32_000))):
            return port


def configuration(model: str | None) -> str:
    if model is None:
        return 'model = "m"\n[models.m]\nengine = "scripted"\nformat = "chatml"\nreply = "Paris."\n'
    settings = f'format = "chatml"\ncontext = {CONTEXT}\nslots = {STREAMS}\nthreads = 1\n'
    return f'model = "m"\n[models.m]\nsource = "{model}"\n{settings}'


async def chaos(
    *, kills: int, turns: int, seconds: float, seed: int = 1, model: str | None = None, rounds: int = 5
) -> Chaos:
    """One run from start to end. Without ``model`` the engine is a scripted one, and only the server is killed."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "config.toml").write_text(f"{configuration(model)}[log]\naccess = false\n")
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as client:
            program = Program(home)
            run = Chaos(program, client, turns, kills, time.perf_counter() + seconds, seed)
            try:
                if model is not None:
                    await program.start(client)
                    await run.kill_under_streams(rounds)
                    program.kill()
                await run.run()
                await run.judge()
            finally:
                if program.process is not None:
                    program.kill()
    if run.acknowledged.total() < turns or run.killed.total() < kills:
        run.faults.append(f"only {run.acknowledged.total()} turns and {run.killed.total()} kills in {seconds:g} s")
    return run


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=100)
    arguments.add_argument("--turns", type=int, default=2000, help="that are to be acknowledged")
    arguments.add_argument("--seconds", type=float, default=540.0, help="after which it ends in any case")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--model", help="a GGUF file: the embedded engine, which is killed too")
    arguments.add_argument("--real", action="store_true", help="the same with the default model's file")
    given = arguments.parse_args()
    model = str(default_model()) if given.real else given.model
    run = asyncio.run(chaos(kills=given.kills, turns=given.turns, seconds=given.seconds, seed=given.seed, model=model))
    print(run.table())
    return 1 if run.faults else 0


if __name__ == "__main__":
    sys.exit(main())
