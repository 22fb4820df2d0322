"""Which addresses the browser asks, whatever their spelling, their name's resolver, or a redirect says."""

from __future__ import annotations

import gzip
import ipaddress
import socket
import tracemalloc
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from antiphon.tools import ToolFailure
from antiphon.tools.browser import Web, WebLimits
from antiphon.tools.browser.web import checked_url
from antiphon.tools.network import is_public
from kit.waiting import turns

HERE = "127.0.0.1"
ELSEWHERE = "127.0.0.2"
ALLOWED = (ipaddress.ip_network(f"{HERE}/32"),)
"""As if it were the public part of a network that has `ELSEWHERE` as its private part."""

SPECIAL = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32",
    "192.0.0.192/32", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32",
    "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
    "233.252.0.0/24", "240.0.0.0/4", "255.255.255.255/32",
    "::/128", "::1/128", "::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001::/32",
    "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28",
    "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20",
    "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "1000::/4", "4000::/3", "::ffff:0:0:0/96",
]  # fmt: skip
"""Special-purpose ranges of IANA's two registries, multicast, and what was never given out."""

PUBLIC = ["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "172.15.255.255", "172.32.0.0",
          "191.255.255.255", "192.0.1.0", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
          "2001:200::1", "2606:4700:4700::1111", "2a00:1450:4001::1", "2620:4f:8001::"]  # fmt: skip


def spellings(v4: ipaddress.IPv4Address) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """An IPv4 address and the IPv6 addresses that lead to it: mapped, NAT64, compatible, 6to4, Teredo."""
    number = int(v4)
    yield v4
    for prefix in ("::ffff:0:0", "64:ff9b::", "::"):
        yield ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | number)
    yield ipaddress.IPv6Address(0x2002 << 112 | number << 80)
    yield ipaddress.IPv6Address(0x2001_0000 << 96 | number << 64)
    yield ipaddress.IPv6Address(0x2001_0000 << 96 | number ^ 0xFFFFFFFF)


@pytest.mark.parametrize("network", SPECIAL)
def test_no_special_purpose_range_is_public_in_any_spelling(network: str) -> None:
    of = ipaddress.ip_network(network)
    for address in (of[0], of[of.num_addresses // 2], of[-1]):
        ways = spellings(address) if isinstance(address, ipaddress.IPv4Address) else [address]
        for way in ways:
            assert not is_public(way), way
            with pytest.raises(ToolFailure, match="not a public address"):
                checked_url(f"http://{f'[{way}]' if way.version == 6 else way}/")


@pytest.mark.parametrize("text", PUBLIC)
def test_what_lies_beside_those_ranges_is_public(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert is_public(address)
    assert checked_url(f"http://{f'[{text}]' if ':' in text else text}/").host == text
    if isinstance(address, ipaddress.IPv4Address):
        _, mapped, nat64, *_ = spellings(address)
        assert is_public(mapped)
        assert is_public(nat64)


@pytest.mark.parametrize(
    "host", ["１２７.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "[::ffff:7f00:1%25lo]", "127.0.0.1.", "0x7f000001"]
)
def test_an_odd_spelling_of_a_private_address_is_refused(host: str) -> None:
    with pytest.raises(ToolFailure):
        checked_url(f"http://{host}/")


class Names(AbstractResolver):
    """Gives each name its addresses, one after the other, the last for good."""

    def __init__(self, **addresses: list[str]) -> None:
        self.answers = addresses
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self.answers[host.removesuffix(".test")]
        ip = addresses.pop(0) if len(addresses) > 1 else addresses[0]
        return [
            ResolveResult(hostname=host, host=one, port=port, family=socket.AF_INET, proto=6, flags=0)
            for one in ip.split("+")
        ]

    async def close(self) -> None:
        pass


class Sites:
    """Two machines at one port: what each was asked for."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: dict[str, list[str]] = defaultdict(list)

    def url(self, name: str, path: str = "/") -> str:
        return f"http://{name}.test:{self.port}{path}"


Handler = Callable[[Sites, web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def two_sites(handle: Handler) -> AsyncIterator[Sites]:
    sites = Sites(0)

    async def asked(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        here = request.transport.get_extra_info("sockname")[0]
        sites.asked[here].append(request.path)
        return await handle(sites, request)

    app = web.Application()
    app.add_routes([web.get("/{path:.*}", asked)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, HERE, 0).start()
        sites.port = runner.addresses[0][1]
        await web.TCPSite(runner, ELSEWHERE, sites.port).start()
        yield sites
    finally:
        await runner.cleanup()


async def page(sites: Sites, request: web.Request) -> web.StreamResponse:
    if request.path == "/robots.txt":
        return web.Response(status=404)
    return web.Response(text="a page", content_type="text/plain")


async def test_the_resolver_that_is_handed_in_is_the_one_that_is_asked() -> None:
    names = Names(good=[HERE])
    async with two_sites(page) as sites, aclosing(Web(allowed=ALLOWED, names=names)) as browser:
        assert (await browser.open(sites.url("good"))).lines == ("a page",)
        assert (sites.asked, set(names.asked)) == ({HERE: ["/robots.txt", "/"]}, {"good.test"})


@pytest.mark.parametrize(
    ("addresses", "asked"),
    [
        ([ELSEWHERE], []),
        ([HERE, ELSEWHERE], ["/robots.txt"]),
        ([f"{HERE}+{ELSEWHERE}"], []),
        ([f"{ELSEWHERE}+{HERE}"], []),
        (["0.0.0.0"], []),
        (["no address"], []),
    ],
)
async def test_a_name_that_is_rebound_to_a_private_address_is_never_asked_there(
    addresses: list[str], asked: list[str]
) -> None:
    async with two_sites(page) as sites, aclosing(Web(allowed=ALLOWED, names=Names(evil=addresses))) as browser:
        with pytest.raises(ToolFailure, match="not a public address") as caught:
            await browser.open(sites.url("evil"))
        assert caught.value.error.code == "E-BROWSER-REFUSED"
        assert (sites.asked[HERE], sites.asked[ELSEWHERE]) == (asked, [])


async def test_a_name_that_is_rebound_between_two_pages_is_checked_again() -> None:
    names = Names(evil=[HERE, HERE, ELSEWHERE])
    async with two_sites(page) as sites, aclosing(Web(allowed=ALLOWED, names=names)) as browser:
        assert (await browser.open(sites.url("evil"))).lines == ("a page",)
        with pytest.raises(ToolFailure, match="not a public address"):
            await browser.open(sites.url("evil", "/again"))
        assert sites.asked[ELSEWHERE] == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target",
    ["http://inside.test:{port}/x", f"http://{ELSEWHERE}:{{port}}/x", f"//{ELSEWHERE}:{{port}}/",
     "//inside.test:{port}/", f"http://[::ffff:{ELSEWHERE}]:{{port}}/", "http://evil.test:{port}/x", "http://192.0.0.192/"],
)  # fmt: skip
async def test_each_hop_of_a_redirect_is_checked_like_the_first_address(status: int, target: str) -> None:
    async def redirect(sites: Sites, request: web.Request) -> web.StreamResponse:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        return web.Response(status=status, headers={"Location": target.format(port=sites.port)})

    names = Names(good=[HERE], inside=[ELSEWHERE], evil=[HERE, ELSEWHERE])
    async with two_sites(redirect) as sites, aclosing(Web(allowed=ALLOWED, names=names)) as browser:
        with pytest.raises(ToolFailure, match="not a public address"):
            await browser.open(sites.url("good"))
        assert sites.asked[ELSEWHERE] == []


@pytest.mark.parametrize(("status", "reads"), [(401, False), (403, False), (404, True), (410, True), (500, True)])
async def test_robots_that_may_not_be_read_are_a_refusal(status: int, reads: bool) -> None:
    async def robots(sites: Sites, request: web.Request) -> web.StreamResponse:
        return web.Response(status=status) if request.path == "/robots.txt" else await page(sites, request)

    async with two_sites(robots) as sites, aclosing(Web(allowed=ALLOWED, names=Names(good=[HERE]))) as browser:
        if reads:
            assert (await browser.open(sites.url("good"))).lines == ("a page",)
            return
        with pytest.raises(ToolFailure, match="asks robots not to read"):
            await browser.open(sites.url("good"))
        assert sites.asked[HERE] == ["/robots.txt"]


async def test_robots_that_come_in_two_packets_are_read_to_their_end() -> None:
    async def slow(sites: Sites, request: web.Request) -> web.StreamResponse:
        if request.path != "/robots.txt":
            return await page(sites, request)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"User-agent: *\n")
        await turns(200)
        await response.write(b"Disallow: /\n")
        return response

    async with two_sites(slow) as sites, aclosing(Web(allowed=ALLOWED, names=Names(good=[HERE]))) as browser:
        with pytest.raises(ToolFailure, match="asks robots not to read"):
            await browser.open(sites.url("good"))


async def test_a_small_bomb_is_never_unpacked_beyond_the_limit() -> None:
    bomb, limit = gzip.compress(bytes(60_000_000)), 100_000
    assert len(bomb) < 65_536, "it comes as one chunk"

    async def packed(sites: Sites, request: web.Request) -> web.StreamResponse:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        return web.Response(body=bomb, headers={"Content-Type": "text/html", "Content-Encoding": "gzip"})

    web_limits = WebLimits(seconds=60, bytes=limit)
    names = Names(good=[HERE])
    async with two_sites(packed) as sites, aclosing(Web(allowed=ALLOWED, names=names, limits=web_limits)) as browser:
        tracemalloc.start()
        try:
            with pytest.raises(ToolFailure, match="more than 100,000 bytes"):
                await browser.open(sites.url("good"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 20_000_000
