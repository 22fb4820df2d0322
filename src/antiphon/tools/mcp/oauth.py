"""Signed in to an MCP server: OAuth 2.1 by the SDK's own client, with tokens that are stored between processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import msgspec

from .config import McpOAuth, ShowAddress
from .fault import challenged
from .http import McpHttpClient
from .oauth_flow import Person, Tokens, driven, listening, provider_of, restore, stored
from .tokens import TokenEntry, TokenStore

SIGN_IN_SECONDS = 300.0
SIGN_INS = 2
"""For one request: one because nobody is signed in, and one more for a scope that it needs."""
MARGIN = 10.0
"""Seconds before its end from which a token counts as expired."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Tokens of one owner for one server, and what may be done for new ones: ``show`` is there where a person is."""

    name: str
    url: str
    oauth: McpOAuth
    store: TokenStore
    show: ShowAddress | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)

    @property
    def can_sign_in(self) -> bool:
        return self.show is not None or self.oauth.grant == "client_credentials"

    async def token(self) -> str | None:
        """The access token, refreshed where it has expired; None where there is none. Raises what refreshing raises."""
        async with self.lock:
            entry = self.store.entry(self.url)
            return _access(entry) if _fresh(entry) else await self._flow(_expired(entry), None)

    async def another(self, used: str | None, challenge: httpx2.Response) -> str | None:
        """A token other than the one that ``challenge`` (401 or 403) did not take; None where there can be none."""
        async with self.lock:
            entry = self.store.entry(self.url)
            if _access(entry) != used and _fresh(entry):
                return _access(entry)  # another call, or another process, was faster
            renewed = None
            if challenge.status_code == 401 and (entry.token or {}).get("refresh_token"):
                renewed = await self._flow(_expired(entry), None)
            return renewed or (await self._flow(entry, challenge) if self.can_sign_in else None)

    async def sign_in(self, scopes: str) -> None:
        """Signs in with further scopes, though nothing asked for them yet. Raises what the flow raises."""
        header = f'Bearer error="insufficient_scope", scope="{scopes}"'
        challenge = httpx2.Response(403, headers={"www-authenticate": header}, request=httpx2.Request("POST", self.url))
        async with self.lock:
            await self._flow(self.store.entry(self.url), challenge)

    async def _flow(self, entry: TokenEntry, challenge: httpx2.Response | None) -> str | None:
        """The token after one flow of the SDK's: refreshing alone, or all that ``challenge`` sets off."""
        tokens = Tokens(entry, self.oauth)
        if challenge is not None:
            tokens.check_registration(challenged(challenge.headers.get("www-authenticate", "")).get("scope", ""))
        async with asyncio.timeout(SIGN_IN_SECONDS), self._person(tokens, challenge) as person:
            provider = provider_of(self.url, self.oauth, tokens, person)
            restore(provider, entry)
            token = await driven(provider, self.url, challenge, McpHttpClient(self.name))
        if tokens.changed:
            self.store.put(stored(tokens, provider))
        return token

    @asynccontextmanager
    async def _person(self, tokens: Tokens, challenge: httpx2.Response | None) -> AsyncGenerator[Person | None, None]:
        """Whoever signs in for ``challenge``, with an address to come back to; nobody where there is none."""
        show = self.show
        if challenge is None or show is None or self.oauth.grant == "client_credentials":
            yield None
            return
        async with listening(self.oauth.callback_port or tokens.port, tokens.forget_client) as callback:
            yield Person(lambda address: show(self.name, address), callback)


class McpAuth(httpx2.Auth):
    """Puts the token on every request, and gets another one for a 401, or for a 403 that names what is missing."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = await self._credentials.token()
        response = yield _bearing(request, token)
        for _ in range(SIGN_INS):
            if not _asks_for_another(response):
                return
            another = await self._credentials.another(token, response)
            if another is None or another == token:
                return
            token = another
            response = yield _bearing(request, token)


def _asks_for_another(response: httpx2.Response) -> bool:
    if response.status_code == 403:
        return challenged(response.headers.get("www-authenticate", "")).get("error") == "insufficient_scope"
    return response.status_code == 401


def _bearing(request: httpx2.Request, token: str | None) -> httpx2.Request:
    if token is not None:
        request.headers["authorization"] = f"Bearer {token}"
    return request


def _access(entry: TokenEntry) -> str | None:
    token = (entry.token or {}).get("access_token")
    return token if isinstance(token, str) else None


def _expired(entry: TokenEntry) -> TokenEntry:
    return msgspec.structs.replace(entry, expires_at=1.0)


def _fresh(entry: TokenEntry) -> bool:
    """Whether the token counts, or there is none that could be refreshed."""
    token = entry.token or {}
    expired = entry.expires_at is not None and time.time() > entry.expires_at - MARGIN
    return not (expired and token.get("refresh_token"))
