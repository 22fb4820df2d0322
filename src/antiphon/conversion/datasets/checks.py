"""The checks of `antiphon dataset check`: what is wrong with a conversation that a model is to be trained on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from antiphon.conversation import Channel, Conversation, Message, Role, ToolSpec
from antiphon.grammar.schema.judging import MOST, work_of

from .forms import Row

if TYPE_CHECKING:
    from jsonschema_rs import Validator

Severity = Literal["error", "warning"]

KINDS: Mapping[str, tuple[Severity, str]] = {
    "empty": ("error", "The row has no messages, or none has a text."),
    "call_unanswered": ("error", "A call has no result, though the conversation goes on."),
    "result_without_call": ("error", "A tool's result answers no call."),
    "tool_not_offered": ("warning", "A call is of a tool that the row does not offer."),
    "tool_schema": ("error", "The parameters of a tool are no JSON Schema, or too costly a one to judge by."),
    "arguments": ("error", "The arguments of a call are no JSON object, or do not fit the tool's parameters."),
    "control_spelled": ("warning", "A text spells a control token of the model; some trainers make it the control."),
    "thought_in_text": ("warning", "An answer begins with its reasoning in think tags; it has a field of its own."),
    "untrained": ("error", "Nothing of the row is trained."),
    "too_long": ("error", "The row has more tokens than the context."),
    "duplicate": ("warning", "An earlier row is the same conversation."),
    "reasoning_dropped": ("warning", "The template leaves reasoning out."),
    "text_lost": ("warning", "The template leaves a text out."),
    "call_lost": ("warning", "The template leaves a call out."),
    "call_as_text": ("warning", "The template has no calls: the call is written as a text."),
    "reply_not_found": ("warning", "The template writes a reply otherwise than the model would; it is not trained."),
    "end_not_shown": ("warning", "The template writes no stop behind a reply: the model is not trained to end it."),
}
"""The kinds of findings beside the codes of errors, which rows have that cannot be read or rendered."""
_SHOWN = 80
"""Characters that a finding repeats of a text."""
THOUGHT = re.compile(r"\s*<think>\n?(.*?)\n?</think>\s*", re.DOTALL)


class RowFinding(msgspec.Struct, frozen=True):
    """One thing that is wrong with row number ``row``. ``place`` is the path in it, ``fix`` the change that is sure.

    ``hint`` says what may be done where none is.
    """

    row: int
    place: str
    kind: str
    severity: Severity
    reason: str
    fix: str | None = None
    hint: str | None = None


def finding(row: int, place: str, kind: str, reason: str, fix: str | None = None) -> RowFinding:
    """A finding of a kind of `KINDS`, or one of the template that has no row there: a warning."""
    return RowFinding(row, place, kind, KINDS.get(kind, ("warning", ""))[0], reason, fix)


def conversation_findings(row: Row, number: int, controls: re.Pattern[str] | None) -> Iterator[RowFinding]:
    """Everything that is wrong with a conversation, whatever the template. ``controls``: their spellings."""
    messages = row.conversation.messages
    if not any(message.text or message.parts for message in messages):
        yield finding(number, row.path, "empty", "the row has no text")
        return
    yield from _unanswered(row, number)
    yield from _calls(row, number)
    for i, message in enumerate(messages):
        if message.role is Role.ASSISTANT and not message.is_call and THOUGHT.match(message.text):
            reason = "the text begins with reasoning in think tags"
            alone = not (i and messages[i - 1].channel == Channel.ANALYSIS and row.place(i - 1) == row.place(i))
            yield finding(
                number,
                row.place(i),
                "thought_in_text",
                reason,
                "move it to reasoning" if row.is_chat and alone else None,
            )
        elif controls is not None and (spelled := controls.search(message.text)):
            yield finding(number, row.place(i), "control_spelled", f"the text spells {spelled.group()!r}")


def _unanswered(row: Row, number: int) -> Iterator[RowFinding]:
    """Calls without results, and results without calls: each run of calls is answered before anything else is said."""
    waiting: dict[int, Message] = {}
    for i, message in enumerate(row.conversation.messages):
        if message.role is Role.TOOL:
            answered = next((at for at, call in waiting.items() if _answers(message, call)), None)
            if answered is None:
                yield finding(number, row.place(i), "result_without_call", f"{_name(message)} answers no call")
            else:
                del waiting[answered]
        elif not message.is_call:
            for at, call in waiting.items():
                reason = f"the call of {_name(call)} has no result"
                yield finding(number, row.place(at), "call_unanswered", reason)
            waiting.clear()
        else:
            waiting[i] = message


def _answers(result: Message, call: Message) -> bool:
    if result.call_id is not None and call.call_id is not None:
        return result.call_id == call.call_id
    return result.name in (call.recipient, None) or result.call_id is None


def _name(message: Message) -> str:
    name = message.name if message.role is Role.TOOL else message.recipient
    return f"{name or 'a tool'}"[:_SHOWN]


def _calls(row: Row, number: int) -> Iterator[RowFinding]:
    """Calls of tools that are not offered, tools without a schema, and arguments that do not fit."""
    tools = {tool.recipient: tool for tool in row.conversation.tools}
    offered = {*tools, *(name for name in row.conversation.offered if isinstance(name, str))}
    for i, tool in enumerate(row.conversation.tools):
        if tool.parameters is not None and isinstance(problem := _validator(_schema(tool)), str):
            yield finding(number, f"tools[{i}]", "tool_schema", f"{tool.name[:_SHOWN]}: {problem}")
    for i, message in enumerate(row.conversation.messages):
        if not message.is_call:
            continue
        recipient = message.recipient or ""
        if recipient not in offered:
            yield finding(number, row.place(i), "tool_not_offered", f"{recipient[:_SHOWN]} is not among the tools")
        if message.content_type in (None, "json") and (recipient not in offered or recipient in tools):
            yield from _arguments(row, number, i, tools.get(recipient))


def _arguments(row: Row, number: int, index: int, tool: ToolSpec | None) -> Iterator[RowFinding]:
    message, place = row.conversation.messages[index], row.place(index)
    value = _json(message.text or "{}")
    if isinstance(value, str) and isinstance(_json(value), dict):
        fix = "take one text off" if row.is_chat else None
        yield finding(number, place, "arguments", "the arguments are JSON within JSON", fix)
        return
    if not isinstance(value, dict):
        yield finding(number, place, "arguments", f"{message.text[:_SHOWN]!r} is no JSON object")
        return
    validator = _validator(_schema(tool)) if tool is not None and tool.parameters is not None else None
    if tool is None or validator is None or isinstance(validator, str):
        return
    if work_of(tool.parameters, value) > MOST:
        yield finding(number, place, "tool_schema", f"{tool.name[:_SHOWN]}: to judge these arguments takes too long")
        return
    if (error := next(validator.iter_errors(value), None)) is not None:
        at = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
        yield finding(number, f"{place}{at}", "arguments", f"{tool.name[:_SHOWN]}: {error.message[:200]}")


def _json(text: str) -> Any:
    """The value of a JSON text; None where it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _schema(tool: ToolSpec) -> bytes:
    return msgspec.json.encode(tool.parameters)


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> Validator | str:
    """Returns the judge of values by a schema, or the reason why it cannot be used."""
    import jsonschema_rs  # here and not above: rows without calls need none

    try:
        return jsonschema_rs.validator_for(msgspec.json.decode(schema), offline=True)
    except ValueError as error:
        return f"the parameters are no JSON Schema: {str(error).splitlines()[0][:200]}"


def controls_pattern(spellings: Collection[str]) -> re.Pattern[str] | None:
    """A pattern of all these spellings, the longest first; None for none."""
    return re.compile("|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))) if spellings else None


def digest_of(conversation: Conversation) -> bytes:
    """16 bytes that are the same for conversations which say the same: roles, names, texts and tools, but no ids."""
    messages = [
        (m.role, m.name, m.recipient, m.channel, m.text, [repr(part) for part in m.parts])
        for m in conversation.messages
    ]
    tools = [(tool.recipient, tool.description, tool.parameters) for tool in conversation.tools]
    return blake2b(msgspec.msgpack.encode((messages, tools)), digest_size=16).digest()
