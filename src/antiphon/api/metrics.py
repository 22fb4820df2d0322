"""GET /metrics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from antiphon.http.context import Context
from antiphon.observe.metrics import CONTENT_TYPE


class MetricsText:
    """A scrape, for keys with the scope admin (or for all, when the server's owner says so)."""

    def __init__(self, context: Context) -> None:
        self._metrics, self._shares = context.metrics, context.shares

    async def text(self, request: Request) -> Response:
        text = await self._shares.metrics() if self._shares else self._metrics.render()
        return Response(text, headers={"content-type": CONTENT_TYPE})
