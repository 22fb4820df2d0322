"""An MCP server over streamable HTTP that a client of ours names: pages that are measured and erased.

``mcp_remote.py`` serves it in a process of its own until its standard input ends, and prints its address.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kit.waiting import PATIENCE


@dataclass(slots=True)
class Remote:
    """What the server was sent: its messages by their method, the headers of each, and the pages that it erased."""

    methods: Counter[str] = field(default_factory=Counter)
    headers: list[dict[str, str]] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)
    secret: str = ""
    """Without it as a bearer's token every request is a 401, where there is one."""

    @property
    def app(self) -> Starlette:
        application: Starlette = self._server().streamable_http_app()
        application.add_middleware(_Watching, remote=self)
        return application

    def _server(self) -> MCPServer:
        server = MCPServer("pages")

        @server.tool(annotations=ToolAnnotations(read_only_hint=True))
        def size(page: str) -> str:
            """The size of a page."""
            return f"{len(page)} letters"

        @server.tool()
        def erase(page: str) -> str:
            """Erases a page."""
            if page == "missing":
                raise ToolError("no such page")
            self.erased.append(page)
            return f"{page} is erased"

        return server


class _Watching:
    def __init__(self, app: ASGIApp, remote: Remote) -> None:
        self._app = app
        self._remote = remote

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self._remote.headers.append(headers)
        if self._remote.secret and headers.get("authorization") != f"Bearer {self._remote.secret}":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return

        async def noted() -> Message:
            message = await receive()
            if body := message.get("body"):
                self._remote.methods[str(json.loads(body).get("method"))] += 1
            return message

        await self._app(scope, noted, send)


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals stay the test's."""
        yield


@contextmanager
def serving(remote: Remote) -> Iterator[str]:
    """The address of the server."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = _Quiet(uvicorn.Config(remote.app, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


if __name__ == "__main__":
    with serving(Remote()) as url:
        print(url, flush=True)
        sys.stdin.read()
