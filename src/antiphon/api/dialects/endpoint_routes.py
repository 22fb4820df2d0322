"""GET /api/2.0/serving-endpoints and …/{name}: the models as Databricks' management API lists endpoints."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from antiphon.errors import NotFoundError, Position, near
from antiphon.http.context import Context
from antiphon.wire.json import encode

from .endpoints import ServingEndpoint, ServingEndpointList, Task, serving_endpoint


class ServingEndpoints:
    """Every model that may be requested; none can be made, changed or deleted here."""

    def __init__(self, context: Context) -> None:
        self._source = context.source

    async def list(self, request: Request) -> Response:
        return _json(ServingEndpointList([self._endpoint(name) for name in self._source.names]))

    async def one(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._source.names:
            raise NotFoundError(
                f"The endpoint {name[:200]!r} does not exist.",
                code="model_not_found",
                position=Position(path="name"),
                hint=near(name[:200], self._source.names),
            )
        return _json(self._endpoint(name))

    def _endpoint(self, name: str) -> ServingEndpoint:
        loaded = self._source.loaded.get(name)
        writes = name not in (self._source.embedding, self._source.ranking) and (
            loaded is None or loaded.task == "chat"
        )
        task: Task = "llm/v1/chat" if writes else "llm/v1/embeddings"
        return serving_endpoint(name, task, created=self._source.created(name))


def _json(value: object) -> Response:
    return Response(encode(value), media_type="application/json")
