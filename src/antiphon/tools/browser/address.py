"""Which addresses may be fetched: public ones, over HTTP, spelled so that nobody can read them two ways."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from antiphon.tools.network import Network, is_public, is_readable, literal, objection

from .backend import refused


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
