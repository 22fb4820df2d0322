"""Calls → results: dispatch on the recipient, never on the channel (OCM-166)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import msgspec

from antiphon.errors import near

from .call import (
    CALL_ID,
    TOOL_CANCELLED,
    TOOL_FAILED,
    TOOL_TIMEOUT,
    TOOL_UNKNOWN,
    Tool,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolResult,
)
from .checked import CheckedTool, ToolLimits, characters_of

# Calls that run together: what happens to them, in the order in which it happens.


class ToolStarted(msgspec.Struct, frozen=True):
    """The call has left the queue."""

    call: ToolCall


class ToolCancelled(msgspec.Struct, frozen=True):
    """OpenChatML's ``tool.cancel {call_id, reason}``; the call's result (with ``E-TOOL-CANCELLED``) follows."""

    call_id: str
    reason: str


class ToolEnded(msgspec.Struct, frozen=True):
    """The call has a result, or an error."""

    result: ToolResult


ToolEvent = ToolStarted | ToolCancelled | ToolEnded
"""Events of a call that runs here."""


class Batch:
    """Calls told apart by their place, for their ids are the model's. ``gate`` lets ``concurrent`` of them run at once.

    ``unanswered`` are those whose end `next` has not given yet; ``repeated`` the places of those whose id an earlier
    one has.
    """

    def __init__(self, calls: Sequence[ToolCall], concurrent: int) -> None:
        self.calls = calls
        self.gate = asyncio.Semaphore(concurrent)
        self.unanswered = dict(enumerate(calls))
        first = {call.idempotency_key: i for i, call in reversed(self.unanswered.items())}
        self.repeated = self.unanswered.keys() - set(first.values())
        self._events: asyncio.Queue[tuple[int | None, ToolEvent]] = asyncio.Queue()

    def note(self, event: ToolEvent) -> None:
        """Add an event that ends no call."""
        self._events.put_nowait((None, event))

    def end(self, place: int, result: ToolResult) -> None:
        """Add the end of the call at ``place``."""
        self._events.put_nowait((place, ToolEnded(result)))

    async def next(self, seconds: float | None) -> ToolEvent | None:
        """The next event; None where none comes within ``seconds``."""
        try:
            place, event = self._events.get_nowait()
        except asyncio.QueueEmpty:
            try:
                place, event = await asyncio.wait_for(self._events.get(), seconds)
            except TimeoutError:
                return None
        if place is not None:
            del self.unanswered[place]
        return event


# Results of earlier calls, so that a call that is sent again is not run again (OCM-93).


MOST = 64_000_000
"""Characters of all results that are remembered, and of the pictures and other media beside them."""
NOTHING = None, 0


class ResultMemory:
    """Results by session and call id, at most ``capacity`` and `MOST` characters of them; the oldest go first.

    Results of calls without a session, and errors that may be gone the next time, are not stored.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: dict[tuple[str, str], tuple[ToolResult, int]] = {}
        self._size = 0

    def get(self, call: ToolCall) -> ToolResult | None:
        """The result of this very call; an error where another call had its id; None for a new one."""
        known, _ = self._results.get(call.idempotency_key, NOTHING) if call.session else NOTHING
        if known is None or known.call == call:
            return known
        return repeated(call)

    def put(self, result: ToolResult) -> None:
        if not result.call.session or (result.error is not None and result.error.retryable):
            return
        media = [part.data for part in result.output.media] if result.output else []
        size = characters_of([result.output.content if result.output else "", media])
        self._size += size - self._results.pop(result.call.idempotency_key, NOTHING)[1]
        self._results[result.call.idempotency_key] = result, size
        while len(self._results) > self._capacity or self._size > MOST:
            self._size -= self._results.pop(next(iter(self._results)))[1]


def repeated(call: ToolCall) -> ToolResult:
    """A call under the id of another one: nobody could tell their results apart (OCM-87)."""
    message = f"the call id {call.call_id[:80]!r} belongs to another call: give each call an id of its own"
    return ToolResult(call=call, error=ToolError(CALL_ID, message))


OVER = "the time for tools is over"
Notify = Callable[[ToolEvent], None]


@dataclass(slots=True)
class PendingCall:
    """A call that waits or runs. ``started``: when it left the queue; ``reason``: why it was cancelled."""

    timer: asyncio.Timeout
    started: float | None = None
    reason: str | None = None

    def cancel(self, reason: str) -> bool:
        """End it now; False where it is at its end already."""
        if self.reason is not None or self.timer.expired():
            return False
        self.reason = reason
        self.timer.reschedule(0)
        return True


class Router:
    """Runs calls concurrently and gives each exactly one result, in the order in which they come.

    A tool that fails, hangs, raises or prints for ever costs its call and nothing else: every outcome is a
    `ToolResult` that the model can read, at the call's deadline at the latest. ``clock`` gives seconds.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        limits: ToolLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits: ToolLimits = limits or ToolLimits()
        self.clock = clock
        self._tools: dict[str, CheckedTool] = {}
        self._results = ResultMemory(self.limits.remembered)
        self._pending: dict[tuple[str, str], list[PendingCall]] = {}
        self._calls_left: int | None = None
        self._uses_left: dict[str, int] = {}
        for tool in tools:
            if tool.recipient in self._tools:
                raise ValueError(f"two tools are called {tool.recipient!r}")
            self._tools[tool.recipient] = CheckedTool.of(tool)

    @property
    def recipients(self) -> list[str]:
        return sorted(self._tools)

    @property
    def abandoned(self) -> int:
        """How many calls were given up whose tools have not ended."""
        return sum(len(tool.abandoned) for tool in self._tools.values())

    def only(
        self, recipients: Collection[str], *, most: int | None = None, uses: Mapping[str, int] | None = None
    ) -> Router:
        """A router of those tools alone, for one request. ``most``: calls beyond so many are answered with an error.

        ``uses`` limits single recipients so; such an error has ``max_uses`` among its details.

        It shares the tools and their compiled schemas with this one, and the results of earlier calls: a call that was
        answered here is not run again there. The counts of calls are its own, and so are the calls that `cancel` finds.
        """
        narrowed = Router((), self.limits, clock=self.clock)
        narrowed._tools = {name: tool for name, tool in self._tools.items() if name in recipients}
        narrowed._results = self._results
        narrowed._calls_left = most
        narrowed._uses_left = dict(uses or {})
        return narrowed

    def beside(self, tools: Iterable[Tool]) -> Router:
        """A router of this one's tools and of these, which have names of their own."""
        wider = self.only(self._tools)
        wider._tools.update({tool.recipient: CheckedTool.of(tool) for tool in tools})
        return wider

    def serves(self, recipient: str) -> bool:
        """Whether calls to ``recipient`` run here; the others go back to the caller."""
        return recipient in self._tools

    def takes(self, call: ToolCall) -> bool:
        """Whether the tool that the call is for takes its arguments, where it runs here."""
        try:
            return call.recipient not in self._tools or bool(self._tools[call.recipient].arguments(call))
        except ToolFailure:
            return False

    async def run(self, calls: Sequence[ToolCall], *, seconds: float | None = None) -> AsyncGenerator[ToolEvent, None]:
        """The events of ``calls``, which end with one `ToolEnded` each; results come as they are ready.

        All of them are new: none is answered from an earlier result, and one under the id of another of them is refused
        (``E-CALL-ID``). ``seconds`` limits them all together: what still runs then is cancelled. Closing the generator
        cancels too.
        """
        batch = Batch(calls, self.limits.concurrent)
        tasks = [asyncio.create_task(self._answer(batch, i), name=call.call_id) for i, call in enumerate(calls)]
        end = None if seconds is None else self.clock() + seconds
        try:
            while batch.unanswered:
                event = await batch.next(None if end is None else max(0.0, end - self.clock()))
                if event is None:
                    break
                yield event
            for call in batch.unanswered.values():
                yield ToolCancelled(call.call_id, OVER)
                yield ToolEnded(cancelled(call, OVER))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def call(self, call: ToolCall) -> ToolResult:
        """The result of one call. Never raises, but for cancellation of the caller.

        Within a session a call is run once: sent again it has the result that it had, but for errors that may be gone
        the next time. Another call under its id, or the same while it runs, is refused (``E-CALL-ID``).
        """
        known = self._results.get(call)
        if known is not None:
            return known
        if call.session and call.idempotency_key in self._pending:
            return repeated(call)
        result = await self._result(call, nullcontext(), lambda event: None)
        self._results.put(result)
        return result

    def cancel(self, call_id: str, *, session: str = "", reason: str = "the call was cancelled") -> bool:
        """Give up the call of that id which waits or runs: its one result is ``E-TOOL-CANCELLED``, now.

        False where there is none. For the event loop's own thread.
        """
        given_up = [pending.cancel(reason) for pending in self._pending.get((session, call_id), ())]
        return any(given_up)

    async def _answer(self, batch: Batch, place: int) -> None:
        call = batch.calls[place]
        result = cancelled(call, "the call was given up")
        try:
            result = repeated(call) if place in batch.repeated else await self._result(call, batch.gate, batch.note)
        finally:
            if result.error is not None and result.error.code == TOOL_CANCELLED:
                batch.note(ToolCancelled(call.call_id, result.error.message))
            batch.end(place, result)

    async def _result(self, call: ToolCall, gate: AbstractAsyncContextManager[None], notify: Notify) -> ToolResult:
        """The result of a call that is new. ``gate`` is the queue; ``notify`` hears that the call has left it."""
        try:
            tool = self._admitted(call)
            arguments = tool.arguments(call)
        except ToolFailure as refusal:
            notify(ToolStarted(call))
            return ToolResult(call=call, error=refusal.error)
        limits = self.limits
        deadline = limits.deadline  # Seconds from the call's arrival.
        if arguments.deadline_ms is not None:
            deadline = min(arguments.deadline_ms, limits.longest * 1000) / 1000
        with self._cancellable(call, deadline) as pending:
            try:
                async with pending.timer, gate:
                    pending.started = self.clock()
                    notify(ToolStarted(call))
                    outcome = await tool.begin(call, arguments, limits).outcome()
            except ToolFailure as refusal:
                outcome = refusal.error
            except TimeoutError:
                outcome = ToolError(TOOL_TIMEOUT, f"no result within {deadline:g} s", retryable=True)
                if pending.reason is not None:
                    outcome = ToolError(TOOL_CANCELLED, pending.reason, retryable=True)
        seconds = 0.0 if pending.started is None else self.clock() - pending.started
        if isinstance(outcome, ToolError):
            return ToolResult(call=call, error=outcome, seconds=seconds)
        return ToolResult(call=call, output=outcome, seconds=seconds)

    @contextmanager
    def _cancellable(self, call: ToolCall, deadline: float) -> Iterator[PendingCall]:
        """The call among those that `cancel` finds. Its deadline runs from when its timer is entered."""
        pending = PendingCall(asyncio.timeout(deadline))
        others = self._pending.setdefault(call.idempotency_key, [])
        others.append(pending)
        try:
            yield pending
        finally:
            others.remove(pending)
            if not others:
                del self._pending[call.idempotency_key]

    def _admitted(self, call: ToolCall) -> CheckedTool:
        """The tool of a call, which is counted. Raises `ToolFailure`."""
        tool = self._tools.get(call.recipient)
        if tool is None:
            hint = near(call.recipient, self._tools)
            raise ToolFailure(ToolError(TOOL_UNKNOWN, f"there is no tool {call.recipient!r}. {hint}"))
        if self._calls_left == 0:
            raise ToolFailure(ToolError(TOOL_FAILED, "no more tool calls are allowed: answer with what you know"))
        if self._calls_left is not None:
            self._calls_left -= 1
        left = self._uses_left.get(call.recipient)
        if left == 0:
            message = f"no more calls of {call.recipient!r} are allowed: answer with what you know"
            raise ToolFailure(ToolError(TOOL_FAILED, message, details={"max_uses": 0}))
        if left is not None:
            self._uses_left[call.recipient] = left - 1
        return tool


def cancelled(call: ToolCall, reason: str) -> ToolResult:
    """OCM-138: the runtime gave the call up."""
    return ToolResult(call=call, error=ToolError(TOOL_CANCELLED, reason, retryable=True))
