"""Two API keys and one MCP server that counts the calls of each session: each key sees its own count only."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.http.gate.keys import new_key
from antiphon.tools import Toolbox, ToolLimits
from antiphon.tools.mcp import McpServer, McpToolSet
from kit import mcp_counter, mcp_http, obedient
from kit.api import exchange
from kit.waiting import PATIENCE, until_found

(ANN, ANNS), (BOB, BOBS) = new_key("ann"), new_key("bob")
ORDER = "call: counter__count {}"
SERVER_TOOLS = [{"type": "mcp", "server_label": "counter"}]


@pytest.fixture(params=["stdio", "http"])
async def application(request: pytest.FixtureRequest) -> AsyncIterator[Starlette]:
    """A server of two keys, whose model calls the tool that its user names and then says what came of it."""
    async with mcp_http.serving(mcp_http.Sessions()) as url:
        stdio = McpServer(command=sys.executable, args=(str(Path(mcp_counter.__file__)),))
        server = stdio if request.param == "stdio" else McpServer(url=url)
        async with aclosing(await McpToolSet.connect("counter", server)) as tools:
            toolbox = Toolbox([tools], ToolLimits(deadline=PATIENCE))
            yield create_app(obedient.catalog(), keys=[ANNS, BOBS], tools=toolbox)


def counted(text: str) -> int:
    """The count in what the model says of the tool's result."""
    found = re.fullmatch(r"it said: (\d+)", text)
    assert found, text
    return int(found[1])


async def chat(application: Starlette, key: str) -> int:
    body = {"model": "small", "messages": [{"role": "user", "content": ORDER}], "server_tools": True}
    got = await exchange(application, "/v1/chat/completions", body, [], key=key)
    assert got.status == 200, got.body
    return counted(got.json["choices"][0]["message"]["content"])


async def respond(application: Starlette, key: str, **fields: Any) -> Any:
    body = {"model": "small", "input": ORDER, "tools": SERVER_TOOLS, **fields}
    got = await exchange(application, "/v1/responses", body, [], key=key)
    assert got.status == 200, got.body
    return got.json


def text_of(response: dict[str, Any]) -> str:
    (message,) = [item for item in response["output"] if item["type"] == "message"]
    text: str = message["content"][0]["text"]
    return text


async def in_background(application: Starlette, key: str) -> int:
    """The count in a response that is made while nobody waits for it."""
    queued = await respond(application, key, background=True)

    async def made() -> Any:
        got = await exchange(application, f"/v1/responses/{queued['id']}", {}, [], key=key, method="GET")
        return got.json if got.json["status"] not in ("queued", "in_progress") else None

    response = await until_found(made)
    assert response["status"] == "completed", response
    return counted(text_of(response))


async def test_each_key_sees_its_own_count_by_whatever_road(application: Starlette) -> None:
    assert [await chat(application, ANN) for _ in range(3)] == [1, 2, 3]
    assert await chat(application, BOB) == 1
    assert counted(text_of(await respond(application, BOB))) == 2
    assert counted(text_of(await respond(application, ANN))) == 4
    assert await in_background(application, BOB) == 3
    assert await in_background(application, ANN) == 5
