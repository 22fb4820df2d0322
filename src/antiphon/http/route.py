"""A route of the API: with the scope that a key needs for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from starlette.routing import BaseRoute, Match, Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from .gate.keys import Scope

Needed = Scope | None | Callable[[], Scope | None]
"""The scope of keys that may use a route; None: everybody may, without a key. A function decides at each request."""
ANYBODY = None
INFERENCE, ADMIN, MODELS = Scope.INFERENCE, Scope.ADMIN, Scope.MODELS


class ApiRoute(Route):
    """``methods`` are names between blanks. ``counted``: its requests count in the rates of their key."""

    def __init__(
        self, methods: str, path: str, endpoint: Callable[..., Any], scope: Needed, *, counted: bool = True
    ) -> None:
        super().__init__(path, endpoint, methods=methods.split())
        self.scope, self.counted = scope, counted


class ApiSocket(WebSocketRoute):
    """A route that becomes a WebSocket; what comes over it are requests of their own, which count by themselves."""

    def __init__(self, path: str, endpoint: Callable[..., Any], scope: Needed) -> None:
        super().__init__(path, endpoint)
        self.scope, self.counted = scope, False


AnyRoute = Route | WebSocketRoute


def scope_of(route: BaseRoute) -> Scope | None:
    """The scope that a key needs for the route. One that names none, as Starlette's own do, is for administrators."""
    scope: Needed = getattr(route, "scope", ADMIN)
    return scope() if callable(scope) else scope


def is_counted(route: BaseRoute) -> bool:
    return getattr(route, "counted", True)


# Paths as clients write them: a base URL that ends with a slash, and a path that begins with one, give two.

VERSION = "/v1"
DOCS, PLAYGROUND = "/docs", "/playground"
"""Their files are everybody's; what the playground does with a key are requests like others."""
_SLASHES = re.compile("//+")
_FOLDERS = (f"{DOCS}/", f"{PLAYGROUND}/")
"""Places of files, whose links go on from the last slash."""


def route_path(scope: AsgiScope) -> str:
    """The path that the router looks at: without that at which the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    inner = path.removeprefix(root) if root else path
    return inner if inner.startswith("/") or not inner else path


class Paths:
    """Finds the spelling that a route has: one slash where several are, none at the end, and the version once.

    Some clients leave the version out of their base URL, some say it twice.
    """

    def __init__(self, routes: Sequence[AnyRoute]) -> None:
        self._routes = routes
        self._spelled = {route.path for route in routes}
        versioned = {path.partition(f"{VERSION}/")[0] for path in self._spelled if f"{VERSION}/" in path}
        self._places = sorted({*versioned, ""}, key=len, reverse=True)
        self._ended = {path for path in self._spelled if path.endswith("/")}

    def spelled(self, path: str) -> str:
        """The path to look for. One that a route has as it is stays so, as does the rest of a path that is a name."""
        if path in self._spelled:
            return path
        if "//" in path and not self._has(path):
            path = _SLASHES.sub("/", path)
        if path not in self._ended and not path.startswith(_FOLDERS):
            path = path.rstrip("/") or "/"
        return next((one for one in (path, *self._versions(path)) if self._has(one)), path)

    def _versions(self, path: str) -> Iterator[str]:
        """The path with a version at its beginning, and with one fewer and fewer."""
        place = next(place for place in self._places if path.startswith(f"{place}/"))
        rest = path.removeprefix(place)
        yield f"{place}{VERSION}{rest}"
        while rest.startswith(f"{VERSION}/"):
            rest = rest.removeprefix(VERSION)
            yield f"{place}{rest}"

    def _has(self, path: str) -> bool:
        return path in self._spelled or any(route.path_regex.match(path) for route in self._routes)


class SpelledPath:
    """The outermost layer: whoever looks at the path of a request looks at the same one."""

    def __init__(self, app: ASGIApp, paths: Paths) -> None:
        self._app = app
        self._paths = paths

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path.startswith("/"):
            inner = route_path(scope)
            scope["path"] = path[: len(path) - len(inner)] + self._paths.spelled(inner)
        await self._app(scope, receive, send)


# Finds a request's route: many are there, and few of them fit any one path.

FOUND = "antiphon.route"


class PathRouter(Router):
    """Starlette's router, which does not try every route for a path that some route spells out."""

    def __init__(self, routes: Sequence[AnyRoute], **options: Any) -> None:
        super().__init__(routes, redirect_slashes=False, **options)
        self._spelled = {route.path for route in routes if not route.param_convertors}
        self._by_path: dict[str, Sequence[BaseRoute]] = {}
        """Routes by path, for paths that were requested."""

    def find(self, scope: AsgiScope) -> BaseRoute | None:
        """The route that answers the request: one that has its path and its method, else the first that has its path.

        It is kept in the ``scope``, with what the path says.
        """
        first: tuple[BaseRoute, AsgiScope] | None = None
        for route in self._few(scope):
            match, more = route.matches(scope)
            if match is Match.FULL:
                first = route, more
                break
            if match is Match.PARTIAL and first is None:
                first = route, more
        scope[FOUND] = first
        return first[0] if first is not None else None

    async def app(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.lifespan(scope, receive, send)
            return
        if FOUND not in scope:
            self.find(scope)
        scope["router"], found = self, scope.pop(FOUND)
        if found is None:
            await self.default(scope, receive, send)
            return
        route, more = found
        scope.update(more)
        await route.handle(scope, receive, send)

    def _few(self, scope: AsgiScope) -> Sequence[BaseRoute]:
        """The routes that may serve the path, in their order, whatever the method.

        All where the application is mounted below a path.
        """
        path = scope.get("path", "")
        if scope.get("root_path") or path not in self._spelled:
            return self.routes
        few = self._by_path.get(path)
        if few is None:
            few = self._by_path[path] = [
                route for route in self.routes if not isinstance(route, AnyRoute) or route.path_regex.match(path)
            ]
        return few
