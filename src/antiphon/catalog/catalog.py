"""Models by name, each loaded when it is first requested."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from antiphon.config import Entries, ModelEntry, find_entry, named_by
from antiphon.errors import NotFoundError, near
from antiphon.generation import Model, ModelFacts

from .describe import Described
from .files.store import InstalledModel, ModelStore
from .memory import ReconnectingEngine, SleepingEngine

# Fetching models while a catalog serves: each is fetched once, whoever waits for it.

_FETCHING = ThreadPoolExecutor(2, thread_name_prefix="pull")
"""A fetch may take hours and cannot be stopped: others have the event loop's own threads."""


@dataclass(slots=True)
class Pull:
    """One model that is being fetched. Sizes are in bytes; ``digest`` is the SHA-256 that is expected, in hex.

    ``done`` raises what `ModelStore.pull` raises. It goes on when nobody waits for it any more.
    """

    name: str
    digest: str | None
    total: int | None
    completed: int = 0
    done: asyncio.Future[InstalledModel] = field(init=False)

    @classmethod
    def begun(cls, store: ModelStore, name: str, entry: ModelEntry) -> Pull:
        pull = cls(name, entry.sha256, entry.size)
        pull.done = asyncio.get_running_loop().run_in_executor(_FETCHING, store.pull, name, entry, pull.note)
        return pull

    def note(self, completed: int, total: int | None) -> None:
        """How far it is: called in the thread that fetches."""
        self.completed, self.total = completed, total or self.total


Load = Callable[[str, ModelEntry], Awaitable[Model]]
"""(name, entry) → the model, ready to answer."""
Describe = Callable[[str, ModelEntry], Awaitable[Described]]
"""(name, entry) → what its files say."""


class Catalog:
    """The models that a server or a program can answer with: a value that is handed around, closed by whoever made it.

    ``listed`` are the names that callers are shown, the default first; an alias, and any other entry, is found too.
    ``embedding`` and ``ranking`` are the defaults for these. ``created`` are Unix times in seconds, by name.
    ``store`` has the files of its models, and ``forget`` is called with the name of one whose file is another now.
    ``changed`` is called with the name of one that this catalog fetched or deleted.
    """

    def __init__(
        self,
        entries: Entries,
        *,
        listed: Iterable[str],
        load: Load,
        describe: Describe | None = None,
        embedding: str | None = None,
        ranking: str | None = None,
        created: Mapping[str, int] = {},
        store: ModelStore | None = None,
        forget: Callable[[str], object] = lambda name: None,
        changed: Callable[[str], object] = lambda name: None,
    ) -> None:
        self._entries = entries
        self._load = load
        self._describe = describe
        self._described: dict[str, ModelFacts] = {}
        self._created = created
        self.embedding, self.ranking = embedding, ranking
        self._loading: dict[str, asyncio.Task[Model]] = {}
        self._retired: list[asyncio.Task[Model]] = []
        self._store = store
        self._forget = forget
        self._changed = changed
        self._pulls: dict[str, Pull] = {}
        self.names: tuple[str, ...] = tuple(dict.fromkeys(find_entry(name, entries)[0] for name in listed))

    @property
    def default(self) -> str | None:
        return self.names[0] if self.names else None

    @property
    def loaded(self) -> Mapping[str, Model]:
        """The models that are in memory now."""
        ready = {name: task.result() for name, task in self._loading.items() if is_ready(task)}
        asleep = {
            name for name, one in ready.items() if isinstance(one.engine, SleepingEngine) and not one.engine.awake
        }
        return {name: model for name, model in ready.items() if name not in asleep}

    def aliases(self, name: str) -> tuple[str, ...]:
        """Other names of the model."""
        return self._entries[name].aliases

    def created(self, name: str) -> int:
        """When the model of that name was made, as far as is known."""
        return self._created.get(name, 0)

    async def describe(self, name: str) -> ModelFacts | None:
        """Facts of a model, read from its files if they are here; None for one whose files nobody can read.

        Raises `NotFoundError`, and what loading the model would raise before its engine is opened.
        """
        own, entry = self._find(name)
        if (known := self.facts(own)) is None and self._describe is not None:
            known = self._described[own] = (await self._describe(own, entry)).facts
        return known

    def facts(self, name: str) -> ModelFacts | None:
        """Facts of the model that are known now, without reading any file."""
        task = self._loading.get(name)
        return task.result().facts if task is not None and is_ready(task) else self._described.get(name)

    async def get(self, name: str) -> Model:
        """The model of that name or alias, awake; concurrent requests wait for one loading, and a failed one is
        tried again by the next.

        Raises `NotFoundError` (``model_not_found``), `ModelError` when it cannot be loaded, `OverloadedError` when it
        cannot now.
        """
        own, entry = self._find(name)
        task = self._loading.get(own)
        engine = task.result().engine if task is not None and is_ready(task) else None
        if isinstance(engine, ReconnectingEngine) and engine.lost:  # its server may come back as another
            del self._loading[own]
            await engine.retire()
            return await self.get(name)
        if task is None:
            task = self._loading[own] = asyncio.create_task(self._load_entry(own, entry))
        model = await asyncio.shield(task)  # one who goes away does not take the model from the others
        if isinstance(model.engine, SleepingEngine):
            await model.engine.wake()
        return model

    async def take(self, other: Catalog) -> None:
        """From now on this one has the entries of ``other``. A model whose entry is another now is loaded anew.

        What runs goes on with the model that it has, which then leaves the memory.
        """
        known = (*self._loading, *self._described)
        changed = {name for name in known if other._entries.get(name) != self._entries.get(name)}
        self._entries, self._created = other._entries, other._created
        self.names, self.embedding, self.ranking = other.names, other.embedding, other.ranking
        for name in changed:
            await self._retire(name)

    def is_here(self, name: str) -> bool:
        """Whether the model can be loaded without fetching anything. Raises `NotFoundError`."""
        own, entry = self._find(name)
        return not entry.engine.needs_file or self._store is None or self._store.path(own, entry) is not None

    def pull(self, name: str) -> Pull:
        """Fetches the model of that name or alias, from where its entry says; who asks again gets the same pull.

        Raises `NotFoundError` for a name without an entry, and for an entry without a source.
        """
        own, entry = self._find(name)
        if self._store is None or not entry.source:
            raise NotFoundError(f"there is nowhere to fetch {name!r} from", code="model_not_found")
        pull = self._pulls.get(own)
        if pull is None or pull.done.done():
            pull = self._pulls[own] = Pull.begun(self._store, own, entry)

            def pulled(done: asyncio.Future[InstalledModel]) -> None:
                if not done.cancelled() and done.exception() is None:
                    self._arrived(own)
                    self._changed(own)

            pull.done.add_done_callback(pulled)
        return pull

    async def remove(self, name: str) -> None:
        """Deletes the model's file from the store, and unloads it; what runs goes on with the model that it has.

        Raises `NotFoundError` for one that is not in the store: files elsewhere are not its own.
        """
        own, _ = self._find(name)
        if self._store is None or not await asyncio.to_thread(self._store.remove, own):
            raise NotFoundError(f"the model {name!r} is not in the store", code="model_not_found")
        await self._removed(own)
        self._changed(own)

    async def refresh(self, own: str) -> None:
        """Another process fetched or deleted the model; an unknown one is none of ours."""
        if own not in self._entries:
            return
        if self.is_here(own):
            self._arrived(own)
        else:
            await self._removed(own)

    async def _removed(self, own: str) -> None:
        self._forget(own)
        self.names = tuple(
            one for one in self.names if one != own or own in (self.default, self.embedding, self.ranking)
        )
        await self._retire(own)

    def _arrived(self, own: str) -> None:
        self._described.pop(own, None)
        self._forget(own)
        self.names = tuple(dict.fromkeys((*self.names, own)))

    async def _retire(self, own: str) -> None:
        """From now on the model is described and loaded anew."""
        self._described.pop(own, None)
        task = self._loading.pop(own, None)
        if task is None:
            return
        self._retired.append(task)
        engine = task.result().engine if is_ready(task) else None
        if isinstance(engine, SleepingEngine | ReconnectingEngine):
            await engine.retire()

    async def aclose(self) -> None:
        """Stops every engine, those that are still loading too."""
        tasks = [*self._loading.values(), *self._retired]
        self._loading.clear()
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Model):
                await outcome.engine.aclose()

    def _find(self, name: str) -> tuple[str, ModelEntry]:
        """Only entries are found: a request over HTTP must not make us open a file of its choice."""
        if name in self._entries:
            return name, self._entries[name]
        own = named_by(name, {own: entry.aliases for own, entry in self._entries.items()})
        if own is not None:
            return own, self._entries[own]
        raise NotFoundError(f"the model {name!r} does not exist", code="model_not_found", hint=near(name, self.names))

    async def _load_entry(self, name: str, entry: ModelEntry) -> Model:
        try:
            return await self._load(name, entry)
        except BaseException:
            if self._loading.get(name) is asyncio.current_task():
                del self._loading[name]
            raise


def is_ready(task: asyncio.Task[Model]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
