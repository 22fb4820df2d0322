"""Routes whose code is imported with their first request: each of them is there."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router, WebSocketRoute

from antiphon.api.builtin import BUILT_IN
from antiphon.api.wires import Wire
from antiphon.http.lazy_route import LazyRoute
from antiphon.http.route import PathRouter
from antiphon.playground.site import PLAYGROUND
from kit.api import app

LAZY = {
    f"{' '.join(sorted(getattr(route, 'methods', None) or ['socket']))} {route.path}": route.endpoint
    for route in app([], wires=[PLAYGROUND]).routes
    if isinstance(route, Route | WebSocketRoute) and isinstance(route.endpoint, LazyRoute)
}


@pytest.mark.parametrize("path", LAZY)
def test_a_lazy_route_has_its_code_and_makes_it_once(path: str) -> None:
    async def twice() -> None:
        assert callable(await LAZY[path].loaded())
        assert await LAZY[path].loaded() is await LAZY[path].loaded()

    asyncio.run(twice())


def test_two_first_requests_have_one_route() -> None:
    async def together() -> None:
        route = next(iter(LAZY.values()))
        later = type(route._later)(route._context, route._later._place)
        fresh, other = LazyRoute(route._context, later), LazyRoute(route._context, later)
        assert len({*await asyncio.gather(fresh.loaded(), fresh.loaded(), other.loaded())}) == 1

    asyncio.run(together())


@pytest.mark.one_process("looks at what its process has")
@pytest.mark.parametrize("wire", BUILT_IN, ids=lambda wire: wire.name)
def test_every_route_of_a_wire_here_is_lazy(wire: Wire) -> None:
    application = app([])
    assert all(isinstance(route.endpoint, LazyRoute) for route in wire.routes(application.state.context))


NOBODY: Any = None
"""Sends nothing."""
METHODS = ("GET", "POST", "OPTIONS")
ROUTES = [route for route in app([]).routes if isinstance(route, Route | WebSocketRoute)]
PATHS = sorted({route.path for route in ROUTES} | {route.path.replace("{", "").replace("}", "") for route in ROUTES})


class Found(Exception):
    """A route was reached."""


def marked(routes: list[Route | WebSocketRoute]) -> list[Route | WebSocketRoute]:
    """The same routes, each of which raises its number and what it was given of the path."""

    def handler(number: int) -> Any:
        async def handle(scope: Any, receive: Any, send: Any) -> None:
            raise Found(number, scope["path_params"])

        return handle

    copies: list[Route | WebSocketRoute] = []
    for number, route in enumerate(routes):
        if isinstance(route, Route):
            copy: Route | WebSocketRoute = Route(route.path, route.endpoint, methods=sorted(route.methods or ()))
        else:
            copy = WebSocketRoute(route.path, route.endpoint)
        copy.app = handler(number)
        copies.append(copy)
    return copies


MARKED = marked(ROUTES)
BY_PATH = PathRouter(MARKED)
ONE_BY_ONE = Router(MARKED, redirect_slashes=False)


async def found(router: Router, kind: str, path: str, method: str, root: str = "") -> object:
    scope: Any = {"type": kind, "path": path, "root_path": root, "method": method, "headers": [], "app": None}
    if kind == "websocket":
        del scope["method"]
    answered: list[Any] = []

    async def send(message: Any) -> None:
        answered.append(message)

    try:
        await router(scope, NOBODY, send)
    except Found as reached:
        return reached.args
    except HTTPException as error:
        return error.status_code, error.headers
    return answered


async def test_every_path_and_method_reaches_the_same_route() -> None:
    for path, method in product(PATHS, METHODS):
        assert await found(BY_PATH, "http", path, method) == await found(ONE_BY_ONE, "http", path, method)


@pytest.mark.parametrize("root", ["/v1", "/mounted"])
async def test_so_it_is_below_a_path_at_which_the_application_is_mounted(root: str) -> None:
    for path in PATHS[::8]:
        assert await found(BY_PATH, "http", root + path, "GET", root) == await found(ONE_BY_ONE, "http", path, "GET")


async def test_so_does_every_websocket() -> None:
    for path in PATHS[::3]:
        assert await found(BY_PATH, "websocket", path, "") == await found(ONE_BY_ONE, "websocket", path, "")
