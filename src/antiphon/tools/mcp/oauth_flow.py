"""One flow of the SDK's OAuth client: its provider over a stored entry, run up to where there is a token."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from .config import McpOAuth
from .http import McpHttpClient
from .tokens import TokenEntry

# Where the browser comes back to after its user has signed in: an address of this machine, as long as it takes.

PATH = "/callback"
LARGEST_REQUEST = 1 << 16
REQUEST_SECONDS = 10.0
_PAGE = "<!doctype html><meta charset=utf-8><title>Antiphon</title><p>{}</p>"


class Callback:
    """The address, and the parameters that the browser brings with the ``state`` that belongs to this sign-in."""

    def __init__(self) -> None:
        self.port = 0
        self._state = ""
        self.answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        """``code`` and ``state``, or ``error``; what else there is of RFC 6749 §4.1.2 and RFC 9207."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{PATH}"

    def expect(self, authorization_url: str) -> None:
        """From now on a request with the state of this address is the answer; any other page's is not."""
        self._state = _parameters(authorization_url).get("state", "")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(REQUEST_SECONDS):
                writer.write(self._response(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        writer.close()

    def _response(self, head: bytes) -> bytes:
        method, _, rest = head.decode("latin-1").partition(" ")
        target = rest.split(" ", 1)[0]
        values = _parameters(target)
        answers = method == "GET" and urlsplit(target).path == PATH and bool(self._state)
        if not answers or values.get("state") != self._state:
            return _page("404 Not Found", "There is nothing here.")
        if not self.answer.done():
            self.answer.set_result(values)
        return _page("200 OK", "That is all. You can close this page and go back to the terminal.")


@asynccontextmanager
async def listening(port: int, other: Callable[[], None]) -> AsyncIterator[Callback]:
    """A callback at ``port`` of the loopback interface; if that is taken, at a free one after ``other`` was called."""
    callback = Callback()
    try:
        server = await asyncio.start_server(callback.serve, "127.0.0.1", port, limit=LARGEST_REQUEST)
    except OSError:
        other()
        server = await asyncio.start_server(callback.serve, "127.0.0.1", 0, limit=LARGEST_REQUEST)
    try:
        callback.port = server.sockets[0].getsockname()[1]
        yield callback
    finally:
        server.close()


def _parameters(url: str) -> dict[str, str]:
    """The first value of each."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query, max_num_fields=64).items()}


def _page(status: str, words: str) -> bytes:
    body = _PAGE.format(words).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + body


logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)
# Its tracebacks quote answers, and so tokens; what failed is reported by whoever needed the token.

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PROTOCOL = "mcp-protocol-version"
_NO_ADDRESS = "http://127.0.0.1/callback"
_ROOT_METADATA = "/.well-known/oauth-authorization-server"
Show = Callable[[str], Awaitable[None]]


class Person(msgspec.Struct, frozen=True):
    """Somebody who signs in: ``show`` gives them the address, and their browser comes back to ``callback``."""

    show: Show
    callback: Callback

    async def open(self, address: str) -> None:
        self.callback.expect(address)
        await self.show(address)

    async def returned(self) -> AuthorizationCodeResult:
        """Waits for what the browser brings. Raises `OAuthFlowError` where that is a refusal."""
        values = await self.callback.answer
        if "error" in values:
            raise OAuthFlowError(f"it was refused: {values['error'][:100]} {values.get('error_description', '')[:300]}")
        return AuthorizationCodeResult.model_validate({"code": "", **values})


class Tokens:
    """An entry while a flow of the SDK's reads and changes it (its ``TokenStorage``)."""

    def __init__(self, entry: TokenEntry, oauth: McpOAuth) -> None:
        self.entry = entry
        self.changed = False
        self._oauth = oauth

    @property
    def port(self) -> int:
        """The port that we registered to come back to; 0: none."""
        addresses = (self.entry.client or {}).get("redirect_uris") or [""]
        return urlsplit(str(addresses[0])).port or 0

    def check_registration(self, scopes: str) -> None:
        """A client that was registered for other scopes than these is no use: we register anew, for all of them."""
        registered = (self.entry.client or {}).get("scope")
        if registered is not None and not set(scopes.split()) <= set(str(registered).split()):
            self.forget_client()

    def forget_client(self) -> None:
        """We register anew; so too where the address to come back to is taken."""
        self.entry = msgspec.structs.replace(self.entry, client=None)

    async def get_tokens(self) -> OAuthToken | None:
        return OAuthToken.model_validate(self.entry.token) if self.entry.token else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        until = None if tokens.expires_in is None else time.time() + tokens.expires_in
        token = tokens.model_dump(mode="json", exclude_none=True)
        self.entry = msgspec.structs.replace(self.entry, token=token, expires_at=until)
        self.changed = True

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._oauth.client_id is not None:
            method = self._oauth.auth_method if self._oauth.client_secret else "none"
            return OAuthClientInformationFull(
                client_id=self._oauth.client_id,
                client_secret=self._oauth.client_secret,
                token_endpoint_auth_method=method,
                issuer=self._oauth.issuer,
            )
        return OAuthClientInformationFull.model_validate(self.entry.client) if self.entry.client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        client = client_info.model_dump(mode="json", exclude_none=True)
        self.entry = msgspec.structs.replace(self.entry, client=client)


def provider_of(url: str, oauth: McpOAuth, tokens: Tokens, person: Person | None) -> OAuthClientProvider:
    """The SDK's provider. Without a person it can refresh, or be a client that signs in by itself."""
    if oauth.grant == "client_credentials":
        return _machine(url, oauth, tokens)

    async def show(address: str) -> None:
        check_address(address, url)
        assert person is not None, "or there is no handler"
        await person.open(address)

    address = _NO_ADDRESS if person is None else person.callback.url
    return OAuthClientProvider(
        url,
        OAuthClientMetadata(client_name="Antiphon", redirect_uris=[AnyUrl(address)]),
        tokens,
        None if person is None else show,
        None if person is None else person.returned,
        oauth.client_metadata_url,
    )


def _machine(url: str, oauth: McpOAuth, tokens: Tokens) -> OAuthClientProvider:
    """The provider of a client that signs in by itself."""
    assert oauth.client_id is not None, "the configuration was checked"
    if oauth.private_key is not None:
        signed = SignedJWTParameters(
            issuer=oauth.client_id,
            subject=oauth.client_id,
            signing_algorithm=oauth.algorithm,
            signing_key=Path(oauth.private_key).expanduser().read_text("utf-8"),
        )
        return PrivateKeyJWTOAuthProvider(
            url, tokens, oauth.client_id, signed.create_assertion_provider(), issuer=oauth.issuer
        )
    return ClientCredentialsOAuthProvider(
        url, tokens, oauth.client_id, oauth.client_secret or "", oauth.auth_method, issuer=oauth.issuer
    )


def restore(provider: OAuthClientProvider, entry: TokenEntry) -> None:
    """Restores what an earlier process found out: the SDK stores tokens, not their end nor where they are refreshed."""
    context = provider.context
    context.token_expiry_time = entry.expires_at
    if entry.authorization_server is not None:
        context.oauth_metadata = OAuthMetadata.model_validate(entry.authorization_server)
    if entry.resource is not None:
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(entry.resource)
        context.auth_server_url = str(context.protected_resource_metadata.authorization_servers[0])


def stored(tokens: Tokens, provider: OAuthClientProvider) -> TokenEntry:
    def plain(model: OAuthMetadata | ProtectedResourceMetadata | None) -> dict[str, Any] | None:
        return None if model is None else model.model_dump(mode="json", exclude_none=True)

    context = provider.context
    return msgspec.structs.replace(
        tokens.entry,
        authorization_server=plain(context.oauth_metadata),
        resource=plain(context.protected_resource_metadata),
    )


async def driven(
    provider: OAuthClientProvider, url: str, challenge: httpx2.Response | None, client: McpHttpClient
) -> str | None:
    """Runs the provider's flow up to where it would send the request itself, with the token on it.

    The request is never sent: ``challenge`` is the answer to it, once. So the SDK's lock is not taken for as long as
    a server needs for its answers.
    """
    version = None if challenge is None else challenge.request.headers.get(_PROTOCOL)
    headers = {} if version is None else {_PROTOCOL: version}
    request = httpx2.Request("POST", url, headers=headers)
    flow = provider.async_auth_flow(request)
    async with client:
        try:
            step = await anext(flow)
            while step is not request or challenge is not None:
                if step is request:
                    assert challenge is not None, "or the loop had ended"
                    response, challenge = challenge, None
                else:
                    check_address(str(step.url), url)
                    response = _of_its_origin(await client.send(step), provider, url)
                step = await flow.asend(response)
        except StopAsyncIteration:
            pass
        finally:
            await flow.aclose()
    return request.headers.get("authorization", "").removeprefix("Bearer ") or None


def check_address(address: str, server: str) -> None:
    """Only TLS, or plain HTTP of this machine for a server of this machine: metadata must not lead us elsewhere."""
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in _LOOPBACK and urlsplit(server).hostname in _LOOPBACK
    if parts.scheme != "https" and not local:
        raise OAuthFlowError(f"its metadata names an address that is not https: {address[:200]!r}")


def _of_its_origin(response: httpx2.Response, provider: OAuthClientProvider, server: str) -> httpx2.Response:
    """A server of 2025-03-26 is its own authorization server, whose metadata lies at the root of its origin.

    An ``issuer`` there with a path is another spelling of that origin, which the SDK compares letter by letter. With
    protected resource metadata, where a server names another one, nothing is taken but what is named.
    """
    url = response.request.url
    legacy = provider.context.auth_server_url is None and url.path == _ROOT_METADATA
    if not legacy or response.status_code != 200:
        return response
    origin = f"{url.scheme}://{url.netloc.decode()}"
    try:
        metadata = json.loads(response.content)
        issuer = urlsplit(metadata["issuer"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return response
    if f"{issuer.scheme}://{issuer.netloc}" != origin:
        return response
    return httpx2.Response(200, json=metadata | {"issuer": origin}, request=response.request)
