"""Items of a request that this server wrote: which of them are looked up by their ids, and whether they are as written.

Clients send the output of a response back item by item, and of reasoning that they were not shown the id alone. What
the model wrote stands in the prompt in place of such an item, as long as the client left it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from antiphon.conversation import End, Message, Role
from antiphon.generation.reply import canonical
from antiphon.generation.unfinished import LONGEST
from antiphon.structs import ready
from antiphon.tools import ToolCall
from antiphon.tools.call import TOOL_CANCELLED, ToolError, ToolResult
from antiphon.wire.errors import refused
from antiphon.wire.projection import json_object

from .item_schema import InputItem, InputPart

# Calls that a client approves or refuses: which were requested, which are answered, and what the model is to read.

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
        """Reads a response for the model. Raises `RequestError` for one that answers nothing, or a second time.

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
    """The messages; of several answers to one call the last one takes the place of the first."""
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
    """Returns the result of a call that ran when it was approved, as an answer to the call as it was requested."""
    return [replace(message, call_id=call.call_id) for message in messages if message.role is Role.TOOL]


ACTIONS = {
    "local_shell_call": "action", "shell_call": "action", "apply_patch_call": "operation",
    "tool_search_call": "arguments",
}  # fmt: skip
"""Calls of tools that are given by their type, with the field that says what is to be done."""
CALLS = ("function_call", "custom_tool_call", *ACTIONS)
SAYS: Mapping[str, tuple[str, ...]] = {
    "message": ("role", "content"),
    "reasoning": (),
    "function_call": ("call_id", "name", "namespace", "arguments"),
    "custom_tool_call": ("call_id", "name", "namespace", "input"),
    **{kind: ("call_id", name) for kind, name in ACTIONS.items()},
    "web_search_call": (),
    "code_interpreter_call": ("code",),
    "mcp_call": ("server_label", "name", "arguments"),
    "mcp_approval_request": ("server_label", "name", "arguments"),
}
"""Fields that an item of each kind must have as they were written."""
MAY_SAY = ("content", "summary", "output", "outputs", "action", "error")
"""Fields that must be so only where they are not empty: clients see less than there is."""
_OWN_ID = re.compile("[a-z]+_[0-9a-f]{28}")
_NOTHING: tuple[object, ...] = (None, "", [], {})


def looked_for(items: Sequence[InputItem]) -> set[str]:
    """The ids by which stored items are wanted: of references, and of what the model wrote since its last answer."""
    references = {item.id or "" for item in items if item.type == "item_reference"}
    recent = [item.id for item in items[unfinished(items) :] if _is_output(item) and item.id]
    return references | {id for id in recent[-LONGEST:] if _OWN_ID.fullmatch(id)}


def response_of(id: str) -> str:
    """The id of the response that has the item."""
    return f"resp_{id.partition('_')[2][:24]}"


def unfinished(items: Sequence[InputItem]) -> int:
    """The number of the first item after the model's last answer."""
    answers = (i for i in reversed(range(len(items))) if _is_message(items[i]) and not is_preamble(items, i))
    return next(answers, -1) + 1


def is_preamble(items: Sequence[InputItem], number: int) -> bool:
    """Whether the assistant's message of that number announces a call: by its phase, else by what follows."""
    item, follower = items[number], items[number + 1 : number + 2]
    announces = item.phase != "final_answer" and any(next.type in CALLS for next in follower)
    return item.phase == "commentary" or announces


def is_as_written(item: InputItem, stored: Mapping[str, Any]) -> bool:
    """Whether an item says what the stored one of the same id does, as far as it says anything."""
    kind, written = item.type or "message", msgspec.convert(stored, ready(InputItem))
    if kind != written.type or kind not in SAYS or item.encrypted_content:
        return False
    same = {name: _value(item, name) == _value(written, name) for name in (*SAYS[kind], *MAY_SAY)}
    return all(same[name] for name in SAYS[kind]) and all(same[name] or not _value(item, name) for name in MAY_SAY)


def is_as_run(item: InputItem, written: Sequence[Message]) -> bool:
    """Whether an item says what a call and its answer were, as far as it says anything."""
    match written:
        case [call, answer] if call.is_call and answer.role is Role.TOOL and answer.call_id == call.call_id:
            code = str(json_object(call.text).get("code", call.text))
            name = (call.recipient or "").rpartition(".")[2].rpartition("__")[2]
            expected = {"code": code, "arguments": canonical(call.text), "name": name}
            expected |= dict.fromkeys(("output", "outputs"), answer.text)
            return all(_value(item, name) in ("", value) for name, value in expected.items())
        case _:
            return False


def not_read(
    items: Sequence[InputItem], unread: Sequence[bool], recalled: Collection[str | None], path: str = "input"
) -> Iterator[str]:
    """The paths of phases that nobody knows, and of reasoning of the unfinished turn of which only such an id came.

    ``unread`` says that of each item; not of reasoning before a call whose turn was ``recalled``.
    """
    for i, item in enumerate(items):
        if item.phase not in (None, "commentary", "final_answer"):
            yield f"{path}[{i}].phase"
    for i in range(unfinished(items), len(items)):
        call = next((item for item in items[i:] if item.type in CALLS or not _is_output(item)), None)
        if items[i].type == "reasoning" and unread[i] and (call is None or call.call_id not in recalled):
            yield f"{path}[{i}]"


def _is_output(item: InputItem) -> bool:
    return item.type in SAYS if item.type not in (None, "message") else _is_message(item)


def _is_message(item: InputItem) -> bool:
    return item.type in (None, "message") and item.role == "assistant"


def _value(item: InputItem, name: str) -> object:
    """Makes fields comparable: texts without their parts, arguments by their value; "" for nothing."""
    value = getattr(item, name)
    if value in _NOTHING:
        return ""
    if name == "arguments" and isinstance(value, str):
        return canonical(value)
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if one is not None}
    return "".join(map(_text, value)) if isinstance(value, list) else value


def _text(part: InputPart) -> str:
    return part.text or part.refusal or part.logs or ""
