"""Connections to MCP servers of clients: to the address that was checked, under the name that was requested."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiohttp import web

from antiphon.tools.mcp.config import Reach
from antiphon.tools.mcp.http import McpHttpClient, PublicTransport, objection_to_text
from antiphon.tools.mcp.tool_set import function_name
from kit.certificates import signed

HERE = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that says the name under which it was asked."""

    async def host(request: web.Request) -> web.Response:
        return web.Response(text=request.headers["host"])

    application = web.Application()
    application.router.add_get("/", host)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Names:
    """Addresses that a test gives names; the second lookup of a name has others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
        self.answers = list(answers)
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self.look_up)

    async def look_up(self, host: str, port: Any, **options: Any) -> list[Any]:
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in found]


async def got(url: str, networks: Any = HERE) -> str:
    async with httpx2.AsyncClient(transport=PublicTransport(networks)) as client:
        return (await client.get(url)).text


async def test_the_name_is_sent_and_the_address_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, ["127.0.0.1"])
    async with serving() as port:
        assert await got(f"http://pages.example:{port}/") == f"pages.example:{port}"


async def test_the_next_address_is_tried_where_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, ["127.0.0.9", "127.0.0.1"])
    async with serving() as port:
        assert await got(f"http://pages.example:{port}/") == f"pages.example:{port}"


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["127.0.0.1", "10.0.0.1"], ["169.254.169.254"], ["fe80::1%eth0"]])
async def test_a_name_with_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch, addresses: list[str]) -> None:
    Names(monkeypatch, addresses)
    async with serving() as port:
        with pytest.raises(httpx2.ConnectError, match="not a public address"):
            await got(f"http://pages.example:{port}/")


async def test_a_name_without_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(host: str, port: Any, **options: Any) -> list[Any]:
        raise socket.gaierror("unknown")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    with pytest.raises(httpx2.ConnectError, match=r"pages\.example has no address"):
        await got("http://pages.example/")


async def test_a_name_is_looked_up_once_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch, ["127.0.0.1"], ["10.0.0.1"])
    async with serving() as port:
        assert await got(f"http://pages.example:{port}/") == f"pages.example:{port}"
        with pytest.raises(httpx2.ConnectError, match="not a public address"):
            await got(f"http://pages.example:{port}/")
    assert names.answers == [["10.0.0.1"]]


async def test_a_certificate_is_that_of_the_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate, key = signed(tmp_path, host="pages.example")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    Names(monkeypatch, ["127.0.0.1"])
    async with serving(tls) as port:
        assert await got(f"https://pages.example:{port}/") == f"pages.example:{port}"
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            await got(f"https://other.example:{port}/")


async def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    Names(monkeypatch, ["127.0.0.1"])
    async with serving() as port:
        assert await got(f"http://pages.example:{port}/") == f"pages.example:{port}"


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "ftp://example.com/", "http://", "http://u@example.com/", "http://@example.com/", "http://127.0.0.1/",
        "http://127.1/", "http://2130706433/", "http://0x7f.1/", "http://[::ffff:10.0.0.1]/", "http://[::1]/",
        "http://example.com:22/", "http://example.com\\@10.0.0.1/", "http://a b/", "http://[", "http://example.com:99999/",
        "http://" + "x" * 5000,
    ],
)  # fmt: skip
def test_an_address_that_may_not_be_connected_to_is_seen_before(url: str) -> None:
    assert objection_to_text(url)


@pytest.mark.parametrize(
    "url", ["https://example.com/mcp", "http://example.com:8080", "https://[2606:4700::1111]/mcp?a=b"]
)
def test_public_addresses_may_be_connected_to(url: str) -> None:
    assert objection_to_text(url) is None


async def test_a_body_is_read_up_to_its_limit_and_no_further() -> None:
    async with serving() as port:
        host = f"127.0.0.1:{port}"
        async with McpHttpClient("far", reach=Reach(body=len(host))) as client:
            assert (await client.get(f"http://{host}/")).text == host
        async with McpHttpClient("far", reach=Reach(body=len(host) - 1)) as client:
            with pytest.raises(httpx2.RemoteProtocolError, match="longer than"):
                await client.get(f"http://{host}/")


def test_tools_have_names_that_a_function_may_have_and_none_has_another_ones() -> None:
    plain = function_name("pages", "size")
    odd = [function_name("pages", name) for name in ("si ze", "si!ze", "si_ze", "x" * 64, "x" * 65, "", "é", "\ud800")]
    assert plain == "pages__size"
    assert len(set(odd)) == len(odd)
    assert all(len(name) <= 64 and name.replace("-", "").replace("_", "").isalnum() for name in odd)
