"""The web: plain HTTP, guarded against requests that a page or a model would like us to make for them."""

from __future__ import annotations

import asyncio
import codecs
import re
import socket
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol
from urllib.robotparser import RobotFileParser

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from antiphon.structs import ready
from antiphon.tools.call import ToolFailure
from antiphon.tools.network import Network, is_public, is_readable, literal, objection

from .page import Hit, Page, html_page, refused, text_page, unreachable

# Which addresses may be fetched: public ones, over HTTP, spelled so that nobody can read them two ways.


def checked_url(text: str, allowed: Sequence[Network] = ()) -> URL:
    """The URL, parsed by the very parser that connects. Raises a tool failure for one that may not be fetched."""
    if not is_readable(text):
        raise refused("the address is too long or has blanks, control characters or backslashes")
    try:
        url = URL(text)
        host, port = url.host, url.port
    except ValueError as error:
        raise refused(f"{text!r} is not an address") from error
    if url.scheme in ("http", "https") and (not host or url.user or url.password or "@" in url.authority):
        raise refused("the address must have a host and no user")
    if (reason := objection(url.scheme, host or "", port, allowed)) is not None:
        raise refused(reason)
    return url.with_fragment(None)


class PublicResolver(AbstractResolver):
    """Resolves names for the connection itself and refuses every address that is not public.

    The address that was checked is the one that is connected to, so a name cannot change in between (DNS rebinding).
    ``names`` looks names up; the machine's own resolver does where it is None.
    """

    def __init__(self, allowed: Sequence[Network] = (), names: AbstractResolver | None = None) -> None:
        self._inner = names or ThreadedResolver()
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        for result in found:
            address = literal(result["host"])
            if address is None or not is_public(address, self._allowed):
                raise refused(f"{host} is not a public address")
        return found

    async def close(self) -> None:
        await self._inner.close()


AGENT = "antiphon-browser"
PAGES = ("text/", "application/xhtml+xml", "application/json")
"""How the types of pages begin."""
MAX_ROBOTS = 500_000
MAX_RESULTS = 2_000_000
"""Bytes of a search service's answer; more than that is no JSON any longer."""
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset=["']?([\w-]{1,40})""", re.I)
_WEB_CODECS = frozenset(
    {
        "ascii", "big5", "big5hkscs", "cp866", "cp874", "cp932", "cp949", "cp950", "euc_jp", "euc_kr", "gb18030",
        "gb2312", "gbk", "iso2022_jp", "koi8-r", "koi8-u", "mac-cyrillic", "mac-roman", "shift_jis", "tis-620",
        "utf-16", "utf-16-be", "utf-16-le", "utf-8", "utf-8-sig", *(f"cp{number}" for number in range(1250, 1259)),
        *(f"iso8859-{number}" for number in range(1, 17)),
    }
)  # fmt: skip
"""The encodings of pages, as Python calls them. It has others whose time grows with the square of a page (punycode)."""


class WebLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``seconds`` for a page with all its redirects; ``bytes`` of a page, unpacked."""

    seconds: float = 20.0
    bytes: int = 3_000_000
    redirects: int = 5
    robots_cached: int = 256


class Fetched(msgspec.Struct, frozen=True):
    """The answer of an address: where it was in the end, its type without parameters, and its ``charset``."""

    url: str
    kind: str
    body: bytes
    charset: str | None


class Search(Protocol):
    """A search service."""

    async def search(self, session: aiohttp.ClientSession, query: str, topn: int) -> Sequence[Hit]: ...


class SearxNG(msgspec.Struct, frozen=True):
    """A SearxNG instance, whose address the operator gives (and vouches for)."""

    url: str

    async def search(self, session: aiohttp.ClientSession, query: str, topn: int) -> Sequence[Hit]:
        async with session.get(URL(self.url) / "search", params={"q": query, "format": "json"}) as response:
            body = await _start_of(response.content, MAX_RESULTS)
        found = msgspec.json.decode(body, type=ready(_Found))
        return [Hit(hit.url, hit.title, hit.content) for hit in found.results[:topn]]


class _Result(msgspec.Struct):
    url: str
    title: str = ""
    content: str = ""


class _Found(msgspec.Struct):
    results: list[_Result]


class Web:
    """Fetches public pages. ``allowed`` names networks that may be fetched though they are private (an intranet).

    ``names`` looks up hosts; the machine's resolver does where it is None. Each hop of a redirect is checked
    like the first address; robots.txt is honoured; no cookies, no credentials.
    """

    def __init__(
        self,
        *,
        search: Search | None = None,
        limits: WebLimits | None = None,
        allowed: Sequence[Network] = (),
        names: AbstractResolver | None = None,
    ) -> None:
        self._search = search
        self._limits = limits or WebLimits()
        self._allowed = tuple(allowed)
        self._names = names
        self._robots: OrderedDict[str, RobotFileParser] = OrderedDict()
        self._session: aiohttp.ClientSession | None = None
        self._plain: aiohttp.ClientSession | None = None

    async def search(self, query: str, topn: int) -> Sequence[Hit]:
        if self._search is None:
            raise refused("no search service is configured; open a page by its address")
        if self._plain is None:
            self._plain = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(self._limits.seconds))
        try:
            return await self._search.search(self._plain, query, topn)
        except (aiohttp.ClientError, msgspec.DecodeError, TimeoutError) as error:
            raise unreachable(f"the search service failed: {type(error).__name__}") from error

    async def open(self, url: str) -> Page:
        async with self._in_time(url):
            found = await self._get(url, "a page of text", PAGES, self._limits.bytes)
            text = _decode(found.body, found.charset)
            try:
                if "html" in found.kind:
                    return await asyncio.to_thread(html_page, found.url, text)
                return await asyncio.to_thread(text_page, found.url, found.url, text)
            except ValueError as error:
                raise refused(str(error)) from error

    async def fetch(
        self, url: str, what: str, kinds: tuple[str, ...], most: int, coming: Callable[[int], None]
    ) -> bytes:
        """The bytes at an address, ``most`` at most. ``what`` it is to be has a type that begins like one of ``kinds``.

        ``coming`` gets the size of each piece as it comes. Raises a tool failure.
        """
        async with self._in_time(url):
            return (await self._get(url, what, kinds, most, coming)).body

    @asynccontextmanager
    async def _in_time(self, url: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._limits.seconds):
                yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            failure = _failure_inside(error)
            if failure is not None:
                raise failure from error
            raise unreachable(f"{url} could not be fetched: {type(error).__name__} {str(error)[:200]}") from error

    async def _get(
        self, url: str, what: str, kinds: tuple[str, ...], most: int, coming: Callable[[int], None] = lambda size: None
    ) -> Fetched:
        target = checked_url(url, self._allowed)
        accept = {"Accept": ", ".join(kind + "*" * kind.endswith("/") for kind in kinds)}
        for _ in range(self._limits.redirects + 1):
            await self._check_robots(target)
            async with self._connection().get(target, allow_redirects=False, headers=accept) as response:
                where = response.headers.get("Location")
                if response.status in (301, 302, 303, 307, 308) and where:
                    target = checked_url(str(target.join(URL(where))), self._allowed)
                    continue
                if response.status >= 400:
                    raise unreachable(f"{target} answered {response.status}")
                if not response.content_type.startswith(kinds):
                    raise refused(f"{target} is {response.content_type}, not {what}")
                body = await _body(response, most, coming)
                return Fetched(str(target), response.content_type, body, response.charset)
        raise refused(f"more than {self._limits.redirects} redirects")

    async def _check_robots(self, target: URL) -> None:
        origin = str(target.origin())
        robots = self._robots.get(origin)
        if robots is None:
            robots = await self._fetch_robots(target)
            self._robots[origin] = robots
            while len(self._robots) > self._limits.robots_cached:
                self._robots.popitem(last=False)
        if not robots.can_fetch(AGENT, str(target)):
            raise refused(f"{origin} asks robots not to read this page")

    async def _fetch_robots(self, target: URL) -> RobotFileParser:
        robots = RobotFileParser()
        async with self._connection().get(target.origin() / "robots.txt", allow_redirects=False) as response:
            if response.status in (401, 403):
                robots.parse(["User-agent: *", "Disallow: /"])
                return robots
            body = await _start_of(response.content, MAX_ROBOTS) if response.status == 200 else b""
        robots.parse(body.decode("utf-8", "replace").splitlines())
        return robots

    def _connection(self) -> aiohttp.ClientSession:
        if self._session is None:
            resolver = PublicResolver(self._allowed, self._names)
            connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, limit=16, force_close=True)
            headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"}
            self._session = aiohttp.ClientSession(
                connector=connector, headers=headers, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    async def aclose(self) -> None:
        for session in (self._session, self._plain):
            if session is not None:
                await session.close()
        self._session = self._plain = None


async def _body(response: aiohttp.ClientResponse, limit: int, coming: Callable[[int], None]) -> bytes:
    """The body, unpacked, refused as soon as it is too large: a small bomb never becomes a large page."""
    packing = response.headers.get("Content-Encoding", "identity").lower()
    if packing not in ("identity", "gzip", "deflate"):
        raise refused(f"the answer is packed with {packing!r}")
    unpack = None if packing == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)
    body = bytearray()
    async for chunk in response.content.iter_chunked(65536):
        try:
            more = chunk if unpack is None else unpack.decompress(chunk, limit + 1 - len(body))
        except zlib.error as error:
            raise unreachable(f"the answer is not the {packing} that its header names") from error
        coming(len(more))
        body += more
        if len(body) > limit:
            raise refused(f"the answer has more than {limit:,} bytes")
    return bytes(body)


async def _start_of(content: aiohttp.StreamReader, most: int) -> bytes:
    """The first ``most`` bytes, in however many packets they come."""
    body = bytearray()
    async for chunk in content.iter_chunked(65536):
        body += chunk
        if len(body) >= most:
            break
    return bytes(body[:most])


def _decode(body: bytes, charset: str | None) -> str:
    declared = _CHARSET.search(body[:4096])
    names = (charset, declared[1].decode() if declared else None)
    return body.decode(next((name for name in names if name and _is_web_codec(name)), "utf-8"), "replace")


def _is_web_codec(name: str) -> bool:
    try:
        return codecs.lookup(name).name in _WEB_CODECS
    except (LookupError, ValueError):  # a name with a NUL
        return False


def _failure_inside(error: BaseException) -> ToolFailure | None:
    """Our own refusal, when the connection wrapped it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ToolFailure):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
