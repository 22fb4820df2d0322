"""An MCP server that wants to be signed in to, and its authorization server: the SDK's own, in this event loop.

Whoever comes is allowed in at once; what a token may do, how long it counts and which are revoked is the test's.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.types import ASGIApp, Message, Receive, Scope, Send

READ, WRITE = "files:read", "files:write"


class SignIns(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Clients, codes and tokens in memory. ``lifetime``: seconds that the next access tokens count."""

    def __init__(self) -> None:
        self.lifetime = 3600
        self.refuses = False
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.authorized: list[list[str]] = []
        self.refreshed = 0
        self.secrets: list[str] = []

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.refuses:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        scopes = params.scopes or [READ]
        self.authorized.append(scopes)
        code = self._secret()
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=scopes,
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._grant(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refreshes[refresh_token.token]
        self.refreshed += 1
        return self._grant(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def revoke(self, *, refreshes: bool = False) -> None:
        """No access token counts any longer; with ``refreshes`` none can be renewed either."""
        self.tokens.clear()
        if refreshes:
            self.refreshes.clear()

    def _grant(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = self._secret(), self._secret()
        until = int(time.time()) + self.lifetime
        self.tokens[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=until, resource=resource
        )
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, expires_in=self.lifetime, refresh_token=refresh, scope=" ".join(scopes))

    def _secret(self) -> str:
        self.secrets.append(secrets.token_urlsafe(24))
        return self.secrets[-1]


class ScopedCalls:
    """Calls of the tool ``write`` need a scope of their own: else 403 with what is missing (RFC 6750 §3.1)."""

    def __init__(self, app: ASGIApp, sign_ins: SignIns) -> None:
        self._app = app
        self._sign_ins = sign_ins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/mcp" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        if self._lacks_scope(scope, body):
            await _forbid(send)
            return
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, again, send)

    def _lacks_scope(self, scope: Scope, body: bytes) -> bool:
        message = json.loads(body)
        token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        known = self._sign_ins.tokens.get(token)
        writes = message.get("method") == "tools/call" and message["params"]["name"] == "write"
        return bool(writes and known is not None and WRITE not in known.scopes)


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _forbid(send: Send) -> None:
    challenge = f'Bearer error="insufficient_scope", scope="{WRITE}"'.encode()
    await send({"type": "http.response.start", "status": 403, "headers": [(b"www-authenticate", challenge)]})
    await send({"type": "http.response.body", "body": b"no"})


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals stay the test's."""
        yield


@asynccontextmanager
async def serving(sign_ins: SignIns) -> AsyncIterator[str]:
    """The address of the MCP server, whose origin is its authorization server's."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = ScopedCalls(_server(sign_ins, origin).streamable_http_app(json_response=True), sign_ins)
        server = _Server(uvicorn.Config(app, lifespan="on", log_config=None, timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"{origin}/mcp"
        finally:
            server.should_exit = True
            await running


def _server(sign_ins: SignIns, origin: str) -> MCPServer:
    server = MCPServer(
        "files",
        auth_server_provider=sign_ins,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(origin),
            resource_server_url=AnyHttpUrl(f"{origin}/mcp"),
            required_scopes=[READ],
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=[READ, WRITE], default_scopes=[READ, WRITE]
            ),
            validate_token_resource=True,
        ),
    )

    @server.tool()
    def read() -> str:
        """Reads the file."""
        return "the file"

    @server.tool()
    def write() -> str:
        """Writes the file."""
        return "written"

    return server


async def browse(server: str, address: str) -> None:
    """A browser whose user agrees to everything: it follows redirects to their end."""
    async with aiohttp.ClientSession() as browser, browser.get(address) as page:
        await page.read()
