"""Items of the Responses API: each frame is an item."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.api.chat.conversation import WrittenCalls, function_json, own_functions, refuse_content
from antiphon.api.responses.item_schema import InputItem
from antiphon.api.responses.items import ANSWERS, Entry, ItemReader
from antiphon.api.responses.known import ACTIONS, CALLS, REQUEST, RESPONSE
from antiphon.api.responses.open_items import Phase
from antiphon.api.responses.schema import NamespacedTool
from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    Conversation,
    Loss,
    Message,
    Role,
    Settings,
    TextPart,
    ToolSpec,
)
from antiphon.conversation.calls import OpenCalls, make_call
from antiphon.errors import ParseError, RenderError
from antiphon.wire.definitions import read_function
from antiphon.wire.encrypted import Purpose
from antiphon.wire.projection import custom_input

from .chat import as_parse_errors, decoded
from .detect import Json, JsonList, Survey, well_formed_json
from .form import (
    RESPONSES,
    Lifted,
    Written,
    carried_request,
    read_effort,
    read_request,
    taken_content,
    taken_function,
    unread,
    without_media,
    written_request,
)

_PHASES: Mapping[str | None, Phase] = {Channel.COMMENTARY: "commentary", Channel.FINAL: "final_answer"}


class ResponsesReader:
    """Reads a request (``input``), a response (``output``), or a list of items."""

    def __init__(self, survey: Survey) -> None:
        request = survey.members
        self.path = "input" if "input" in request or survey.is_list else "output"
        self._given = request.get(self.path)
        if not isinstance(self._given, str):
            survey.require(self.path)
        self._instructions = request.get("instructions")
        reasoning = request.get("reasoning")
        effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
        extra, carried = read_request(request, RESPONSES)
        specs = [tool_of(tool, f"tools[{i}]") for i, tool in enumerate(survey.tools)]
        self.about = Conversation(
            tools=tuple(filter(None, specs)),
            settings=Settings(reasoning_effort=read_effort(effort)),
            extra=extra,
        )
        taken = {
            self.path: self._given,
            "object": request.get("object"),
            "instructions": self._instructions if isinstance(self._instructions, str) else None,
            "tools": [spec and {"type": "function", **taken_function(spec)} for spec in specs],
            "reasoning": {"effort": self.about.settings.reasoning_effort},
        }
        self.unread = list(unread("", request, carried | taken))
        self._items = Items(self.path)
        self._pending: tuple[int, Json, InputItem] | None = None

    def begin(self) -> Sequence[Message]:
        texts = ((Role.SYSTEM, self._instructions), (Role.USER, self._given))
        return [Message(role=role, text=text) for role, text in texts if isinstance(text, str)]

    def read(self, element: Any, index: int) -> Sequence[Message]:
        """The messages of the item before: what follows an assistant's message decides whether it is a preamble."""
        item = decoded(element, InputItem, f"{self.path}[{index}]")
        messages = self._read(item)
        self._pending = index, element, item
        return messages

    def end(self) -> Sequence[Message]:
        return self._read(None)

    def _read(self, follower: InputItem | None) -> Sequence[Message]:
        if self._pending is None:
            return ()
        index, element, item = self._pending
        path, messages = f"{self.path}[{index}]", self._items.read(item, follower)
        lost = unread(path, element, _taken(element, messages)) if messages else [Loss(path, item.type or "message")]
        self.unread += lost
        return messages


def _taken(item: Json, messages: Sequence[Message]) -> Json:
    """The parts of an item that its messages have."""
    first, last, content = messages[0], messages[-1], item.get("content")
    match kind := item.get("type") or "message":
        case "message":
            taken = {"role": last.role, "content": taken_content(content, last), "phase": _PHASES.get(last.channel)}
            return {"type": kind, **taken}
        case "reasoning":
            summary = [] if content else {"content": last.text}
            return {"type": kind, "content": taken_content(content, last), "summary": summary}
        case "function_call" | "custom_tool_call":
            name = (last.recipient or "").removeprefix(f"{FUNCTIONS}.")
            taken = {"call_id": last.call_id, "name": name, "arguments": last.text, "input": custom_input(last.text)}
            return {"type": "function_call", **taken}
        case kind if kind in ACTIONS:
            done = {"type": "exec", "env": {}, **json.loads(last.text)}
            return {"type": "function_call", "call_id": last.call_id, ACTIONS[kind]: done}
        case kind if kind in ANSWERS:
            output = taken_content(item.get("output"), last)
            return {"type": "function_call_output", "call_id": last.call_id, "output": output}
        case _:
            return _taken_of_ran(item, first, last)


def _taken_of_ran(item: Json, call: Message, answer: Message) -> Json:
    """The parts of an item of the server's that its call and the answer have."""
    parts = answer.parts or (TextPart(answer.text),)
    outputs = [dict.fromkeys(("logs", "text"), part.text) for part in parts if isinstance(part, TextPart)]
    given = ("server_label", "name", "approval_request_id", "approve", "reason")
    return {
        **{name: item.get(name) for name in given},
        "type": "function_call",
        "id": call.call_id,
        "call_id": call.call_id,
        "arguments": call.text if call.is_call else item.get("arguments"),
        "code": call.text,
        "output": taken_content(item.get("output"), answer),
        "outputs": [{"type": "logs", **one} for one in outputs] if item.get("outputs") else [],
        "error": item.get("error") if item.get("output") is None else None,
    }


class Items:
    """Items read one by one."""

    def __init__(self, path: str = "input") -> None:
        self._path = path
        self._number = 0
        self._calls = OpenCalls()
        self._requests: dict[str | None, Entry] = {}

    def read(self, item: InputItem, follower: InputItem | None = None) -> tuple[Message, ...]:
        """Reads the item's messages. Raises `ParseError` with its path."""
        if item.type == RESPONSE and item.approve:
            return ()  # The result of the call is an item of its own.
        before = [self._requests[id] for id in (item.approval_request_id,) if id in self._requests]
        call_id = item.call_id or (item.id if item.type == "local_shell_call_output" else None)
        if recipient := self._calls.recipient(call_id):
            before.append(Entry(None, (make_call(recipient, "", call_id),)))
        part_of_ids = "convert"
        reader = ItemReader(
            token=part_of_ids,
            decrypt=_encrypted,
            before=before,
            path=self._path,
            first=self._number,
            strict=True,
        )
        called = follower is not None and follower.type in CALLS
        with as_parse_errors():
            entry = reader.read([item, follower] if called and follower else [item])[0]
        messages = entry.messages
        if item.type == REQUEST:
            self._requests[entry.id] = entry
        self._number += 1
        for message in messages:
            self._calls.follow(message)
        return messages


def _encrypted(content: str, where: str, purpose: Purpose) -> Message:
    raise ParseError(f"encrypted {purpose} can be read only by the server that encrypted it", code="encrypted_content")


def tool_of(value: Any, path: str) -> ToolSpec | None:
    """A function tool, of any name; other kinds are no part of a conversation."""
    if not isinstance(value, dict) or value.get("type") != "function" or not isinstance(value.get("name"), str):
        return None
    return read_function(decoded(value, NamespacedTool, path), path, any_name=True)


class ResponsesTarget:
    """Writes the body of a request: its input items, tools and effort."""

    def __init__(self) -> None:
        self._list = JsonList("input")
        self._calls = WrittenCalls()
        self._items = Items()
        self._lifted = Lifted()

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        carried = Conversation(
            tools=tuple(own_functions(about.tools)),
            settings=Settings(reasoning_effort=about.settings.reasoning_effort),
            extra=carried_request(about, RESPONSES),
        )
        return Written(self._list.opening()), carried

    def write(self, message: Message) -> list[Written]:
        lift = self._lifted.lift(message)
        if lift is None:
            return [self._written(message)]
        return lift.parts([] if lift.rest is None else [self._written(lift.rest)])

    def _written(self, message: Message) -> Written:
        refuse_content(message)
        value = well_formed_json(self._item(without_media(message)))
        return Written(self._list.element(value), (message,), self._read(value))

    def close(self, about: Conversation) -> list[Written]:
        more: Json = written_request(about, RESPONSES)
        functions = own_functions(self._lifted.with_tools(about).tools)
        if tools := [{"type": "function", **function_json(tool)} for tool in functions]:
            more["tools"] = tools
        if about.settings.reasoning_effort:
            more["reasoning"] = {"effort": about.settings.reasoning_effort.value}
        return [Written(self._list.closing(more))]

    def _item(self, message: Message) -> Json:
        if message.role is Role.TOOL:
            call_id = self._calls.answered(message)
            return {"type": "function_call_output", "call_id": call_id, "output": message.text}
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
            read = self._items.read(decoded(value, InputItem, "input"))
        except ParseError as error:
            raise RenderError(f"Responses items cannot say this: {error.message}", code=error.code) from None
        for message in read:
            self._calls.follow(message)
        return read
