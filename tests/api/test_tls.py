"""HTTPS, with a certificate that the test signs itself and clients that check it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect

from antiphon.api import Limits, serve
from antiphon.errors import ConfigError
from antiphon.http.server.server import Certificate, Server, certificate
from kit.api import END, app, ids
from kit.certificates import signed
from kit.waiting import PATIENCE

pytestmark = pytest.mark.one_process("has servers of its own: tests/cli/test_workers.py has TLS for several workers")

REPLY = ids("Paris.", END)


class Https:
    """A server on this test's event loop."""

    def __init__(self, tls: Certificate | None, **options: object) -> None:
        self._ready = asyncio.Event()
        self.server = Server(app(REPLY, **options), tls=tls, on_ready=lambda url: self._ready.set())

    async def __aenter__(self) -> Server:
        self._task = asyncio.create_task(self.server.serve())
        await self._ready.wait()
        return self.server

    async def __aexit__(self, *exc: object) -> None:
        self.server.should_exit = True
        await self._task


async def test_openai_s_client_streams_over_tls(tmp_path: Path) -> None:
    cert, key = signed(tmp_path)
    trusted = ssl.create_default_context(cafile=cert)
    async with Https(certificate(cert, key)) as server, httpx2.AsyncClient(verify=trusted) as http:
        assert server.url.startswith("https://127.0.0.1:")
        client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", http_client=http)
        stream = await client.chat.completions.create(
            model="small", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        assert "".join([event.choices[0].delta.content or "" async for event in stream]) == "Paris."


def status(url: str, trusted: ssl.SSLContext) -> int:
    address = urlsplit(url)
    connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=trusted, timeout=PATIENCE)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status
    finally:
        connection.close()


async def test_a_renewed_certificate_is_presented_to_new_connections(tmp_path: Path) -> None:
    old, new = signed(tmp_path, "old"), signed(tmp_path, "new")
    trust_old, trust_new = (ssl.create_default_context(cafile=pair[0]) for pair in (old, new))
    async with Https(certificate(*old)) as server:
        assert await asyncio.to_thread(status, server.url, trust_old) == 200
        renewed = certificate(*new)
        assert renewed is not None
        server.present(renewed)
        assert await asyncio.to_thread(status, server.url, trust_new) == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(status, server.url, trust_old)


async def test_plain_http_on_a_tls_port_is_no_conversation(tmp_path: Path) -> None:
    async with Https(certificate(*signed(tmp_path))) as server:
        port = urlsplit(server.url).port or 0
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"200" not in await reader.read()
        writer.close()


async def test_limits_of_connections_hold_over_tls(tmp_path: Path) -> None:
    cert, key = signed(tmp_path)
    trusted = ssl.create_default_context(cafile=cert)
    async with Https(certificate(cert, key), limits=Limits(head_timeout=1)) as server:
        port = urlsplit(server.url).port or 0
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
        writer.write(b"GET / HT")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()


def test_half_of_a_pair_and_files_that_are_none_start_no_server(tmp_path: Path) -> None:
    cert, key = signed(tmp_path)
    _, other = signed(tmp_path, "other")
    _, locked = signed(tmp_path, "locked", password=b"secret")
    (tmp_path / "text").write_text("no PEM")
    assert certificate("", "") is None
    for pair in (
        (cert, ""), ("", key), (cert, other), (cert, locked), (key, cert), (cert, str(tmp_path / "none")),
        (str(tmp_path / "text"), key), (str(tmp_path), key),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as refused:
            certificate(*pair)
        assert refused.value.code == "tls"


def test_a_certificate_does_not_stand_for_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        serve(app(REPLY), host="0.0.0.0", tls=certificate(*signed(tmp_path)))
    assert refused.value.code == "keys_missing"


async def test_a_websocket_is_encrypted_like_every_answer(tmp_path: Path) -> None:
    cert, key = signed(tmp_path)
    trusted = ssl.create_default_context(cafile=cert)
    async with Https(certificate(cert, key)) as server:
        address = server.url.replace("https:", "wss:")
        async with connect(f"{address}/v1/responses", ssl=trusted, compression=None) as socket:
            await socket.send('{"type": "response.create", "input": "Capital of France?", "store": false}')
            while "response.completed" not in (frame := await socket.recv(decode=True)):
                pass
    assert '"text":"Paris."' in frame
