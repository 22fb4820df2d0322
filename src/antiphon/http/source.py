"""Where models come from, as this room needs it; `antiphon.catalog` has such a thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from antiphon.catalog.pulling import Pull
from antiphon.generation import Model, ModelFacts
from antiphon.tools import Offer

if TYPE_CHECKING:  # serving does not need the browser's libraries
    from antiphon.tools.browser import Citation


class ModelSource(Protocol):
    """Models by name, loaded when first requested."""

    @property
    def names(self) -> Sequence[str]:
        """The models that may be requested, the default first."""

    @property
    def default(self) -> str | None:
        """The model of a request that names none."""

    @property
    def embedding(self) -> str | None:
        """The model of a request for embeddings that names none."""

    @property
    def ranking(self) -> str | None:
        """The model of a request that ranks and names none; None: the one that embeds does it."""

    @property
    def loaded(self) -> Mapping[str, Model]:
        """The models that are in memory now."""

    def facts(self, name: str) -> ModelFacts | None:
        """What is known of the model without reading files; None: nothing yet. For any of `names`."""

    async def describe(self, name: str) -> ModelFacts | None:
        """The same, its files read for it; raises what reading them raises."""

    def aliases(self, name: str) -> Sequence[str]:
        """Other names of the model; for any of `names`."""

    def created(self, name: str) -> int:
        """When the model was made, a Unix time in seconds; for any of `names`."""

    async def get(self, name: str) -> Model:
        """The model, loaded. Raises `NotFoundError` (code ``model_not_found``) or `ModelError`."""

    async def aclose(self) -> None:
        """Stops every engine."""


@runtime_checkable
class ModelFiles(Protocol):
    """A source whose models' files can be fetched and deleted while it serves."""

    def is_here(self, name: str) -> bool:
        """Whether the model can be loaded without fetching anything. Raises `NotFoundError`."""

    def pull(self, name: str) -> Pull:
        """Fetches the model, or joins those who do. Raises `NotFoundError`."""

    async def remove(self, name: str) -> None:
        """Deletes the model's file. Raises `NotFoundError`."""


class ServerTools(Protocol):
    """Tools that run on this side, where a request or the server's owner wants them (`antiphon.tools.Toolbox`)."""

    def offered(self, *, builtins: bool) -> Offer:
        """Their definitions for a prompt: as built-ins where its format knows such, else as functions."""

    def citations(self, session: str, text: str) -> Sequence[Citation]:
        """The pages that an answer in this session names."""
