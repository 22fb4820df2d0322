"""The playground: ``/playground`` and its files, and ``/`` for browsers. Other clients find at ``/`` what they know."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match
from starlette.types import Scope

from antiphon.errors import NotFoundError
from antiphon.http.context import Context
from antiphon.http.lazy_route import LazyRoutes
from antiphon.http.route import ANYBODY, INFERENCE, ApiRoute
from antiphon.http.route import PLAYGROUND as PLACE

# The files of the playground, by name, as they are sent.

POLICY = "; ".join((
    "default-src 'self'", "connect-src 'self'", "img-src 'self' data:", "style-src 'self'", "frame-ancestors 'none'",
    "base-uri 'none'", "form-action 'none'", "object-src 'none'",
    "require-trusted-types-for 'script'", "trusted-types dompurify highlighting",
))  # fmt: skip
"""The Content-Security-Policy of every file: nothing but the server's own, no inline script or style."""

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class StaticFile(msgspec.Struct, frozen=True):
    """One file, plain and compressed; ``tag`` is its entity tag, quoted."""

    media_type: str
    tag: str
    plain: bytes
    compressed: bytes


def static_file(name: str) -> StaticFile | None:
    """The file of that name (``app/main.js``); None for any other name, whatever it spells."""
    return _all().get(name)


def static_names() -> tuple[str, ...]:
    return tuple(_all())


@cache
def _all() -> Mapping[str, StaticFile]:
    """Read once, so that a name is looked up and never made a path."""
    return dict(_below(files(__package__) / "static", ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            found += _below(entry, f"{prefix}{entry.name}/")
        elif (kind := MEDIA_TYPES.get(f".{entry.name.rpartition('.')[2]}")) is not None:
            found.append((f"{prefix}{entry.name}", as_sent(kind, entry.read_bytes())))
    return found


def as_sent(media_type: str, plain: bytes) -> StaticFile:
    """A file with its tag, and compressed."""
    tag = f'"{hashlib.sha256(plain).hexdigest()[:24]}"'
    return StaticFile(media_type, tag, plain, gzip.compress(plain, mtime=0))


PAGE = "index.html"
API = f"{PLACE}/api"
"""The routes of the page's own, below it."""
STORED = f"{API}/stored"
TOOLS = f"{API}/tools"
PROGRESS = f"{API}/progress"
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def playground_routes(context: Context) -> list[ApiRoute]:
    stored = LazyRoutes(context, "antiphon.playground.now:Stored")
    now = LazyRoutes(context, "antiphon.playground.now:Now")
    return [
        ApiRoute("GET", TOOLS, now("tools"), INFERENCE, counted=False),
        ApiRoute("GET", f"{PROGRESS}/{{id}}", now("progress"), INFERENCE, counted=False),
        ApiRoute("GET", STORED, stored("list"), INFERENCE),
        ApiRoute("GET", f"{STORED}/{{kind}}/{{id:path}}", stored("one"), INFERENCE),
        BrowserRoute("GET", "/", page, ANYBODY),
        ApiRoute("GET", PLACE, page, ANYBODY),
        ApiRoute("GET", f"{PLACE}/{{name:path}}", file, ANYBODY),
    ]


class BrowserRoute(ApiRoute):
    """A route for those that list ``text/html`` in their ``accept``; for others it is not there."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["method"] != "GET":
            return Match.NONE, {}
        wants = "text/html" in Headers(scope=scope).get("accept", "")
        return super().matches(scope) if wants else (Match.NONE, {})


async def page(request: Request) -> Response:
    found = static_file(PAGE)
    assert found is not None
    return answer(request, found, HEADERS)


async def file(request: Request) -> Response:
    name = request.path_params["name"]
    if not name:
        return RedirectResponse(f"../{PLACE.strip('/')}")
    found = static_file(name)
    if found is None or name == PAGE:
        raise NotFoundError("The playground has no such file.", code="unknown_url")
    return answer(request, found, HEADERS)


def answer(request: Request, found: StaticFile, headers: Mapping[str, str]) -> Response:
    """The file, compressed where the client takes that; 304 where the client has it."""
    headers = {**headers, "etag": found.tag, "vary": "accept, accept-encoding"}
    if found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(found.compressed, headers=headers, media_type=found.media_type)
    return Response(found.plain, headers=headers, media_type=found.media_type)
