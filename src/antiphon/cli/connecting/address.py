"""Where a server is: what a user types, or what the configuration says."""

from __future__ import annotations

import re

from antiphon.config import Config
from antiphon.errors import RequestError


def local_url(settings: Config) -> str:
    """Where `antiphon serve` listens by the configuration, as a client of this machine names it."""
    server = settings.server
    anywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
    host = anywhere.get(server.host, server.host)
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if server.tls_cert else 'http'}://{host}:{server.port}"


def root_of(url: str) -> str:
    """An address without ``/v1`` at its end. Raises `RequestError` for what is no address."""
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        raise RequestError(f"{url!r} is no address of a server", hint="--url http://HOST:PORT")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def check_variable(name: str | None) -> None:
    """Raises `RequestError` for what cannot be the name of a variable of the environment: a key itself, for example."""
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise RequestError("this is no name of a variable", hint="A name, like ANTIPHON_KEY, and not the key itself.")
