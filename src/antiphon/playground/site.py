"""The documentation as a wire: pages, no API, so /openapi.json has none of it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from antiphon.api.wires import Wire
from antiphon.errors import NotFoundError
from antiphon.http.route import ANYBODY, ApiRoute
from antiphon.http.route import DOCS as PLACE

from .routes import HEADERS, MEDIA_TYPES, StaticFile, answer, as_sent, playground_routes

# The playground as a wire: a page, and what it requests of its own.

PLAYGROUND = Wire(name="playground", routes=playground_routes, described="antiphon.playground.now:DESCRIBED")


# The built site, which `make docs` packs into the package: its files, by name, as they are sent.

PACKED = files(__package__) / "pages.zip"
KINDS = {
    **MEDIA_TYPES,
    ".abnf": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".png": "image/png",
    ".webp": "image/webp",
}


class Site:
    """The files of an archive. It is read at the first request; each file is unpacked when it is first requested."""

    def __init__(self, packed: Traversable) -> None:
        self._packed = packed
        self._sent: dict[str, StaticFile] = {}

    @property
    def built(self) -> bool:
        return bool(self._kinds)

    def file(self, name: str) -> StaticFile | None:
        """The file of that name (``python.html``); None for any other, whatever it spells: it is never made a path."""
        if name not in self._kinds:
            return None
        if name not in self._sent:
            with zipfile.ZipFile(BytesIO(self._content)) as archive:
                self._sent[name] = as_sent(self._kinds[name], archive.read(name))
        return self._sent[name]

    @cached_property
    def _content(self) -> bytes:
        return self._packed.read_bytes() if self._packed.is_file() else b""

    @cached_property
    def _kinds(self) -> Mapping[str, str]:
        """Which files there are, and their media types; none where the site was not built."""
        if not self._content:
            return {}
        with zipfile.ZipFile(BytesIO(self._content)) as archive:
            kinds = {name: KINDS.get(f".{name.rpartition('.')[2]}") for name in archive.namelist()}
        return {name: kind for name, kind in kinds.items() if kind}


# ``/docs`` and its pages. Where the site was not built, what to do instead, in words.

FIRST = "index.html"
POLICY = "; ".join((
    "default-src 'self'", "img-src 'self' data:", "style-src 'self' 'unsafe-inline'",
    "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "object-src 'none'",
))  # fmt: skip
"""As the playground's, but for what the search does: it writes what it found as HTML, and has a style of its own."""
NOT_BUILT = """\
This server has no documentation to show: it runs from a source tree in which the site was not built.

  make docs      builds it; then start the server again
  docs/          has the same pages as Markdown
"""


def site_routes(site: Site) -> list[ApiRoute]:
    async def file(request: Request) -> Response:
        found = site.file(request.path_params["name"] or FIRST)
        if found is not None:
            return answer(request, found, HEADERS | {"content-security-policy": POLICY})
        if not site.built:
            return PlainTextResponse(NOT_BUILT, status_code=404, headers=HEADERS)
        raise NotFoundError("The documentation has no such page.", code="unknown_url")

    return [ApiRoute("GET", PLACE, begin, ANYBODY), ApiRoute("GET", f"{PLACE}/{{name:path}}", file, ANYBODY)]


async def begin(request: Request) -> Response:
    """To the folder, from where the links of the first page lead on; relative, wherever the server is mounted."""
    return RedirectResponse(f"{PLACE.strip('/')}/")


def site_wire(packed: Traversable = PACKED) -> Wire:
    """The site of that archive under ``/docs``; by default the one that `make docs` put into the package."""
    site = Site(packed)
    return Wire(name="docs", routes=lambda context: site_routes(site))
