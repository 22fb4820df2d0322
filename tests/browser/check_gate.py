"""Pages of other origins in a real browser: ``check_gate.py CHROMIUM``. They try every route of ``/openapi.json``.

As fetch, form, image, script, link, frame, beacon, event stream and socket. Afterwards engine, tools, models and store
are as they were; the server's own page works, a link opens it, and a page that is named may do what others may not.
"""

from __future__ import annotations

import http.server
import json
import logging
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, aclosing, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.applications import Starlette

from antiphon.engines import ScriptedEngine
from antiphon.observe.logs import ACCESS, AccessLine
from antiphon.playground.site import PLAYGROUND, site_wire
from antiphon.store import SqliteStore
from antiphon.tools import FunctionToolSet, Toolbox, ToolLimits
from kit.api import CALL, END, UNCALL, app, ids, running, token_bytes

HERE = Path(__file__).parent
MESSAGES = [{"role": "user", "content": "hello"}]
CALLS: dict[str, Any] = {"server_tools": ["weather"], "tool_choice": "required"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "the weather"}], "store": True, **CALLS},
    "/v1/chat/completions/{id}": {"metadata": {"a": "b"}},
    "/v1/chat/interactive": {"prompt": "a", "session_id": 7},
    "/v1/completions": {"prompt": "a"},
    "/v1/embeddings": {"input": "a"},
    "/v1/responses": {"input": "a", "store": True},
    "/v1/conversations": {"metadata": {"a": "b"}},
    "/v1/conversations/{id}": {"metadata": {"a": "b"}},
    "/v1/conversations/{id}/items": {"items": [{"type": "message", "role": "user", "content": "a"}]},
    "/v1/messages": {"model": "small", "max_tokens": 9, "messages": MESSAGES},
    "/v1/messages/batches": {
        "requests": [{"custom_id": "a", "params": {"model": "small", "max_tokens": 9, "messages": MESSAGES}}]
    },
    "/v1/templates/try": {"template": "a", "messages": MESSAGES},
    "/v1/templates/check": {"template": "a"},
    "/v1/tokenize": {"prompt": "a"},
    "/api/chat": {"model": "small", "messages": MESSAGES},
    "/api/generate": {"model": "small", "prompt": "a", "keep_alive": 0},
    "/api/pull": {"model": "small"},
    "/api/delete": {"model": "small"},
}
TRANSCRIPT = "<|start|>user<|message|>hello<|end|>\n"


class Counted(ScriptedEngine):
    """An engine that knows how often it was asked."""

    asked = 0

    async def generate(self, prompt: Sequence[int], *rest: Any, **options: Any) -> AsyncGenerator[Any, None]:
        self.asked += 1
        async with aclosing(super().generate(prompt, *rest, **options)) as steps:
            async for step in steps:
                yield step


class Lines(logging.Handler):
    """The lines of the access log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[AccessLine] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert isinstance(record.msg, AccessLine)
        self.lines.append(record.msg)


RAN: list[str] = []


async def weather(city: str) -> str:
    """Tells the weather."""
    RAN.append(city)
    return "rain"


def engine() -> Counted:
    """It calls the tool once where the weather is asked for, and says hello to all else."""
    call = ids(CALL, '\n{"name": "weather", "arguments": {"city": "Rome"}}\n', UNCALL, END)

    def script(prompt: Sequence[int], sampling: object, choice: int) -> list[int]:
        asked = b"".join(map(token_bytes, prompt))
        calls = b"user\nthe weather" in asked and b"<tool_response>" not in asked
        return call if calls else ids("Hello yourself.", END)

    return Counted(script, token_bytes=token_bytes)


@contextmanager
def pages() -> Iterator[int]:
    """The port of a server of empty pages, by any name of this machine."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Another page</title><body></body>")

        def log_message(self, format: str, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def post(base: str, path: str, body: dict[str, Any]) -> Any:
    sent = urllib.request.Request(f"{base}{path}", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(sent) as answer:
        return json.load(answer)


def tries(base: str) -> list[dict[str, Any]]:
    """Each path of the description with each of its methods and a body that would do something, of what is stored."""
    stored = post(base, "/v1/responses", {"input": "hello", "store": True})["id"]
    conversation = post(base, "/v1/conversations", {"metadata": {}})["id"]
    chat = post(base, "/v1/chat/completions", {"messages": MESSAGES, "store": True})["id"]
    names = {"/v1/responses/": stored, "/v1/conversations/": conversation, "/v1/chat/completions/": chat}
    with urllib.request.urlopen(f"{base}/openapi.json") as answer:
        paths = json.load(answer)["paths"]
    found = []
    for path, methods in paths.items():
        id = next((id for place, id in names.items() if path.startswith(place)), "small")
        place = path.replace("{id}", id).replace("{item}", "msg_1")
        for method in methods:
            if method in ("get", "post", "delete"):
                body = TRANSCRIPT if path == "/v1/openchatml" else json.dumps(BODIES.get(path, {"model": "small"}))
                found.append({"path": place, "method": method.upper(), "body": body})
    return found


def records(file: Path) -> list[object]:
    """All that a store has."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [(name, sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"')))) for name in sorted(tables)]


def served(stack: ExitStack, engine: Counted, file: Path, **options: Any) -> tuple[Starlette, str]:
    toolbox = Toolbox([FunctionToolSet([weather])], ToolLimits(deadline=4))
    wires = [PLAYGROUND, site_wire()]
    application = app(engine, wires=wires, tools=toolbox, store=SqliteStore(file), **options)
    return application, stack.enter_context(running(application))


def main(chromium: str) -> int:
    handler, failures = Lines(), list[str]()
    ACCESS.addHandler(handler)
    ACCESS.setLevel(logging.INFO)
    ACCESS.propagate = False
    with ExitStack() as stack:
        folder, port = Path(stack.enter_context(TemporaryDirectory())), stack.enter_context(pages())
        closed, opened = engine(), engine()
        page = f"http://localhost:{port}"
        application, base = served(stack, closed, folder / "closed.db")
        _, named = served(stack, opened, folder / "opened.db", origins=[page], hosts=[])
        tried = tries(base)
        context = application.state.context
        before = (closed.asked, list(RAN), sorted(context.source.loaded), records(folder / "closed.db"))
        others = {page: tried, f"http://127.0.0.1:{port}": tried[::4]}  # Another site, and another port of this one.

        def browse(job: str, **given: Any) -> list[AccessLine]:
            """Runs one part of the script; the requests that came of it."""
            handler.lines.clear()
            given = {"job": job, "base": base, "named": named, **given}
            done = subprocess.run(["node", str(HERE / "gate.mjs"), chromium], input=json.dumps(given), text=True)
            if done.returncode:
                failures.append(f"{job} failed in the browser")
            return list(handler.lines)

        for other, tried in others.items():
            lines = browse("foreign", page=other, tries=tried)
            let_in = sorted({(line.method, line.route, line.status) for line in lines if line.status != 403})
            print(f"{other}: {len(tried)} routes and methods, {len(lines)} requests came, {len(let_in)} were let in")
            if let_in or len(lines) < 8 * len(tried):
                failures.append(f"{other} was let in: {let_in}")
        after = (closed.asked, list(RAN), sorted(context.source.loaded), records(folder / "closed.db"))
        for what, was, is_now in zip(("engine", "tools", "models", "store"), before, after, strict=True):
            if was != is_now:
                failures.append(f"{what} changed: {was!r:.300} … {is_now!r:.300}")
        browse("own", page=page)
        if closed.asked == before[0]:
            failures.append("the playground asked nothing")
        lines = browse("named", page=page)
        if {200} != {line.status for line in lines} or not opened.asked or not RAN:
            failures.append(f"a page that is named was refused: {lines}")
    for failure in failures:
        print(f"FAILED  {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
