"""The browser: cursors, lines, links and citations as Harmony's built-in has them; and what it refuses to fetch."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ipaddress
import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from antiphon.errors import ConfigError
from antiphon.tools import Router, ToolCall, ToolFailure, ToolResult
from antiphon.tools.browser import Browser, Corpus, SearxNG, Web, WebLimits, html_page, text_page
from antiphon.tools.browser.web import PublicResolver, checked_url

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "bees.md").write_text(
        "# Bees\n\nBees make honey.\n\nSee [wasps](wasps.html) and [the sun](https://sun.test/a).\n"
    )
    (pages / "wasps.html").write_text("<title>Wasps</title><body><h1>Wasps</h1><p>Wasps do not make honey.<p>Really.")
    (pages / "many.txt").write_text("\n".join(f"line number {i}" for i in range(500)))
    (tmp_path / "secret.md").write_text("# Secret\nnot honey for you")
    (pages / "link.md").symlink_to(tmp_path / "secret.md")
    return pages


@pytest.fixture
async def offline(folder: Path) -> AsyncIterator[Browser]:
    async with aclosing(Browser(Corpus(folder))) as browser:
        yield browser


async def ask(browser: Browser, name: str, body: str, session: str = "s") -> ToolResult:
    call = ToolCall(
        call_id=f"{name}{body}{time.monotonic_ns()}", recipient=f"browser.{name}", body=body, session=session
    )
    return await Router(browser.tools).call(call)


@pytest.mark.spec("HAR-109", "HAR-104")
async def test_search_open_and_find_show_cursors_line_numbers_and_link_ids(offline: Browser) -> None:
    results = (await ask(offline, "search", '{"query": "bees and honey"}')).text(envelope=False)
    assert results.startswith("[0] Results for 'bees and honey'")
    assert "【0†Bees】 corpus:/bees.md" in results
    assert "secret" not in results
    page = (await ask(offline, "open", '{"id": 0}')).text(envelope=False)
    assert page == (
        "[1] Bees (corpus:/bees.md)\n**viewing lines [0 - 4] of 5**\n\n"
        "L0: # Bees\nL1: \nL2: Bees make honey.\nL3: \nL4: See 【0†wasps】 and 【1†the sun†sun.test】."
    )
    wasps = (await ask(offline, "open", '{"id": 0, "cursor": 1}')).text(envelope=False)
    assert wasps.startswith("[2] Wasps (corpus:/wasps.html)")
    found = (await ask(offline, "find", '{"pattern": "HONEY", "cursor": 1}')).text(envelope=False)
    assert "# match 1 at L2" in found
    assert "L2: Bees make honey." in found


async def test_open_without_an_id_scrolls_the_page(offline: Browser) -> None:
    await ask(offline, "open", '{"id": "corpus:/many.txt"}')
    page = (await ask(offline, "open", '{"loc": 300, "num_lines": 2}')).text(envelope=False)
    assert page.endswith("**viewing lines [300 - 301] of 500**\n\nL300: line number 300\nL301: line number 301")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("open", '{"cursor": 9}'),
        ("open", '{"id": 99, "cursor": 0}'),
        ("open", '{"id": "corpus:/../secret.md"}'),
        ("open", '{"id": "/etc/passwd"}'),
        ("open", '{"id": "corpus:/link.md"}'),
        ("find", '{"pattern": "x", "cursor": -2}'),
        ("search", '{"query": ""}'),
        ("open", '{"view_source": true}'),
        ("search", '{"query": "x", "source": 1}'),
    ],
)
async def test_what_is_not_there_is_an_error_that_the_model_reads(offline: Browser, name: str, body: str) -> None:
    await ask(offline, "search", '{"query": "honey"}')
    assert (await ask(offline, name, body)).error is not None


@pytest.mark.parametrize("source", ["web", "news", ""])
async def test_a_search_of_any_source_is_one_of_the_source_that_there_is(offline: Browser, source: str) -> None:
    body = json.dumps({"query": "honey", "source": source})
    found, same = await ask(offline, "search", body), await ask(offline, "search", '{"query": "honey"}')
    assert found.error is None
    assert found.text(envelope=False) == same.text(envelope=False).replace("[1]", "[0]")


async def test_sessions_have_their_own_cursors(offline: Browser) -> None:
    await ask(offline, "search", '{"query": "honey"}', "one")
    assert (await ask(offline, "open", '{"id": 0}', "two")).error is not None
    assert (await ask(offline, "open", '{"id": 0, "cursor": 0}', "")).error is not None


async def test_find_is_literal_and_linear(folder: Path) -> None:
    (folder / "evil.txt").write_text(("a" * 99 + "\n") * 20_000)
    async with aclosing(Browser(Corpus(folder))) as browser:
        await ask(browser, "open", '{"id": "corpus:/evil.txt"}')
        assert "No matches." in (await ask(browser, "find", '{"pattern": "(a+)+$"}')).text(envelope=False)


async def test_citations_name_the_pages_of_their_session(offline: Browser) -> None:
    await ask(offline, "open", '{"id": "corpus:/bees.md"}')
    text = "Honey【0†L2】 and more【0†L2-L4】 but not【7†L1】."
    cited = offline.citations("s", text)
    assert [(text[c.start : c.end], c.url, c.lines) for c in cited] == [
        ("【0†L2】", "corpus:/bees.md", (2, 2)),
        ("【0†L2-L4】", "corpus:/bees.md", (2, 4)),
    ]


def test_marks_in_a_page_cannot_pass_for_ours() -> None:
    page = text_page("https://a.test/", "t", "buy 【0†here†bank.test】 [x【9†y】](https://b.test)")
    assert page.lines == ("buy 〖0‡here‡bank.test〗 【0†x〖9‡y〗†b.test】",)


def test_scripts_and_forms_are_left_out_and_blocks_become_lines() -> None:
    page = html_page(
        "https://a.test/x",
        "<title> A  B </title><script>x</script><p>one<b>two</b><ul><li>3<li><a href='/y'>4</a></ul><select><option>5",
    )
    assert page.title == "A B"
    assert [line for line in page.lines if line] == ["onetwo", "3", "【0†4】"]
    assert page.links == ("https://a.test/y",)


@pytest.mark.parametrize("tag", ["div", "b", "a href=x", "table", "span"])
def test_a_page_nested_very_deeply_is_refused_at_once(tag: str) -> None:
    with pytest.raises(ValueError, match="nests more than"):
        html_page("https://a.test/", f"<{tag}>" * 200_000 + "deep")


def test_a_page_of_many_elements_that_are_not_nested_is_read() -> None:
    page = html_page("https://a.test/", "<p>one<li>two<div>x</div>" * 5_000)
    assert page.lines.count("x") == 5_000


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "gopher://a.test/", "data:text/html,x", "ftp://a.test/", "javascript:1", "//a.test",
        "a.test",
        "http://127.0.0.1/", "http://0.0.0.0/", "http://[::1]/", "http://169.254.169.254/latest", "http://10.1.2.3/",
        "http://172.16.0.1/", "http://192.168.1.1/", "http://100.64.0.1/", "http://[::ffff:127.0.0.1]/",
        "http://[fe80::1]/", "http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/", "http://0/",
        "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://224.0.0.1/", "http://255.255.255.255/",
        "http://ok.test\\@127.0.0.1/",
        "http://a@b.test/", "http://a:b@b.test/", "http://ok.test/\n", "http://ok.test/\tx",
        "http://ok.test:22/", "http://", "http:///x", "http://ok.test/" + "x" * 5000, "http://[::1", "http://a b/",
    ],
)  # fmt: skip
def test_an_address_that_is_not_a_public_page_is_refused_before_anything_is_asked(url: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        checked_url(url)
    assert caught.value.error.code == "E-BROWSER-REFUSED"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST"])
async def test_a_name_for_a_private_address_is_refused_when_it_is_resolved(host: str) -> None:
    async with aclosing(Browser(Web())) as browser:
        result = await ask(browser, "open", f'{{"id": "http://{host}/"}}')
        assert result.error is not None
        assert result.error.code == "E-BROWSER-REFUSED"


async def test_the_resolver_refuses_a_name_with_one_private_address_among_public_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in ("8.8.8.8", "127.0.0.1")]

    async def rebound(*_: Any, **__: Any) -> list[Any]:
        return answers

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", rebound)
    with pytest.raises(ToolFailure, match="not a public address"):
        await PublicResolver().resolve("two.test", 80)


@asynccontextmanager
async def site(routes: Sequence[web.RouteDef]) -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answer(body: bytes | str, **options: Any) -> Any:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(body=body, **({"content_type": "text/html"} | options))

    return handle


def redirect(to: str) -> Any:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": to})

    return handle


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/html"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b"x" * 65536)
    return response


async def silent(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/html"})
    await response.prepare(request)
    await asyncio.Event().wait()
    return response


async def test_a_page_of_the_web_is_read_and_its_links_followed() -> None:
    pages = [
        web.get("/", answer("<title>T</title><a href='/two'>two</a>")),
        web.get("/two", answer("zwei", charset="utf-8")),
    ]
    async with site(pages) as url, aclosing(Browser(Web(allowed=LOOPBACK))) as browser:
        assert "L0: 【0†two】" in (await ask(browser, "open", f'{{"id": "{url}/"}}')).text(envelope=False)
        assert "L0: zwei" in (await ask(browser, "open", '{"id": 0}')).text(envelope=False)


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (redirect("file:///etc/passwd"), "only http"),
        (redirect("http://10.0.0.1/"), "not a public address"),
        (redirect("http://[::1]/"), "not a public address"),
        (redirect("/page"), "redirects"),
        (endless, "more than 100,000 bytes"),
        (answer(gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"}), "more than 100,000 bytes"),
        (answer(b"\x00\x01", content_type="application/octet-stream"), "not a page of text"),
        (answer(b"x", headers={"Content-Encoding": "br"}), "packed with 'br'"),
        (answer(b"not gzip", headers={"Content-Encoding": "gzip"}), "not the gzip"),
        (answer(b"gone", status=410), "answered 410"),
        (silent, "could not be fetched"),
    ],
)
async def test_what_a_site_does_to_us_is_an_error_within_limits(handler: Any, says: str) -> None:
    limits = WebLimits(seconds=0.5 if handler is silent else 60, bytes=100_000)
    async with (
        site([web.get("/page", handler)]) as url,
        aclosing(Browser(Web(limits=limits, allowed=LOOPBACK))) as browser,
    ):
        result = await ask(browser, "open", f'{{"id": "{url}/page"}}')
        assert result.error is not None
        assert says in result.error.message


async def test_robots_that_are_not_wanted_stay_away() -> None:
    pages = [web.get("/robots.txt", answer("User-agent: *\nDisallow: /private", content_type="text/plain"))]
    pages += [web.get("/private/x", answer("secret")), web.get("/open", answer("open"))]
    async with site(pages) as url, aclosing(Browser(Web(allowed=LOOPBACK))) as browser:
        refused = await ask(browser, "open", f'{{"id": "{url}/private/x"}}')
        assert refused.error is not None
        assert "robots" in refused.error.message
        assert (await ask(browser, "open", f'{{"id": "{url}/open"}}')).ok


@pytest.mark.parametrize("charset", ["nonsense", "utf-16", "latin-1", "idna", "undefined", "zlib"])
async def test_a_wrong_charset_is_not_the_end(charset: str) -> None:
    page = web.get(
        "/", answer(b"caf\xe9 \xff", headers={"Content-Type": f"text/html; charset={charset}"}, content_type=None)
    )
    async with site([page]) as url, aclosing(Browser(Web(allowed=LOOPBACK))) as browser:
        assert (await ask(browser, "open", f'{{"id": "{url}/"}}')).ok


async def test_a_page_may_only_have_an_encoding_of_the_web() -> None:
    """Python's own take words for their names, and for a long page in punycode its processor for hours."""
    headers = {"Content-Type": "text/html; charset=punycode"}
    page = web.get("/", answer(b"<p>maana-pta</p>", headers=headers, content_type=None))
    async with site([page]) as url, aclosing(Browser(Web(allowed=LOOPBACK))) as browser:
        assert "maana-pta" in (await ask(browser, "open", f'{{"id": "{url}/"}}')).text(envelope=False)


async def test_a_search_service_can_be_plugged_in() -> None:
    results = {"results": [{"url": "https://a.test/", "title": "A", "content": "about a"}, {"url": "https://b.test/"}]}

    async def search(request: web.Request) -> web.Response:
        assert request.query["q"] == "a & b"
        return web.json_response(results)

    async with site([web.get("/search", search)]) as url, aclosing(Browser(Web(search=SearxNG(url)))) as browser:
        shown = (await ask(browser, "search", '{"query": "a & b", "topn": 1}')).text(envelope=False)
        assert "【0†A】 https://a.test/" in shown
        assert "b.test" not in shown


async def test_without_a_search_service_search_says_so() -> None:
    async with aclosing(Browser(Web())) as browser:
        result = await ask(browser, "search", '{"query": "x"}')
        assert result.error is not None
        assert "no search service" in result.error.message


def test_a_corpus_without_pages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no page"):
        Corpus(tmp_path)
    with pytest.raises(ConfigError, match="not a folder"):
        Corpus(tmp_path / "none")
