"""Connections to public addresses alone: whatever a URL, a name's resolver or a redirect says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import httpx2

from antiphon.tools.network import Network, is_public, is_readable, literal, objection


class PublicTransport(httpx2.AsyncBaseTransport):
    """Connects to the address that was checked, so that a name cannot change in between (DNS rebinding).

    ``networks`` may be connected to though they are not public. No proxy is used. Raises `httpx2.ConnectError`.
    """

    def __init__(self, networks: Sequence[Network] = ()) -> None:
        self._networks = tuple(networks)
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        reason = objection_to(request.url, self._networks)
        if reason is not None:
            raise httpx2.ConnectError(reason, request=request)
        *others, last = await self._addresses(request)
        for address in others:
            try:
                return await self._inner.handle_async_request(_pinned(request, address))
            except httpx2.ConnectError:
                continue
        return await self._inner.handle_async_request(_pinned(request, last))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _addresses(self, request: httpx2.Request) -> Sequence[str]:
        """Those of the request's host, all of which are allowed."""
        host = request.url.host
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(f"{host} has no address", request=request) from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        for text in addresses:
            address = literal(text)
            if address is None or not is_public(address, self._networks):
                raise httpx2.ConnectError(f"{host} is not a public address", request=request)
        return addresses


def objection_to(url: httpx2.URL, networks: Sequence[Network] = ()) -> str | None:
    """Why a URL may not be connected to; None where it may, as far as it can be seen."""
    if url.scheme in ("http", "https") and (not url.host or url.userinfo):
        return "the address must have a host and no user"
    return objection(url.scheme, url.host, url.port, networks)


def objection_to_text(text: str, networks: Sequence[Network] = ()) -> str | None:
    """The same for a URL as it was written."""
    if not is_readable(text):
        return "the address is too long or has blanks, control characters or backslashes"
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        return "that is not an address"
    if "@" in text.partition("//")[2].partition("/")[0]:
        return "the address must have a host and no user"
    return objection_to(url, networks)


def _pinned(request: httpx2.Request, address: str) -> httpx2.Request:
    """The request to that address; its certificate must be that of the host all the same."""
    host = request.url.host
    named = {} if literal(host) is not None else {"sni_hostname": host}
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, **named},
    )
