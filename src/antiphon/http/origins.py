"""The web pages that the owner of a server names: their origins, and patterns of such."""

from __future__ import annotations

import re
from collections.abc import Iterable

from antiphon.errors import ConfigError

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
