"""Which requests a browser may send: those of the server's own pages, of pages that are named, and of people.

A browser sends what any page wants it to send, from this machine and to this machine. Where it does not ask for leave
before (a form, an image, a text without a type), what tells such a request from a program's are the headers that no
page can leave out or forge: ``host``, ``origin`` and ``sec-fetch-site``. This is the one place that reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Scope

from antiphon.errors import AccessError, RequestError
from antiphon.http.origins import Origins, check_host, folded
from antiphon.http.route import DOCS, PLAYGROUND, route_path

ORIGIN, SITE, MODE, DESTINATION = "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"
OWN, NOBODY = "same-origin", "none"
"""A page of this very server; a person, who typed the address or opened a bookmark. The other two words are
``cross-site``, and ``same-site``: another port of this machine, or a sister below one domain, is another's page."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_SHOWN = 200
"""Characters of an origin that an error repeats."""


@dataclass(frozen=True, slots=True)
class BrowserGate:
    """Refuses before a body is read. ``origins`` are the pages that are named; ``hosts`` the names of a server without
    keys, None where any will do.
    """

    origins: Origins
    hosts: Sequence[str] | None

    def check(self, scope: Scope, headers: Headers, *, keyless: bool) -> None:
        """Raises `AccessError` (``host_not_allowed``, ``origin_not_allowed``) for a page of another site, and
        `RequestError` (``unsupported_media_type``) for a body without a type that a browser may have sent.
        """
        if keyless and self.hosts is not None:
            check_host(headers, self.hosts)
        if not sent_by_browser(headers):
            return
        self._check_page(scope, headers)
        if scope["type"] == "http" and _has_body(scope, headers) and not headers.get("content-type", "").strip():
            raise RequestError(
                "The body has no content-type.",
                code="unsupported_media_type",
                hint="Send content-type: application/json, or of a form multipart/form-data.",
            )

    def _check_page(self, scope: Scope, headers: Headers) -> None:
        origins, sites = headers.getlist(ORIGIN), set(headers.getlist(SITE))
        if self.origins.any or (origins and all(map(self.origins.allow, origins))):
            return
        if sites == {OWN}:  # Whatever a proxy makes of the scheme and the name: the browser knows both.
            return
        own = own_origin(scope, headers)
        foreign = next((origin for origin in origins if folded(origin) != own), None)
        if foreign is not None:
            raise _foreign(foreign[:_SHOWN])
        if not sites <= {OWN, NOBODY} and not opens_page(scope, headers):
            raise _foreign(None)


def sent_by_browser(headers: Headers) -> bool:
    """Whether a browser may have sent it. Node's own fetch sends ``sec-fetch-mode`` alone, and is no browser."""
    return ORIGIN in headers or SITE in headers


def own_origin(scope: Scope, headers: Headers) -> str | None:
    """The origin of the server's own pages, as the request names the server; None where it does not."""
    host = headers.get("host")
    if not host:
        return None
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    return folded(f"{scheme}://{host}")


def opens_page(scope: Scope, headers: Headers) -> bool:
    """Whether it is a link that opens the playground or a page of the documentation: nothing happens by that."""
    path = route_path(scope)
    return (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and ORIGIN not in headers
        and (headers.get(MODE), headers.get(DESTINATION)) == ("navigate", "document")
        and (path in ("/", PLAYGROUND, f"{PLAYGROUND}/", DOCS) or path.startswith(f"{DOCS}/"))
    )


def _has_body(scope: Scope, headers: Headers) -> bool:
    """Whether a body is announced. From HTTP/2 on it need not be, but by a length of 0 where there is none."""
    length = headers.get("content-length")
    if length is not None:
        return length.strip().strip("0") != ""
    later = scope.get("http_version", "1.1")[:1] not in ("0", "1")
    return "transfer-encoding" in headers or (later and scope["method"] not in _READING)


def _foreign(origin: str | None) -> AccessError:
    if origin is None:
        message, named = "A page of another site may not send this request.", "its origin"
    elif "://" not in origin:
        message = f"The page that sends this request has no origin of its own ({origin})."
        return AccessError(
            message, code="origin_not_allowed", hint="Open it from an address, and name that in server.origins."
        )
    else:
        message, named = f"The page at {origin} may not call this server.", origin
    hint = f"If it may: name {named} in server.origins (antiphon serve --origins {origin or 'ORIGIN'})."
    return AccessError(message, code="origin_not_allowed", hint=hint)
