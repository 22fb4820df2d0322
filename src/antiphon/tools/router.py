"""Calls → results: dispatch on the recipient, never on the channel (OCM-166)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon.errors import near

from .arguments import ArgumentReader, Arguments, BadArguments
from .call import (
    TOOL_CANCELLED,
    TOOL_FAILED,
    TOOL_TIMEOUT,
    TOOL_UNKNOWN,
    ToolCall,
    ToolError,
    ToolOutput,
    ToolResult,
    dump,
)
from .tool import Tool, ToolFailure


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """``deadline`` seconds for a call that names none, ``longest`` for one that does; ``result`` characters at most."""

    deadline: float = 30.0
    longest: float = 300.0
    result: int = 100_000
    concurrent: int = 16
    remembered: int = 1024


@dataclass(frozen=True, slots=True)
class ToolStarted:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolCancelled:
    """OpenChatML's ``tool.cancel {call_id, reason}``; the call's result (with ``E-TOOL-CANCELLED``) follows."""

    call_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    result: ToolResult


ToolEvent = ToolStarted | ToolCancelled | ToolEnded


class ResultMemory:
    """Results by their calls' idempotency keys, at most ``capacity``; the oldest go first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: dict[str, ToolResult] = {}

    def get(self, call: ToolCall) -> ToolResult | None:
        return self._results.get(call.idempotency_key) if call.session else None

    def put(self, result: ToolResult) -> None:
        if not result.call.session:
            return
        self._results[result.call.idempotency_key] = result
        while len(self._results) > self._capacity:
            del self._results[next(iter(self._results))]


@dataclass(frozen=True, slots=True)
class CheckedTool:
    """A tool, and the reader of its arguments; None where the body is not JSON."""

    tool: Tool
    reader: ArgumentReader | None

    @classmethod
    def of(cls, tool: Tool) -> CheckedTool:
        return cls(tool, None if tool.parameters is None else ArgumentReader(tool.parameters))

    def arguments(self, call: ToolCall) -> Arguments:
        """The arguments of a call. Raises `BadArguments`."""
        return Arguments({}) if self.reader is None else self.reader.read(call)


class Router:
    """Runs calls concurrently and gives each exactly one result, in the order in which they come.

    A tool that fails, hangs, raises or prints for ever costs its call and nothing else: every outcome is a
    `ToolResult` that the model can read. Within a session, a call that was answered before under the same idempotency
    key is not run again. ``clock`` gives seconds.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        limits: ToolLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or ToolLimits()
        self._clock = clock
        self._tools: dict[str, CheckedTool] = {}
        self._results = ResultMemory(self.limits.remembered)
        self._calls_left: int | None = None
        for tool in tools:
            if tool.recipient in self._tools:
                raise ValueError(f"two tools are called {tool.recipient!r}")
            self._tools[tool.recipient] = CheckedTool.of(tool)

    @property
    def recipients(self) -> list[str]:
        return sorted(self._tools)

    def only(self, recipients: Collection[str], *, most: int | None = None) -> Router:
        """A router of those tools alone, for one request. ``most``: calls beyond so many are answered with an error.

        It shares the tools and their compiled schemas with this one, and the results of earlier calls: a call that was
        answered here is not run again there. The count of calls is its own.
        """
        narrowed = Router((), self.limits, clock=self._clock)
        narrowed._tools = {name: tool for name, tool in self._tools.items() if name in recipients}
        narrowed._results = self._results
        narrowed._calls_left = most
        return narrowed

    def serves(self, recipient: str) -> bool:
        """Whether calls to ``recipient`` run here; the others go back to the caller."""
        return recipient in self._tools

    async def run(self, calls: Sequence[ToolCall], *, seconds: float | None = None) -> AsyncGenerator[ToolEvent, None]:
        """The events of ``calls``, which end with one `ToolEnded` each; results come as they are ready.

        ``seconds`` limits them all together: what still runs then is cancelled. Closing the generator cancels too.
        """
        events: asyncio.Queue[ToolEvent] = asyncio.Queue()
        gate = asyncio.Semaphore(self.limits.concurrent)
        tasks = {asyncio.create_task(self._answer(call, gate, events), name=call.call_id): call for call in calls}
        end = None if seconds is None else self._clock() + seconds
        unanswered = {call.call_id: call for call in calls}
        try:
            while unanswered:
                left = None if end is None else max(0.0, end - self._clock())
                try:
                    event = await asyncio.wait_for(events.get(), left)
                except TimeoutError:
                    break
                if isinstance(event, ToolEnded):
                    unanswered.pop(event.result.call.call_id, None)
                yield event
            for call in unanswered.values():
                yield ToolCancelled(call.call_id, "the time for tools is over")
                yield ToolEnded(cancelled(call, "the time for tools is over"))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def call(self, call: ToolCall) -> ToolResult:
        """The result of one call. Never raises, but for cancellation of the caller."""
        known = self._results.get(call)
        if known is not None:
            return known
        started = self._clock()
        result = replace(await self._outcome(call), seconds=self._clock() - started)
        self._results.put(result)
        return result

    async def _answer(self, call: ToolCall, gate: asyncio.Semaphore, events: asyncio.Queue[ToolEvent]) -> None:
        async with gate:
            events.put_nowait(ToolStarted(call))
            events.put_nowait(ToolEnded(await self.call(call)))

    async def _outcome(self, call: ToolCall) -> ToolResult:
        tool = self._tools.get(call.recipient)
        if tool is None:
            hint = near(call.recipient, self._tools)
            return failed(call, ToolError(TOOL_UNKNOWN, f"there is no tool {call.recipient!r}. {hint}"))
        if self._calls_left == 0:
            return failed(call, ToolError(TOOL_FAILED, "no more tool calls are allowed: answer with what you know"))
        if self._calls_left is not None:
            self._calls_left -= 1
        try:
            return await self._run(tool.tool, call, tool.arguments(call))
        except BadArguments as bad:
            return failed(call, bad.error)
        except ToolFailure as failure:
            return failed(call, failure.error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a tool raises is its answer, never ours
            return failed(call, ToolError(TOOL_FAILED, f"{type(error).__name__}: {str(error)[:2000]}"))

    async def _run(self, tool: Tool, call: ToolCall, arguments: Arguments) -> ToolResult:
        deadline = self._deadline(arguments)
        try:
            async with asyncio.timeout(deadline) as timer:
                output = await tool.run(call, arguments.values)
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise ToolFailure(ToolError(TOOL_TIMEOUT, f"no result within {deadline:g} s", retryable=True)) from error
        return ToolResult(call=call, output=self._bounded(output))

    def _deadline(self, arguments: Arguments) -> float:
        if arguments.deadline_ms is None:
            return self.limits.deadline
        return min(arguments.deadline_ms / 1000, self.limits.longest)

    def _bounded(self, output: ToolOutput) -> ToolOutput:
        """The output, cut where it is too long, with a note that says so (and never a broken JSON value)."""
        text = output.content if isinstance(output.content, str) else dump(output.content)
        limit = self.limits.result
        if len(text) <= limit:
            return output
        note = f"\n[cut: {len(text) - limit:,} of {len(text):,} characters left out]"
        provenance: Mapping[str, Any] = {**output.provenance, "truncated": True, "characters": len(text)}
        return replace(output, content=text[:limit] + note, provenance=provenance)


def failed(call: ToolCall, error: ToolError) -> ToolResult:
    return ToolResult(call=call, error=error)


def cancelled(call: ToolCall, reason: str) -> ToolResult:
    """OCM-138: the runtime gave the call up."""
    return failed(call, ToolError(TOOL_CANCELLED, reason, retryable=True))
