"""GET /api/2.0/serving-endpoints and …/{name}: the models as Databricks' management API lists endpoints."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.api.wires import Wire
from antiphon.errors import NotFoundError, Position, near
from antiphon.http.context import Context
from antiphon.http.error_shapes import ENDPOINT_ERRORS
from antiphon.wire.endpoints import ServingEndpoint, ServingEndpointList, Task, serving_endpoint
from antiphon.wire.json import encode

PLACE = "/api/2.0/serving-endpoints"


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


def _routes(context: Context) -> list[Route]:
    endpoints = ServingEndpoints(context)
    return [
        Route(PLACE, endpoints.list, methods=["GET"]),
        Route(f"{PLACE}/", endpoints.list, methods=["GET"]),
        Route(f"{PLACE}/{{name:path}}", endpoints.one, methods=["GET"]),
    ]


def _json(value: object) -> Response:
    return Response(encode(value), media_type="application/json")


SERVING_ENDPOINTS = Wire(name="serving-endpoints", routes=_routes, places=(PLACE,), errors=ENDPOINT_ERRORS)
"""MLflow's client lists them with a slash at the end, the SDK without."""
