"""A model to talk to, for programs that are not asynchronous."""

from __future__ import annotations

import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, Unpack, overload

from anyio.from_thread import BlockingPortal

from antiphon.errors import EngineError

from .checks import checked
from .inputs import ChatInput
from .model import AsyncChatModel, LoadedModel
from .options import ChatOptions
from .reply import Delta, Reply
from .shape import ResponseType

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


def finished(portal: BlockingPortal, make: Callable[[], Coroutine[Any, Any, Item]]) -> Item:
    """Returns the result of a coroutine that runs on the portal's loop.

    An exception in this thread meanwhile (Ctrl-C) cancels it, and is raised when it has ended.
    """
    ended = threading.Event()

    async def run() -> Item:
        try:
            return await make()
        finally:
            ended.set()

    running = portal.start_task_soon(run)
    try:
        return running.result()
    finally:
        if running.cancel():
            ended.wait()


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

    running = portal.start_task_soon(run)
    try:
        while (item := items.get()) is not None:
            yield item
        running.result()
    finally:
        if running.cancel():
            _ended(items)


def _ended(items: queue.SimpleQueue[Any]) -> None:
    """Waits until the cancelled task has closed its generator."""
    while items.get() is not None:
        pass
