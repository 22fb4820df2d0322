"""What dialects require of a chat request beyond ranges: rows of their tables of checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.api.chat.schema import ChatMessage, ChatRequest, ToolCall
from antiphon.wire.dialect import Check
from antiphon.wire.errors import refused


def roles(*known: str) -> Check:
    """Only these roles. A dialect without ``developer`` takes it all the same unless it is strict (resolution X-07)."""

    def check(wire: ChatRequest) -> None:
        for i, message in enumerate(wire.messages):
            if message.role not in known:
                raise refused(f"messages[{i}].role", f"must be one of {', '.join(known)}.")

    return check


def total_content(most: int) -> Check:
    """All messages together have at most ``most`` UTF-16 units of content (resolution X-17)."""

    def check(wire: ChatRequest) -> None:
        texts = (text for message in wire.messages for text in _texts(message))
        size = sum(len(text.encode("utf-16-le", "surrogatepass")) // 2 for text in texts)
        if size > most:
            raise refused("messages", f"their content has {size} characters; at most {most} are read.")

    return check


def contents(*, strict: bool) -> Check:
    """No message is empty; unless ``strict``, one that calls or answers a call may be (resolution M-01)."""

    def check(wire: ChatRequest) -> None:
        for i, message in enumerate(wire.messages):
            excused = not strict and (message.role == "tool" or message.tool_calls)
            if not excused and not any(_texts(message)):
                raise refused(f"messages[{i}].content", "must not be empty.")

    return check


def one_leading_system(wire: ChatRequest) -> None:
    """Databricks: ``system`` only once, and first."""
    for i, message in enumerate(wire.messages[1:], start=1):
        if message.role == "system":
            raise refused(f"messages[{i}].role", "system is possible once, as the first message.")


def tool_ids(wire: ChatRequest) -> None:
    """Databricks: only a tool's message names a call."""
    for i, message in enumerate(wire.messages):
        if message.tool_call_id and message.role != "tool":
            raise refused(f"messages[{i}].tool_call_id", "only a tool's message has one.")


def calls_alone(wire: ChatRequest) -> None:
    """Databricks to the letter: no content beside tool calls (resolution D-09)."""
    for i, message in enumerate(wire.messages):
        if message.tool_calls and any(_texts(message)):
            raise refused(f"messages[{i}].content", "a message with tool calls has none.")


def one_id_a_call(wire: ChatRequest) -> None:
    """Databricks to the letter: no two calls of a conversation have one id."""
    ids: set[str] = set()
    for path, call in _calls(wire):
        if call.id in ids:
            raise refused(f"{path}.id", f"another call has the id {call.id[:80]!r}.")
        ids.add(call.id)


def objects_of_arguments(wire: ChatRequest) -> None:
    """Databricks to the letter: a call's arguments are a JSON object, as text or as it is (resolution X-21)."""
    for path, call in _calls(wire):
        try:
            arguments = msgspec.json.decode(call.function.arguments)
            arguments = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
        except (msgspec.DecodeError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise refused(f"{path}.function.arguments", "must be the text of a JSON object.")


def plain_contents(wire: ChatRequest) -> None:
    """To the letter of a document without parts: content is a text."""
    for i, message in enumerate(wire.messages):
        if isinstance(message.content, list):
            raise refused(f"messages[{i}].content", "must be a text, not parts.", code="invalid_type")


def described_tools(wire: ChatRequest) -> None:
    """Databricks to the letter: every function says what it is for."""
    for i, tool in enumerate(wire.tools or ()):
        if tool.function is not None and not tool.function.description:
            path = f"tools[{i}].function.description"
            raise refused(path, "a function needs it.", code="missing_required_parameter")


def properties(most: int) -> Check:
    """A function takes at most ``most`` parameters; those within parameters are not counted (resolution X-26)."""

    def check(wire: ChatRequest) -> None:
        for i, tool in enumerate(wire.tools or ()):
            schema = tool.function.parameters if tool.function else None
            known = schema.get("properties") if isinstance(schema, dict) else None
            if isinstance(known, dict) and len(known) > most:
                path = f"tools[{i}].function.parameters.properties"
                raise refused(path, f"there are {len(known)}; at most {most} are possible.")

    return check


def strict_subset(wire: ChatRequest) -> None:
    """Databricks: a strict schema is limited to a subset of JSON Schema (resolution D-11)."""
    for i, tool in enumerate(wire.tools or ()):
        if tool.function is not None and tool.function.strict:
            _check_subset(tool.function.parameters, f"tools[{i}].function.parameters")
    format = wire.response_format.json_schema if wire.response_format else None
    if format is not None and format.strict:
        _check_subset(format.schema, "response_format.json_schema.schema")


FORBIDDEN = frozenset({"pattern", "anyOf", "oneOf", "allOf", "prefixItems", "$ref"})


def _check_subset(schema: Any, path: str) -> None:
    for place, part in _schemas(schema, path):
        for keyword in FORBIDDEN & part.keys():
            raise refused(f"{place}.{keyword}", f"{keyword!r} is not possible in a strict schema.")
        kinds = part.get("type")
        if isinstance(kinds, list) and not (len(kinds) == 2 and "null" in kinds):
            raise refused(f"{place}.type", "a strict schema has one type, or one and null.")


def _schemas(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within ``schema``. A property's name is no keyword, whatever it spells."""
    pending = [(path, schema)]
    while pending:
        place, part = pending.pop()
        if not isinstance(part, dict):
            continue
        yield place, part
        for keyword in ("properties", "$defs", "definitions"):
            within = part.get(keyword)
            if isinstance(within, dict):
                pending += [(f"{place}.{keyword}.{name}", inner) for name, inner in within.items()]
        pending += [(f"{place}.{keyword}", part.get(keyword)) for keyword in ("items", "additionalProperties", "not")]


def _calls(wire: ChatRequest) -> Iterator[tuple[str, ToolCall]]:
    """Every call of the history, each with its path."""
    for i, message in enumerate(wire.messages):
        for j, call in enumerate(message.tool_calls or ()):
            yield f"messages[{i}].tool_calls[{j}]", call


def _texts(message: ChatMessage) -> Iterator[str]:
    """What a message says, part by part."""
    if isinstance(message.content, str):
        yield message.content
    for part in message.content if isinstance(message.content, list) else ():
        yield part.text or part.refusal or ""
