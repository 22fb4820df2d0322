"""An MCP server with a state, over stdio: it counts its calls. It starts quickly, since it needs nothing but Python."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

PROTOCOL = "2025-06-18"
"""Of before 2026-07-28, when the protocol had sessions."""


def handshake() -> dict[str, Any]:
    """The answer to ``initialize``."""
    about = {"name": "counter", "version": "1"}
    return {"protocolVersion": PROTOCOL, "capabilities": {"tools": {}}, "serverInfo": about}


def tool_list(*names: str) -> dict[str, Any]:
    """The answer to ``tools/list``."""
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}


def text_result(number: int) -> dict[str, Any]:
    """The answer to ``tools/call``."""
    return {"content": [{"type": "text", "text": str(number)}]}


def answer(id: object, result: dict[str, Any] | None, code: int = -32601) -> dict[str, Any]:
    """A response; None: an error of JSON-RPC, by default that there is no such method."""
    error = {"error": {"code": code, "message": "no such method"}}
    return {"jsonrpc": "2.0", "id": id, **(error if result is None else {"result": result})}


class Server:
    """``count``: the calls of this process so far. ``process``: its id. ``refuse``: an error with ``code``.

    ``wait_for``: waits until somebody writes to the named pipe at ``path``; then the same as ``count``.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.lock = threading.Lock()

    def run(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "id" in message:
                threading.Thread(target=self.handle, args=(message,), daemon=True).start()

    def handle(self, message: dict[str, Any]) -> None:
        params = message.get("params") or {}
        code = (params.get("arguments") or {}).get("code", -32601)
        response = json.dumps(answer(message["id"], self.result(message["method"], params), code))
        with self.lock:
            print(response, flush=True)

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method, params.get("name"):
            case "initialize", _:
                return handshake()
            case "tools/list", _:
                return tool_list("count", "process", "wait_for", "refuse")
            case "tools/call", "process":
                return text_result(os.getpid())
            case "tools/call", "count":
                return text_result(self.count())
            case "tools/call", "wait_for":
                path = Path(params["arguments"]["path"])
                path.with_suffix(".begun").touch()
                path.read_bytes()
                return text_result(self.count())
        return None

    def count(self) -> int:
        with self.lock:
            self.calls += 1
            return self.calls


if __name__ == "__main__":
    Server().run()
