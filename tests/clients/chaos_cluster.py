"""Kills servers over one store while many stream: ``chaos_cluster.py [--kills 50] [--replies 200] [--real]``.

Three servers, each a process, share a store. Writers stream responses with tools, in conversations and in chains, and
chats that can be resumed; each goes on at another server, from the last event that it has, whenever its own is gone.
SIGKILL comes at seeded points, each second one in the middle of a reply. Afterwards each response was read to its end,
in order, with nothing twice and nothing missing; another server sends just the same events again; it says what one
server says that nobody kills; and no conversation has it twice.
With a real model each kill is in the middle of a reply, and `Seams` says whether the reply goes on as it should.
A table says what was done; the exit code says whether it holds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from antiphon.store import store_at
from clients.chaos import PROGRAM, default_model, free_port
from clients.chaos_chats import Chat
from clients.seams import Seams
from kit.postgres import running_postgres

SERVER = (sys.executable, "-m", "kit.cluster_server")
TESTS = Path(__file__).parent.parent
LEASE = 2.0
"""Seconds after which a server that was killed is given up."""
PAUSE = 0.02
LENGTH, LENGTH_REAL = 5, 2
"""Replies of one conversation or chain, of a scripted model and of a real one."""
MOST, MOST_REAL = 400, 120
"""Tokens of one turn of a scripted model, and of a real one."""
THINGS = "a lighthouse", "two foxes", "an old clock", "the rain", "a ship", "a baker", "the night", "a violin"
GONE = (aiohttp.ClientError, TimeoutError, ConnectionError)


@dataclass(slots=True)
class Replica:
    """One server, always on one port."""

    command: Sequence[str]
    port: int
    home: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
        self.home.mkdir(exist_ok=True)
        with (self.home / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log,
                env={**clean, "ANTIPHON_HOME": str(self.home), "PYTHONPATH": str(TESTS)},
            )  # fmt: skip

    async def ready(self, client: aiohttp.ClientSession) -> None:
        """Returns when it answers."""
        while True:
            with suppress(*GONE):
                async with client.get(f"{self.url}/health") as answer:
                    if answer.status == 200:
                        return
            assert self.process is not None
            assert self.process.poll() is None, (self.home / "log.txt").read_text()[-2000:]
            await asyncio.sleep(PAUSE)

    def pause(self) -> None:
        """Stops it, until it is killed."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class Told:
    """What a client was told of one reply: its events, in the order in which they came."""

    text: str
    events: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0
    maker: Replica | None = None
    """The server that was asked for it, while it streams it."""

    @property
    def id(self) -> str:
        id: str = self.events[0]["response"]["id"] if self.events else ""
        return id

    @property
    def over(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] in (
            "response.completed", "response.incomplete", "response.failed",
        )  # fmt: skip

    def made_at(self, events: int) -> Replica | None:
        """The server that is in the middle of it, with so many events at least."""
        return self.maker if len(self.events) >= events and not self.over else None

    @property
    def said(self) -> str:
        """All that the model wrote, as it was streamed."""
        deltas = ("response.output_text.delta", "response.mcp_call_arguments.delta")
        return "".join(event["delta"] for event in self.events if event["type"] in deltas)


@dataclass(slots=True)
class Cluster:
    """The servers, who writes to them, and who kills them."""

    replicas: Sequence[Replica]
    client: aiohttp.ClientSession
    replies: int
    kills: int
    chance: random.Random
    most: int
    """Tokens of one turn of a reply."""
    killed: int = 0
    told: dict[str, Told] = field(default_factory=dict)
    chats: list[Chat] = field(default_factory=list)
    conversations: dict[str, list[str]] = field(default_factory=dict)
    seams: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    """Seconds from a connection that broke to the next event."""
    faults: list[str] = field(default_factory=list)
    real: Seams | None = None
    """Judges the replies of a real model."""

    async def run(self, writers: int) -> None:
        """Until there are as many replies and as many kills as there are to be."""
        numbers = itertools.count()

        async def write() -> None:
            while self.killed < self.kills or len(self.told) < self.replies:
                number = next(numbers)
                if self.real is None and number % 4 == 3:
                    chat = Chat(f"c{number}: look up {number % 3} things")
                    self.chats.append(chat)
                    await chat.complete(self.client, self._any, self.most)
                else:
                    await self._write(f"w{number}")

        async with asyncio.TaskGroup() as work:
            work.create_task(self._kill())
            for _ in range(writers):
                work.create_task(write())
        for replica in self.replicas:
            await replica.ready(self.client)

    async def _kill(self) -> None:
        """A server that is up, where another is: each second one in the middle of a reply, the others at any moment."""
        while self.killed < self.kills:
            if self.real is not None:
                victim = await self._kill_a_maker(self.chance.randint(8, self.most // 2))
            elif self.killed % 2 == 0:
                victim = await self._kill_a_maker(1)
            else:
                victim, other = self.chance.sample(self.replicas, 2)
                await victim.ready(self.client)
                await other.ready(self.client)
                await asyncio.sleep(self.chance.random())
                victim.kill()
            self.killed += 1
            victim.start()

    async def _kill_a_maker(self, events: int) -> Replica:
        """A server that is in the middle of a reply, with so many events at least, where another is up."""
        while True:
            await asyncio.sleep(PAUSE)
            for told in tuple(self.told.values()):
                if (victim := told.made_at(events)) is None:
                    continue
                await next(one for one in self.replicas if one is not victim).ready(self.client)
                if told.made_at(events) is victim:
                    victim.pause()
                    if self.real is not None:
                        for other in tuple(self.told.values()):
                            if other.made_at(1) is victim:
                                await self.real.note(other.id)
                    victim.kill()
                    return victim

    async def _write(self, name: str) -> None:
        """One conversation, or one chain of responses."""
        conversation, previous = "", ""
        if int(name[1:]) % 2:
            conversation = (await self._json("/v1/conversations", {}))["id"]
            self.conversations[conversation] = []
        for turn in range(LENGTH if self.real is None else LENGTH_REAL):
            text = f"{name}t{turn}: look up {turn % 3} things"
            if self.real is not None:
                text = f"{name}t{turn}: Tell a long story about {self.chance.choice(THINGS)}."
            told = self.told[text] = Told(text)
            body: dict[str, Any] = {"input": text, "stream": True, "max_output_tokens": self.most}
            if conversation:
                body["conversation"] = conversation
            elif previous:
                body["previous_response_id"] = previous
            await self._respond(told, body)
            previous = told.id
            if conversation:
                self.conversations[conversation].append(text)

    async def _json(self, path: str, body: dict[str, Any]) -> Any:
        while True:
            with suppress(*GONE):
                async with self.client.post(f"{self._any()}{path}", json=body) as answer:
                    if answer.status == 200:
                        return await answer.json()
            await asyncio.sleep(PAUSE)

    def _any(self) -> str:
        return self.chance.choice(self.replicas).url

    async def _respond(self, told: Told, body: dict[str, Any]) -> None:
        """Reads the response to its end, wherever it is to be had."""
        broke = None
        while not told.over:
            before = len(told.events)
            with suppress(*GONE):
                told.connections += 1
                if told.events:
                    query = {"stream": "true", "starting_after": str(told.events[-1]["sequence_number"])}
                    request = self.client.get(f"{self._any()}/v1/responses/{told.id}", params=query)
                else:
                    headers = {"idempotency-key": told.text.replace(" ", "_")}
                    told.maker = self.chance.choice(self.replicas)
                    request = self.client.post(f"{told.maker.url}/v1/responses", json=body, headers=headers)
                async with request as answer:
                    if answer.status == 200:
                        await self._read(told, answer, broke)
                    elif answer.status not in (409, 503):
                        self.faults.append(f"{told.text}: {answer.status} {(await answer.text())[:300]}")
                        return
            told.maker = None
            if len(told.events) > before:
                broke = time.perf_counter()
                self.seams["in a reply" if not told.over else "ended"] += 1
            await asyncio.sleep(PAUSE)

    async def _read(self, told: Told, answer: aiohttp.ClientResponse, broke: float | None) -> None:
        async for line in answer.content:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line.removeprefix(b"data: "))
            if event["type"] == "error" and event["sequence_number"] < len(told.events):
                return  # The connection ends here, and not the response.
            if broke is not None:
                self.waits.append(time.perf_counter() - broke)
                broke = None
            if event["sequence_number"] != len(told.events):
                self.faults.append(f"{told.text}: event {event['sequence_number']} came as number {len(told.events)}")
            told.events.append(event)

    async def judge(self, alone: Cluster) -> None:
        """Adds to ``faults`` whatever is not as it should be; ``alone`` is the server that nobody kills."""
        for told in self.told.values():
            if not told.over or told.events[-1]["type"] == "response.failed":
                self.faults.append(f"{told.text}: it ended with {json.dumps(told.events[-1:])[:400]}")
                continue
            await self._judge_text(told, alone)
            again = Told(told.text)
            url = f"{self._any()}/v1/responses/{told.id}"
            async with self.client.get(url, params={"stream": "true"}) as answer:
                await self._read(again, answer, None)
            if again.events != told.events:
                self.faults.append(f"{told.text}: another server sends other events")
            async with self.client.get(url) as answer:
                stored, last = await answer.json(), told.events[-1]["response"]
                if stored != last:
                    other = [(name, stored.get(name)) for name in last if stored.get(name) != last[name]]
                    self.faults.append(f"{told.text}: another response is stored: {answer.status} {other}")
        for chat in self.chats:
            self.faults += await chat.judge(self.client, self._any(), alone.replicas[0].url)
        for id, texts in self.conversations.items():
            async with self.client.get(
                f"{self._any()}/v1/conversations/{id}/items", params={"limit": "100", "order": "asc"}
            ) as answer:
                items = (await answer.json())["data"]
            self._judge_conversation(id, texts, items)

    async def _judge_text(self, told: Told, alone: Cluster) -> None:
        if self.real is None:
            undisturbed = alone.told[told.text].said
            if told.said != undisturbed:
                self.faults.append(f"{told.text}: it says {told.said!r} and not {undisturbed!r}")
        elif told.id in self.real.broken:
            fault = await self.real.fault(told.id, told.said, self.client, alone.replicas[0].url)
            if fault:
                self.faults.append(f"{told.text}: it says {told.said!r}, and {fault}")

    def _judge_conversation(self, id: str, texts: Sequence[str], items: Sequence[dict[str, Any]]) -> None:
        asked = [item["content"][0]["text"] for item in items if item.get("role") == "user"]
        if asked != list(texts):
            self.faults.append(f"the conversation {id} was asked {asked} and not {texts}")
        made = [item["id"] for text in texts for item in self.told[text].events[-1]["response"]["output"]]
        kept = [item["id"] for item in items if item.get("role") != "user"]
        if kept != made:
            self.faults.append(f"the conversation {id} has {len(kept)} items of the model and not {len(made)}")

    @property
    def chats_broke(self) -> int:
        return sum(chat.broke for chat in self.chats)

    def table(self) -> str:
        rows = [
            f"{'replies that ended':<44} {sum(told.over for told in self.told.values()):>7,} of {len(self.told):,}",
            f"{'events':<44} {sum(len(told.events) for told in self.told.values()):>7,}",
            f"{'servers killed':<44} {self.killed:>7,}",
            f"{'connections that broke in a reply':<44} {self.seams['in a reply']:>7,}",
            f"{'chats that were resumable; connections broken':<44} {len(self.chats):>7,} {self.chats_broke:>7,}",
        ]
        if self.real is not None:
            margins = self.real.margins
            less = f"{sum(map(bool, margins)):>7,} {max(margins, default=0):>7.3f}"
            rows += [
                f"{'replies of the model that were broken':<44} {len(self.real.broken):>7,}",
                f"{'tokens judged after the seams':<44} {len(margins):>7,}",
                f"{'not the likeliest; most below it':<44} {less}",
            ]
        if self.waits:
            ordered = sorted(self.waits)
            rows.append(
                f"{'seconds to the next event: median, p95, most':<44} {statistics.median(ordered):>7.2f}"
                f" {ordered[int(0.95 * (len(ordered) - 1))]:>7.2f} {ordered[-1]:>7.2f}"
            )
        return "\n".join([*rows, *(f"FAULT {fault}" for fault in self.faults[:40]), f"{len(self.faults)} faults"])


def commands(folder: Path, store: str, ports: Sequence[int], model: str | None) -> list[Replica]:
    """Servers over ``store``, with a scripted model or with ``model``, a GGUF file."""
    replicas = []
    for number, port in enumerate(ports):
        home = folder / f"{number}-{port}"
        command: Sequence[str] = (*SERVER, store, str(port), str(LEASE))
        if model is not None:
            home.mkdir()
            (home / "config.toml").write_text(
                f'model = "m"\n[models.m]\nsource = "{model}"\nformat = "chatml"\ncontext = 1024\nslots = 4\n'
                f'threads = 1\nsampling = {{ temperature = 0.0 }}\n[sessions]\nstore = "{store}"\nlease = {LEASE}\n'
                "[log]\naccess = false\n[server]\nexpose_reasoning = true\n"
            )
            command = (*PROGRAM, "--port", str(port))
        replicas.append(Replica(command, port, home))
    return replicas


async def run(
    replicas: Sequence[Replica], most: int, real: Seams | None, *, replies: int, kills: int, seed: int, writers: int
) -> Cluster:
    """One run; the servers go on afterwards."""
    timeout = aiohttp.ClientTimeout(total=120)
    client = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
    for replica in replicas:
        replica.start()
    for replica in replicas:
        await replica.ready(client)
    cluster = Cluster(replicas, client, replies, kills, random.Random(seed), most, real=real)
    await cluster.run(writers)
    return cluster


async def chaos_cluster(
    *,
    replies: int,
    kills: int,
    servers: int = 3,
    seed: int = 1,
    writers: int = 8,
    store: str | None = None,
    model: str | None = None,
    most: int = 0,
) -> Cluster:
    """``servers`` of them under kills, judged by one that nobody kills. ``most``: tokens of one turn."""
    most = most or (MOST if model is None else MOST_REAL)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = store or str(folder / "shared.db")
        alone = commands(folder, "memory", [free_port()], model)
        many = commands(folder, store, [free_port() for _ in range(servers)], model)
        real = None if model is None else Seams(store_at(store), Path(model))
        try:
            cluster = await run(many, most, real, replies=replies, kills=kills, seed=seed, writers=writers)
            compared = len(cluster.told) if real is None else 0
            whole = await run(alone, most, None, replies=compared, kills=0, seed=seed, writers=writers)
            await cluster.judge(whole)
            await whole.client.close()
            await cluster.client.close()
            if real is not None:
                await real.store.aclose()
        finally:
            for replica in (*alone, *many):
                replica.kill()
    return cluster


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--replies", type=int, default=200)
    arguments.add_argument("--kills", type=int, default=50)
    arguments.add_argument("--servers", type=int, default=3)
    arguments.add_argument("--writers", type=int, default=8)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--sqlite", action="store_true", help="over a file, not over a PostgreSQL server")
    arguments.add_argument("--real", action="store_true", help="with the default model's file")
    given = arguments.parse_args()
    with ExitStack() as stack:
        store = None
        if not given.sqlite:
            server = stack.enter_context(running_postgres())
            store = server.address(stack.enter_context(server.database()))
        cluster = asyncio.run(
            chaos_cluster(
                replies=given.replies, kills=given.kills, servers=given.servers, seed=given.seed,
                writers=given.writers, store=store, model=str(default_model()) if given.real else None,
            )
        )  # fmt: skip
    if cluster.real is not None and len(cluster.real.broken) < given.kills:
        cluster.faults.append(f"{given.kills} kills broke no more than {len(cluster.real.broken)} replies")
    print(cluster.table())
    return 1 if cluster.faults else 0


if __name__ == "__main__":
    sys.exit(main())
