"""`antiphon.ray` on a real Ray Serve, used by the official client: ``check_ray.py [FOLDER [NAME]]``.

Ray gets an environment of its own in the folder (``.ray``), made once. A cluster of one machine then runs all in one
deployment and in two tiers, behind HAProxy: answers and errors, from one replica to three and back by load, a replica
that is killed in mid-stream, a rolling restart; and what a request and a token cost beside `antiphon serve`. A line a
check goes to the screen; the exit code tells whether all passed. ``NAME`` is a part of the names of those to run.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import openai
import psutil

ROOT = Path(__file__).parents[2]
HOME = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".ray").absolute()
PYTHON = HOME / "env" / "bin" / "python"
CLUSTER = Path(__file__).with_name("scripts") / "ray_cluster.py"
RAY = "2.60.0"

TEXT = "The quick brown fox jumps over the lazy dog; "
ROUNDS = 5
"""How often the cluster and the plain server are measured in turn, after a first time that does not count."""
LONG = 8.0
"""Seconds of the long replies."""
CONFIG = f"""
model = "fast"
embedding_model = ""
[server]
without_keys = true
[log]
access = false
[limits]
turn_timeout = 60.0
queue_timeout = 20.0
[ray]
cpus = 0.5
engine_cpus = 0.5
ongoing = 2.0
scale_out_after = 1.0
scale_in_after = 3.0
[models.fast]
format = "chatml"
engine = {{ kind = "scripted", reply = "{TEXT}" }}
[models.paced]
format = "chatml"
engine = {{ kind = "scripted", reply = "{TEXT * 3}", delay = 0.02 }}
[models.long]
format = "chatml"
engine = {{ kind = "scripted", reply = "{TEXT * 9}", delay = {LONG / (9 * len(TEXT)):.4f} }}
"""
WHOLE = {"fast": TEXT, "paced": TEXT * 3, "long": TEXT * 9}
ASK: Any = [{"role": "user", "content": "Hi"}]


def install() -> None:
    """Ray and Antiphon in their own environment; nothing to do when it is there."""
    done = HOME / "env" / f".ready-{RAY}"
    if done.exists():
        return
    print(f"an environment for Ray is made once in {HOME}; it takes a minute and 0.5 GB", flush=True)
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "install.log").open("ab") as log:
        pip = (PYTHON, "-m", "pip", "install", "--disable-pip-version-check")
        steps: tuple[tuple[str | Path, ...], ...] = (
            (sys.executable, "-m", "venv", HOME / "env"),
            (*pip, f"ray[serve]=={RAY}", "-e", ROOT),
        )
        for command in steps:
            if subprocess.run(command, stdout=log, stderr=log).returncode:
                raise SystemExit(f"{' '.join(map(str, command[:4]))} failed: {log.name}")
    done.touch()


def plain_environ() -> dict[str, str]:
    left_out = ("ANTIPHON_", "RAY_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**environ, "ANTIPHON_HOME": str(HOME)}


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Cluster:
    """A Ray of its own, and what is deployed there."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.pid = process.pid
        self._process = process
        self._asking = asyncio.Lock()

    async def ask(self, *command: object) -> Any:
        """What the cluster answers to a command."""
        async with self._asking:
            return await asyncio.to_thread(self._ask, command)

    def _ask(self, command: tuple[object, ...]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, dict) and "error" in answer:
            raise AssertionError(answer["error"])
        return answer

    async def deploy(self, application: str, **arguments: object) -> None:
        await self.ask("deploy", application, {name.replace("__", "."): value for name, value in arguments.items()})

    async def running(self, deployment: str) -> int:
        """How many replicas of a deployment run."""
        states: dict[str, int] = (await self.ask("replicas"))[deployment]
        return states.get("RUNNING", 0)

    async def until(self, deployment: str, count: int, *, seconds: float = 90.0) -> None:
        """Waits until so many replicas of a deployment run, and no other is there."""
        async with asyncio.timeout(seconds):
            while (await self.ask("replicas"))[deployment] != {"RUNNING": count}:
                await asyncio.sleep(0.2)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster that listens; all of its processes end with it."""
    port = free_port()
    environ = {
        **plain_environ(), "RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "5",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
        **{f"RAY_SERVE_HAPROXY_{name}_PORT": str(free_port()) for name in ("METRICS", "STATS")},
    }  # fmt: skip
    folder = tempfile.TemporaryDirectory(prefix="antiphon-ray-", ignore_cleanup_errors=True)
    with folder as sockets, (HOME / "ray.log").open("w") as log:
        process = subprocess.Popen(
            [PYTHON, CLUSTER, str(port), sockets],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environ,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            if process.stdout.readline() != '"ready"\n':
                raise SystemExit(f"Ray did not start: {log.name}")
            yield Cluster(process, port)
        finally:
            end(process)


def end(process: subprocess.Popen[str]) -> None:
    """The cluster ends in order, or else all that it started is killed."""
    started = psutil.Process(process.pid).children(recursive=True)
    assert process.stdin is not None
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(60)
    process.kill()
    for one in psutil.wait_procs(started, timeout=10)[1]:
        with suppress(psutil.NoSuchProcess):
            one.kill()


@contextmanager
def plain(**flags: str) -> Iterator[tuple[str, int]]:
    """The URL of `antiphon serve` with the same configuration, and its process."""
    options = {f"ANTIPHON_{name.upper()}": value for name, value in flags.items()}
    with (HOME / "antiphon.log").open("w") as log:
        server = subprocess.Popen(
            [PYTHON, "-c", "from antiphon.cli import main; main()", "serve", "--port", "0"],
            stdout=subprocess.PIPE, stderr=log, text=True, env={**plain_environ(), **options},
        )  # fmt: skip
        try:
            assert server.stdout is not None
            printed = [next(server.stdout) for _ in range(5)]
            url = shlex.split("".join(printed[3:]).replace("\\\n", ""))[1].removesuffix("/v1/chat/completions")
            yield url, server.pid
        finally:
            server.terminate()
            server.wait(60)


# Requests


class Client:
    """The official client, with its own retries, and what became of its requests."""

    def __init__(self, url: str, **options: Any) -> None:
        self._client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=60, **options)
        self.outcomes: Counter[str] = Counter()

    async def whole(self, model: str = "fast") -> str:
        answer = await self._client.chat.completions.create(model=model, messages=ASK)
        return answer.choices[0].message.content or ""

    async def streamed(self, model: str = "fast", question: str = "Hi") -> str:
        parts, messages = [], [{"role": "user", "content": question}]
        create: Any = self._client.chat.completions.create
        stream = await create(model=model, messages=messages, stream=True)
        async for chunk in stream:
            parts += [choice.delta.content or "" for choice in chunk.choices]
        return "".join(parts)

    async def responded(self, model: str = "fast") -> str:
        answer = await self._client.responses.create(model=model, input="Hi", store=False)
        return str(answer.output_text)

    async def counted(self, work: Awaitable[str], text: str) -> None:
        """Adds to the outcomes what ``work`` comes to."""
        try:
            answer = await work
        except openai.APIStatusError as error:
            self.outcomes[f"{error.status_code}"] += 1
        except openai.APIError as error:
            self.outcomes[str(getattr(error, "code", None) or type(error).__name__)] += 1
        except httpx.HTTPError as error:
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["whole" if answer == text else "cut"] += 1

    async def ask_on(self) -> None:
        """One request after the other, of each kind in turn."""
        while True:
            for ask in (self.whole, self.streamed, self.responded):
                await self.counted(ask(), TEXT)
            await self.counted(self.streamed("paced"), WHOLE["paced"])

    def all_whole(self) -> str:
        """Raises where a request came to another end than a whole answer."""
        assert set(self.outcomes) == {"whole"}, dict(self.outcomes)
        return f"{self.outcomes['whole']} whole answers"


@asynccontextmanager
async def load(client: Any, at_once: int) -> AsyncIterator[None]:
    """So many go on asking; what runs at the end comes to its end."""
    tasks = [asyncio.ensure_future(client.ask_on()) for _ in range(at_once)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# Checks


async def answers(cluster: Cluster) -> str:
    """Whole, streamed, Responses, errors in OpenAI's form, and one id of the request."""
    client = Client(cluster.url, max_retries=0)
    told_text = [await client.whole(), await client.streamed(), await client.responded()]
    assert told_text == [TEXT] * 3, told_text
    async with httpx.AsyncClient(base_url=cluster.url) as http:
        told = {
            400: await http.post("/v1/chat/completions", json={"messages": 3}, headers={"x-client-request-id": "own"}),
            404: await http.post("/v1/chat/completions", json={"model": "none", "messages": ASK}),
            405: await http.delete("/v1/models"),
        }
    for status, answer in told.items():
        assert answer.status_code == status, (answer.status_code, answer.text)
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        assert len(answer.headers.get_list("x-request-id")) == 1, answer.headers
    assert told[400].headers["x-client-request-id"] == "own"
    return "answers and errors as those of antiphon serve, x-request-id once"


INGRESS = "antiphon"


async def scaled(cluster: Cluster, application: str) -> str:
    """From one replica to three and back, by load, and nobody notices."""
    await cluster.deploy(application, ray__max_replicas=3)
    await cluster.until(INGRESS, 1)
    client, light, most = Client(cluster.url), Client(cluster.url), 1
    async with load(light, 1):
        async with load(client, 12), asyncio.timeout(90):
            while most < 3:
                most = max(most, await cluster.running(INGRESS))
                await asyncio.sleep(0.3)
        await cluster.until(INGRESS, 1, seconds=180)
    client.outcomes += light.outcomes
    return f"1 → {most} → 1 replicas, {client.all_whole()}"


TWO = {"ray__replicas": 2, "ray__engine_replicas": 2}


async def killed(cluster: Cluster, application: str, deployment: str, allowed: str) -> str:
    """A replica dies in mid-stream: its streams end as ``allowed``, those of the others and new requests are whole."""
    await cluster.deploy(application, **TWO)
    await cluster.until(deployment, 2)
    long, after = Client(cluster.url), Client(cluster.url)
    asked = [f"{number}: what does the quick brown fox do?" for number in range(8)]
    streams = [asyncio.ensure_future(long.counted(long.streamed("long", one), WHOLE["long"])) for one in asked]
    await asyncio.sleep(LONG / 3)
    await cluster.ask("kill", deployment)
    for _ in range(10):
        await after.counted(after.whole(), TEXT)
        await after.counted(after.streamed(), TEXT)
    await asyncio.gather(*streams)
    await cluster.until(deployment, 2)
    assert set(long.outcomes) == {"whole", allowed}, dict(long.outcomes)
    return f"streams {dict(long.outcomes)}; meanwhile {after.all_whole()}"


async def restarted(cluster: Cluster, application: str) -> str:
    """A rolling restart: streams that run and requests that come are whole."""
    await cluster.deploy(application, **TWO)
    long, client = Client(cluster.url), Client(cluster.url)
    streams = [asyncio.ensure_future(long.counted(long.streamed("long"), WHOLE["long"])) for _ in range(4)]
    await asyncio.sleep(0.5)
    began = time.monotonic()
    async with load(client, 4):
        await cluster.deploy(application, **TWO, server__gather=0.02)
        await asyncio.gather(*streams)
    took = time.monotonic() - began
    return f"{long.all_whole()} of {LONG:.0f} s, {client.all_whole()} in {took:.0f} s"


async def hung_up(cluster: Cluster, application: str) -> str:
    """A client that goes away gives its place back at once: there is one, and nobody waits."""
    await cluster.deploy(application, limits__max_concurrent=1, limits__max_queue=0)
    await cluster.until(INGRESS, 1)
    client = Client(cluster.url, max_retries=0)
    refused = 0
    async with httpx.AsyncClient(base_url=cluster.url, timeout=60) as http:
        body = {"model": "long", "messages": ASK, "stream": True}
        async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
            parts = answer.aiter_raw()  # Held: one that nobody holds any more hangs up.
            await anext(parts)
            try:
                await client.whole()
            except openai.RateLimitError:
                refused += 1
        began = time.monotonic()
        while time.monotonic() - began < LONG / 2:
            with suppress(openai.RateLimitError):
                assert await client.whole() == TEXT
                assert refused, "there was a place"
                return f"a 429 before, and an answer {(time.monotonic() - began) * 1000:.0f} ms after"
    raise AssertionError("its place is taken")


async def refused(cluster: Cluster, application: str) -> str:
    """A deployment whose default model is not there fails."""
    try:
        await cluster.deploy(application, model="smollm2")
    except AssertionError as error:
        return str(error).replace("\n", " ")
    raise AssertionError("it was deployed")


# What it costs


def seconds_of(root: int) -> float:
    """Processor time, in seconds, of what works for requests: the plain server, or HAProxy and the replicas."""
    server, total = psutil.Process(root), 0.0
    for process in [server, *server.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            if process == server or process.name() == "haproxy" or "ServeReplica" in process.cmdline()[0]:
                times = process.cpu_times()
                total += times.user + times.system
    return total


async def cost(url: str, root: int) -> tuple[float, float]:
    """Processor time, in µs, of a whole answer, 8 at once, and of a token of 32 streams at 50 a second each."""
    async with httpx.AsyncClient(base_url=url, limits=httpx.Limits(max_connections=64), timeout=120) as http:

        async def whole(count: int) -> None:
            for _ in range(count):
                assert (await http.post("/v1/chat/completions", json={"messages": ASK})).status_code == 200

        async def paced() -> int:
            body = {"model": "paced", "messages": ASK, "stream": True}
            async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
                return sum([line.count(b'"content"') async for line in answer.aiter_raw()])

        async def spent(work: Callable[[], Awaitable[int]]) -> float:
            before = seconds_of(root)
            count = await work()
            return (seconds_of(root) - before) / count * 1e6

        async def requests() -> int:
            await asyncio.gather(*(whole(100) for _ in range(8)))
            return 800

        async def tokens() -> int:
            return sum(await asyncio.gather(*(paced() for _ in range(32))))

        return await spent(requests), await spent(tokens)


class Checks:
    """Runs checks and prints a line of each."""

    def __init__(self, only: str) -> None:
        """``only``: part of the names of those that are wanted."""
        self._only = only
        self.failed = 0

    async def run(self, name: str, check: Callable[[], Awaitable[str]]) -> None:
        if self._only not in name:
            return
        began = time.perf_counter()
        try:
            result, state = await check(), "ok"
        except Exception as error:  # noqa: BLE001 - whatever it is, the other checks go on
            result, state = f"{type(error).__name__}: {error}", "FAILED"
            self.failed += 1
        print(f"{state:<7} {name:<34} {time.perf_counter() - began:6.1f} s  {result[:200]}", flush=True)


async def check_all(cluster: Cluster, only: str) -> int:
    checks = Checks(only)
    tiers = (("app", "antiphon", "APIConnectionError"), ("two_tier", "engine-long", "engine_lost"))
    for application, fragile, end in tiers:
        await cluster.deploy(application)
        await checks.run(f"{application}: answers", partial(answers, cluster))
        for gather in (0.01, 0.04):
            name = f"{application}: cost, gather {gather} s"
            await checks.run(name, partial(costs, cluster, application, gather))
        await checks.run(f"{application}: by load", partial(scaled, cluster, application))
        await checks.run(f"{application}: a replica is killed", partial(killed, cluster, application, fragile, end))
        await checks.run(f"{application}: rolling restart", partial(restarted, cluster, application))
        await checks.run(f"{application}: a client hangs up", partial(hung_up, cluster, application))
        await checks.run(f"{application}: a model that is not there", partial(refused, cluster, application))
    print(f"{checks.failed} failed")
    return int(checks.failed > 0)


async def costs(cluster: Cluster, application: str, gather: float) -> str:
    """What it costs beside the plain server as it is by default, in turns; engines of a tier gather as long."""
    await cluster.deploy(application, server__gather=gather, ray__engine_gather=max(gather, 0.015))
    with plain() as (base, pid):
        rounds = [(await cost(cluster.url, cluster.pid), await cost(base, pid)) for _ in range(ROUNDS + 1)][1:]
    request, plain_request, request_ratio = medians([(there[0], here[0]) for there, here in rounds])
    token, plain_token, token_ratio = medians([(there[1], here[1]) for there, here in rounds])
    return (
        f"a request {request:.0f} µs (plain {plain_request:.0f}: × {request_ratio:.2f}), "
        f"a paced token {token:.0f} µs (plain {plain_token:.0f}: × {token_ratio:.2f})"
    )


def medians(rounds: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The median of each side, and of what one is to the other in the same round."""
    there, here = zip(*rounds, strict=True)
    return median(there), median(here), median(one / other for one, other in rounds)


def main() -> int:
    install()
    (HOME / "config.toml").write_text(CONFIG)
    with cluster() as one:
        return asyncio.run(check_all(one, sys.argv[2] if len(sys.argv) > 2 else ""))


if __name__ == "__main__":
    sys.exit(main())
