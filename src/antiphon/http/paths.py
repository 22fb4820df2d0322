"""Paths as clients write them: a base URL that ends with a slash, and a path that begins with one, give two."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

DOCS, PLAYGROUND = "/docs", "/playground"
"""Their files are everybody's; what the playground does with a key are requests like others."""
_SLASHES = re.compile("//+")
_FOLDERS = (f"{DOCS}/", f"{PLAYGROUND}/")
"""Places of files, whose links go on from the last slash."""


def route_path(scope: Scope) -> str:
    """The path that the router looks at: without that at which the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    inner = path.removeprefix(root) if root else path
    return inner if inner.startswith("/") or not inner else path


class Paths:
    """Finds the spelling that a route has: without slashes at the end, and with one where several are."""

    def __init__(self, routes: Sequence[Route | WebSocketRoute]) -> None:
        self._routes = routes
        self._ended = {route.path for route in routes if route.path.endswith("/")}

    def spelled(self, path: str) -> str:
        """The path to look for. One that a route has as it is stays so, as does the rest of a path that is a name."""
        if "//" in path and not self._has(path):
            path = _SLASHES.sub("/", path)
        if path in self._ended or path.startswith(_FOLDERS):
            return path
        return path.rstrip("/") or "/"

    def _has(self, path: str) -> bool:
        return any(route.path_regex.match(path) for route in self._routes)


class SpelledPath:
    """The outermost layer: whoever looks at the path of a request looks at the same one."""

    def __init__(self, app: ASGIApp, paths: Paths) -> None:
        self._app = app
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path.endswith("/") or "//" in path:
            inner = route_path(scope)
            scope["path"] = path[: len(path) - len(inner)] + self._paths.spelled(inner)
        await self._app(scope, receive, send)
