"""An MCP server over HTTP that does not answer: the error says the status and what to do."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from aiohttp import web

from antiphon.errors import ConfigError
from antiphon.tools import Router, ToolCall
from antiphon.tools.mcp import McpHost, McpServer, McpToolSet, TokenStore
from antiphon.tools.mcp.config import LARGEST_BODY, MAX_LISTING
from antiphon.tools.mcp.fault import challenged, fault_of_error, readable_scopes
from antiphon.tools.mcp.tokens import TokenEntry
from antiphon.tools.mcp.tool_set import MAX_PAGES
from kit import mcp_http
from kit.mcp_counter import answer, handshake

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


async def refusal(url: str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        await McpToolSet.connect("far", McpServer(url=url))
    return refused.value


async def refusal_of(handler: Handler) -> ConfigError:
    async with serving(handler) as url:
        return await refusal(url)


@pytest.mark.parametrize(
    ("status", "headers", "code", "says"),
    [
        (401, {}, "mcp_unauthorized", "Run: antiphon mcp login far"),
        (403, {}, "mcp_unauthorized", "not allowed"),
        (
            403,
            {"www-authenticate": 'Bearer error="insufficient_scope", scope="a b"'},
            "mcp_unauthorized",
            'antiphon mcp login far --scope "a b"',
        ),
        (404, {}, "mcp_unreachable", "url of its table"),
        (405, {}, "mcp_unreachable", "url of its table"),
        (429, {}, "mcp_unreachable", "too many requests"),
        (400, {}, "mcp_unreachable", "headers of its table"),
        (500, {}, "mcp_unreachable", "Its own log"),
        (503, {}, "mcp_unreachable", "Its own log"),
    ],
)
async def test_a_status_is_named_with_its_remedy(status: int, headers: dict[str, str], code: str, says: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, headers=headers, text="a secret of the server's")

    error = await refusal_of(answer)
    assert (error.code, str(status) in error.message) == (code, True)
    assert says in str(error)
    assert "a secret" not in str(error)


async def test_what_the_server_itself_says_is_told_too() -> None:
    async def answer(request: web.Request) -> web.Response:
        id = (await request.json())["id"]
        error = {"code": -32602, "message": "the moon is full"}
        return web.json_response({"jsonrpc": "2.0", "id": id, "error": error}, status=400)

    error = await refusal_of(answer)
    assert "the moon is full" in error.message
    assert "400" in error.message


async def test_an_address_where_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = await refusal(f"http://127.0.0.1:{taken.getsockname()[1]}/mcp")
    assert "cannot be connected to" in error.message


async def test_a_server_without_tls_where_tls_is_expected() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    async with serving(answer) as url:
        error = await refusal(url.replace("http://", "https://"))
    assert "TLS failed" in error.message
    assert "SSL_CERT_FILE" in (error.hint or "")


async def test_a_body_without_an_end_is_given_up() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        for _ in range(LARGEST_BODY // 65_536 + 2):
            await response.write(b" " * 65_536)
        return response

    error = await refusal_of(answer)
    assert "longer than" in error.message


async def test_a_body_that_unpacks_to_any_size_is_not_read() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.headers["accept-encoding"] == "identity"
        return web.Response(body=b"\x1f\x8b", headers={"content-encoding": "gzip", "content-type": "application/json"})

    error = await refusal_of(answer)
    assert "compressed" in error.message


def paging(pages: int, description: str) -> Handler:
    """A server whose list of tools has so many pages, each of one tool."""

    async def handle(request: web.Request) -> web.Response:
        message = await request.json() if request.method == "POST" else {}
        if "id" not in message:
            return web.Response(status=202)
        match message["method"]:
            case "initialize":
                return web.json_response(answer(message["id"], handshake()))
            case "tools/list":
                page = int(message["params"].get("cursor", 0) if message.get("params") else 0)
                tool = {"name": f"tool{page}", "description": description, "inputSchema": {"type": "object"}}
                more = {"nextCursor": str(page + 1)} if page + 1 < pages else {}
                return web.json_response(answer(message["id"], {"tools": [tool], **more}))
        return web.json_response(answer(message["id"], None))

    return handle


async def test_all_pages_of_the_tools_are_listed_up_to_a_limit() -> None:
    async with serving(paging(3, "")) as url, aclosing(await McpToolSet.connect("far", McpServer(url=url))) as tools:
        assert [spec.name for spec in tools.specs] == ["far__tool0", "far__tool1", "far__tool2"]
    async with (
        serving(paging(10**9, "")) as url,
        aclosing(await McpToolSet.connect("far", McpServer(url=url))) as tools,
    ):
        assert len(tools.specs) == MAX_PAGES


async def test_tools_whose_words_would_fill_every_prompt_are_refused() -> None:
    error = await refusal_of(paging(2, "x" * (MAX_LISTING // 2)))
    assert "too long" in error.message


async def test_a_session_that_the_server_ended_is_told_apart_from_a_wrong_address() -> None:
    sessions = mcp_http.Sessions()
    call = ToolCall(call_id="", recipient="functions.far__count", body="")
    async with (
        mcp_http.serving(sessions) as url,
        aclosing(await McpToolSet.connect("far", McpServer(url=url))) as tools,
    ):
        sessions.calls.clear()
        result = await Router(tools.tools).call(call)
    assert result.error is not None
    assert "ended the session" in result.error.message
    assert result.error.retryable


def test_a_timeout_is_told_as_one() -> None:
    fault = fault_of_error("far", ExceptionGroup("unhandled", [httpx2.ReadTimeout("")]))
    assert "did not answer in time" in fault.message
    assert fault.transient


def test_a_challenge_is_read_whatever_it_says() -> None:
    assert challenged('Bearer realm="x", error="insufficient_scope", scope="a b"') == {
        "error": "insufficient_scope",
        "scope": "a b",
    }
    assert challenged("Bearer error=insufficient_scope,scope=a") == {"error": "insufficient_scope", "scope": "a"}
    assert challenged("Basic") == {}
    assert challenged('Bearer xerror="insufficient_scope"') == {}


def test_scopes_of_a_server_s_text_hold_nothing_that_a_shell_or_a_terminal_reads() -> None:
    assert readable_scopes('a:b "b" \x1b[2J c\\ $(d) `e` https://f/g.h') == "a:b https://f/g.h"
    assert len(readable_scopes(" ".join(f"s{n}" for n in range(99))).split()) == 32


async def show(server: str, address: str) -> None:
    raise AssertionError("nobody is sent anywhere")


async def test_where_a_token_is_not_taken_and_there_is_no_other_no_request_is_sent_again(tmp_path: Path) -> None:
    sent: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.headers["authorization"] == "Bearer old"
        sent.append((await request.json())["method"])
        return web.Response(status=401)

    tokens = TokenStore(tmp_path)
    async with serving(answer) as url:
        tokens.put(TokenEntry(server=url, token={"access_token": "old"}))
        with pytest.raises(ConfigError, match="401"):
            await McpToolSet.connect("far", McpServer(url=url), tokens=tokens)
    assert sorted(sent) == sorted({*sent, "initialize"})


async def test_a_server_of_another_origin_gets_no_token(tmp_path: Path) -> None:
    """Addresses of metadata that are not https, and not of this machine for a server of this machine, are not used."""
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        if "oauth-protected-resource" in request.path:
            resource = f"http://127.0.0.1:{request.url.port}/mcp"
            return web.json_response({"resource": resource, "authorization_servers": ["http://169.254.169.254"]})
        return web.Response(status=401)

    async with serving(answer) as url:
        with pytest.raises(ConfigError, match="not https") as refused:
            await McpToolSet.connect("far", McpServer(url=url), host=McpHost(sign_in=show), tokens=TokenStore(tmp_path))
    assert refused.value.code == "mcp_unauthorized"
    assert seen


async def test_where_nobody_can_register_the_error_says_what_to_do_instead(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=401 if request.path == "/mcp" else 404)

    host, tokens = McpHost(sign_in=show), TokenStore(tmp_path)
    async with serving(answer) as url:
        with pytest.raises(ConfigError, match="clientId"):
            await McpToolSet.connect("far", McpServer(url=url), host=host, tokens=tokens)
