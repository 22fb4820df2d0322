"""Opens a model by its name, its file or the address of its server."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar, Unpack, get_type_hints, overload
from urllib.parse import urlsplit

from anyio import CancelScope
from anyio.from_thread import BlockingPortal, start_blocking_portal
from msgspec.structs import replace

from antiphon.catalog import open_catalog
from antiphon.catalog.files import ModelStore
from antiphon.catalog.known_formats import NO_FORMATS
from antiphon.config import Config, ModelEntry, changed_entry, find_entry
from antiphon.config.load import read_config
from antiphon.engines import EngineSettings
from antiphon.errors import ConfigError, EngineError, Position
from antiphon.formats import FormatFactory
from antiphon.generation import Model

from .checks import check, check_path, checked
from .model import AsyncChatModel, Delta, LoadedModel, Reply
from .options import ChatInput, ChatOptions
from .shape import ResponseType

# A model to talk to, for programs that are not asynchronous.

Value = TypeVar("Value")
Item = TypeVar("Item")


class ChatModel(LoadedModel):
    """A model that is loaded, and runs on an event loop of its own in another thread. Made by `open_model`.

    Any thread may use it. Methods block until they have their result.
    """

    def __init__(self, model: AsyncChatModel, portal: BlockingPortal) -> None:
        super().__init__(model.model)
        self._awaited = model
        self._portal = portal

    @overload
    def chat(self, messages: ChatInput, *, response: type[Value], **options: Unpack[ChatOptions]) -> Reply[Value]: ...
    @overload
    def chat(
        self, messages: ChatInput, *, response: ResponseType = None, **options: Unpack[ChatOptions]
    ) -> Reply[Any]: ...
    def chat(self, messages: ChatInput, *, response: ResponseType = None, **options: Unpack[ChatOptions]) -> Reply[Any]:
        return finished(self._running(), lambda: self._awaited.chat(messages, response=response, **options))

    chat.__doc__ = AsyncChatModel.chat.__doc__

    @overload
    def stream(
        self, messages: ChatInput, *, response: type[Value], **options: Unpack[ChatOptions]
    ) -> Iterator[Delta[Value]]: ...
    @overload
    def stream(
        self, messages: ChatInput, *, response: ResponseType = None, **options: Unpack[ChatOptions]
    ) -> Iterator[Delta[Any]]: ...
    @checked
    def stream(
        self, messages: ChatInput, *, response: ResponseType = None, **options: Unpack[ChatOptions]
    ) -> Iterator[Delta[Any]]:
        """The same answer as it comes, with the arguments of `chat`; leaving the loop early stops the model."""
        return iterate(self._running(), lambda: self._awaited.stream(messages, response=response, **options))

    def embed(self, texts: Sequence[str], *, dimensions: int | None = None) -> list[tuple[float, ...]]:
        return finished(self._running(), lambda: self._awaited.embed(texts, dimensions=dimensions))

    embed.__doc__ = AsyncChatModel.embed.__doc__

    def _running(self) -> BlockingPortal:
        try:
            self._portal.start_task_soon(bool)
        except RuntimeError as error:
            raise EngineError("the model is closed: its `with` has ended", hint="Use it inside the `with`.") from error
        return self._portal


class _Task(Generic[Item]):
    """Work on another thread's loop, which this thread may leave at any point, even while it hands over `run`."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Item]]) -> None:
        self._work = work
        self._left: Future[None] = Future()
        self._ended = threading.Event()

    async def run(self) -> Item:
        if self._left.set_running_or_notify_cancel():
            loop = asyncio.get_running_loop()
            with CancelScope() as scope:
                self._left.add_done_callback(lambda _: loop.call_soon_threadsafe(scope.cancel))
                try:
                    return await self._work()
                finally:
                    self._ended.set()
        raise asyncio.CancelledError

    def leave(self) -> None:
        """Cancels the work and returns when it has ended; what has not begun never will."""
        if not self._left.cancel() and not self._ended.is_set():
            self._left.set_result(None)
            self._ended.wait()


def finished(portal: BlockingPortal, make: Callable[[], Coroutine[Any, Any, Item]]) -> Item:
    """Returns the result of a coroutine that runs on the portal's loop.

    An exception in this thread meanwhile (Ctrl-C) cancels it, and is raised when it has ended.
    """
    task = _Task(make)
    try:
        return portal.start_task_soon(task.run).result()
    finally:
        task.leave()


def iterate(portal: BlockingPortal, make: Callable[[], AsyncGenerator[Item, None]]) -> Iterator[Item]:
    """The items of a generator that runs in one task on the portal's loop. An early end of this one cancels the task.

    One task runs it all, because time limits inside a generator belong to the task that entered them.
    """
    items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()

    async def run() -> None:
        try:
            async with aclosing(make()) as generator:
                async for item in generator:
                    items.put(item)
        finally:
            items.put(None)

    task = _Task(run)
    try:
        running = portal.start_task_soon(task.run)
        while (item := items.get()) is not None:
            yield item
        running.result()
    finally:
        task.leave()


_HINT = "help(antiphon.open_model) has the settings, docs/catalog.md their meaning."

Source = str | Path | None
"""A model's name, a GGUF file, ``hf:OWNER/REPO[:QUANT]``, or the URL of a server; None: the configuration's default."""


@checked
def open_model(
    source: Source | Model = None,
    *,
    format: str | None = None,
    chat_template: str | Path | None = None,
    engine: str | EngineSettings | None = None,
    tokenizer: str | Path | None = None,
    config: Config | str | Path | None = None,
    fetch: bool = True,
    formats: Mapping[str, FormatFactory] | None = None,
    **settings: Any,
) -> Opening:
    """A model, opened by ``with`` (a `ChatModel`) or ``async with`` (an `AsyncChatModel`), closed when that is left.

    Args:
        source: A model's name, a GGUF file, ``hf:OWNER/REPO[:QUANT]``, or the URL of a server; None is the
            configuration's default model.
        format: Its format, by name ("harmony", "chatml" …), instead of the model's own.
        chat_template: A file with a Jinja template, instead of the model's own.
        engine: A kind ("llama_cpp", "llama_server", "vllm", "sglang", "grpc", "scripted"), or the settings of one
            (``Scripted(reply="Hi.")``). A URL needs the kind of its server.
        tokenizer: The vocabulary of a server's model: a GGUF file, a folder with a tokenizer.json, "o200k_harmony".
        config: A configuration, or its TOML file; None is that of this process (its file and its environment).
        fetch: Whether a model that is not on this machine is downloaded first.
        formats: Formats of this program, by names that ``format`` may use.
        settings: More keys of a model's table in the configuration: ``context`` (tokens of prompt and answer),
            ``replies`` (a file that describes its replies), ``slots`` (answers at once), ``max_output_tokens``,
            ``thinking_budget`` (characters), ``sampling`` (a dictionary of defaults), ``task`` ("chat", "embed",
            "rank"); of the embedded engine ``threads``; of a server ``served_name``, ``key_variable``, ``key_file``,
            ``grammar``.

    Entering raises `NotFoundError` for an unknown name, with near ones, `ConfigError` for settings that cannot be
    meant, `ModelError` for a model that cannot be loaded, and `OverloadedError` for a server that does not answer.
    """
    # A text is read as the setting's type, as the environment's are.
    kinds = get_type_hints(ModelEntry) | {"sampling": Mapping[str, float | str | None]}
    for name, value in settings.items():
        if name in kinds and not (isinstance(value, str) and name != "sampling"):
            check(value, kinds[name], name)
    paths = {"source": source, "format": format, "chat_template": chat_template, "config": config, **settings}
    for name, value in paths.items():
        if isinstance(value, str | Path):
            check_path(value, name)
    given = {"format": format, "chat_template": chat_template, "tokenizer": tokenizer, **settings}
    keys = {key: str(value) if isinstance(value, Path) else value for key, value in given.items() if value is not None}
    return Opening(source, engine, keys, config, fetch, formats or NO_FORMATS)


@dataclass(slots=True)
class Opening:
    """Result of `open_model`: a context manager of both kinds, to be entered once."""

    _source: Source | Model
    _engine: str | EngineSettings | None
    _settings: dict[str, Any]
    _config: Config | str | Path | None
    _fetch: bool
    _formats: Mapping[str, FormatFactory]
    _stack: ExitStack = field(default_factory=ExitStack)
    _astack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"open_model() has no {name!r} before it is entered: with antiphon.open_model(…) as model: model.{name}"
        )

    def __enter__(self) -> ChatModel:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            model = stack.enter_context(portal.wrap_async_context_manager(self))
            self._stack = stack.pop_all()
        return ChatModel(model, portal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncChatModel:
        if isinstance(self._source, Model):
            return AsyncChatModel(self._source)
        async with AsyncExitStack() as stack:
            config = await asyncio.to_thread(self._configured, self._source)
            catalog = await stack.enter_async_context(aclosing(open_catalog(config, formats=self._formats)))
            model = await catalog.get(config.model)
            self._astack = stack.pop_all()
        return AsyncChatModel(model)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._astack.__aexit__(kind, error, trace)

    def _configured(self, source: Source) -> Config:
        """The configuration with this model as its default, fetched if it is not on this machine."""
        config = self._config if isinstance(self._config, Config) else read_config(self._config)
        name, entry = entry_of(source, self._engine, self._settings, config)
        store = ModelStore(Path(config.store.folder))
        if self._fetch and entry.engine.needs_file and entry.source and store.path(name, entry) is None:
            store.pull(name, entry)
        return replace(config, model=name, models={**config.models, name: entry})


def entry_of(
    source: Source, engine: str | EngineSettings | None, settings: Mapping[str, Any], config: Config
) -> tuple[str, ModelEntry]:
    """The model's name and its entry. Raises `NotFoundError` or `ConfigError`."""
    named = config.model if source is None else str(source)
    name, entry = (server_name(named), ModelEntry()) if is_url(named) else find_entry(named, config.entries)
    if is_url(named) and engine is None:
        hint = 'Say engine="vllm", "sglang", "llama_server" or "grpc".'
        raise ConfigError(f"{named} needs an engine", position=Position(path="engine"), hint=hint)
    table = {**({"url": named} if is_url(named) else {}), **settings}
    try:
        if isinstance(engine, EngineSettings):
            kinds = {engine.kind: type(engine)}
            return name, changed_entry(name, replace(entry, engine=engine), table, kinds=kinds, where="open_model")
        kind = {} if engine is None else {"engine": engine}
        return name, changed_entry(name, entry, {**table, **kind}, where="open_model")
    except ConfigError as error:
        raise _as_argument(error, name) from None


def _as_argument(error: ConfigError, name: str) -> ConfigError:
    """The error with the names of arguments: ``threads``, not ``models.NAME.engine.threads``."""
    if error.position is None or error.position.path is None:
        return error
    place = error.position.path.removeprefix(f"models.{name}.")
    place = place.removeprefix("engine.") if place != "engine.kind" else "engine"
    message = error.message.replace(error.position.path, place).replace("unknown key", "unknown setting")
    return ConfigError(message, code=error.code, position=Position(path=place), hint=error.hint or _HINT)


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://", "grpc://", "grpcs://"))


def server_name(url: str) -> str:
    """A name for the model of a server: where the server is."""
    return urlsplit(url).netloc or url
