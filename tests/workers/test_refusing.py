"""While no worker can be had the supervisor answers itself, and what a dead worker had not taken yet is another's."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config, LoadedConfig, ServerConfig
from antiphon.errors import EngineError
from antiphon.http.server.handed import PLAIN, SECURE
from antiphon.workers.acceptor import Acceptor, Listener, Refused, refusal
from antiphon.workers.engines import Memory
from antiphon.workers.spawned import WorkerProcess
from antiphon.workers.supervisor import Supervisor
from kit.certificates import signed
from kit.waiting import PATIENCE, LoopClock, until


class Worker:
    """Takes connections, or none."""

    def __init__(self, *, room: bool) -> None:
        self.room = room
        self.taken: list[socket.socket] = []

    @property
    def load(self) -> tuple[int, int]:
        return len(self.taken), len(self.taken)

    def hand(self, connection: socket.socket, kind: bytes) -> bool:
        if self.room:
            self.taken.append(connection)
        return self.room


@pytest.fixture
async def acceptor(tmp_path: Path) -> AsyncIterator[tuple[Acceptor, int, ssl.SSLContext]]:
    """At a port where it speaks TLS, with a context for its clients."""
    chain, key = signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    trusting = ssl.create_default_context(cafile=str(chain))
    listener = socket.create_server(("127.0.0.1", 0))
    acceptor = Acceptor([Listener(listener, SECURE)], context)
    acceptor.begin()
    yield acceptor, listener.getsockname()[1], trusting
    acceptor.end()


@pytest.fixture
async def plain() -> AsyncIterator[tuple[Acceptor, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    acceptor = Acceptor([Listener(listener, PLAIN)])
    acceptor.begin()
    yield acceptor, listener.getsockname()[1]
    acceptor.end()


def ask(connection: http.client.HTTPConnection, body: bytes = b"") -> tuple[int, str | None, str]:
    connection.request("POST", "/v1/chat/completions", body)
    answer = connection.getresponse()
    return answer.status, answer.headers["retry-after"], json.loads(answer.read())["error"]["code"]


@pytest.mark.parametrize("seconds", [0.0, 6.1])
@pytest.mark.parametrize("body", [b"", b"x" * 300_000])
async def test_while_all_workers_are_away_a_request_is_told_when_to_come_again(
    plain: tuple[Acceptor, int], seconds: float, body: bytes
) -> None:
    """Also one whose body is still on its way, which would else see the connection reset."""
    acceptor, port = plain
    acceptor.retry_after = lambda: seconds
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    assert await asyncio.to_thread(ask, client, body) == (503, "7" if seconds else "1", "overloaded")


async def test_what_comes_behind_the_first_request_is_dropped(plain: tuple[Acceptor, int]) -> None:
    acceptor, port = plain
    acceptor.retry_after = lambda: 2.0
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    writer.close()
    await until(lambda: not acceptor._refused)
    assert not faults


async def test_who_is_refused_and_stays_is_let_go(plain: tuple[Acceptor, int], monkeypatch: pytest.MonkeyPatch) -> None:
    acceptor, port = plain
    acceptor.retry_after = lambda: 2.0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
    assert acceptor._refused
    await LoopClock(monkeypatch).forward(11.0)
    await until(lambda: not acceptor._refused)
    writer.close()


async def test_the_same_over_tls(acceptor: tuple[Acceptor, int, ssl.SSLContext]) -> None:
    one, port, trusting = acceptor
    one.retry_after = lambda: 2.0
    client = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=trusting)
    assert await asyncio.to_thread(ask, client) == (503, "2", "overloaded")


async def test_who_is_refused_may_come_again_when_the_first_worker_begins(tmp_path: Path) -> None:
    loaded = LoadedConfig(Config(server=ServerConfig(workers=2)), tmp_path / "antiphon.toml", {})
    acceptor, now = Acceptor([]), time.monotonic()
    with Memory(2) as memory:
        supervisor = Supervisor(loaded, lambda: loaded, memory, False, acceptor)
    supervisor._failing = {0: now + 2000.0}
    assert acceptor.retry_after() is None, "the other one may come now"
    supervisor._failing[1] = now + 1000.0
    assert 0.0 < (acceptor.retry_after() or 0.0) <= 1000.0
    supervisor._failing[1] = now - 1.0
    assert acceptor.retry_after() == 0.0


async def test_what_is_no_request_is_closed_and_nothing_of_it_is_kept(plain: tuple[Acceptor, int]) -> None:
    acceptor, port = plain
    acceptor.retry_after = lambda: 2.0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"x" * 100_000)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    await until(lambda: not acceptor._refused)


async def test_without_that_who_comes_waits_for_a_worker(plain: tuple[Acceptor, int]) -> None:
    acceptor, port = plain
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    worker = Worker(room=True)
    acceptor.open.add(worker)
    await until(lambda: worker.taken)
    worker.taken[0].close()
    writer.close()


async def test_what_is_taken_back_is_another_s_and_comes_first(plain: tuple[Acceptor, int]) -> None:
    acceptor, port = plain
    dead, living = Worker(room=True), Worker(room=True)
    acceptor.open.add(dead)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    await until(lambda: dead.taken)
    acceptor.open.discard(dead)
    acceptor.open.add(living)
    acceptor.take_back((connection, PLAIN) for connection in dead.taken)
    await until(lambda: living.taken == dead.taken)
    living.taken[0].close()
    writer.close()


async def test_what_is_taken_back_after_the_end_is_closed() -> None:
    acceptor = Acceptor([])
    acceptor.begin()
    acceptor.end()
    handed, client = socket.socketpair()
    with handed, client:
        acceptor.take_back([(handed, PLAIN)])
        client.setblocking(False)
        assert client.recv(1) == b""


async def test_the_end_of_a_refusal_is_told_at_once_while_what_follows_is_still_read() -> None:
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    over, answer = loop.create_future(), refusal(1.0)
    await loop.connect_accepted_socket(lambda: Refused(answer, over), ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    writer.write(b"POST / HTTP/1.1\r\n\r\nits body")
    assert await reader.read() == answer
    assert not over.done(), "the connection is open still"
    writer.close()
    await over


async def test_asking_a_worker_that_died_is_no_fault_of_a_scrape_or_of_a_reload() -> None:
    async def dying(talk: int, conduit: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(sys.executable, "-c", "pass")

    worker = await WorkerProcess.start({}, {}, lambda _: None, dying)
    with contextlib.suppress(EngineError):
        await worker.gone()
    assert (await worker.families(), await worker.reload({})) == ([], None)
    with pytest.raises(EngineError, match="ended with status 0 before it served"):
        await worker.ready
