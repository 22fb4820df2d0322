"""Servers of engines that answer with what is not their protocol, or close connections that rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon.engines import Sampling
from antiphon.engines.vllm import VllmEngine
from antiphon.errors import EngineError, EngineLostError
from antiphon.tokens import ByteTokenizer

MODELS = b'{"data":[{"id":"m","max_model_len":64}]}'
END = b'data: {"choices":[{"index":0,"token_ids":[7],"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ODD = [b"", b"{", b"[]", b"null", b'"no"', b'{"data":7}', b'{"data":[{}]}', b"\xff\xfe", b"<html></html>"]
ODD_CHUNKS = [
    b'{"choices":[{"token_ids":[7],"logprobs":{"tokens":[],"token_logprobs":[]}}]}',
    b'{"choices":[{"token_ids":[7],"logprobs":{"tokens":["x"],"token_logprobs":[-1],"top_logprobs":[{"x":-1}]}}]}',
    b'{"choices":[{"token_ids":[-5]}]}',
    b'{"choices":[{"index":9,"token_ids":[7]}]}',
    b"{}}",
    b'{"choices":7}',
    b'{"choices":[7]}',
    b'{"choices":[{"token_ids":["a"]}]}',
    b'{"choices":\xff}',
]
SAMPLING = Sampling(max_tokens=8, logprobs=1)


class Raw:
    """Answers each request by its path, with status 200; ``closes``: it hangs up as soon as an answer is out.

    ``connections`` counts them; ``drops`` is how many requests are not answered at all.
    """

    def __init__(self, completion: bytes = END, models: bytes = MODELS) -> None:
        self.answers = {b"/v1/models": models, b"/v1/completions": completion}
        self.connections = self.requests = self.drops = 0
        self.closes = False
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._answered(reader, writer):
                pass
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"0")
        await reader.readexactly(int(length))
        self.requests += 1
        if self.drops:
            self.drops -= 1
            return False
        body = self.answers.get(head.split()[1])
        status = b"404 Not Found" if body is None else b"200 OK"
        writer.write(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body or b""), body or b""))
        await writer.drain()
        return not self.closes


@asynccontextmanager
async def running(raw: Raw) -> AsyncIterator[Raw]:
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield raw


@asynccontextmanager
async def engine_of(raw: Raw) -> AsyncIterator[VllmEngine]:
    async with running(raw):
        engine = await VllmEngine.connect(raw.url, tokenizer=ByteTokenizer(), end_ids=frozenset({7}))
        try:
            yield engine
        finally:
            await engine.aclose()


async def said(engine: VllmEngine) -> list[int]:
    return [id async for step in engine.generate([1], SAMPLING) for id in step.ids]


@pytest.mark.parametrize("answer", ODD)
async def test_a_server_of_another_kind_is_not_opened(answer: bytes) -> None:
    with pytest.raises(EngineError):
        async with engine_of(Raw(models=answer)):
            pass


@pytest.mark.parametrize("chunk", ODD_CHUNKS)
async def test_a_stream_that_cannot_be_read_is_the_engines_fault(chunk: bytes) -> None:
    async with engine_of(Raw(b"data: " + chunk + b"\n\n")) as engine:
        with pytest.raises(EngineError):
            await said(engine)


async def test_a_connection_serves_one_request_after_the_other() -> None:
    raw = Raw()
    async with engine_of(raw) as engine:
        opened = raw.connections
        for _ in range(5):
            assert await said(engine) == [7]
        assert raw.connections - opened <= 1


async def test_a_connection_that_the_server_closed_meanwhile_is_opened_anew() -> None:
    raw = Raw()
    async with engine_of(raw) as engine:
        assert await said(engine) == [7]
        raw.closes = True
        for _ in range(5):
            assert await said(engine) == [7]


async def test_a_request_that_meets_a_closing_connection_is_sent_once_more_and_not_again() -> None:
    raw = Raw()
    async with engine_of(raw) as engine:
        assert await said(engine) == [7]
        raw.drops, before = 1, raw.requests
        assert await said(engine) == [7]
        assert raw.requests - before == 2
        raw.drops, before = 100, raw.requests
        with pytest.raises(EngineLostError):
            await said(engine)
        assert raw.requests - before == 2


async def test_the_context_that_ray_s_own_ingress_reports_is_taken() -> None:
    card = b'{"data":[{"id":"m","metadata":{"model_id":"m","max_request_context_length":48}}],"object":"list"}'
    async with running(Raw(models=card)) as raw:
        engine = await VllmEngine.connect(raw.url, tokenizer=ByteTokenizer(), end_ids=frozenset({7}))
        assert engine.info.context == 48
        await engine.aclose()
