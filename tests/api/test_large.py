"""Large requests: refused before work is spent on them, worked on beside the event loop, bounded together."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import Limits, create_app
from antiphon.api.chat.schema import ChatRequest
from antiphon.catalog.static import StaticCatalog
from antiphon.errors import OverloadedError, RequestError
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.http.gate.large import HUGE, SETTLED, LargeWork
from antiphon.http.rules import Rules
from antiphon.tokens import ByteTokenizer, TableTokenizer
from antiphon.tokens.slices import SLICE, between_matches, in_slices
from antiphon.wire.json import decode
from kit.api import END, START, Answered, exchange, ids, in_process_into, post_in_process, request, running, scripted
from kit.waiting import LoopClock, until

CONTEXT = 4096


class Counting(ByteTokenizer):
    """Remembers how long the texts were that it encoded."""

    def __init__(self) -> None:
        super().__init__([START, END])
        self.longest = 0

    def encode(self, text: str) -> list[int]:
        self.longest = max(self.longest, len(text))
        return super().encode(text)


def application(
    tokenizer: ByteTokenizer | TableTokenizer, *, context: int = CONTEXT, delay: float = 0.0, **options: Any
) -> Starlette:
    format = template_format("chatml", tokenizer.controls.keys())
    engine = scripted(ids("ok", END), context=context, delay=delay)
    return create_app(
        StaticCatalog({"small": Model(name="small", engine=engine, tokenizer=tokenizer, format=format)}), **options
    )


def requests_with(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Every route that encodes a text."""
    messages = [{"role": "user", "content": text}]
    described = {"type": "function", "function": {"name": "f", "description": text}}
    return [
        ("/v1/chat/completions", {"messages": messages}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "tools": [described]}),
        ("/v1/chat/completions", {"messages": messages, "session_id": 5}),
        ("/v1/chat/interactive", {"prompt": text, "session_id": 6}),
        ("/v1/completions", {"prompt": text}),
        ("/v1/completions", {"prompt": ["short", text]}),
        ("/v1/responses", {"input": text}),
        ("/v1/responses", {"input": "a", "instructions": text}),
        ("/v1/responses", {"input": text, "truncation": "auto"}),
        ("/v1/responses/input_tokens", {"input": text}),
        ("/v1/tokenize", {"prompt": text}),
        ("/v1/tokenize", {"messages": messages}),
        ("/v1/render", {"messages": messages}),
        ("/v1/parse", {"text": text}),
        ("/serving-endpoints/small/invocations", {"messages": messages}),
    ]


ROUTES = requests_with("")


@pytest.mark.parametrize("number", range(len(ROUTES)), ids=[" ".join((path, *body)) for path, body in ROUTES])
async def test_a_text_that_cannot_fit_is_refused_and_never_encoded(number: int) -> None:
    tokenizer = Counting()
    for text in ("1" * 300_000, " " * 300_000, "😀" * 80_000, "<|im_start|>" * 20_000):
        path, body = requests_with(text)[number]
        refused = await post_in_process(application(tokenizer), path, **body)
        assert refused.status == 400
        code = refused.json.get("error", refused.json).get("code") or refused.json["error_code"]
        assert code in ("context_length_exceeded", "INVALID_PARAMETER_VALUE")
    assert tokenizer.longest <= CONTEXT


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": [65] * 300_000}),
        ("/v1/detokenize", {"tokens": [65] * 300_000}),
        ("/v1/parse", {"ids": [65] * 300_000}),
        ("/v1/parse", {"text": "a", "prompt_ids": [65] * 300_000}),
    ],
)
async def test_more_ids_than_a_context_holds_are_refused(path: str, body: Mapping[str, Any]) -> None:
    refused = await post_in_process(application(Counting()), path, **body)
    assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")


async def test_of_a_prompt_that_may_be_too_long_only_the_beginning_is_encoded() -> None:
    tokenizer = Counting()
    body = {"prompt": "x" * 300_000, "error_behavior": "truncate"}
    answered = await post_in_process(application(tokenizer), "/v1/completions", **body)
    assert (answered.status, answered.json["choices"][0]["text"]) == (200, "")
    assert answered.json["usage"]["prompt_tokens"] == CONTEXT
    assert tokenizer.longest <= CONTEXT


class Sliced:
    """Encodes parts of a text, each only once the event loop has gone round; counts them, and those at once."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.parts = self.rounds = self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        byte = ByteTokenizer([START, END])
        self.tokenizer = TableTokenizer(
            "sliced",
            258,
            controls=byte.controls,
            bytes_of=lambda id: bytes([id]) if id < 256 else b"",
            encode=in_slices(self._encode, between_matches),
        )

    def _encode(self, text: str) -> list[int]:
        if len(text) < SLICE:
            return list(text.encode())
        with self._lock:
            self.parts += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        # From the loop's own thread this would wait for ever: it is the loop that must go round.
        assert threading.current_thread() is not threading.main_thread()
        asyncio.run_coroutine_threadsafe(self._round(), self.loop).result(60)
        with self._lock:
            self.at_once -= 1
        return list(text.encode())

    async def _round(self) -> None:
        self.rounds += 1


@pytest.mark.one_process("its tokenizer waits for the event loop of its process")
async def test_between_the_parts_of_a_text_the_event_loop_goes_round() -> None:
    sliced = Sliced()
    text = "some words " * 40_000
    got = await post_in_process(application(sliced.tokenizer, context=10**6), "/v1/tokenize", prompt=text)
    assert got.json["tokens"] == list(text.encode())
    assert sliced.parts == sliced.rounds >= len(text) // (SLICE + 20)


@pytest.mark.one_process("its tokenizer waits for the event loop of its process")
async def test_huge_requests_are_worked_on_one_after_the_other() -> None:
    sliced = Sliced()
    app = application(sliced.tokenizer, context=10**7)
    text = "some words " * (HUGE // 11 + 1_000)
    work = [post_in_process(app, "/v1/responses/input_tokens", input=text) for _ in range(4)]
    assert [got.status for got in await asyncio.gather(*work)] == [200] * 4
    assert sliced.most_at_once == 1


@pytest.mark.one_process("looks at the bodies and the memory of its process")
async def test_four_huge_requests_at_once_take_little_memory_and_leave_none() -> None:
    app = application(Counting())
    path, body = requests_with("1" * 2_000_000)[0]
    await exchange(app, path, body, [])
    gc.collect()
    gc.disable()  # what is held in a circle would be there until somebody looks
    tracemalloc.start()
    try:
        rest = tracemalloc.get_traced_memory()[0]
        await asyncio.gather(*(exchange(app, path, body, []) for _ in range(4)))
        peak = tracemalloc.get_traced_memory()[1]
        # The thread that worked on the last one lets go of it a moment after its result is here.
        await until(lambda: tracemalloc.get_traced_memory()[0] - rest < 500_000)
    finally:
        tracemalloc.stop()
        gc.enable()
    # Each body once as it was sent, once as it came and once as a text; of one of them the prompt, and its bytes.
    assert peak - rest < 4 * 3 * 2_000_000 + 5 * 2_000_000
    assert app.state.context.large.bytes == 0


@pytest.mark.one_process("looks at the bodies of its process")
async def test_large_bodies_have_room_together_and_small_ones_are_not_counted() -> None:
    app = application(Counting(), delay=0.01, limits=Limits(max_bodies=3 * HUGE, max_concurrent=1))
    large = app.state.context.large
    body = {"unknown": "x" * 2 * HUGE, "messages": [{"role": "user", "content": "Hi"}]}
    sent: Answered = []
    async with app.state.context.admission.slot("other"):  # nobody is let in: what has a body waits with it
        first = asyncio.ensure_future(in_process_into(sent, app, **body))
        await until(lambda: app.state.context.admission.waiting == 1)
        assert large.bytes > 2 * HUGE
        refused = await in_process_into([], app, **body)
        assert (refused.status, refused.error["code"], refused.headers["retry-after"]) == (503, "bodies_full", "1")
        small = asyncio.ensure_future(in_process_into([], app, max_tokens=1))
        await until(lambda: app.state.context.admission.waiting == 2)
    assert [got.status for got in await asyncio.gather(first, small)] == [200, 200]
    assert large.bytes == 0
    assert (await in_process_into([], app, **body)).status == 200


async def test_a_body_without_room_gives_back_what_it_took() -> None:
    large = LargeWork(Rules(Limits(max_bodies=100_000, off_loop_above=10)))
    with large.room() as one, large.room() as other:
        one.take(60_000)
        other.take(8)
        assert large.bytes == 60_000
        other.take(30_000)
        assert large.bytes == 90_008
        with pytest.raises(OverloadedError):
            other.take(20_000)
        assert large.bytes == 90_008
        other.leave()
        assert large.bytes == 60_000
    assert large.bytes == 0


def test_malformed_bodies_are_told_from_one_look_at_them() -> None:
    """A second look, which says where the body is odd, is for bodies of a size that it costs nothing."""
    with running(application(Counting())) as url:
        for size, path in ((10, "x[0]"), (300_000, None)):
            body = b'{"x": [NaN, "%s"], "messages": []}' % (b"a" * size)
            refused = request(url, "POST", "/v1/chat/completions", body, content_type="application/json")
            assert (refused.status, refused.error["code"], refused.error["param"]) == (400, "invalid_json", path)


@pytest.mark.parametrize("at", [0, 1, 131_070, 131_071, 131_072, 131_073, 262_143, 299_999])
@pytest.mark.parametrize("wrong", [b"\xff", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc3"])
def test_the_first_byte_that_is_no_utf8_is_named_wherever_it_is(at: int, wrong: bytes) -> None:
    body = b"a" * at + wrong + b"b" * (300_000 - at - len(wrong))
    with pytest.raises(UnicodeDecodeError) as expected:
        body.decode()
    with pytest.raises(RequestError) as refused:
        decode(body, ChatRequest)
    assert refused.value.message == f"the body is not UTF-8 (byte {expected.value.start})."


def test_characters_across_the_steps_of_the_check_are_characters() -> None:
    text = "é€😀" * 60_000
    wire, _ = decode(b'{"messages": [{"role": "user", "content": "%s"}]}' % text.encode(), ChatRequest)
    assert wire.messages[0].content == text


async def test_where_work_is_done_goes_by_its_size() -> None:
    large = LargeWork(Rules(Limits(off_loop_above=1000)))
    here = threading.current_thread()
    names = []
    for size in (0, 1000, 1001, HUGE, HUGE + 1):
        thread = await large.run(threading.current_thread, size)
        names.append("here" if thread is here else thread.name.rpartition("_")[0])
    large.close()
    assert names == ["here", "here", "asyncio", "asyncio", "large-request"]


async def test_large_bodies_take_room_from_the_limit_on_and_all_of_it() -> None:
    large = LargeWork(Rules(Limits(max_bodies=3000, off_loop_above=1000)))
    with large.room() as one, large.room() as other:
        one.take(1000)
        assert large.bytes == 0
        one.take(1)
        assert large.bytes == 1001
        other.take(1999)
        assert large.bytes == 3000
        with pytest.raises(OverloadedError):
            one.take(1)
        assert large.bytes == 3000
    assert large.bytes == 0
    large.close()


async def test_work_that_waits_when_the_server_ends_is_not_begun() -> None:
    large = LargeWork(Rules(Limits()))
    free, begun = threading.Event(), []

    def work() -> None:
        begun.append(1)
        free.wait()

    first, second = (asyncio.ensure_future(large.run(work, HUGE + 1)) for _ in range(2))
    await until(lambda: begun)
    large.close()
    free.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await second
    assert begun == [1]


async def test_heaps_are_trimmed_once_for_all_who_ask_in_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    large, clock, free = LargeWork(Rules(Limits())), LoopClock(monkeypatch), threading.Event()
    busy = asyncio.ensure_future(large.run(free.wait, HUGE + 1))  # what is asked of the thread meanwhile waits
    asked = []
    for _ in range(2):
        large.settle()
        large.settle()
        await clock.forward(SETTLED)
        asked.append(large._one._work_queue.qsize())
    free.set()
    await busy
    large.close()
    assert asked == [1, 2]


SMALL_BLOCKS = """
import asyncio
import psutil
from antiphon.api import Limits
from antiphon.http.gate.large import HUGE, LargeWork
from antiphon.http.rules import Rules
from kit.waiting import until

def megabytes():
    return psutil.Process().memory_info().rss >> 20

async def main():
    large = LargeWork(Rules(Limits()))
    blocks = [b"x" * 100_000 for _ in range(1000)]
    with large.room() as room:
        room.take(HUGE + 1)
        del blocks[:-1]  # the last one is behind them, so that they are not the end of the heap
        before = megabytes()
    await until(lambda: before - megabytes() > 50)
    large.close()

asyncio.run(main())
"""


def test_what_is_free_between_blocks_goes_back_to_the_system_after_a_huge_request() -> None:
    """50 MB of 100. In a process of its own: how memory is allocated is a setting of the process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", SMALL_BLOCKS]
    subprocess.run(command, check=True, env=environment)
