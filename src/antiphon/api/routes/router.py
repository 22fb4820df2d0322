"""Finds a request's route: hundreds are there, and few of them fit any one path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.types import Receive, Scope, Send


class PathRouter(Router):
    """Starlette's router, which does not try every route for a path that some route spells out."""

    def __init__(self, routes: Sequence[BaseRoute], **options: Any) -> None:
        super().__init__(routes, **options)
        self._by_path = {path: Router(few, redirect_slashes=False) for path, few in _by_path(routes).items()}

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As Starlette's; where the application is mounted below a path, all routes are tried."""
        few = None if scope.get("root_path") else self._by_path.get(scope.get("path", ""))
        if few is None:
            await super().app(scope, receive, send)
        else:
            await few.app(scope, receive, send)


def _by_path(routes: Sequence[BaseRoute]) -> dict[str, list[BaseRoute]]:
    """For each path without parameters the routes that may serve it, in their order, whatever the method."""
    places: dict[str, list[int]] = defaultdict(list)
    patterns = []
    for place, route in enumerate(routes):
        if isinstance(route, Route | WebSocketRoute) and not route.param_convertors:
            places[route.path].append(place)
        else:
            patterns.append((place, route))
    for path, fitting in places.items():
        fitting += [place for place, route in patterns if _may_serve(route, path)]
    return {path: [routes[place] for place in sorted(fitting)] for path, fitting in places.items()}


def _may_serve(route: BaseRoute, path: str) -> bool:
    return not isinstance(route, Route | WebSocketRoute) or route.path_regex.match(path) is not None
