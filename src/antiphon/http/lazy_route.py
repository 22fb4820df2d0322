"""Routes, and other objects, whose code is imported when they are first used."""

from __future__ import annotations

import asyncio
from inspect import isroutine
from operator import attrgetter
from pkgutil import resolve_name
from typing import Any

from starlette.routing import request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.wire.writer import StreamForm

from .context import Context
from .exchange import Exchange
from .post import Post, PostRoute
from .recorded import AbandonedStream


class LazyObject:
    """An object that the class at ``place`` (``module:Class``) makes of the context and of ``more``, once."""

    def __init__(self, context: Context, place: str, *more: object) -> None:
        self._context = context
        self._place = place
        self._more = more
        self.made: Any = None
        """The object; None until it is first used."""

    async def get(self) -> Any:
        """It, the same each time; imported beside the event loop."""
        if self.made is None:
            make = await asyncio.to_thread(resolve_name, self._place)
            self.made = self.made or make(self._context, *self._more)
        return self.made


class LazyRoute(PostRoute):
    """The route that ``later`` makes, or the ``part`` of what it makes: a route, or a method that answers a request."""

    def __init__(self, context: Context, later: LazyObject, part: str = "") -> None:
        super().__init__(context)
        self._later = later
        self._part = part
        self._route: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self.loaded())(scope, receive, send)

    async def go_on(self, exchange: Exchange, left: AbandonedStream) -> None:
        route = await self.loaded()
        assert isinstance(route, PostRoute)
        await route.go_on(exchange, left)

    async def form(self, post: Post) -> StreamForm:
        route = await self.loaded()
        assert isinstance(route, PostRoute)
        return await route.form(post)

    async def loaded(self) -> ASGIApp:
        """The route itself, the same for all requests."""
        if self._route is None:
            made = await self._later.get()
            found = attrgetter(self._part)(made) if self._part else made
            self._route = self._route or (request_response(found) if isroutine(found) else found)
        return self._route


class LazyRoutes(LazyObject):
    """The routes that a class makes of the context: what it makes is one, or its parts are."""

    def __call__(self, part: str = "") -> LazyRoute:
        return LazyRoute(self._context, self, part)
