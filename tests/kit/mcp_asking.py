"""An MCP server over stdio that asks its client what a test wants: the tool ``ask`` sends the request in its arguments.

Its result is the client's answer, as it came. ``capabilities`` shows what the client said it can do.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from typing import Any

from kit.mcp_counter import answer, handshake, tool_list


class Server:
    def __init__(self) -> None:
        self.capabilities: dict[str, Any] = {}
        self.answers: dict[str, queue.Queue[dict[str, Any]]] = {}
        self.lock = threading.Lock()

    def run(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                self.answers[message["id"]].put(message)
            elif "id" in message:
                threading.Thread(target=self.handle, args=(message,), daemon=True).start()

    def handle(self, message: dict[str, Any]) -> None:
        self.send(answer(message["id"], self.result(message["method"], message.get("params") or {})))

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method, params.get("name"):
            case "initialize", _:
                self.capabilities = params["capabilities"]
                return handshake()
            case "tools/list", _:
                return tool_list("ask", "capabilities")
            case "tools/call", "ask":
                return text(self.ask(params["arguments"]))
            case "tools/call", "capabilities":
                return text(self.capabilities)
        return None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """``result`` or ``error`` of the client's answer."""
        with self.lock:
            id = f"ask{len(self.answers)}"
            self.answers[id] = queue.Queue()
        self.send({"jsonrpc": "2.0", "id": id, **request})
        return {key: value for key, value in self.answers[id].get().items() if key in ("result", "error")}

    def send(self, message: dict[str, Any]) -> None:
        with self.lock:
            print(json.dumps(message), flush=True)


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


if __name__ == "__main__":
    Server().run()
