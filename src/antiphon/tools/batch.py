"""Calls that run together: what happens to them, in the order in which it happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from .call import ToolCall, ToolResult


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
"""What happens to a call that runs here."""


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
