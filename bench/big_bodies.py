"""Bodies of 8 MB on every route, four at once: what each is answered, and how the server fares meanwhile.

python bench/big_bodies.py [--size 8000000] [--at-once 4] [--routes chat,tokenize] [--bodies digits,blanks] [--scripted]

Serves the default model (with --scripted: one of single bytes over a scripted engine) in a process of its own and asks
for /health all the while. A row for each route and body: the statuses; of a hundred waits for /health the second
longest, beside that of a server at rest, which tells how busy the machine is; the memory of the server (its engine has
a process of its own): the most above rest, and what is left of that when it is over. Limits: 100 ms above the server at
rest, 400 MB, 10 %.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import aiohttp
import psutil

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.http.server.server import Server
from antiphon.tokens import ByteTokenizer, Control

MOST_WAIT, MOST_MEMORY, MOST_LEFT = 0.1, 400e6, 0.1
SETTLING = 1.5
Made = Callable[[int], bytes]


def repeated(text: str) -> Made:
    written = json.dumps(text, ensure_ascii=False).encode()[1:-1]
    return lambda size: b'"' + written * (size // len(written)) + b'"'


def invalid(size: int) -> bytes:
    return b'"' + bytes(range(0x80, 0x100)) * (size // 0x80) + b'"'


def ids(size: int) -> bytes:
    return b"[" + b",".join([b"17"] * (size // 3)) + b"]"


BODIES: dict[str, Made] = {
    "digits": repeated("1"),
    "letter": repeated("a"),
    "words": repeated("the quick brown fox "),
    "blanks": repeated(" "),
    "newlines": repeated("\n"),
    "emoji": repeated("😀"),
    "accents": repeated("e\u0301"),
    "mixed": lambda size: json.dumps("x" * (size - 10) + "😀", ensure_ascii=False).encode(),
    "controls": repeated("<|im_start|>"),
    "tags": repeated('<think>{{ x }}<tool_call>{"a":'),
    "invalid": invalid,
    "ids": ids,
}
"""The JSON value that stands for the text."""


VALUE = "@"
"""Stands for the value in the bodies below."""
CHAT = '{"max_tokens":1,"messages":[{"role":"user","content":"a"}],'
MESSAGES = '{"model":"smollm2","max_tokens":1,'
USER = '"messages":[{"role":"user","content":@}]'
SCHEMA = '"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"const":@}}}}'
ROUTES: dict[str, tuple[str, str]] = {
    "chat": ("/v1/chat/completions", '{"max_tokens":1,' + USER + "}"),
    "chat tools": (
        "/v1/chat/completions",
        CHAT + '"tools":[{"type":"function","function":{"name":"f","description":@}}]}',
    ),
    "chat schema": ("/v1/chat/completions", CHAT + SCHEMA),
    "chat stop": ("/v1/chat/completions", CHAT + '"stop":@}'),
    "chat unknown": ("/v1/chat/completions", CHAT + '"unknown":@}'),
    "chat truncate": ("/v1/chat/completions", '{"error_behavior":"truncate",' + USER + "}"),
    "chat session": ("/v1/chat/completions", '{"max_tokens":1,"session_id":7,' + USER + "}"),
    "interactive": (
        "/v1/chat/interactive",
        '{"request_output_len":1,"session_id":3,"interactive_mode":true,"prompt":@}',
    ),
    "completions": ("/v1/completions", '{"max_tokens":1,"prompt":@}'),
    "responses": ("/v1/responses", '{"max_output_tokens":1,"input":@}'),
    "instructions": ("/v1/responses", '{"max_output_tokens":1,"input":"a","instructions":@}'),
    "input_tokens": ("/v1/responses/input_tokens", '{"input":@}'),
    "conversations": ("/v1/conversations", '{"items":[{"role":"user","content":@}]}'),
    "embeddings": ("/v1/embeddings", '{"input":@}'),
    "embed cut": ("/v1/embeddings", '{"error_behavior":"truncate","input":@}'),
    "tokenize": ("/v1/tokenize", '{"prompt":@}'),
    "tokenize chat": ("/v1/tokenize", "{" + USER + "}"),
    "detokenize": ("/v1/detokenize", '{"tokens":@}'),
    "render": ("/v1/render", "{" + USER + "}"),
    "parse": ("/v1/parse", '{"text":@}'),
    "parse ids": ("/v1/parse", '{"ids":@}'),
    "invocations": ("/serving-endpoints/MODEL/invocations", '{"max_tokens":1,' + USER + "}"),
    "openchatml": ("/v1/openchatml", 'version: "2.2"\n<|start|>user<|message|>@<|end|>\n'),
    "compact": ("/v1/responses/compact", '{"model":"smollm2","max_output_tokens":1,"input":@}'),
    "messages": ("/v1/messages", MESSAGES + USER + "}"),
    "messages system": ("/v1/messages", MESSAGES + '"system":@,"messages":[{"role":"user","content":"a"}]}'),
    "messages tools": (
        "/v1/messages",
        MESSAGES
        + '"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f","description":@,"input_schema":{}}]}',
    ),
    "messages call": (
        "/v1/messages",
        MESSAGES
        + '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"a",'
        '"name":"f","input":{"x":@}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}',
    ),
    "count_tokens": ("/v1/messages/count_tokens", '{"model":"smollm2",' + USER + "}"),
    "rerank": ("/v1/rerank", '{"query":"a","documents":["b",@]}'),
    "rerank query": ("/v1/rerank", '{"query":@,"documents":["b","c"]}'),
    "rerank cut": ("/v1/rerank", '{"query":"a","documents":[@],"truncate_prompt_tokens":16}'),
    "score": ("/v1/score", '{"text_1":"a","text_2":@}'),
    "ollama": ("/api/chat", '{"model":"smollm2","stream":false,"options":{"num_predict":1},' + USER + "}"),
    "ollama cut": ("/api/chat", '{"model":"smollm2","stream":false,"truncate":true,' + USER + "}"),
    "ollama text": ("/api/generate", '{"model":"smollm2","stream":false,"prompt":@}'),
    "ollama raw": ("/api/generate", '{"model":"smollm2","stream":false,"raw":true,"prompt":@}'),
    "ollama embed": ("/api/embed", '{"model":"all-minilm-l6-v2","input":@}'),
    "ollama model": ("/api/show", '{"model":@}'),
    "batch": ("/v1/batches", '{"input_file_id":@,"endpoint":"/v1/responses","completion_window":"24h"}'),
    "malformed": ("/v1/chat/completions", '{"messages":[{"role":"user","content":@}'),
    "bare": ("/v1/chat/completions", "@"),
}


def body_of(route: str, name: str, size: int) -> bytes:
    before, after = ROUTES[route][1].split(VALUE)
    value = BODIES[name](size)
    return before.encode() + (value[1:-1] if route == "openchatml" else value) + after.encode()


def serve_scripted() -> None:
    tokenizer = ByteTokenizer([Control("<|im_start|>"), Control("<|im_end|>")])
    format = template_format("chatml", tokenizer.controls.keys())
    model = Model(name="smollm2", engine=ScriptedEngine([ord("a")] * 10), tokenizer=tokenizer, format=format)
    app = create_app(StaticCatalog({"smollm2": model}))
    Server(app, on_ready=lambda url: print(json.dumps({"url": url}), flush=True)).run()


Served = tuple[str, psutil.Process]


@contextmanager
def served(*, scripted: bool) -> Iterator[Served]:
    program = [sys.executable, "-c", "from antiphon.cli import main; main()"]
    own = [*program, "serve", "--model", "smollm2", "--port", "0", "--json", "--no-access-log"]
    command = [sys.executable, __file__, "--serve"] if scripted else own
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        printed = ""
        while "}" not in printed:
            printed += next(child.stdout)
        yield json.loads(printed)["url"], psutil.Process(child.pid)
    finally:
        child.terminate()
        child.wait(60)


@dataclass(slots=True)
class Waits:
    """For /health of one server."""

    url: str
    seconds: list[float] = field(default_factory=list)

    async def watch(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                start = time.perf_counter()
                async with session.get(f"{self.url}/health") as answer:
                    await answer.read()
                self.seconds.append(time.perf_counter() - start)
                await asyncio.sleep(0.01)

    @property
    def long(self) -> float:
        return statistics.quantiles(self.seconds, n=100)[98]


@dataclass(slots=True)
class Memory:
    process: psutil.Process
    most: int = 0

    @property
    def now(self) -> int:
        return int(self.process.memory_info().rss)

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def beside(*works: Coroutine[None, None, None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def status_of(session: aiohttp.ClientSession, url: str, route: str, body: bytes) -> int:
    """The status. What a conversation has stored is deleted."""
    address = url + ROUTES[route][0].replace("MODEL", "smollm2")
    async with session.post(address, data=body, headers={"content-type": "application/json"}) as answer:
        content = await answer.read()
        status = answer.status
    if route == "conversations" and status == 200:
        await (await session.delete(f"{url}/v1/conversations/{json.loads(content)['id']}")).read()
    return status


async def row(server: Served, rest_url: str, route: str, name: str, options: argparse.Namespace) -> bool:
    (url, process), body = server, body_of(route, name, options.size)
    memory, waits, quiet = Memory(process), Waits(url), Waits(rest_url)
    rest = memory.now
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(300)) as session,
        beside(waits.watch(), quiet.watch(), memory.watch()),
    ):
        start = time.perf_counter()
        statuses = await asyncio.gather(*(status_of(session, url, route, body) for _ in range(options.at_once)))
        took = time.perf_counter() - start
        await asyncio.sleep(SETTLING)
    peak, left = memory.most - rest, memory.now - rest
    good = waits.long - quiet.long < MOST_WAIT and peak < MOST_MEMORY and left < MOST_LEFT * rest
    shown = " ".join(map(str, sorted(set(statuses))))
    print(
        f"{route:15}{name:10}{shown:>8}{took:8.1f} s{waits.long * 1e3:8.0f}{quiet.long * 1e3:8.0f} ms"
        f"{peak / 1e6:+9.0f}{left / 1e6:+7.0f} MB{'' if good else '  !'}",
        flush=True,
    )
    return good


async def warm(url: str) -> None:
    """What the first request of a kind loads is no cost of its size."""
    async with aiohttp.ClientSession() as session:
        for route in ROUTES:
            for name in ("letter", "ids"):
                await status_of(session, url, route, body_of(route, name, 40_000))


async def main(options: argparse.Namespace) -> bool:
    good = True
    with served(scripted=options.scripted) as server, served(scripted=True) as (rest_url, _):
        await warm(server[0])
        await asyncio.sleep(SETTLING)
        print(f"{options.at_once} at once of {options.size} bytes; at rest {Memory(server[1]).now / 1e6:.0f} MB")
        print(f"{'route':15}{'body':10}{'status':>8}{'took':>10}{'p99':>8}{'at rest':>8}   {'peak':>9}{'left':>7}")
        for route in options.routes:
            for name in options.bodies:
                good &= await row(server, rest_url, route, name, options)
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=8_000_000)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--routes", type=lambda names: names.split(","), default=list(ROUTES))
    parser.add_argument("--bodies", type=lambda names: names.split(","), default=list(BODIES))
    parser.add_argument("--scripted", action="store_true")
    parser.add_argument("--serve", action="store_true")
    given = parser.parse_args()
    if given.serve:
        serve_scripted()
    else:
        sys.exit(not asyncio.run(main(given)))
