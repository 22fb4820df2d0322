"""By which names a server that asks for no key may be called.

A web page can have its own name lead to this machine (DNS rebinding); the browser then takes the server for the page's
own, and asks nobody for leave. What such a request cannot hide is the name: it is in its Host header.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from starlette.datastructures import Headers

from antiphon.errors import AccessError

_HOST = re.compile(r"(?P<name>[a-z0-9_.-]*|\[(?P<address>[0-9a-f:.]+)\])(?::\d{0,5})?")
_LOCAL = frozenset({"localhost", "internal", "lan", "home", "test"})
"""The last labels of names that no public server answers for. Not ``local``: anybody on the network answers there."""


def check_host(headers: Headers, hosts: Sequence[str]) -> None:
    """Raises `AccessError` (``host_not_allowed``) for what is no host, and for a name of the public DNS, or below
    ``local``, that is not among ``hosts``.

    Addresses are no names, and a name without a dot, or below a private domain, is nobody's to register. A request
    without the header is from no browser.
    """
    host = headers.get("host")
    name = "" if host is None else host_name(host)
    if name is not None and (not name or _is_private(name) or name in {allowed.lower() for allowed in hosts}):
        return
    raise AccessError(
        f"This server has no keys and is not to be called as {name or host}.",
        code="host_not_allowed",
        hint="Name it in server.hosts, or add a key with `antiphon keys add`.",
    )


def host_name(host: str) -> str | None:
    """The name in a Host header, without the port and the dot of the root; None for what is no host.

    Of the characters that RFC 3986 lets a name have, those of the DNS and ``_`` are taken.
    """
    found = _HOST.fullmatch(host.strip().lower())
    if found is None or (found["address"] is not None and not _is_address(found["address"])):
        return None
    return (found["address"] or found["name"]).rstrip(".")


def _is_private(name: str) -> bool:
    return _is_address(name) or "." not in name or name.rpartition(".")[2] in _LOCAL


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
