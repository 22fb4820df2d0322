"""The web pages that the owner of a server names: their origins, and patterns of such."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.errors import AccessError, ConfigError

# By which names a server that asks for no key may be called.
#
# A web page can have its own name lead to this machine (DNS rebinding); the browser then takes the server for the
# page's own, and asks nobody for leave. What such a request cannot hide is the name: it is in its Host header.

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


ANY = "*"
DEFAULT_PORTS = {"http": "80", "https": "443"}
"""Browsers leave it out."""
_LABEL = r"[^/?#@\s,*:\[\].]+"
_ORIGIN = re.compile(
    rf"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>\*|(?:\*\.)?{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::(?P<port>\*|\d+))?"
)
_ANY_HOST = r"(?:\[[0-9a-f:.]+\]|[^/?#@\s,*:\[\]]*)"
_HINT = (
    "An origin is scheme://host or scheme://host:port; * may stand for a host, for the beginning of one (*.example), "
    "for a port, and alone for every page there is."
)


class Origins:
    """Tells which pages are named. Raises `ConfigError` (``origin``) for what is no origin."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        origins = frozenset(named)
        self.any = ANY in origins
        self.named = bool(origins)
        self._pattern = re.compile("|".join(sorted(map(_pattern, origins - {ANY}))) or "(?!)")

    def allow(self, origin: str) -> bool:
        """Whether the page whose header ``origin`` says this is named; ``null`` is nobody's name."""
        return self.any or self._pattern.fullmatch(folded(origin)) is not None


def folded(origin: str) -> str:
    """The origin as browsers spell it: in small letters, without its scheme's own port."""
    origin = origin.strip().lower()
    scheme, _, rest = origin.partition("://")
    return f"{scheme}://{rest.removesuffix(f':{DEFAULT_PORTS[scheme]}')}" if scheme in DEFAULT_PORTS else origin


def _pattern(origin: str) -> str:
    """The regular expression of what is named."""
    found = _ORIGIN.fullmatch(folded(origin))
    if found is None:
        raise ConfigError(f"{origin!r} is no origin", code="origin", hint=_HINT)
    scheme, host, port = found["scheme"], found["host"], found["port"]
    if host == ANY:
        name = _ANY_HOST
    elif host.startswith("*."):
        name = rf"(?:{_LABEL}\.)+{re.escape(host[2:])}"
    else:
        name = re.escape(host)
    after = {None: "", ANY: r"(?::\d+)?"}.get(port, f":{port}")
    return f"{re.escape(scheme)}://{name}{after}"


# What a browser is told before it sends a request of another page: the pages that the owner names may send theirs.

_METHODS = ("GET", "POST", "DELETE")
_EXPOSED = (
    "x-request-id openai-model openai-processing-ms server-timing retry-after retry-after-ms "
    "x-antiphon-ignored x-antiphon-resume x-antiphon-warning x-antiphon-finish-reason x-antiphon-incidents "
    "x-ratelimit-limit-requests x-ratelimit-remaining-requests x-ratelimit-reset-requests "
    "x-ratelimit-limit-tokens x-ratelimit-remaining-tokens x-ratelimit-reset-tokens"
).split()
"""The headers of an answer that a page may read."""


class Cors(CORSMiddleware):
    """Starlette's layer, which leaves the preflight of a page that is not named to the gate: it says why it refuses.

    No cookie is ever requested: a key is a header. A page of a public network may reach a private one.
    """

    def __init__(self, app: ASGIApp, origins: Origins) -> None:
        super().__init__(
            app,
            allow_origins=[ANY] if origins.any else [],
            allow_methods=_METHODS,
            allow_headers=[ANY],
            expose_headers=_EXPOSED,
            allow_private_network=True,
        )
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            origin = Headers(scope=scope).get("origin")
            if origin is not None and not self.is_allowed_origin(origin):
                await self.app(scope, receive, send)
                return
        await super().__call__(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        return self._origins.allow(origin)


def cors(origins: Origins) -> list[Middleware]:
    """The layer that answers preflights; none where no page is named."""
    return [Middleware(Cors, origins=origins)] if origins.named else []
