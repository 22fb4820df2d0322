"""Items of the Responses API: each frame is an item."""

from __future__ import annotations

from typing import Any

from antiphon.api.convert.response_items import ItemReader
from antiphon.api.schemas.response_items import InputItem
from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    Conversation,
    Message,
    ReasoningEffort,
    Role,
    Settings,
    ToolSpec,
)
from antiphon.errors import ParseError, RenderError, RequestError

from .chat import Calls, decoded, require_text
from .codec import Written
from .json_forms import Json, JsonList, Understood, mended, require_list
from .loss import Loss

HELD = ("input", "output", "tools", "reasoning", "instructions", "object")


def understand_responses(value: Any) -> Understood:
    """A request (``input``), a response (``output``), or a list of items. Raises `ParseError` with a path."""
    request: Json = {"input": value} if isinstance(value, list) else value
    key = "input" if "input" in request else "output"
    given = request.get(key)
    items = [{"role": "user", "content": given}] if isinstance(given, str) else require_list(given, key)
    wire = [decoded(item, InputItem, f"{key}[{i}]") for i, item in enumerate(items)]
    messages = list(read_items(wire, (), key))
    if isinstance(request.get("instructions"), str):
        messages.insert(0, Message(role=Role.SYSTEM, text=request["instructions"]))
    reasoning = request.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    conversation = Conversation(
        tuple(messages),
        tools=tuple(tool for given in request.get("tools") or () if (tool := tool_of(given))),
        settings=Settings(reasoning_effort=ReasoningEffort(effort) if effort in set(ReasoningEffort) else None),
    )
    unread = [Loss(name, "not part of a conversation") for name in request if name not in HELD]
    for i, item in enumerate(items):
        unread += [Loss(f"{key}[{i}].{name}", "of the item, not of the conversation")
                   for name in ("id", "status", "annotations", "action") if item.get(name)]  # fmt: skip
    for i, tool in enumerate(request.get("tools") or ()):
        unread += [] if tool_of(tool) else [Loss(f"tools[{i}]", str(tool.get("type")))]
    return Understood(conversation, unread)


def read_items(items: list[InputItem], before: tuple[Message, ...], path: str = "input") -> list[Message]:
    def sealed(content: str, where: str) -> Message:
        raise ParseError("sealed reasoning can be read only by the server that sealed it", code="sealed")

    reader = ItemReader(token="convert", unseal=sealed, before=before, path=path)  # noqa: S106 - a part of ids
    try:
        return [message for entry in reader.read(items) for message in entry.messages]
    except RequestError as error:
        raise ParseError(error.message, code=error.code, position=error.position, hint=error.hint) from None


def tool_of(value: Any) -> ToolSpec | None:
    """A function tool; other kinds are no part of a conversation."""
    if not isinstance(value, dict) or value.get("type") != "function" or not isinstance(value.get("name"), str):
        return None
    return ToolSpec(value["name"], value.get("description") or "", value.get("parameters"), value.get("strict"))


class ResponsesTarget:
    """Writes the body of a request: its input items, tools and effort."""

    def __init__(self) -> None:
        self._list = JsonList("input")
        self._calls = Calls()
        self._waiting: dict[str, Message] = {}

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        held = Conversation(
            tools=tuple(tool for tool in about.tools if tool.namespace == FUNCTIONS),
            settings=Settings(reasoning_effort=about.settings.reasoning_effort),
        )
        return Written(self._list.opening()), held

    def write(self, message: Message) -> list[Written]:
        require_text(message)
        value = mended(self._item(message))
        return [Written(self._list.element(value), (message,), self._read(value))]

    def close(self, about: Conversation) -> list[Written]:
        more: Json = {}
        if tools := [tool_json(tool) for tool in about.tools if tool.namespace == FUNCTIONS]:
            more["tools"] = tools
        if about.settings.reasoning_effort:
            more["reasoning"] = {"effort": about.settings.reasoning_effort.value}
        return [Written(self._list.closing(more))]

    def _item(self, message: Message) -> Json:
        if message.role is Role.TOOL:
            return {
                "type": "function_call_output",
                "call_id": self._calls.answered(message),
                "output": message.text,
            }
        if message.is_call:
            name = (message.recipient or "").removeprefix(f"{FUNCTIONS}.")
            call_id = self._calls.opened(message)
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": message.text}
        if message.role is Role.ASSISTANT and message.channel == Channel.ANALYSIS:
            content = [{"type": "reasoning_text", "text": message.text}]
            return {"type": "reasoning", "summary": [], "content": content}
        item: Json = {"type": "message", "role": message.role.value}
        if message.role is not Role.ASSISTANT:
            return {**item, "content": [{"type": "input_text", "text": message.text}]}
        phase = "commentary" if message.channel == Channel.COMMENTARY else "final_answer"
        return {**item, "phase": phase, "content": [{"type": "output_text", "text": message.text}]}

    def _read(self, value: Json) -> tuple[Message, ...]:
        try:
            read = tuple(read_items([decoded(value, InputItem, "input")], tuple(self._waiting.values())))
        except ParseError as error:
            raise RenderError(f"Responses items cannot say this: {error.message}", code=error.code) from None
        for message in read:
            if message.is_call and message.call_id:
                self._waiting[message.call_id] = message
            elif message.call_id:
                self._waiting.pop(message.call_id, None)
                self._calls.close(message.call_id)
        return read


def tool_json(tool: ToolSpec) -> Json:
    told = {"name": tool.name, "description": tool.description or None, "parameters": tool.parameters,
            "strict": tool.strict}  # fmt: skip
    return {"type": "function", **{key: value for key, value in told.items() if value is not None}}
