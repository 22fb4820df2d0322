"""Which addresses may be fetched: public ones, over HTTP, spelled so that nobody can read them two ways."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from .backend import refused

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_NUMERIC = re.compile(r"(^|\.)(\d+|0[xX][0-9a-fA-F]*)\.?$")
MAX_URL = 4096


def checked_url(text: str, allowed: Sequence[Network] = ()) -> URL:
    """The URL, parsed by the very parser that connects. Raises a tool failure for one that may not be fetched."""
    if len(text) > MAX_URL or _ODD.search(text):
        raise refused("the address is too long or has blanks, control characters or backslashes")
    try:
        url = URL(text)
        host, port = url.host, url.port
    except ValueError as error:
        raise refused(f"{text!r} is not an address") from error
    if url.scheme not in ("http", "https"):
        raise refused(f"only http and https are fetched, not {url.scheme or text!r}")
    if not host or url.user is not None or url.password is not None or "@" in url.authority:
        raise refused("the address must have a host and no user")
    if _NUMERIC.search(host) and _literal(host) is None:
        raise refused(f"{host} is a number that some read as an address")
    literal = _literal(host)
    if literal is not None and not _public(literal, allowed):
        raise refused(f"{host} is not a public address")
    if port not in (80, 443, 8080, 8443) and not allowed:
        raise refused(f"port {port} is not one for pages")
    return url.with_fragment(None)


class PublicResolver(AbstractResolver):
    """Resolves names for the connection itself and refuses every address that is not public.

    The address that was checked is the one that is connected to, so a name cannot change in between (DNS rebinding).
    """

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._inner = ThreadedResolver()
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        for result in found:
            if not _public(ipaddress.ip_address(result["host"].partition("%")[0]), self._allowed):
                raise refused(f"{host} is not a public address")
        return found

    async def close(self) -> None:
        await self._inner.close()


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _public(address: Any, allowed: Sequence[Network]) -> bool:
    """Whether an address is a public one, and so is any address that is mapped, translated or tunnelled inside it."""
    if any(address in network for network in allowed if network.version == address.version):
        return True
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())] if address.version == 6 else []
    if address.version == 6 and address in ipaddress.ip_network("64:ff9b::/96"):
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if any(part is not None and not _public(part, allowed) for part in inner):
        return False
    return bool(address.is_global and not address.is_multicast and not address.is_reserved)
