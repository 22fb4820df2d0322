"""What a tool does for one call: work that always has an outcome, and can be given up whatever the tool does."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any

from .call import TOOL_FAILED, ToolError, ToolOutput, dump, without_surrogates
from .tool import ToolFailure

GRACE = 0.1
"""Seconds that a cancelled tool has to clean up before its caller goes on without it."""

CLEANUP = 60.0
"""Seconds that it may then go on cleaning up before it is closed where it waits."""

ToolOutcome = ToolOutput | ToolError


class ToolWork:
    """A tool's coroutine in a task of its own. Whatever it raises is an outcome, ``KeyboardInterrupt`` too.

    A tool that was cancelled and does not end is abandoned: it stands in ``abandoned`` until it ends, and after
    `CLEANUP` seconds, or with the event loop, its coroutine is closed at the ``await`` where it stands. A tool that
    never comes to an ``await`` cannot be ended from here, for it has the event loop's thread.
    """

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, ToolOutput]], abandoned: set[ToolWork]) -> None:
        self._begin = begin
        self._abandoned = abandoned
        self._task = asyncio.create_task(self._caught(), name="tool")

    @property
    def is_abandoned(self) -> bool:
        return self in self._abandoned

    async def outcome(self) -> ToolOutcome:
        """What came of it. Cancelling this cancels the tool, and takes `GRACE` seconds at most."""
        try:
            await asyncio.wait({self._task})
        except asyncio.CancelledError:
            await self._give_up()
            raise
        if self._task.cancelled():  # by a tool that cancels whatever runs, before it was begun
            return ToolError(TOOL_FAILED, "the tool's task was cancelled")
        return self._task.result()

    async def _give_up(self) -> None:
        self._task.cancel()
        try:
            await asyncio.wait({self._task}, timeout=GRACE)
        finally:
            if not self._task.done():
                self._abandon()

    def _abandon(self) -> None:
        closing = asyncio.get_running_loop().call_later(CLEANUP, self._task.cancel)
        self._abandoned.add(self)
        self._task.add_done_callback(lambda _: self._abandoned.discard(self))
        self._task.add_done_callback(lambda _: closing.cancel())

    async def _caught(self) -> ToolOutcome:
        try:
            return await self._answered()
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its answer, never ours
            return ToolError(TOOL_FAILED, described(error))

    async def _answered(self) -> ToolOutcome:
        try:
            return await _stepped(self._begin(), lambda: self.is_abandoned)
        except ToolFailure as failure:
            dump(failure.error.as_json()).encode()  # what cannot be written is no answer
            return failure.error


@types.coroutine
def _stepped(work: Coroutine[Any, Any, ToolOutput], closing: Callable[[], bool]) -> Generator[Any, Any, ToolOutput]:
    """``await work``, but that once ``closing`` is true what would be raised inside the coroutine closes it instead."""
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        try:
            awaited = step()
        except StopIteration as returned:
            output: ToolOutput = returned.value
            return output
        try:
            yield awaited
            step = partial(work.send, None)
        except BaseException as error:
            if closing() or isinstance(error, GeneratorExit):
                work.close()
                raise
            step = partial(work.throw, error)


def described(error: BaseException) -> str:
    """The error in words; one whose own words raise has none."""
    try:
        words = without_surrogates(str(error)[:2000])
    except BaseException:  # noqa: BLE001 - the error is the tool's too
        words = ""
    return f"{type(error).__name__}: {words}"
