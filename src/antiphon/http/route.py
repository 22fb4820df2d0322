"""A route of the API: with the scope that a key needs for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.routing import BaseRoute, Route, WebSocketRoute

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
