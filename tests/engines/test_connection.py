"""A client's connections to servers of engines: what ends a reply, what ends a connection, and what is buffered."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import antiphon.engines.http
from antiphon.engines.http import HttpClient, failed
from antiphon.errors import UNREACHABLE, ConfigError, EngineError, EngineLostError, OverloadedError, RequestError
from kit.certificates import signed
from kit.waiting import turns, until

HEAD = b"HTTP/1.1 200 OK\r\n"
HI = HEAD + b"content-length: 2\r\n\r\nhi"


class Server(asyncio.Protocol):
    """Answers each request by what `answer` does with the transport."""

    answer: Callable[[asyncio.Transport], None]
    """Of this kind of server."""
    made: list[Server]

    def __init__(self) -> None:
        self.paused = asyncio.Event()
        self.lost = asyncio.Event()
        self.requests = b""
        self.made.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.requests += data
        if self.requests.endswith(b"\r\n\r\n"):
            type(self).answer(self.transport)

    def pause_writing(self) -> None:
        self.paused.set()

    def resume_writing(self) -> None:
        self.paused.clear()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()


def answering(*parts: bytes, ends: bool = False) -> type[Server]:
    """Servers that answer each request with the parts; ``ends``: and hang up."""

    def answer(transport: asyncio.Transport) -> None:
        transport.writelines(parts)
        if ends:
            transport.close()

    return type("Answering", (Server,), {"answer": staticmethod(answer), "made": []})


@asynccontextmanager
async def client_of(kind: type[Server], *, limit: float | None = None) -> AsyncIterator[HttpClient]:
    server = await asyncio.get_running_loop().create_server(kind, "127.0.0.1", 0)
    async with server:
        client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", streams=4, limit=limit)
        try:
            yield client
        finally:
            await client.aclose()


def refuse(status: int, body: bytes) -> Exception:
    return RequestError(f"{status} {body.decode()}")


async def got(client: HttpClient) -> bytes:
    async with client.open_reply("GET", "/a", None, refuse) as reply:
        return await reply.read()


@pytest.mark.parametrize(
    "parts",
    [
        (HI,),
        (b"HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n", HI),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nh\r\n1\r\ni\r\n0\r\n\r\n"),
    ],
    ids=["length", "interim", "chunks"],
)
async def test_a_reply_has_an_end_after_which_its_connection_serves_the_next(parts: tuple[bytes, ...]) -> None:
    kind = answering(*parts)
    async with client_of(kind) as client:
        assert [await got(client) for _ in range(3)] == [b"hi"] * 3
    assert len(kind.made) == 1


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    kind = answering(HEAD + b"\r\n", b"h", b"i", ends=True)
    async with client_of(kind) as client:
        assert [await got(client) for _ in range(2)] == [b"hi"] * 2
    assert len(kind.made) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        HEAD + b"content-length: 3\r\n\r\nhi",
        HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\nhi",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\nhi",
    ],
)
async def test_a_reply_that_breaks_off_or_is_not_http_is_lost(answer: bytes) -> None:
    async with client_of(answering(answer, ends=True)) as client:
        with pytest.raises(EngineLostError):
            await got(client)


async def test_a_refusal_is_read_and_its_connection_serves_the_next() -> None:
    kind = answering(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno")
    async with client_of(kind) as client:
        for _ in range(2):
            with pytest.raises(RequestError, match="400 no"):
                await got(client)
    assert len(kind.made) == 1


@pytest.mark.parametrize("answer", [HI + HI, HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\nhi"])
async def test_a_connection_with_more_than_the_reply_or_its_last_serves_no_other(answer: bytes) -> None:
    kind = answering(answer)
    async with client_of(kind) as client:
        assert [await got(client) for _ in range(2)] == [b"hi"] * 2
    assert len(kind.made) == 2


async def test_who_leaves_a_reply_hangs_up() -> None:
    kind = answering(HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")
    async with client_of(kind) as client:
        async with client.open_reply("GET", "/a", None, refuse) as reply:
            assert await anext(reply) == b"hi"
        await kind.made[0].lost.wait()


STREAM = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n"


async def test_the_end_of_a_reply_that_was_read_may_come_later_and_its_connection_serves_the_next() -> None:
    kind = answering(STREAM)
    async with client_of(kind) as client:
        for _ in range(3):
            async with client.open_reply("GET", "/a", None, refuse) as reply:
                assert await anext(reply) == b"hi"
                reply.is_whole = True
            kind.made[0].transport.write(b"0\r\n\r\n")
            await turns(100)
    assert len(kind.made) == 1


async def test_a_reply_that_was_read_and_does_not_end_hangs_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(antiphon.engines.http, "_AT_ONCE", 0.01)
    kind = answering(STREAM)
    async with client_of(kind) as client:
        async with client.open_reply("GET", "/a", None, refuse) as reply:
            reply.is_whole = True
        await kind.made[0].lost.wait()


async def test_a_server_waits_for_a_reader_that_is_slow() -> None:
    size = 2**26
    kind = answering(HEAD + b"content-length: %d\r\n\r\n" % size, bytes(size))
    async with client_of(kind) as client, client.open_reply("GET", "/a", None, refuse) as reply:
        await anext(reply)
        await kind.made[0].paused.wait()
        await turns(1000)
        assert kind.made[0].paused.is_set()
        assert len(await anext(reply)) < size / 8
        assert len(await reply.read()) > size / 2
        assert not kind.made[0].paused.is_set()


async def test_a_client_that_is_closed_ends_what_is_read() -> None:
    async def closed_meanwhile() -> None:
        async with client.open_reply("GET", "/a", None, refuse) as reply:
            assert await anext(reply) == b"hi"
            await asyncio.gather(reply.read(), client.aclose())

    async with client_of(answering(HEAD + b"\r\nhi")) as client:
        with pytest.raises(EngineLostError):
            await closed_meanwhile()
        with pytest.raises(EngineLostError):
            await got(client)


async def test_what_was_read_of_a_reply_that_is_closed_here_is_not_all_of_it() -> None:
    async def closed_before() -> None:
        async with client.open_reply("GET", "/a", None, refuse) as reply:
            assert await anext(reply) == b"hi"
            await client.aclose()
            await turns(3)
            await anext(reply)

    async with client_of(answering(HEAD + b"\r\nhi")) as client:
        with pytest.raises(EngineLostError):
            await closed_before()


async def test_a_call_has_its_limit_of_time() -> None:
    async with client_of(answering(b"HTTP/1.1 200 OK\r\n"), limit=0.01) as client:
        with pytest.raises(EngineLostError):
            await got(client)


async def test_no_more_replies_than_streams_are_open_at_once() -> None:
    kind = answering(HEAD + b"\r\n")
    async with client_of(kind) as client:
        waiting = [asyncio.ensure_future(got(client)) for _ in range(6)]
        await until(lambda: len(kind.made) == 4 and all(server.requests for server in kind.made))
        await turns(100)
        assert len(kind.made) == 4
        waiting[0].cancel()
        await until(lambda: len(kind.made) == 5)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_server_over_tls_is_taken_where_its_certificate_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, key = signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(trusted, key)
    server = await asyncio.get_running_loop().create_server(answering(HI), "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        with pytest.raises(OverloadedError) as refused:
            await got(HttpClient(url, streams=1))
        assert refused.value.code == UNREACHABLE
        monkeypatch.setenv("SSL_CERT_FILE", trusted)
        client = HttpClient(url, streams=1)
        assert await got(client) == b"hi"
        await client.aclose()


async def test_a_server_that_redirects_is_an_error_that_says_so() -> None:
    moved = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
    async with client_of(answering(moved)) as client:
        with pytest.raises(EngineError, match=r"redirects \(307\)"):
            async with client.open_reply("GET", "/", None, lambda status, body: failed(status, body.decode())):
                pass


def test_a_server_of_another_kind_is_told_as_one() -> None:
    error = failed(404, "Unknown URL: GET /props.")
    assert (error.message, error.hint) == (
        "the engine's server has no such route (404)",
        "Is the engine's kind the server's?",
    )


@pytest.mark.parametrize("key", ["a\r\nx-injected: 1", "k\u00e9y", "a\x00"])
async def test_a_key_that_no_header_can_have_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="printable"):
        HttpClient("http://127.0.0.1:1", streams=1, key=key)


@pytest.mark.parametrize("url", ["http://user:secret@127.0.0.1:{}", "http://127.0.0.1:{}/a b/"])
async def test_a_request_names_the_host_and_no_secret_of_the_url(url: str) -> None:
    kind = answering(HI)
    async with await asyncio.get_running_loop().create_server(kind, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = HttpClient(url.format(port), streams=1)
        assert await got(client) == b"hi"
        await client.aclose()
    (served,) = kind.made
    assert b"\r\nhost: 127.0.0.1:%d\r\n" % port in served.requests
    assert b"secret" not in served.requests
