"""``/docs`` and its pages. Where the site was not built, what to do instead, in words."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from antiphon.errors import NotFoundError
from antiphon.http.paths import DOCS as PLACE
from antiphon.http.route import ANYBODY, ApiRoute

from .routes import HEADERS, answer
from .site_files import Site

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
