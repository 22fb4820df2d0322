"""What a browser is told before it sends a request of another page: the pages that the owner names may send theirs."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from .origins import ANY, Origins

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
