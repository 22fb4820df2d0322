"""GET /api/2.0/serving-endpoints and …/{name}: the models as Databricks' management API lists endpoints."""

from __future__ import annotations

from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.errors import NotFoundError, Position, near
from antiphon.http.context import Context
from antiphon.http.exchange import json_response

# Models as the serving endpoints of Databricks' management API: what its clients read before they ask one.

Task = Literal["llm/v1/chat", "llm/v1/embeddings"]


class EndpointState(msgspec.Struct, frozen=True):
    """An endpoint that is listed takes requests: its model is loaded when the first comes."""

    ready: Literal["READY"] = "READY"
    config_update: Literal["NOT_UPDATING"] = "NOT_UPDATING"


class ServedEntity(msgspec.Struct, frozen=True):
    name: str
    entity_name: str


class EndpointConfig(msgspec.Struct, frozen=True):
    served_entities: list[ServedEntity]


class ServingEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One model. Times are Unix times in milliseconds."""

    name: str
    id: str
    creator: str = "antiphon"
    creation_timestamp: int
    last_updated_timestamp: int
    state: EndpointState = EndpointState()
    config: EndpointConfig
    task: Task
    permission_level: Literal["CAN_QUERY"] = "CAN_QUERY"


class ServingEndpointList(msgspec.Struct, frozen=True):
    endpoints: list[ServingEndpoint]


def serving_endpoint(name: str, task: Task, *, created: int) -> ServingEndpoint:
    """The endpoint of the model ``name``, made at the Unix time ``created`` in seconds."""
    return ServingEndpoint(
        name=name,
        id=name,
        creation_timestamp=created * 1000,
        last_updated_timestamp=created * 1000,
        config=EndpointConfig([ServedEntity(name, name)]),
        task=task,
    )


class ServingEndpoints:
    """Every model that may be requested; none can be made, changed or deleted here."""

    def __init__(self, context: Context) -> None:
        self._source = context.source

    async def list(self, request: Request) -> Response:
        return json_response(ServingEndpointList([self._endpoint(name) for name in self._source.names]))

    async def one(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._source.names:
            raise NotFoundError(
                f"The endpoint {name[:200]!r} does not exist.",
                code="model_not_found",
                position=Position(path="name"),
                hint=near(name[:200], self._source.names),
            )
        return json_response(self._endpoint(name))

    def _endpoint(self, name: str) -> ServingEndpoint:
        loaded = self._source.loaded.get(name)
        writes = name not in (self._source.embedding, self._source.ranking) and (
            loaded is None or loaded.task == "chat"
        )
        task: Task = "llm/v1/chat" if writes else "llm/v1/embeddings"
        return serving_endpoint(name, task, created=self._source.created(name))
