"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.context import Context
from antiphon.errors import NotFoundError, Position, near
from antiphon.wire.json import encode
from antiphon.wire.models import ModelCard, ModelList


class Models:
    """The models that may be requested, loaded or not."""

    def __init__(self, context: Context) -> None:
        self._source = context.source

    async def list(self, request: Request) -> Response:
        cards = [self._card(name) for name in self._source.names]
        return Response(encode(ModelList(data=cards)), media_type="application/json")

    async def one(self, request: Request) -> Response:
        name = request.path_params["id"]
        if name not in self._source.names:
            raise NotFoundError(
                f"The model {name[:200]!r} does not exist.",
                code="model_not_found",
                position=Position(path="model"),
                hint=near(name[:200], self._source.names),
            )
        return Response(encode(self._card(name)), media_type="application/json")

    def _card(self, name: str) -> ModelCard:
        return ModelCard(id=name, created=self._source.created(name))
