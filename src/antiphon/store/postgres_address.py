"""Addresses of PostgreSQL: what of them libpq reads, what the store does, and what nobody may see."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from antiphon.errors import ConfigError

SCHEMES = ("postgres", "postgresql")
_SECRETS = re.compile(r"(?<=[?&])((?:ssl)?password=)[^&#]*")
_HOST = re.compile(r"(\[[^\]]*\]|[^:@\[\]]*)(:[0-9]*)?")
_USER = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+://[^:@/?#]*):.*@")


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """``conninfo`` is for libpq. The pool has at most ``connection_limit`` connections, and one is waited for
    ``pool_timeout`` seconds; as long may one call take.
    """

    conninfo: str = field(repr=False)
    connection_limit: int = 10
    pool_timeout: float = 30.0


def hidden_password(address: str) -> str:
    """The address without its password, for people."""
    return _SECRETS.sub(r"\1***", _USER.sub(r"\1:***@", address))


def parse_address(address: str) -> PostgresAddress:
    """``postgresql://USER:PASSWORD@HOST/DATABASE?connection_limit=10&pool_timeout=30``, and libpq's own parameters.

    Raises `ConfigError`, code ``store_unusable``, whose words have nothing of the address: a password that is not
    percent-encoded would be taken for something else.
    """
    try:
        parts = urlsplit(address)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        limit = int(parameters.pop("connection_limit", "10"))
        timeout = float(parameters.pop("pool_timeout", "30"))
    except ValueError as error:
        raise _unreadable() from error
    if not _is_clear(address, parts) or not 1 <= limit <= 1000 or not 0.1 <= timeout <= 600:
        raise _unreadable()
    query = urlencode(parameters, quote_via=quote)
    conninfo = f"{parts.scheme}://{parts.netloc}{parts.path}{'?' if query else ''}{query}"
    return PostgresAddress(conninfo, limit, timeout)


def _is_clear(address: str, parts: SplitResult) -> bool:
    """Whether nothing of a password can be taken for anything else."""
    user, _, hosts = parts.netloc.rpartition("@")
    return (
        address.count("@") == (1 if user else 0)
        and not parts.fragment
        and not re.search(r"%(?![0-9A-Fa-f]{2})", address)
        and all(_HOST.fullmatch(host) for host in hosts.split(","))
    )


def _unreadable() -> ConfigError:
    return ConfigError(
        "the session store's address cannot be read",
        code="store_unusable",
        hint="postgresql://USER:PASSWORD@HOST:PORT/DATABASE, where a password's @ / ? # and : are percent-encoded; "
        "connection_limit is 1 to 1000, pool_timeout 0.1 to 600 seconds.",
    )
