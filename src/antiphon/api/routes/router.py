"""Finds a request's route: hundreds are there, and few of them fit any one path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.types import Receive, Scope, Send


class PathRouter(Router):
    """Starlette's router, which does not try every route for a path that some route spells out."""

    def __init__(self, routes: Sequence[BaseRoute], **options: Any) -> None:
        super().__init__(routes, **options)
        self._spelled = {
            route.path for route in routes if isinstance(route, Route | WebSocketRoute) and not route.param_convertors
        }
        self._by_path: dict[str, Router] = {}
        """Of those that were requested."""

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As Starlette's; where the application is mounted below a path, all routes are tried."""
        few = None if scope.get("root_path") else self._few(scope.get("path", ""))
        if few is None:
            await super().app(scope, receive, send)
        else:
            await few.app(scope, receive, send)

    def _few(self, path: str) -> Router | None:
        """The routes that may serve a path that is spelled out, in their order, whatever the method."""
        few = self._by_path.get(path)
        if few is None and path in self._spelled:
            fitting = [route for route in self.routes if _may_serve(route, path)]
            few = self._by_path[path] = Router(fitting, redirect_slashes=False)
        return few


def _may_serve(route: BaseRoute, path: str) -> bool:
    return not isinstance(route, Route | WebSocketRoute) or route.path_regex.match(path) is not None
