"""Results of earlier calls, so that a call that is sent again is not run again (OCM-93)."""

from __future__ import annotations

from .call import CALL_ID, ToolCall, ToolError, ToolResult


class ResultMemory:
    """Results by session and call id, at most ``capacity``; the oldest go first.

    Results of calls without a session, and errors that may be gone the next time, are not stored.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: dict[tuple[str, str], ToolResult] = {}

    def get(self, call: ToolCall) -> ToolResult | None:
        """The result of this very call; an error where another call had its id; None for a new one."""
        known = self._results.get(call.idempotency_key) if call.session else None
        if known is None or known.call == call:
            return known
        return repeated(call)

    def put(self, result: ToolResult) -> None:
        if not result.call.session or (result.error is not None and result.error.retryable):
            return
        self._results[result.call.idempotency_key] = result
        while len(self._results) > self._capacity:
            del self._results[next(iter(self._results))]


def repeated(call: ToolCall) -> ToolResult:
    """A call under the id of another one: nobody could tell their results apart (OCM-87)."""
    message = f"the call id {call.call_id[:80]!r} belongs to another call: give each call an id of its own"
    return ToolResult(call=call, error=ToolError(CALL_ID, message))
