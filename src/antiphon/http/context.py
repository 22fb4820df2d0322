"""The context that all routes of one app share. A value made by `create_app`; nothing is global."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from antiphon.catalog.catalog import Pull
from antiphon.config import BatchesConfig, Limits
from antiphon.errors import AntiphonError, NotFoundError, OverloadedError, Position, RequestError
from antiphon.generation import Model, ModelFacts
from antiphon.isolation import Isolation
from antiphon.observe import Metrics, Tracing
from antiphon.store import Leases, Sessions, StoredRuns, UnfinishedTurns
from antiphon.store.archive import Archive
from antiphon.tools import Offer
from antiphon.wire.dialect import Dialect
from antiphon.wire.encrypted import ReasoningCipher

from .errors import OPENAI_ERRORS, ErrorShape, without_paths
from .exchange import FAULTS, Exchange
from .gate.admission import Admission, SharedLimits
from .gate.idempotency import Idempotency
from .gate.keys import Keyring, Scope
from .gate.large import LargeWork
from .gate.rates import Rates
from .lifecycle import Lifecycle
from .rules import Rules
from .runs import Runs
from .transcript_runs import TranscriptRuns

if TYPE_CHECKING:  # serving does not need the browser's libraries
    from antiphon.tools.browser import Citation, Web
    from antiphon.tools.mcp import ClientServers


# Where models come from, as this room needs it; `antiphon.catalog` has such a thing.


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
        """The facts of the model that are known without reading files; None: nothing yet. For any of `names`."""

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


REASONING, HIDDEN = "x-antiphon-reasoning", "hidden"
"""The header by which a client declines reasoning that it may see."""


def day_of(time: float) -> date:
    """The day of Unix time in seconds, in UTC."""
    return datetime.fromtimestamp(time, UTC).date()


@dataclass(slots=True)
class Traffic:
    """Counts since the start."""

    requests: int = 0
    clients_gone: int = 0
    ignored_fields: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``clock`` gives Unix time in seconds.

    ``tools`` run on this side where a request lists them, or always with ``offer_tools``. ``client_mcp``: requests may
    name MCP servers of their own. ``web`` fetches what requests name by address, None: nothing is. ``isolation``: where
    programs of clients run. ``leases`` are what this server works on alone, of all that share its store. ``ids`` are
    those of turns for prompts that go on with them, None: the store is no longer lived than the models. ``errors`` is
    the shape of errors on connections that no route has yet.
    """

    source: ModelSource
    rules: Rules
    dialect: Dialect
    admission: Admission
    large: LargeWork
    leases: Leases
    archive: Archive
    idempotency: Idempotency
    stored_runs: StoredRuns
    sessions: Sessions
    turns: UnfinishedTurns
    ids: UnfinishedTurns | None
    cipher: ReasoningCipher
    clock: Callable[[], float]
    keys: Keyring
    rates: Rates
    metrics: Metrics
    batches: BatchesConfig
    tracing: Tracing | None = None
    tools: ServerTools | None = None
    offer_tools: bool = False
    client_mcp: ClientServers | None = None
    web: Web | None = None
    errors: ErrorShape = OPENAI_ERRORS
    isolation: Isolation = field(default_factory=Isolation)
    shares: SharedLimits | None = None
    runs: Runs = field(default_factory=Runs)
    transcripts: TranscriptRuns = field(default_factory=TranscriptRuns)
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    traffic: Traffic = field(default_factory=Traffic)
    loads: set[asyncio.Task[Model]] = field(default_factory=set)
    beside: list[Callable[[], AbstractAsyncContextManager[None]]] = field(default_factory=list)
    """Context managers that are open as long as the application runs; wires add theirs as they make their routes."""

    @property
    def limits(self) -> Limits:
        return self.rules.limits

    @property
    def today(self) -> date:
        return day_of(self.clock())

    def reveals(self, exchange: Exchange) -> bool:
        """Whether this request's client may see the model's reasoning, and does not say that it wants none of it."""
        if exchange.headers.get(REASONING) == HIDDEN:
            return False
        return self.rules.expose_reasoning or Scope.DEBUG in exchange.principal.scopes

    async def model(self, name: str | None) -> Model:
        """The model of that name, or the default. A load goes on when the client that began it goes away.

        Raises `NotFoundError`, `ModelError`, or `OverloadedError` (``loading``) when it takes too long to wait for.
        """
        name = self.source.default if name is None else name
        if name is None:
            hint = f"Known: {', '.join(list(self.source.names)[:40])}."
            raise RequestError(
                "model must be named.", code="missing_required_parameter", position=Position(path="model"), hint=hint
            )
        load = asyncio.ensure_future(self._load(name))
        self.loads.add(load)
        load.add_done_callback(self._loaded)
        try:
            async with asyncio.timeout(self.limits.load_timeout):
                return await asyncio.shield(load)
        except TimeoutError:
            raise OverloadedError(f"The model {name!r} is loading.", code="loading", retry_after=5.0) from None
        finally:
            del load  # Its error would refer to itself, by way of this frame, with all of the request.

    async def _load(self, name: str) -> Model:
        try:
            model = await self.source.get(name)
            self.lifecycle.loading = False
            model.sequences.stored = self.ids
            model.images.isolation = self.isolation
            if model.compiler is not None:
                model.compiler.try_in(self.isolation, self.large.settle)
            return model
        except NotFoundError as error:
            hint = error.hint if name else "Leave it out, and the default model answers."
            raise NotFoundError(
                error.message, code="model_not_found", position=Position(path="model"), hint=hint
            ) from None
        except AntiphonError as error:
            if not self.lifecycle.loading:  # Who loads the first model says it in full.
                FAULTS.warning("the model %s is not loaded: %s", name, error)
            raise without_paths(error) from error

    def _loaded(self, load: asyncio.Task[Model]) -> None:
        self.loads.discard(load)
        if not load.cancelled():
            load.exception()  # whoever waits gets it; when nobody does, the next request meets it again
