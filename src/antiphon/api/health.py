"""Is it alive, is it ready, what is it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from antiphon.http.context import Context
from antiphon.version import __version__
from antiphon.wire.json import encode


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
