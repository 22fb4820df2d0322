"""Models that are there already: for tests, examples, and programs that make their own."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.errors import NotFoundError, near
from antiphon.generation import Model, ModelFacts


class StaticCatalog:
    """``models`` by name; the first is the default."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = dict(models)

    @property
    def names(self) -> list[str]:
        return list(self._models)

    @property
    def default(self) -> str | None:
        return next(iter(self._models), None)

    @property
    def embedding(self) -> str | None:
        return next((name for name, model in self._models.items() if model.embedding), None)

    @property
    def ranking(self) -> str | None:
        return next((name for name, model in self._models.items() if model.ranking), None)

    def created(self, name: str) -> int:
        return self._models[name].created

    def aliases(self, name: str) -> tuple[str, ...]:
        return ()

    def facts(self, name: str) -> ModelFacts | None:
        return self._models[name].facts

    async def describe(self, name: str) -> ModelFacts | None:
        return (await self.get(name)).facts

    @property
    def loaded(self) -> Mapping[str, Model]:
        return self._models

    async def get(self, name: str) -> Model:
        """The model of that name. Raises `NotFoundError` with near names."""
        model = self._models.get(name)
        if model is None:
            raise NotFoundError(
                f"The model {name[:200]!r} does not exist.", code="model_not_found", hint=near(name[:200], self._models)
            )
        return model

    async def aclose(self) -> None:
        """Stops every engine."""
        for model in self._models.values():
            await model.engine.aclose()
