"""GET /api/tags, /api/ps, /api/version; POST /api/show."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from antiphon.errors import AntiphonError, NotFoundError
from antiphon.generation import ModelFacts
from antiphon.http.context import Context
from antiphon.http.exchange import FAULTS
from antiphon.http.post import Post
from antiphon.wire.json import encode

from .listing import listed, running, shown
from .route import OllamaRoute, named, not_found, own_name
from .schema import OllamaModels, OllamaRunningModels, OllamaShowRequest, OllamaVersion

VERSION = "0.14.0"
"""The release of Ollama whose API this is: clients compare it with the one that they need."""


class OllamaLists:
    """The models that are here, and those that are in memory."""

    def __init__(self, context: Context) -> None:
        self._source = context.source

    async def tags(self, request: Request) -> Response:
        models = [(name, await self._facts(name)) for name in self._source.names]
        return _json(OllamaModels(models=[listed(name, self._at(name), facts) for name, facts in models if facts]))

    async def ps(self, request: Request) -> Response:
        loaded = self._source.loaded.items()
        return _json(OllamaRunningModels(models=[running(name, self._at(name), model.facts) for name, model in loaded]))

    async def version(self, request: Request) -> Response:
        return _json(OllamaVersion(VERSION))

    async def root(self, request: Request) -> Response:
        return PlainTextResponse("Ollama is running")

    def _at(self, name: str) -> int:
        return self._source.created(name)

    async def _facts(self, name: str) -> ModelFacts | None:
        """None for a model whose files are not here, or cannot be read."""
        try:
            return await self._source.describe(name)
        except AntiphonError as error:
            FAULTS.info("the model %s is not described: %s", name, error)
            return None


class OllamaShow(OllamaRoute):
    """One model, by its name or an alias."""

    async def answer(self, post: Post) -> None:
        wire, source = await post.read(OllamaShowRequest), self._context.source
        requested = named(wire.model, wire.name)
        name = own_name(source, requested)
        if name not in source.names:
            raise not_found(requested)
        try:
            facts = await source.describe(name)
        except NotFoundError:
            raise not_found(requested) from None
        if facts is None:
            facts = (await self._context.model(name)).facts
        await post.send_json(shown(name, source.created(name), facts))


def _json(value: object) -> Response:
    return Response(encode(value), media_type="application/json")
