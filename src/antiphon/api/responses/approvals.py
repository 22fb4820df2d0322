"""Calls that a client approves or refuses: which were requested, which are answered, and what the model is to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from antiphon.conversation import End, Message, Role
from antiphon.tools import ToolCall
from antiphon.tools.call import TOOL_CANCELLED, ToolError, ToolResult
from antiphon.wire.errors import refused

from .item_schema import InputItem

REQUEST, RESPONSE, CALL = "mcp_approval_request", "mcp_approval_response", "mcp_call"
REASON = 4096
"""Characters of a reason."""


@dataclass(slots=True)
class Approvals:
    """The calls that were requested so far, by the ids of their items, and those of them that have an answer."""

    calls: dict[str, Message] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    def note(self, item: Mapping[str, Any] | None, messages: Sequence[Message]) -> None:
        """One more item of the conversation."""
        match item:
            case {"type": "mcp_approval_request", "id": str(id)} if messages:
                self.calls[id] = messages[-1]
            case {"type": "mcp_approval_response" | "mcp_call", "approval_request_id": str(id)}:
                self.answered.add(id)
            case _:
                pass

    def answer(self, item: InputItem, path: str) -> Message:
        """What a response is to the model. Raises `RequestError` for one that answers nothing, or a second time.

        Of an approved call it is what holds until the call has run: the result takes its place (`with_results`).
        """
        id, at = item.approval_request_id, f"{path}.approval_request_id"
        if not id:
            raise refused(at, f"a {RESPONSE} needs it.", code="missing_required_parameter")
        if item.approve is None:
            raise refused(f"{path}.approve", f"a {RESPONSE} needs it.", code="missing_required_parameter")
        if len(item.reason or "") > REASON:
            raise refused(f"{path}.reason", f"has more than {REASON} characters.")
        call = self.calls.get(id)
        if call is None:
            raise refused(at, f"there is no approval request {id[:80]!r} before it.", code="item_not_found")
        if id in self.answered:
            raise refused(at, f"the approval request {id[:80]!r} was answered before.")
        if item.approve and call.end is End.NONE:
            raise refused(at, "this call was cut off: it cannot be run.")
        return _unrun(call, approved=item.approve, reason=item.reason)


def _unrun(call: Message, *, approved: bool, reason: str | None) -> Message:
    words = "the user approved this call, but it has no result" if approved else "the user refused this call"
    error = ToolError(TOOL_CANCELLED, f"{words}: {reason}" if reason and not approved else words)
    return ToolResult(call=ToolCall.of(call, fallback_id=""), error=error).message()


def with_results(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages; of several answers to one call the last one stands where the first one stood."""
    whole: list[Message] = []
    places: dict[str, int] = {}
    for message in messages:
        id = message.call_id
        if id is not None and message.is_call:
            places.pop(id, None)
        elif id is not None and message.role is Role.TOOL:
            if id in places:
                whole[places[id]] = message
                continue
            places[id] = len(whole)
        whole.append(message)
    return tuple(whole)


def result_only(messages: Sequence[Message], call: Message) -> list[Message]:
    """Of a call that ran when it was approved, the answer: to the call as it was requested."""
    return [replace(message, call_id=call.call_id) for message in messages if message.role is Role.TOOL]
