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

_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d*)?")
_LOCAL = frozenset({"localhost", "local", "internal", "lan", "home", "test"})
"""The last labels of names that no public server answers for."""


def check_host(headers: Headers, hosts: Sequence[str]) -> None:
    """Raises `AccessError` (``host_not_allowed``) for a name of the public DNS that is not among ``hosts``.

    Addresses are no names, and a name without a dot, or below a private domain, is nobody's to register. A request
    without the header is from no browser.
    """
    host = headers.get("host")
    name = _name(host) if host is not None else ""
    if not name or _is_private(name) or name in {allowed.lower() for allowed in hosts}:
        return
    raise AccessError(
        f"This server has no keys and is not to be called as {name}.",
        code="host_not_allowed",
        hint="Name it in server.hosts, or add a key with `antiphon keys add`.",
    )


def _name(host: str) -> str:
    """The name without the port and the dot of the root."""
    found = _HOST.fullmatch(host.strip().lower())
    return (found[1] if found else host).rstrip(".")


def _is_private(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return "." not in name or name.rpartition(".")[2] in _LOCAL
    return True
