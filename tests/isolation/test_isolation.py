"""A piece of work has a process of its own, which the kernel bounds, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.errors import AntiphonError, OverloadedError, RequestError, TemplateError
from antiphon.isolation import Isolation, Task
from kit.waiting import PATIENCE, until

SOON = 0.2
"""Seconds of processor time for pieces that never end."""


def task(name: str, *, processor: float = 5.0, memory: int = 64 * 2**20) -> Task:
    return Task(f"kit.isolated:{name}", "the piece", "piece", processor=processor, memory=memory)


@asynccontextmanager
async def isolation(monkeypatch: pytest.MonkeyPatch, **settings: float) -> AsyncIterator[Isolation]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    monkeypatch.setenv("ANTIPHON_SECRET", "hidden")
    opened = Isolation(**settings)  # type: ignore[arg-type]
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
async def isolated(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Isolation]:
    async with isolation(monkeypatch) as opened:
        yield opened


async def test_a_piece_is_worked_on_elsewhere_and_its_answer_comes_back(isolated: Isolation) -> None:
    assert isolated.pid is None, "nothing is started before it is needed"
    assert await isolated.run(task("echo"), b"a" * 300_000) == b"a" * 300_000
    found = json.loads(await isolated.run(task("seen"), b""))
    assert found["pid"] not in (os.getpid(), isolated.pid)


async def test_a_process_has_nothing_of_the_servers(isolated: Isolation) -> None:
    secret = os.open(__file__, os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        others = [asyncio.ensure_future(isolated.run(task("spin", processor=SOON), b"")) for _ in range(1)]
        found = json.loads(await isolated.run(task("seen"), b""))
        await asyncio.gather(*others, return_exceptions=True)
    finally:
        os.close(secret)
    assert "ANTIPHON_SECRET" not in found["environment"]
    assert len(found["sockets"]) == 1, "its own, to the server"
    assert set(found["descriptors"]) == {0, 1, 2, *found["sockets"]}
    assert 0 < found["memory"] < 2 * 2**30
    assert 0 < found["processor"] <= 10
    assert found["written"] == 0


async def test_no_piece_finds_anything_of_an_earlier_one(isolated: Isolation) -> None:
    assert [await isolated.run(task("leave"), name) for name in (b"a", b"b")] == [b"", b""]


async def test_errors_come_back_with_their_place(isolated: Isolation) -> None:
    with pytest.raises(TemplateError, match="no end") as refused:
        await isolated.run(task("refuse"), b"no end")
    with pytest.raises(RequestError) as pointed:
        await isolated.run(task("point"), b"here")
    assert refused.value.position is not None
    assert (refused.value.code, refused.value.position.line, refused.value.hint) == ("bad_template", 3, "Look there.")
    assert pointed.value.param == "a.b"


@pytest.mark.parametrize(
    ("name", "piece"),
    [("spin", b""), ("power", b"1000000000"), ("grow", b"1000000000"), ("abort", b""), ("panic", b"")],
)
async def test_a_piece_beyond_a_limit_is_refused_and_the_next_is_worked_on(
    isolated: Isolation, name: str, piece: bytes
) -> None:
    with pytest.raises(RequestError) as caught:
        await isolated.run(task(name, processor=SOON), piece)
    assert (caught.value.code, caught.value.param) == ("work_limit", "piece")
    assert await isolated.run(task("echo"), b"next") == b"next"


async def test_a_mistake_of_ours_is_an_internal_error_that_the_log_has(
    isolated: Isolation, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AntiphonError) as caught:
        await isolated.run(task("mistake"), b"here")
    with pytest.raises(AntiphonError):
        await isolated.run(task("nowhere"), b"")
    assert caught.value.code == "internal_error"
    assert "ZeroDivisionError" in caplog.text
    assert "nowhere" in caplog.text


async def waiting(isolated: Isolation, folder: Path, name: str = "waiting") -> tuple[asyncio.Task[bytes], int]:
    """A piece that waits for ever, and its process."""
    pipe = folder / name
    os.mkfifo(pipe)
    piece = asyncio.ensure_future(isolated.run(task("wait"), str(pipe).encode()))
    return piece, int(await asyncio.to_thread(pipe.read_text))


def is_gone(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True


async def gone(pid: int) -> None:
    await until(lambda: is_gone(pid))


async def test_a_piece_that_nobody_waits_for_is_ended(isolated: Isolation, tmp_path: Path) -> None:
    piece, pid = await waiting(isolated, tmp_path)
    piece.cancel()
    with pytest.raises(asyncio.CancelledError):
        await piece
    await gone(pid)


async def test_a_piece_is_ended_at_its_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with isolation(monkeypatch, seconds=1.0) as isolated:
        piece, pid = await waiting(isolated, tmp_path)
        with pytest.raises(OverloadedError) as caught:
            await piece
        assert caught.value.code == "queue_timeout"
        await gone(pid)


async def test_all_pieces_end_with_the_isolation(isolated: Isolation, tmp_path: Path) -> None:
    piece, pid = await waiting(isolated, tmp_path)
    isolated.close()
    with pytest.raises(OverloadedError) as caught:
        await piece
    assert caught.value.code == "draining"
    await gone(pid)


async def test_what_forks_is_started_again_where_it_was_killed(isolated: Isolation, tmp_path: Path) -> None:
    assert await isolated.run(task("echo"), b"a") == b"a"
    first = isolated.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await gone(first)
    assert await isolated.run(task("echo"), b"b") == b"b"
    assert isolated.pid != first


async def test_what_forks_ends_where_no_piece_comes_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with isolation(monkeypatch, idle=0.05) as isolated:
        assert await isolated.run(task("echo"), b"a") == b"a"
        pid = isolated.pid
        assert pid is not None
        await gone(pid)
        assert await isolated.run(task("echo"), b"b") == b"b"


async def test_owners_take_turns_and_a_full_queue_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    order: list[str] = []

    async def worked(isolated: Isolation, owner: str) -> None:
        await isolated.run(task("echo"), b"", owner=owner)
        order.append(owner)

    async with isolation(monkeypatch, places=1, most_waiting=3) as isolated:
        first, _ = await waiting(isolated, tmp_path)
        rest = [asyncio.ensure_future(worked(isolated, owner)) for owner in ("many", "many", "few")]
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError) as caught:
            await isolated.run(task("echo"), b"", owner="late")
        assert caught.value.code == "queue_full"
        first.cancel()
        await asyncio.wait_for(asyncio.gather(*rest), PATIENCE)
    assert order == ["many", "few", "many"]


async def test_a_piece_waits_no_longer_than_it_has_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with isolation(monkeypatch, places=1, seconds=PATIENCE) as isolated:
        first, _ = await waiting(isolated, tmp_path)
        with pytest.raises(OverloadedError) as caught:
            await isolated.run(task("echo"), b"", until=asyncio.get_running_loop().time() + 0.05)
        first.cancel()
    assert caught.value.code == "queue_timeout"


HOST = """
import asyncio, os, sys
from antiphon.isolation import Isolation, Task

async def main():
    isolated = Isolation()
    asyncio.ensure_future(isolated.run(Task("kit.isolated:wait", "the piece"), sys.argv[1].encode()))
    while isolated.pid is None:
        await asyncio.sleep(0.01)
    print(isolated.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


LIMITED = """
import asyncio, resource
from antiphon.isolation import Isolation, Task

resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
print(asyncio.run(Isolation(starting=60).run(Task("kit.isolated:seen", "the piece", memory=2**40), b"")).decode())
"""


async def test_a_server_that_has_a_limit_of_memory_itself_raises_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", LIMITED, stdout=asyncio.subprocess.PIPE)
    output, _ = await host.communicate()
    assert json.loads(output)["memory"] == 2**33


async def test_no_process_outlives_a_server_that_was_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    pipe = tmp_path / "waiting"
    os.mkfifo(pipe)
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, str(pipe), stdout=asyncio.subprocess.PIPE)
    assert host.stdout is not None
    forks = int(await host.stdout.readline())
    piece = int(await asyncio.to_thread(pipe.read_text))
    host.kill()
    await host.wait()
    for pid in (forks, piece):
        await gone(pid)
