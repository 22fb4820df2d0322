"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from antiphon.config import named_by
from antiphon.errors import AntiphonError, NotFoundError, Position, near
from antiphon.generation import ModelFacts
from antiphon.http.context import Context, ModelSource
from antiphon.http.exchange import FAULTS, json_response

from .wire import ModelCard, ModelList, model_card


async def known_facts(source: ModelSource, name: str) -> ModelFacts | None:
    """Describes a model; None where its files are not here, or cannot be read."""
    try:
        return await source.describe(name)
    except AntiphonError as error:  # It may be fetched, or mended: its name stays.
        FAULTS.info("the model %s is not described: %s", name, error)
        return None


class Models:
    """The models that may be requested, loaded or not."""

    def __init__(self, context: Context) -> None:
        self._source = context.source
        self._dialect = context.dialect

    async def list(self, request: Request) -> Response:
        """Lists the models with the facts known now: no file is read for a list."""
        cards = [self._card(name, self._source.facts(name)) for name in self._source.names]
        return json_response(ModelList(data=cards))

    async def one(self, request: Request) -> Response:
        """One model by its name or an alias; its files are read, if they are here, where nothing is known yet."""
        name = self._named(request.path_params["id"])
        return json_response(self._card(name, await known_facts(self._source, name)))

    def _named(self, id: str) -> str:
        names = self._source.names
        own = id if id in names else named_by(id, {name: self._source.aliases(name) for name in names})
        if own is None:
            raise NotFoundError(
                f"The model {id[:200]!r} does not exist.",
                code="model_not_found",
                position=Position(path="model"),
                hint=near(id[:200], names),
            )
        return own

    def _card(self, name: str, facts: ModelFacts | None) -> ModelCard:
        return model_card(name, self._source.created(name), facts, self._dialect, tuple(self._source.aliases(name)))
