"""Routes whose code is imported with their first request: each of them is there."""

from __future__ import annotations

import asyncio

import pytest
from starlette.routing import Route, WebSocketRoute

from antiphon.api.builtin import BUILT_IN
from antiphon.api.wires import Wire
from antiphon.http.lazy_route import LazyRoute
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
