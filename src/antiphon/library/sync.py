"""A model to talk to, for programs that are not asynchronous."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any, Generic, TypeVar, Unpack, overload

from anyio import CancelScope
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
