"""A tool as the router runs it: its arguments are checked before, its output is bounded after."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from antiphon.conversation import OpaquePart

from .call import (
    TOOL_BUSY,
    TOOL_FAILED,
    ArgumentReader,
    Arguments,
    BadArguments,
    Tool,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolOutput,
    dump,
    without_surrogates,
)

# What a tool does for one call: work that always has an outcome, and can be given up whatever the tool does.

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
        """Waits for the result. Cancelling this cancels the tool, and takes `GRACE` seconds at most."""
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


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """``deadline`` seconds for a call that names none, ``longest`` for one that does, both from its arrival.

    ``result``: characters of a result. ``media``: characters of the pictures and other media beside it, as they are
    sent (base64). ``concurrent``: calls of one `Router.run` at once. ``remembered``: results of sessions' calls.
    ``abandoned``: calls of one tool that were given up and have not ended; a tool that has so many gets no further ones
    (``E-TOOL-BUSY``).
    """

    deadline: float = 30.0
    longest: float = 300.0
    result: int = 100_000
    media: int = 24_000_000
    concurrent: int = 16
    remembered: int = 1024
    abandoned: int = 16


class CheckedTool(msgspec.Struct, frozen=True):
    """A tool, the reader of its arguments (None where the body is not JSON), and the calls that it did not end."""

    tool: Tool
    reader: ArgumentReader | None
    abandoned: set[ToolWork] = msgspec.field(default_factory=set)

    @classmethod
    def of(cls, tool: Tool) -> CheckedTool:
        return cls(tool, None if tool.parameters is None else ArgumentReader(tool.parameters))

    def arguments(self, call: ToolCall) -> Arguments:
        """The arguments of a call. Raises `ToolFailure`, whatever is wrong with the body or with the schema."""
        if self.reader is None:
            return Arguments({})
        try:
            return self.reader.read(call)
        except BadArguments as bad:
            raise ToolFailure(bad.error) from bad
        except Exception as error:
            raise ToolFailure(ToolError(TOOL_FAILED, described(error))) from error

    def begin(self, call: ToolCall, arguments: Arguments, limits: ToolLimits) -> ToolWork:
        """Begin the call. Raises `ToolFailure` when too many calls that were given up still go on."""
        if len(self.abandoned) >= limits.abandoned:
            message = f"{len(self.abandoned)} earlier calls of this tool were given up and have not ended"
            raise ToolFailure(ToolError(TOOL_BUSY, message, retryable=True))

        async def output() -> ToolOutput:
            try:
                return bounded(await self.tool.run(call, arguments.values), limits.result, limits.media)
            except ToolFailure as failure:
                raise ToolFailure(bounded_error(failure.error, limits.result)) from failure

        return ToolWork(output, self.abandoned)


def bounded(output: ToolOutput, characters: int, media: int) -> ToolOutput:
    """The output, cut where it is too long, with a note that says so (and never a broken JSON value or picture).

    Of its media those stay that have ``media`` characters together, the first ones first; the others are left out.
    """
    text = output.content if isinstance(output.content, str) else dump(output.content)
    if len(dump(output.provenance)) > characters:  # what cannot be written is an error here, and not in the reply
        output = replace(output, provenance={"truncated": True})
    fitting = _fitting(output.media, media)
    note, provenance = "", dict(output.provenance)
    if len(text) > characters:
        note += f"\n[cut: {len(text) - characters:,} of {len(text):,} characters left out]"
        provenance |= {"truncated": True, "characters": len(text)}
    if len(fitting) < len(output.media):
        missing = len(output.media) - len(fitting)
        note += f"\n[too large: {missing:,} of {len(output.media):,} images or other media left out]"
        provenance |= {"truncated": True, "media_left_out": missing}
    if not note:
        return output
    return replace(output, content=text[:characters] + note, media=fitting, provenance=provenance)


def bounded_error(error: ToolError, characters: int) -> ToolError:
    """The error, its message cut where it is too long, without details that are."""
    left_out = len(error.message) - characters
    note = f" [cut: {left_out:,} characters left out]" if left_out > 0 else ""
    details = error.details if len(dump(error.details)) <= characters else {}
    return replace(error, message=error.message[:characters] + note, details=details)


def _fitting(media: Sequence[OpaquePart], most: int) -> tuple[OpaquePart, ...]:
    """The media that together have no more than ``most`` characters."""
    fitting: list[OpaquePart] = []
    for part in media:
        size = characters_of(part.data)
        if size <= most:
            fitting.append(part)
            most -= size
    return tuple(fitting)


def characters_of(value: Any) -> int:
    """How long a value is, about, without writing it: its texts and bytes, and one for whatever else is in it."""
    match value:
        case str() | bytes() | bytearray():
            return len(value)
        case Mapping():
            return sum(characters_of(key) + characters_of(item) for key, item in value.items())
        case list() | tuple():
            return len(value) + sum(map(characters_of, value))
        case _:
            return 1
