"""Which web pages may call this server from a browser: none, unless they are named."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from antiphon.errors import AccessError, ConfigError

ANY = "*"
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s,*]+")
_METHODS = ("GET", "POST", "DELETE")
_EXPOSED = (
    "x-request-id openai-model openai-processing-ms server-timing retry-after retry-after-ms "
    "x-antiphon-ignored x-antiphon-resume x-antiphon-warning x-antiphon-finish-reason x-antiphon-incidents "
    "x-ratelimit-limit-requests x-ratelimit-remaining-requests x-ratelimit-reset-requests "
    "x-ratelimit-limit-tokens x-ratelimit-remaining-tokens x-ratelimit-reset-tokens"
).split()
"""The headers of an answer that a page may read."""


def check_origin(headers: Headers, origins: Sequence[str]) -> None:
    """Raises `AccessError` for a page that is not among ``origins``: no preflight is before a WebSocket."""
    origin = headers.get("origin")
    if origin is not None and origin not in origins and ANY not in origins:
        raise AccessError("This page may not open a connection here.", code="origin_not_allowed")


def cors(origins: Sequence[str]) -> list[Middleware]:
    """The layer that answers preflights; none without origins. No cookie is ever requested: a key is a header.

    Raises `ConfigError` (``origin``) for what is no origin.
    """
    for origin in origins:
        if origin != ANY and not _ORIGIN.fullmatch(origin):
            hint = "An origin is scheme://host or scheme://host:port, or * for every page there is."
            raise ConfigError(f"{origin!r} is no origin", code="origin", hint=hint)
    if not origins:
        return []
    layer = Middleware(
        CORSMiddleware, allow_origins=origins, allow_methods=_METHODS, allow_headers=[ANY], expose_headers=_EXPOSED
    )
    return [layer]
