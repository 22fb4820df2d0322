"""Signed in to MCP servers: with a real authorization server, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl
from yarl import URL

from antiphon.errors import ConfigError
from antiphon.tools import Router, ToolCall, ToolLimits, ToolResult
from antiphon.tools.mcp import NOBODY, McpHost, McpOAuth, McpServer, McpToolSet, TokenStore
from kit import mcp_oauth
from kit.mcp_oauth import READ, WRITE, SignIns, browse
from kit.waiting import PATIENCE

PERSON = McpHost(sign_in=browse)


@pytest.fixture
def sign_ins() -> SignIns:
    return SignIns()


@pytest.fixture
async def url(sign_ins: SignIns) -> AsyncIterator[str]:
    async with mcp_oauth.serving(sign_ins) as address:
        yield address


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "tokens")


async def connected(url: str, store: TokenStore, host: McpHost = NOBODY) -> McpToolSet:
    return await McpToolSet.connect("files", McpServer(url=url), host=host, tokens=store)


async def called(tools: McpToolSet, name: str) -> ToolResult:
    router = Router(tools.tools, ToolLimits(deadline=PATIENCE))
    return await router.call(ToolCall(call_id="c1", recipient=f"functions.files__{name}", body="{}"))


async def sign_in(url: str, store: TokenStore) -> None:
    async with aclosing(await connected(url, store, PERSON)):
        pass


async def test_without_a_person_a_server_that_wants_a_sign_in_says_so_and_how(url: str, store: TokenStore) -> None:
    with pytest.raises(ConfigError) as refused:
        await connected(url, store)
    assert refused.value.code == "mcp_unauthorized"
    assert "401" in refused.value.message
    assert refused.value.hint == "Run: antiphon mcp login files"


async def test_nothing_is_registered_before_somebody_signs_in(sign_ins: SignIns, url: str, store: TokenStore) -> None:
    with pytest.raises(ConfigError):
        await connected(url, store)
    assert sign_ins.clients == {}


async def test_a_person_signs_in_once_and_later_processes_need_nobody(
    sign_ins: SignIns, url: str, store: TokenStore
) -> None:
    await sign_in(url, store)
    async with aclosing(await connected(url, store)) as tools:
        assert (await called(tools, "read")).ok
    assert sign_ins.authorized == [[READ]]


async def test_tokens_are_in_a_file_that_only_its_owner_reads_one_a_server(url: str, store: TokenStore) -> None:
    await sign_in(url, store)
    (file,) = store.folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert store.entry("https://other.test/mcp").token is None
    assert store.remove(url)
    assert not store.remove(url)


async def test_a_token_that_expired_is_refreshed_by_the_next_process(
    sign_ins: SignIns, url: str, store: TokenStore
) -> None:
    sign_ins.lifetime = 1  # it counts as expired at once
    await sign_in(url, store)
    before = sign_ins.refreshed
    sign_ins.lifetime = 3600
    async with aclosing(await connected(url, store)) as tools:
        assert (await called(tools, "read")).ok
    assert sign_ins.refreshed == before + 1, "once, for all requests of the session"
    assert len(sign_ins.authorized) == 1


async def test_a_token_that_was_revoked_is_renewed_and_the_call_goes_on(
    sign_ins: SignIns, url: str, store: TokenStore
) -> None:
    await sign_in(url, store)
    async with aclosing(await connected(url, store)) as tools:
        sign_ins.revoke()
        assert (await called(tools, "read")).ok
    assert sign_ins.refreshed == 1


async def test_calls_at_once_renew_a_token_once(sign_ins: SignIns, url: str, store: TokenStore) -> None:
    await sign_in(url, store)
    async with aclosing(await connected(url, store)) as tools:
        sign_ins.revoke()
        results = await asyncio.gather(*(called(tools, "read") for _ in range(5)))
    assert all(result.ok for result in results)
    assert sign_ins.refreshed == 1


async def test_a_client_that_was_registered_beforehand_is_the_one_that_signs_in(
    sign_ins: SignIns, url: str, store: TokenStore
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sign_ins.clients["ours"] = OAuthClientInformationFull(
        client_id="ours",
        client_secret="hidden",
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
        scope=READ,
        token_endpoint_auth_method="client_secret_basic",
    )
    oauth = McpOAuth(client_id="ours", client_secret="hidden", callback_port=port)
    tools = await McpToolSet.connect("files", McpServer(url=url, oauth=oauth), host=PERSON, tokens=store)
    async with aclosing(tools):
        sign_ins.revoke()
        assert (await called(tools, "read")).ok, "it is the one that refreshes, too"
    assert set(sign_ins.clients) == {"ours"}
    (file,) = store.folder.iterdir()
    assert "hidden" not in file.read_text()


async def test_where_nothing_can_be_renewed_the_call_says_who_must_sign_in(
    sign_ins: SignIns, url: str, store: TokenStore
) -> None:
    await sign_in(url, store)
    async with aclosing(await connected(url, store)) as tools:
        sign_ins.revoke(refreshes=True)
        failed = await called(tools, "read")
    assert failed.error is not None
    assert "401" in failed.error.message
    assert "antiphon mcp login files" in failed.error.message
    assert not failed.error.retryable


async def test_a_call_that_needs_another_scope_names_it_and_the_session_goes_on(url: str, store: TokenStore) -> None:
    await sign_in(url, store)
    async with aclosing(await connected(url, store)) as tools:
        failed = await called(tools, "write")
        assert (await called(tools, "read")).ok
    assert failed.error is not None
    assert "403" in failed.error.message
    assert f'antiphon mcp login files --scope "{WRITE}"' in failed.error.message


async def test_with_a_person_the_scope_is_added_to_what_there_was(
    sign_ins: SignIns, url: str, store: TokenStore
) -> None:
    async with aclosing(await connected(url, store, PERSON)) as tools:
        assert (await called(tools, "write")).ok
    assert [set(scopes) for scopes in sign_ins.authorized] == [{READ}, {READ, WRITE}]


async def test_a_scope_can_be_signed_in_for_beforehand(sign_ins: SignIns, url: str, store: TokenStore) -> None:
    await sign_in(url, store)
    await McpToolSet("files", McpServer(url=url), host=PERSON, tokens=store).sign_in(WRITE)
    async with aclosing(await connected(url, store)) as tools:
        assert (await called(tools, "write")).ok
    assert set(sign_ins.authorized[-1]) == {READ, WRITE}


async def test_a_refusal_is_told_and_nothing_is_stored(sign_ins: SignIns, url: str, store: TokenStore) -> None:
    sign_ins.refuses = True
    with pytest.raises(ConfigError, match="access_denied"):
        await connected(url, store, PERSON)
    assert store.entry(url).token is None


async def test_another_page_s_answer_is_none(sign_ins: SignIns, url: str, store: TokenStore) -> None:
    """A page in the same browser may ask the address of the callback, and does not know the state."""

    async def attacked(server: str, address: str) -> None:
        query = URL(address).query
        async with aiohttp.ClientSession() as browser:
            forged = f"{query['redirect_uri']}?code=stolen&state=guessed"
            async with browser.get(forged) as page:
                assert page.status == 404
        await browse(server, address)

    async with aclosing(await connected(url, store, McpHost(sign_in=attacked))) as tools:
        assert (await called(tools, "read")).ok


async def test_no_secret_is_in_the_log_or_in_an_error(
    sign_ins: SignIns, url: str, store: TokenStore, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await sign_in(url, store)
        async with aclosing(await connected(url, store)) as tools:
            sign_ins.revoke(refreshes=True)
            failed = await called(tools, "read")
    assert len(sign_ins.secrets) >= 3
    told = caplog.text + str(failed) + repr(store.entry(url))
    assert not [secret for secret in sign_ins.secrets if secret in told]


async def test_headers_of_the_operator_s_are_sent_and_make_a_sign_in_needless(
    sign_ins: SignIns, url: str, store: TokenStore
) -> None:
    await sign_in(url, store)
    token = (store.entry(url).token or {})["access_token"]
    server = McpServer(url=url, headers={"Authorization": f"Bearer {token}"})
    async with aclosing(await McpToolSet.connect("files", server, tokens=None)) as tools:
        assert (await called(tools, "read")).ok


async def test_tokens_that_cannot_be_read_are_an_error_that_does_not_quote_them(url: str, store: TokenStore) -> None:
    await sign_in(url, store)
    (file,) = store.folder.iterdir()
    file.write_text('{"server": "x", "token": "secret-token"')
    with pytest.raises(ConfigError, match="Remove the file") as unusable:
        store.entry(url)
    assert unusable.value.code == "mcp_tokens"
    assert "secret-token" not in str(unusable.value)
