"""Which addresses of the network may be connected to: public ones, spelled so that nobody can read them two ways."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_NUMERIC = re.compile(r"(^|\.)(\d+|0[xX][0-9a-fA-F]*)\.?$")
_NO_NAME = re.compile(r"[][%:/?#@]")
MAX_URL = 4096
PORTS = (80, 443, 8080, 8443)

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


def is_public(address: Address, allowed: Sequence[Network] = ()) -> bool:
    """Whether an address may be connected to: a public one, or one of ``allowed``.

    An IPv6 address that stands for an IPv4 address (mapped, NAT64) is as public as that one.
    """
    if any(address in network for network in allowed if network.version == address.version):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in SPECIAL_V4)
    if any(address in network for network in IPV4_INSIDE):
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF), allowed)
    return address in GLOBAL_V6 and not any(address in network for network in SPECIAL_V6)


def literal(host: str) -> Address | None:
    """The address that a host is; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def is_readable(url: str) -> bool:
    """Whether a URL is short enough, and has nothing that parsers read in several ways."""
    return len(url) <= MAX_URL and not _ODD.search(url)


def objection(scheme: str, host: str, port: int | None, allowed: Sequence[Network] = ()) -> str | None:
    """Why an address of the web may not be connected to; None where it may, as far as it can be seen.

    A name is judged by the addresses that it has when it is connected to. With networks ``allowed``, so is any port.
    """
    if scheme not in ("http", "https"):
        return f"only http and https are fetched, not {scheme or 'nothing'}"
    address = literal(host)
    if address is None and (not host or _NO_NAME.search(host)):
        return "the address must have a host"
    if address is None and _NUMERIC.search(host):
        return f"{host} is a number that some read as an address"
    if address is not None and not is_public(address, allowed):
        return f"{host} is not a public address"
    if port not in (None, *PORTS) and not allowed:
        return f"port {port} is not one for pages"
    return None
