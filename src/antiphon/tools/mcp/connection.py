"""How sessions with one server are connected: its process or its address, its credentials, who answers its requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp import Client, StdioServerParameters
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, Implementation

from antiphon.version import __version__

from .answers import ElicitationCallback, Requests, SamplingCallback
from .config import OPERATOR, McpServer, Reach
from .host import McpHost
from .http import McpHttpClient
from .oauth import Credentials, McpAuth
from .tokens import TokenStore

CALL_SECONDS = 300.0


class Connector:
    """Makes connections with one server; they share its credentials, so that a token is refreshed once."""

    def __init__(
        self, name: str, server: McpServer, host: McpHost, tokens: TokenStore | None, reach: Reach = OPERATOR
    ) -> None:
        self._name = name
        self._reach = reach
        self._server = server
        self._host = host
        self._credentials = _credentials(name, server, host, tokens)

    async def sign_in(self, scopes: str) -> None:
        """Signs in with scopes, though no answer named them. Raises what the sign-in raises."""
        if self._credentials is not None:
            await self._credentials.sign_in(scopes)

    def http_client(self) -> McpHttpClient | None:
        """A client for the server's address; None for one that is a process."""
        if self._server.url is None:
            return None
        auth = McpAuth(self._credentials) if self._credentials else None
        return McpHttpClient(self._name, headers=dict(self._server.headers), auth=auth, reach=self._reach)

    @asynccontextmanager
    async def connected(self, http: McpHttpClient | None) -> AsyncGenerator[Client, None]:
        """A client with its session, until the block is left."""
        if http is None:
            async with self._client(self._process()) as client:
                yield client
            return
        url, largest = self._server.url or "", self._reach.body
        transport = streamable_http_client(url, http_client=http, max_sse_event_size=largest)
        async with http, self._client(transport) as client:
            if not self._reach.checked:
                vars(client.session)["validate_tool_result"] = _unchecked
            yield client

    def _client(self, target: Transport | StdioServerParameters) -> Client:
        elicit, sample, requests = self._host.elicit, self._host.sample, Requests()
        return Client(
            target,
            read_timeout_seconds=CALL_SECONDS,
            client_info=Implementation(name="antiphon", version=__version__),
            elicitation_callback=ElicitationCallback(self._name, elicit, requests) if elicit else None,
            sampling_callback=SamplingCallback(self._name, sample, requests)
            if sample and self._server.sampling
            else None,
        )

    def _process(self) -> StdioServerParameters:
        server = self._server
        return StdioServerParameters(
            command=server.command or "", args=list(server.args), env=dict(server.env) or None, cwd=server.cwd
        )


async def _unchecked(name: str, result: CallToolResult) -> None:
    """In place of the SDK's comparison, in which a server's own patterns would be searched for as long as it likes."""


def _credentials(name: str, server: McpServer, host: McpHost, tokens: TokenStore | None) -> Credentials | None:
    """Gives the credentials, or None where there is nothing to sign in to, or the operator's headers do it."""
    signed_in = any(header.lower() == "authorization" for header in server.headers)
    if server.url is None or signed_in or tokens is None:
        return None
    return Credentials(name, server.url, server.oauth, tokens, host.sign_in)
