"""MCP servers with a state: each session counts its own calls. Over stdio (run this file), or over HTTP (`serving`).

Over HTTP it is a server of the protocol before 2026-07-28, which names its sessions in a header.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from mcp.server import MCPServer

server = MCPServer("counter")
calls: list[str] = []


@server.tool()
def count() -> int:
    """How many calls this process has had."""
    calls.append("count")
    return len(calls)


@server.tool()
def process() -> int:
    """The id of this process."""
    return os.getpid()


@server.tool()
async def wait_for(path: str) -> int:
    """Waits until there is such a file; then the same as `count`."""
    Path(path + ".begun").touch()
    while not Path(path).exists():
        await asyncio.sleep(0.01)
    return count()


class Sessions:
    """What the server over HTTP remembers: the calls of each open session, and which were ended."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.ended: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        session = request.headers.get("mcp-session-id", "")
        if request.method == "DELETE":
            self.forget(session)
            return web.Response(status=204)
        message = msgspec.json.decode(await request.read(), type=dict[str, Any])
        method = message["method"]
        if method == "initialize":
            session = secrets.token_hex(8)
            self.calls[session] = 0
        elif method != "server/discover" and session not in self.calls:
            return web.Response(status=404)
        if "id" not in message:
            return web.Response(status=202)
        result = self.result(method, session)
        answer = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        headers = {"mcp-session-id": session} if session else {}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **answer}, headers=headers)

    def result(self, method: str, session: str) -> dict[str, Any] | None:
        match method:
            case "initialize":
                about = {"name": "counter", "version": "1"}
                return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                return {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self.calls[session] += 1
                return {"content": [{"type": "text", "text": str(self.calls[session])}]}
        return None

    def forget(self, session: str) -> None:
        if session in self.calls:
            del self.calls[session]
            self.ended.append(session)


@asynccontextmanager
async def serving(sessions: Sessions) -> AsyncIterator[str]:
    """The address of the server over HTTP."""
    app = web.Application()
    app.router.add_post("/mcp", sessions.answer)
    app.router.add_delete("/mcp", sessions.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    await runner.cleanup()


if __name__ == "__main__":
    server.run()
