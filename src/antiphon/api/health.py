"""Is it alive, is it ready, what is it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from antiphon.http.context import Context
from antiphon.observe.metrics import CONTENT_TYPE
from antiphon.version import __version__
from antiphon.wire.json import encode


class MetricsText:
    """A scrape, for keys with the scope admin (or for all, when the server's owner says so)."""

    def __init__(self, context: Context) -> None:
        self._metrics, self._shares = context.metrics, context.shares

    async def text(self, request: Request) -> Response:
        text = await self._shares.metrics() if self._shares else self._metrics.render()
        return Response(text, headers={"content-type": CONTENT_TYPE})


class Health:
    """``/livez``: the process answers. ``/readyz``, ``/health`` and ``/ping``: it also takes requests now; else 503."""

    def __init__(self, context: Context) -> None:
        self._lifecycle = context.lifecycle

    async def live(self, request: Request) -> Response:
        return _json({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        self._lifecycle.check_ready()
        return _json({"status": "ok"})

    async def version(self, request: Request) -> Response:
        return _json({"version": __version__})


def _json(value: object) -> Response:
    return Response(encode(value), media_type="application/json")
