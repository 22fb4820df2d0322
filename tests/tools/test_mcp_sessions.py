"""Whose session with an MCP server a call goes through: over stdio and HTTP, each owner has its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from antiphon.tools import Router, ToolCall, ToolLimits, ToolResult
from antiphon.tools.mcp import McpLimits, McpServer, McpToolSet
from kit import mcp_counter, mcp_http
from kit.waiting import PATIENCE, turns, until

STDIO = McpServer(command=sys.executable, args=(str(Path(mcp_counter.__file__)),))


class Calls:
    """Calls to one server's tools."""

    def __init__(self, tools: McpToolSet) -> None:
        self.tools = tools
        self.router = Router(tools.tools, ToolLimits(deadline=PATIENCE))

    async def result(self, name: str, owner: str = "", **arguments: Any) -> ToolResult:
        body = json.dumps(arguments)
        call = ToolCall(call_id="c", recipient=f"functions.counter__{name}", body=body, owner=owner)
        return await self.router.call(call)

    async def number(self, name: str, owner: str = "", **arguments: Any) -> int:
        result = await self.result(name, owner, **arguments)
        assert result.output is not None, result.error
        return int(result.output.content)

    async def code(self, name: str, owner: str) -> str:
        error = (await self.result(name, owner)).error
        assert error is not None
        assert error.retryable
        return error.code


Connect = Callable[..., Any]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connects to a server; all its sessions are closed afterwards."""
    async with AsyncExitStack() as stack:

        async def connect(server: McpServer, **limits: Any) -> Calls:
            tools = await McpToolSet.connect("counter", server, McpLimits(**limits))
            return Calls(await stack.enter_async_context(aclosing(tools)))

        yield connect
    assert processes() == []


@pytest.fixture
def sessions() -> mcp_http.Sessions:
    return mcp_http.Sessions()


@pytest.fixture(params=["stdio", "http"])
async def server(request: pytest.FixtureRequest, sessions: mcp_http.Sessions) -> AsyncIterator[McpServer]:
    async with mcp_http.serving(sessions) as url:
        yield STDIO if request.param == "stdio" else McpServer(url=url)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """What ``wait_for`` waits for; it goes on when something is written there."""
    pipe = tmp_path / "go"
    os.mkfifo(pipe)
    return pipe


async def begun(pipe: Path) -> None:
    """Until a call waits there."""
    await until(pipe.with_suffix(".begun").exists)


def processes() -> list[psutil.Process]:
    """The servers over stdio that run."""
    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            if "mcp_counter.py" in " ".join(one.cmdline()):
                found.append(one)
        except psutil.NoSuchProcess:
            pass
    return found


async def test_each_owner_sees_its_own_count_only(connect: Connect, server: McpServer) -> None:
    calls = await connect(server)
    assert [await calls.number("count", "ann") for _ in range(3)] == [1, 2, 3]
    assert await calls.number("count", "bob") == 1
    assert await calls.number("count") == 1
    assert await calls.number("count", "ann") == 4


async def test_calls_of_one_owner_at_once_share_its_session(connect: Connect, server: McpServer) -> None:
    calls = await connect(server)
    counts = await asyncio.gather(*(calls.number("count", owner) for owner in ("ann", "bob") * 8))
    assert sorted(counts[::2]) == sorted(counts[1::2]) == list(range(1, 9))


async def test_a_server_that_remembers_nothing_has_one_session_for_all(connect: Connect, server: McpServer) -> None:
    calls = await connect(msgspec.structs.replace(server, stateless=True))
    assert [await calls.number("count", owner) for owner in ("ann", "bob", "")] == [1, 2, 3]


async def test_there_are_no_more_sessions_than_the_bound_and_the_one_unused_for_longest_goes(connect: Connect) -> None:
    calls = await connect(STDIO, sessions=2)
    assert [await calls.number("count", owner) for owner in ("ann", "bob", "ann", "carl")] == [1, 1, 2, 1]
    assert len(processes()) == 2
    assert await calls.number("count", "ann") == 3
    result = await calls.result("count", "bob")
    assert result.output is not None
    assert result.output.content == "1"
    assert "no room" in result.output.provenance["session"], "that it forgot is said"


async def test_a_session_at_work_is_never_closed_for_another(connect: Connect, pipe: Path) -> None:
    calls = await connect(STDIO, sessions=1, wait=0.1)
    assert await calls.number("count", "ann") == 1
    busy = asyncio.create_task(calls.number("wait_for", "ann", path=str(pipe)))
    await begun(pipe)
    assert await calls.code("count", "bob") == "E-TOOL-BUSY"
    assert await calls.number("count", "ann") == 2, "the owner's own calls go on beside it"
    pipe.write_bytes(b"go")
    assert await busy == 3
    assert await calls.number("count", "bob") == 1


async def test_who_waits_has_its_session_when_there_is_room(connect: Connect, pipe: Path) -> None:
    calls = await connect(STDIO, sessions=1, wait=PATIENCE)
    busy = asyncio.create_task(calls.number("wait_for", "ann", path=str(pipe)))
    await begun(pipe)
    waiting = asyncio.create_task(calls.number("count", "bob"))
    await turns(20)
    assert not waiting.done()
    pipe.write_bytes(b"go")
    assert (await busy, await waiting) == (1, 1)
    assert len(processes()) == 1


async def test_a_session_that_is_not_used_is_closed_and_the_next_call_begins_another(connect: Connect) -> None:
    calls = await connect(STDIO, idle=0.05)
    first = await calls.number("process", "ann")
    await until(lambda: not psutil.pid_exists(first))
    second = await calls.result("process", "ann")
    assert second.output is not None
    assert second.output.content != str(first)
    assert "not used" in second.output.provenance["session"]


async def test_a_session_is_not_unused_while_a_call_of_it_works(connect: Connect, pipe: Path) -> None:
    calls = await connect(STDIO, idle=0.0)
    busy = asyncio.create_task(calls.number("wait_for", "ann", path=str(pipe)))
    await begun(pipe)
    assert await calls.number("count", "ann") == 1
    await turns(20)
    pipe.write_bytes(b"go")
    assert await busy == 2


async def test_an_http_session_that_is_closed_is_ended_at_the_server(
    connect: Connect, sessions: mcp_http.Sessions
) -> None:
    async with mcp_http.serving(sessions) as url:
        calls = await connect(McpServer(url=url), idle=0.05)
        assert await calls.number("count", "ann") == 1
        await until(lambda: sessions.ended)
        assert await calls.number("count", "ann") == 1
        assert await calls.number("count") == 1
        await calls.tools.aclose()
        assert not sessions.calls


async def test_a_process_that_is_killed_costs_its_owner_one_call_and_others_nothing(connect: Connect) -> None:
    calls = await connect(STDIO)
    pids = [await calls.number("process", owner) for owner in ("ann", "bob")]
    assert [await calls.number("count", owner) for owner in ("ann", "bob")] == [1, 1]
    psutil.Process(pids[0]).send_signal(signal.SIGKILL)
    assert await calls.code("count", "ann") == "E-TOOL-FAILED"
    assert [await calls.number("count", owner) for owner in ("ann", "bob")] == [1, 2]


async def test_an_http_server_that_forgot_a_session_costs_its_owner_one_call(
    connect: Connect, sessions: mcp_http.Sessions
) -> None:
    async with mcp_http.serving(sessions) as url:
        calls = await connect(McpServer(url=url))
        assert [await calls.number("count", owner) for owner in ("ann", "bob")] == [1, 1]
        ann = list(sessions.calls)[-2]
        sessions.forget(ann)
        assert await calls.code("count", "ann") == "E-TOOL-FAILED"
        assert [await calls.number("count", owner) for owner in ("ann", "bob")] == [1, 2]


async def test_a_call_that_is_given_up_leaves_the_session_as_it_was(connect: Connect, pipe: Path) -> None:
    calls = await connect(STDIO)
    assert await calls.number("count", "ann") == 1
    given_up = asyncio.create_task(calls.number("wait_for", "ann", path=str(pipe)))
    await begun(pipe)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    assert await calls.number("count", "ann") == 2


async def test_an_error_that_answers_one_call_leaves_the_session_as_it_was(connect: Connect) -> None:
    calls = await connect(STDIO)
    assert await calls.number("count", "ann") == 1
    assert await calls.code("refuse", "ann") == "E-TOOL-FAILED"
    assert await calls.number("count", "ann") == 2
