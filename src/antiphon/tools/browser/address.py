"""Which addresses may be fetched: public ones, over HTTP, spelled so that nobody can read them two ways."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from .backend import refused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_NUMERIC = re.compile(r"(^|\.)(\d+|0[xX][0-9a-fA-F]*)\.?$")
MAX_URL = 4096

SPECIAL_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
"""IANA's special-purpose ranges of IPv4, and multicast. Those that are reachable from everywhere have no pages either.

``ipaddress.is_global`` is not asked: which of these it calls public differs between releases of Python.
"""

GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
"""All that is given out for use in the whole Internet."""

SPECIAL_V6 = tuple(
    ipaddress.IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20")
)
"""The special-purpose ranges in it: protocols (Teredo among them), documentation, 6to4, AS112, the former 6bone."""

IPV4_INSIDE = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))
"""IPv4-mapped addresses, and what NAT64 makes of IPv4 addresses where there is only IPv6."""


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
    if literal is not None and not is_public(literal, allowed):
        raise refused(f"{host} is not a public address")
    if port not in (80, 443, 8080, 8443) and not allowed:
        raise refused(f"port {port} is not one for pages")
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
            address = _literal(result["host"])
            if address is None or not is_public(address, self._allowed):
                raise refused(f"{host} is not a public address")
        return found

    async def close(self) -> None:
        await self._inner.close()


def is_public(address: Address, allowed: Sequence[Network] = ()) -> bool:
    """Whether pages may be fetched from an address: a public one, or one of ``allowed``.

    An IPv6 address that stands for an IPv4 address (mapped, NAT64) is as public as that one.
    """
    if any(address in network for network in allowed if network.version == address.version):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in SPECIAL_V4)
    if any(address in network for network in IPV4_INSIDE):
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF), allowed)
    return address in GLOBAL_V6 and not any(address in network for network in SPECIAL_V6)


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
