"""A client that goes away stops its work at once, wherever it was."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from antiphon.api import Limits
from kit.api import END, app, ids, scripted, serving, wire_bytes
from kit.waiting import quiet, until

ENDLESS = ids("word " * 1500)


async def ask(port: int, **fields: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(wire_bytes("/v1/chat/completions", {"messages": [{"role": "user", "content": "Go on"}], **fields}))
    await writer.drain()
    return reader, writer


@pytest.mark.one_process("reads what its process has counted, and its memory")
async def test_two_hundred_clients_that_hang_up_in_mid_stream_leave_nothing() -> None:
    engine = scripted(ENDLESS, delay=0.002)
    application = app(engine, limits=Limits(max_concurrent=300))
    context = application.state.context

    async def one() -> None:
        reader, writer = await ask(port, stream=True)
        await reader.readuntil(b'"content":"')
        writer.transport.abort()

    async with serving(application) as port:
        await asyncio.gather(*(one() for _ in range(20)))
        await until(lambda: context.traffic.clients_gone == 20 and context.admission.running == 0)
        tasks = len(asyncio.all_tasks())
        engine.requests.clear()
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(4):
                await asyncio.gather(*(one() for _ in range(50)))
                await until(lambda: engine.running == 0 and context.admission.running == 0)
            engine.requests.clear()
            await until(lambda: context.traffic.clients_gone == 220 and len(asyncio.all_tasks()) <= tasks)
            gc.collect()
            allocated, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert engine.running == 0
        assert allocated < 1_000_000
        assert not context.lifecycle.works


async def test_a_client_that_hangs_up_before_a_whole_answer_stops_the_engine() -> None:
    engine = scripted(ENDLESS, delay=0.002)
    application = app(engine)
    async with serving(application) as port:
        _, writer = await ask(port, stream=False)
        await until(lambda: engine.running == 1)
        writer.transport.abort()
        await until(lambda: (engine.running, application.state.context.admission.running) == (0, 0))


async def test_a_client_that_hangs_up_in_the_queue_leaves_it() -> None:
    engine = scripted(ENDLESS, delay=0.002)
    application = app(engine, limits=Limits(max_concurrent=1))
    admission = application.state.context.admission
    async with serving(application) as port:
        _, first = await ask(port, stream=True)
        await until(lambda: engine.running == 1)
        _, second = await ask(port, stream=True)
        await until(lambda: admission.waiting == 1)
        second.transport.abort()
        await until(lambda: admission.waiting == 0)
        first.transport.abort()
        await until(lambda: admission.running == 0)
        assert len(engine.requests) == 1


async def test_a_reader_who_does_not_read_holds_the_engine_back_and_little_memory() -> None:
    received = 0

    def count(id: int) -> bytes:
        nonlocal received
        received += 1
        return b""

    engine = scripted(ids("x" * 200_000, END), context=400_000, chunk=1)
    engine._token_bytes = count
    application = app(engine, limits=Limits(stream_buffer=16 * 1024))
    async with serving(application) as port:
        reader, writer = await ask(port, stream=True, logprobs=True)
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # what a stopped client looks like
        await until(lambda: received > 0)
        await quiet(lambda: received)  # unless the engine is slowed down, an id comes in nearly each round of the loop
        assert 0 < received < 100_000
        assert engine.running == 1
        writer.transport.abort()
        await until(lambda: engine.running == 0)
