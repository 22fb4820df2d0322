"""Clients that are slow, silent or many, on real sockets."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from antiphon.api import Limits
from kit.api import END, app, ids, in_process, scripted, serving
from kit.waiting import LoopClock, until, until_found

ASK = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 200_000}).encode()
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(ASK), ASK)
ENDLESS = ids("word " * 40_000)


async def answer(port: int, sent: bytes = b"") -> bytes:
    """All that the server says until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    received = await reader.read()
    writer.close()
    return received


@pytest.mark.one_process("sets the clock of its event loop forward")
async def test_a_byte_now_and_then_buys_no_time_and_the_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    application = app(ids("ok", END), limits=Limits(head_timeout=1000))
    clock = LoopClock(monkeypatch)
    async with serving(application) as port:
        tricklers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        slow = asyncio.gather(*(reader.read() for reader, _ in tricklers))
        for byte in b"GET /livez HTTP/1.1\r\nx: " + b"a" * 20:
            for _, writer in tricklers:
                writer.write(bytes([byte]))
            await clock.forward(10)
        got = await answer(port, b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 200 ")
        assert not slow.done()
        await clock.forward(600)
        assert all(received.startswith(b"HTTP/1.1 408 ") for received in await slow)
        for _, writer in tricklers:
            writer.close()


@pytest.mark.one_process("reads what its process has counted")
async def test_who_reads_nothing_of_a_stream_is_cut_and_the_slot_is_free() -> None:
    engine = scripted(ENDLESS, context=10**6)
    application = app(engine, limits=Limits(send_timeout=0.2, stream_buffer=4096))
    async with serving(application) as port:
        silent = socket.socket()
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with silent:
            silent.connect(("127.0.0.1", port))
            silent.sendall(REQUEST)
            await until(lambda: engine.requests)
            await until(lambda: engine.running == 0)
    metrics = application.state.context.metrics.render().decode()
    assert 'antiphon_connections_refused_total{code="send_timeout"} 1.0' in metrics
    assert application.state.context.admission.running == 0


@pytest.mark.one_process("sets the clock of its event loop forward")
async def test_who_reads_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = scripted(ids("word " * 4000, END), context=10**6, chunk=5)
    application = app(engine, limits=Limits(send_timeout=750, stream_buffer=4096))
    clock = LoopClock(monkeypatch)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    async with serving(application) as port:
        slow.connect(("127.0.0.1", port))
        slow.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=slow, limit=2048)
        writer.write(REQUEST)
        last = b""
        for _ in range(25):
            last = await reader.readexactly(16384)
            await clock.forward(100)
        while chunk := await reader.read(65536):
            last = (last + chunk)[-100:]
            if b"[DONE]" in last:
                break
        writer.close()
        assert b"data: [DONE]\n\n" in last


@pytest.mark.parametrize("stream", [True, False])
async def test_a_pipelined_request_does_not_hide_that_the_client_hung_up(stream: bool) -> None:
    engine = scripted(ENDLESS, delay=1)
    ask = ASK if stream else ASK.replace(b'"stream": true', b'"stream": false')
    async with serving(app(engine)) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(ask)
        writer.write(head + ask + b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(lambda: engine.running == 1)
        writer.transport.abort()
        await until(lambda: engine.running == 0)


@pytest.mark.one_process("each worker counts its own connections")
async def test_more_connections_than_the_server_takes_are_refused() -> None:
    application = app(ids("ok", END), limits=Limits(max_connections=100))
    async with serving(application) as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        refused = await asyncio.gather(*(answer(port) for _ in range(200)))
        assert {refusal.partition(b"\r\n")[0] for refusal in refused} == {b"HTTP/1.1 503 Service Unavailable"}
        assert all(b"retry-after: 1\r\n" in refusal and b'"too_many_connections"' in refusal for refusal in refused)
        assert (await in_process(application)).status == 200
        for _, writer in idle:
            writer.close()
        live = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"

        async def again() -> bytes | None:
            received = await answer(port, live)
            return received if received.startswith(b"HTTP/1.1 200 ") else None

        await until_found(again)


@pytest.mark.parametrize("count", [3_000])
async def test_one_connection_may_ask_again_and_again(count: int) -> None:
    async with serving(app(ids("ok", END))) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count // 10):
            writer.write(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n" * 10)
            for _ in range(10):
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
                await reader.readuntil(b"}")
        writer.close()
