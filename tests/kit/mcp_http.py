"""An MCP server with a state, over HTTP: it counts the calls of each session, which it names in a header."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from kit.aiohttp_site import listening
from kit.mcp_counter import answer, handshake, text_result, tool_list


class Sessions:
    """What the server remembers: the calls of each open session, and which were ended."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.ended: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        session = request.headers.get("mcp-session-id", "")
        if request.method == "DELETE":
            self.forget(session)
            return web.Response(status=204)
        message = await request.json()
        method = message["method"]
        if method == "initialize":
            session = secrets.token_hex(8)
            self.calls[session] = 0
        elif method != "server/discover" and session not in self.calls:
            return web.Response(status=404)
        if "id" not in message:
            return web.Response(status=202)
        headers = {"mcp-session-id": session} if session else {}
        return web.json_response(answer(message["id"], self.result(method, session)), headers=headers)

    def result(self, method: str, session: str) -> dict[str, Any] | None:
        match method:
            case "initialize":
                return handshake()
            case "tools/list":
                return tool_list("count")
            case "tools/call":
                self.calls[session] += 1
                return text_result(self.calls[session])
        return None

    def forget(self, session: str) -> None:
        if session in self.calls:
            del self.calls[session]
            self.ended.append(session)


@asynccontextmanager
async def serving(sessions: Sessions) -> AsyncIterator[str]:
    """The address of the server."""
    app = web.Application()
    app.router.add_post("/mcp", sessions.answer)
    app.router.add_delete("/mcp", sessions.answer)
    async with listening(app, shutdown_timeout=0.1) as url:
        yield f"{url}/mcp"
