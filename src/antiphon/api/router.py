"""Finds a request's route: many are there, and few of them fit any one path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.routing import BaseRoute, Match, Router
from starlette.types import Receive, Scope, Send

from antiphon.http.route import AnyRoute

FOUND = "antiphon.route"


class PathRouter(Router):
    """Starlette's router, which does not try every route for a path that some route spells out."""

    def __init__(self, routes: Sequence[AnyRoute], **options: Any) -> None:
        super().__init__(routes, redirect_slashes=False, **options)
        self._spelled = {route.path for route in routes if not route.param_convertors}
        self._by_path: dict[str, Sequence[BaseRoute]] = {}
        """Of those that were requested."""

    def find(self, scope: Scope) -> BaseRoute | None:
        """The route that answers the request: one that has its path and its method, else the first that has its path.

        It is kept in the ``scope``, with what the path says.
        """
        first: tuple[BaseRoute, Scope] | None = None
        for route in self._few(scope):
            match, more = route.matches(scope)
            if match is Match.FULL:
                first = route, more
                break
            if match is Match.PARTIAL and first is None:
                first = route, more
        scope[FOUND] = first
        return first[0] if first is not None else None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
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

    def _few(self, scope: Scope) -> Sequence[BaseRoute]:
        """The routes that may serve the path, in their order, whatever the method.

        All where the application is mounted below a path.
        """
        path = scope.get("path", "")
        if scope.get("root_path") or path not in self._spelled:
            return self.routes
        few = self._by_path.get(path)
        if few is None:
            few = self._by_path[path] = [route for route in self.routes if _may_serve(route, path)]
        return few


def _may_serve(route: BaseRoute, path: str) -> bool:
    return not isinstance(route, AnyRoute) or route.path_regex.match(path) is not None
