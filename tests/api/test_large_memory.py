"""What a large body leaves behind: nothing, not even circles of objects that wait for the garbage collector."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import cycle, islice, product
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import OpenChatML
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.store.sqlite import SqliteStore
from antiphon.tokens import ByteTokenizer
from kit.api import END, START, exchange_bytes, ids, scripted
from kit.waiting import until

SIZE = 300_000
"""Characters; above the limit beyond which a body is worked on beside the event loop."""
LITTLE = SIZE // 4
"""Bytes of small things: what a request logs, counts and caches."""

MESSAGES = '"messages":[{"role":"user","content":@}]'
REPLY = '{"index":0,"finish_reason":"stop","token_ids":@}'
SAID = '{"max_tokens":1,"messages":[{"role":"user","content":"a"}],'
HEAD = 'version: "2.2"\n---\n<|start|>'
ROUTES: dict[str, list[str]] = {
    "/v1/chat/completions": [
        '{"max_tokens":1,' + MESSAGES + "}",
        '{"max_tokens":1,"stream":true,' + MESSAGES + "}",
        '{"max_tokens":1,"session_id":7,' + MESSAGES + "}",
        '{"max_tokens":1,"store":true,' + MESSAGES + "}",
        '{"error_behavior":"truncate","max_tokens":1,' + MESSAGES + "}",
        '{"error_behavior":"truncate","max_tokens":1,"tools":[{"type":"function","function":{"name":"f"}}],'
        + MESSAGES
        + "}",
        '{"messages":[{"role":@,"content":"a"}]}',
        "{" + MESSAGES,
        "@",
        SAID + '"unknown":@}',
        SAID + '"model":@}',
        SAID + '"stop":@}',
        SAID + '"tools":[{"type":"function","function":{"name":"f","description":@}}]}',
        SAID + '"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"string","enum":[@]}}}]}',
        SAID + '"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"const":@}}}}',
    ],
    "/v1/chat/completions/{id}": ['{"metadata":{"a":@}}'],
    "/v1/chat/interactive": ['{"session_id":3,"request_output_len":1,"prompt":@}'],
    "/v1/completions": ['{"max_tokens":1,"prompt":@}', '{"max_tokens":1,"prompt":["a",@]}'],
    "/v1/fim/completions": ['{"max_tokens":1,"prompt":@}'],
    "/v1/infill": ['{"input_prefix":@,"input_suffix":""}', '{"input_prefix":"","input_suffix":"","input_extra":[@]}'],
    "/v1/embeddings": ['{"input":@}', '{"input":["a",@],"error_behavior":"truncate"}'],
    "/v1/tokenize": ['{"prompt":@}', "{" + MESSAGES + "}"],
    "/v1/encode": ['{"input":@}', '{"input":["a",@]}'],
    "/v1/detokenize": ['{"tokens":@}'],
    "/v1/render": ["{" + MESSAGES + "}"],
    "/v1/chat/completions/render": ["{" + MESSAGES + "}"],
    "/v1/completions/render": ['{"prompt":@}'],
    "/v1/messages/render": ['{"model":"small","max_tokens":1,' + MESSAGES + "}"],
    "/v1/responses/render": ['{"input":@}'],
    "/v1/chat/completions/derender": ['{"generate_response":{"request_id":"a","choices":[' + REPLY + "]}}"],
    "/v1/completions/derender": ['{"generate_responses":[{"request_id":"a","choices":[' + REPLY + "]}]}"],
    "/v1/convert": ['{"input":@}', '{"input":@,"from":"chatml","to":"openai"}'],
    "/v1/schemas/check": ['{"schema":{"const":@}}', '{"schema":{},"text":@}'],
    "/v1/templates/check": ['{"template":@}'],
    "/v1/templates/try": ['{"template":@,"messages":[]}', '{"model":"small",' + MESSAGES + "}"],
    "/v1/parse": ['{"text":@}', '{"ids":@}'],
    "/v1/openchatml": [
        HEAD + "user<|message|>@<|end|>\n",
        HEAD + "user<|message|>@",
        HEAD + "user<|message|><|literal|>@<|endliteral|><|end|>",
        HEAD + "user<|message|>a<|end|>@",
        HEAD + "@",
        HEAD + "user<|constrain|>json<|message|>[@<|end|>",
        HEAD + "assistant to=functions.f call_id=a<|channel|>commentary<|constrain|>json<|message|>{@<|call|>",
        'version: "2.2"\nmodel: @\n---\n<|start|>user<|message|>a<|end|>',
        "@",
    ],
    "/v1/openchatml/{id}/cancel": ['{"reason":@}'],
    "/v1/responses": [
        '{"max_output_tokens":1,"store":false,"input":@}',
        '{"max_output_tokens":1,"store":false,"truncation":"auto","tools":[{"type":"function","name":"f"}],"input":@}',
        '{"max_output_tokens":1,"store":false,"input":[{"type":"reasoning","summary":[],"encrypted_content":@}]}',
        '{"max_output_tokens":1,"store":false,"input":"a","instructions":@}',
        '{"max_output_tokens":1,"store":false,"input":"a","metadata":{"a":@}}',
    ],
    "/v1/responses/compact": ['{"model":"small","input":@}', '{"model":"small","input":"a","instructions":@}'],
    "/v1/responses/input_tokens": ['{"input":@}'],
    "/v1/conversations": ['{"items":[{"role":"user","content":@}]}', '{"metadata":{"a":@}}'],
    "/v1/conversations/{id}": ['{"metadata":{"a":@}}'],
    "/v1/conversations/{id}/items": ['{"items":[{"role":"user","content":@}]}'],
    "/v1/messages": [
        '{"model":"small","max_tokens":1,' + MESSAGES + "}",
        '{"model":"small","max_tokens":1,"stream":true,' + MESSAGES + "}",
        '{"model":"small","max_tokens":1,"system":@,"messages":[{"role":"user","content":"a"}]}',
        '{"model":"small","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a",'
        '"name":"f","input":{"x":@}}]}]}',
    ],
    # Those are refused; one that is made runs on behind its answer.
    "/v1/messages/batches": ['{"requests":[{"custom_id":@}]}', '{"requests":[{"custom_id":"a","params":@}]}'],
    "/v1/messages/count_tokens": ['{"model":"small",' + MESSAGES + "}"],
    "/v1/rerank": ['{"query":"a","documents":[@]}', '{"query":@,"documents":["a"]}'],
    "/v1/reranking": ['{"query":"a","documents":[@]}'],
    "/v1/score": ['{"text_1":"a","text_2":@}'],
    "/v1/batches": ['{"input_file_id":@}', '{"metadata":{"a":@}}'],
    "/api/chat": ['{"model":"small",' + MESSAGES + "}", '{"model":@}'],
    "/api/generate": ['{"model":"small","prompt":@}', '{"model":"small","raw":true,"prompt":@}'],
    "/api/embed": ['{"model":"small","input":@}'],
    "/api/embeddings": ['{"model":"small","prompt":@}'],
    "/api/show": ['{"model":@}'],
    "/api/pull": ['{"model":@}'],
}
"""Bodies of each route, with ``@`` for what is large."""
BODILESS = {"/v1/responses/{id}/cancel", "/v1/batches/{id}/cancel", "/v1/messages/batches/{id}/cancel"}
STREAMED = {"/v1/files"}
"""A form that is read piece by piece."""
VALUES: dict[str, Callable[[int], str]] = {
    "a text": lambda size: '"' + "a" * size + '"',
    "characters of four bytes": lambda size: '"' + "😀" * (size // 4) + '"',
    "spelled controls": lambda size: '"' + "<|im_start|>" * (size // 12) + '"',
    "ids": lambda size: "[" + ",".join(["17"] * (size // 3)) + "]",
}
FORMATS: dict[str, Callable[[], Format]] = {
    "chatml": lambda: template_format("chatml", [START, END]),
    "harmony": Harmony,
    "openchatml": OpenChatML,
}


@contextmanager
def nothing_collected() -> Iterator[None]:
    """What is in a circle stays, and every allocation is counted."""
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


KEPT = """
import threading
from pathlib import Path
from antiphon.api import Limits
from antiphon.http.gate.large import LargeWork
from antiphon.http.rules import Rules

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def work(left):
    first = b"a" * 20_000_000
    del first
    second = b"b" * 16_000_000
    left.append(b"c" * 5_000)

LargeWork(Rules(Limits()))
before, left = resident(), []
thread = threading.Thread(target=work, args=(left,))
thread.start()
thread.join()
print(resident() - before)
"""


def test_a_thread_that_worked_on_a_large_body_keeps_none_of_its_memory() -> None:
    """In a process of its own: how memory is allocated is a setting of the process."""
    printed = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True).stdout
    assert int(printed) < 4_000_000


@asynccontextmanager
async def application(name: str, context: int, path: Path) -> AsyncIterator[Starlette]:
    """Over a store on disk: what is stored there is not in memory."""
    format, store = FORMATS[name](), SqliteStore(path)
    tokenizer = ByteTokenizer([START, END, *format.controls])
    engine = scripted(ids("ok"), context=context)
    model = Model(name="small", engine=engine, tokenizer=tokenizer, format=format)
    try:
        yield create_app(StaticCatalog({"small": model}), store=store)
    finally:
        await store.aclose()


def test_every_route_that_takes_a_body_is_tried(tmp_path: Path) -> None:
    app = create_app(StaticCatalog({}))
    posts = {route.path for route in app.routes if isinstance(route, Route) and "POST" in (route.methods or ())}
    own = {path for path in posts if path.startswith(("/v1/", "/api/")) and not path.startswith("/v1/v1/")}
    assert own - BODILESS - STREAMED == set(ROUTES)


@pytest.mark.one_process("the memory of its process")
@pytest.mark.parametrize("path", ROUTES)
async def test_a_large_body_is_gone_when_it_is_answered(path: str, tmp_path: Path) -> None:
    """Each body with one of the values."""
    values = islice(cycle(VALUES.values()), list(ROUTES).index(path), None)
    async with application("chatml", 4096, tmp_path / "store.db") as app:
        for body, value in zip(ROUTES[path], values, strict=False):
            await _leaves_nothing(app, path, body, value)


@pytest.mark.one_process("the memory of its process")
@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        (*read, value)
        for read, value in zip(
            product(FORMATS, ("/v1/render", "/v1/parse", "/v1/openchatml")), cycle(VALUES), strict=False
        )
    ],
)
async def test_a_large_body_that_is_read_through_is_gone_too(name: str, path: str, value: str, tmp_path: Path) -> None:
    """Of a model that has room for it."""
    async with application(name, 4 * SIZE, tmp_path / "store.db") as app:
        await _leaves_nothing(app, path, ROUTES[path][0], VALUES[value])


async def _leaves_nothing(app: Starlette, path: str, body: str, value: Callable[[int], str]) -> None:
    await exchange_bytes(app, path, body.replace("@", value(5_000)).encode(), [])
    large = body.replace("@", value(SIZE)).encode()
    with nothing_collected():
        got = await exchange_bytes(app, path, large, [])
        # The thread that worked on it lets go of it a moment after its result is here.
        await until(lambda: tracemalloc.get_traced_memory()[0] < LITTLE + 2 * len(got.body))
    assert got.status < 500
