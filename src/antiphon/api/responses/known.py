"""Items of a request that this server wrote: which of them are looked up by their ids, and whether they are as written.

Clients send the output of a response back item by item, and of reasoning that they were not shown the id alone. What
the model wrote stands in the prompt in place of such an item, as long as the client left it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from antiphon.conversation import Message, Role
from antiphon.generation.reply import canonical
from antiphon.structs import ready
from antiphon.wire.unfinished import LONGEST

from .item_schema import InputItem, InputPart
from .open_items import json_object

CALLS = ("function_call", "custom_tool_call")
SAYS: Mapping[str, tuple[str, ...]] = {
    "message": ("role", "content"),
    "reasoning": (),
    "function_call": ("call_id", "name", "namespace", "arguments"),
    "custom_tool_call": ("call_id", "name", "namespace", "input"),
    "web_search_call": (),
    "code_interpreter_call": ("code",),
    "mcp_call": ("server_label", "name", "arguments"),
    "mcp_approval_request": ("server_label", "name", "arguments"),
}
"""What an item of each kind must say as it was written."""
MAY_SAY = ("content", "summary", "output", "outputs", "action", "error")
"""What it must say so only where it says something: clients see less than there is."""
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
    return item.phase == "commentary" or (item.phase is None and any(next.type in CALLS for next in follower))


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


def unread_reasoning(items: Sequence[InputItem], unread: Sequence[bool], path: str = "input") -> Iterator[str]:
    """The paths of reasoning of the unfinished turn of which only an id came that nobody knows (here ``unread``)."""
    for i in range(unfinished(items), len(items)):
        if items[i].type == "reasoning" and unread[i]:
            yield f"{path}[{i}]"


def _is_output(item: InputItem) -> bool:
    return item.type in SAYS if item.type not in (None, "message") else _is_message(item)


def _is_message(item: InputItem) -> bool:
    return item.type in (None, "message") and item.role == "assistant"


def _value(item: InputItem, name: str) -> object:
    """What can be compared: texts without their parts, arguments by their value; "" for nothing."""
    value = getattr(item, name)
    if value in _NOTHING:
        return ""
    if name == "arguments":
        return canonical(value)
    return "".join(map(_text, value)) if isinstance(value, list) else value


def _text(part: InputPart) -> str:
    return part.text or part.refusal or part.logs or ""
