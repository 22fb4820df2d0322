"""Arguments are checked by the schema of their tool, which somebody else may have written."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from antiphon.conversation import JsonSchema
from antiphon.tools import Router, ToolCall, ToolOutput


class Described:
    """A tool whose schema came from elsewhere."""

    recipient = "functions.f"
    description = "F."

    def __init__(self, parameters: JsonSchema) -> None:
        self.parameters = parameters

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        return ToolOutput(content="ran")


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """The address of a server, and the paths that it is asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "object"}')

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", paths
        server.shutdown()
        thread.join()


async def test_nothing_that_a_schema_refers_to_is_fetched(asked: tuple[str, list[str]]) -> None:
    address, paths = asked
    router = Router([Described({"type": "object", "properties": {"a": {"$ref": f"{address}/schema.json"}}})])
    reply = await router.call(ToolCall(call_id="c", recipient="functions.f", body='{"a": {}}'))
    assert reply.error is not None
    assert reply.error.code == "E-TOOL-FAILED"
    assert paths == []


async def test_a_schema_that_is_none_fails_its_own_calls_alone() -> None:
    good, bad = Described({"type": "object"}), Described({"type": "nothing"})
    bad.recipient = "functions.g"
    router = Router([good, bad])
    replies = [
        await router.call(ToolCall(call_id=str(i), recipient=tool.recipient, body="{}"))
        for i, tool in enumerate((good, bad))
    ]
    assert [reply.error and reply.error.code for reply in replies] == [None, "E-TOOL-FAILED"]
