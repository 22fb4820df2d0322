"""OpenAI's chat JSON: requests read as the server reads them, turns bundled as chat messages are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from antiphon.api.convert.messages import to_messages
from antiphon.api.schemas.chat import ChatMessage, ResponseFormatObject, Tool
from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    Conversation,
    Message,
    ReasoningEffort,
    ResponseFormat,
    Role,
    Settings,
    ToolSpec,
)
from antiphon.errors import ParseError, Position, RenderError, RequestError

from .codec import Written
from .json_forms import Json, JsonList, Understood, mended, require_list
from .loss import Loss

HELD = ("messages", "tools", "response_format", "reasoning_effort")


def understand_chat(value: Any) -> Understood:
    """A request's body, or its messages alone. Raises `ParseError` with the path of what is wrong."""
    request: Json = {"messages": value} if isinstance(value, list) else value
    messages = require_list(request.get("messages"), "messages")
    try:
        wire = [decoded(message, ChatMessage, f"messages[{i}]") for i, message in enumerate(messages)]
        frames = to_messages(wire) if wire else ()
    except RequestError as error:
        raise ParseError(error.message, code=error.code, position=error.position, hint=error.hint) from None
    effort = request.get("reasoning_effort")
    conversation = Conversation(
        frames,
        tools=tuple(tools_of(request.get("tools") or [])),
        settings=Settings(reasoning_effort=ReasoningEffort(effort) if effort in set(ReasoningEffort) else None),
        response_format=response_format(request.get("response_format")),
    )
    unread = [Loss(key, "not part of a conversation") for key in request if key not in HELD]
    for i, message in enumerate(messages):
        known = {field.encode_name for field in msgspec.structs.fields(ChatMessage)}
        unread += [Loss(f"messages[{i}].{key}", "unknown") for key in message if key not in known]
    return Understood(conversation, unread)


def decoded(value: object, kind: type[Any], path: str) -> Any:
    """A JSON value as a struct of the wire; through text, because some fields keep their own spelling."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value), type=kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        told, _, where = str(error).partition(" - at `$")
        raise ParseError(told, code="wrong_value", position=Position(path=f"{path}{where.rstrip('`')}")) from None


def tools_of(values: Sequence[Any]) -> Iterator[ToolSpec]:
    for i, value in enumerate(values):
        tool = decoded(value, Tool, f"tools[{i}]")
        if tool.function is None:
            raise ParseError("only function tools are read", code="wrong_value", position=Position(path=f"tools[{i}]"))
        function = tool.function
        yield ToolSpec(function.name, function.description or "", function.parameters, function.strict)


def response_format(value: Any) -> ResponseFormat | None:
    if value is None:
        return None
    wire = decoded(value, ResponseFormatObject, "response_format")
    schema = wire.json_schema
    if schema is None:
        return ResponseFormat(wire.type)
    return ResponseFormat(wire.type, schema.name, schema.description, schema.schema, schema.strict)


class ChatTarget:
    """Writes the body of a chat request. The frames of a turn wait until their chat message is whole."""

    def __init__(self) -> None:
        self._list = JsonList("messages")
        self._bundle = Bundle()
        self._calls = Calls()

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        held = Conversation(
            tools=tuple(tool for tool in about.tools if tool.namespace == FUNCTIONS),
            settings=Settings(reasoning_effort=about.settings.reasoning_effort),
            response_format=about.response_format if sayable(about.response_format) else None,
        )
        return Written(self._list.opening()), held

    def write(self, message: Message) -> list[Written]:
        require_text(message)
        if message.role is Role.ASSISTANT:
            flushed = [] if self._bundle.takes(message) else self._flush()
            self._bundle.add(message, self._calls)
            return flushed
        value: Json = {"role": message.role.value, "content": message.text}
        if message.role is Role.TOOL:
            value["tool_call_id"] = self._calls.answered(message)
        elif message.name is not None:
            value["name"] = message.name
        return [*self._flush(), self._element(value, (message,))]

    def close(self, about: Conversation) -> list[Written]:
        more: Json = {}
        if tools := [tool_json(tool) for tool in about.tools if tool.namespace == FUNCTIONS]:
            more["tools"] = tools
        if about.response_format and sayable(about.response_format):
            more["response_format"] = format_json(about.response_format)
        if about.settings.reasoning_effort:
            more["reasoning_effort"] = about.settings.reasoning_effort.value
        return [*self._flush(), Written(self._list.closing(more))]

    def _flush(self) -> list[Written]:
        bundle, self._bundle = self._bundle, Bundle()
        return [self._element(bundle.value(), tuple(bundle.said))] if bundle.said else []

    def _element(self, value: Json, said: tuple[Message, ...]) -> Written:
        value = mended(value)
        return Written(self._list.element(value), said, self._calls.read(value))


class Bundle:
    """The frames of one assistant's chat message: reasoning, then text, then calls."""

    def __init__(self) -> None:
        self.said: list[Message] = []
        self._reasoning: str | None = None
        self._content: str | None = None
        self._calls: list[Json] = []
        self._name: str | None = None
        self._final = False

    def takes(self, message: Message) -> bool:
        """Whether the message still fits behind what there is, in the order in which it is read back."""
        if self._final:
            return False
        if message.is_call:
            return True
        return self._content is None and not self._calls

    def add(self, message: Message, calls: Calls) -> None:
        self.said.append(message)
        if message.is_call:
            name = (message.recipient or "").removeprefix(f"{FUNCTIONS}.")
            function = {"name": name, "arguments": message.text}
            self._calls.append({"id": calls.opened(message), "type": "function", "function": function})
        elif message.channel == Channel.ANALYSIS:
            before = "" if self._reasoning is None else f"{self._reasoning}\n\n"
            self._reasoning = before + message.text
        else:
            self._content, self._name = message.text, message.name
            self._final = not message.is_preamble

    def value(self) -> Json:
        value: Json = {"role": "assistant", "content": self._content}
        if self._name is not None:
            value["name"] = self._name
        if self._reasoning is not None:
            value["reasoning"] = self._reasoning
        if self._calls:
            value["tool_calls"] = self._calls
        elif self._content is None:
            value["content"] = ""
        return value


class Calls:
    """The calls that wait for an answer, and ids by position for those that have none (A-O12)."""

    def __init__(self) -> None:
        self._open: dict[str, Message] = {}
        self._count = 0

    def opened(self, message: Message) -> str:
        call_id = message.call_id or f"call_{self._count}"
        self._count += message.call_id is None
        self._open[call_id] = message
        return call_id

    def answered(self, message: Message) -> str:
        """A-O15: a reply that names no call answers the oldest of its tool."""
        if message.call_id is not None:
            return message.call_id
        return next((id for id, call in self._open.items() if call.recipient == message.name), "unknown")

    def read(self, value: Json) -> tuple[Message, ...]:
        """The frames that a reader gets from one chat message behind the others."""
        waiting = [replace(call, call_id=id) for id, call in self._open.items()]
        if value["role"] != "tool":
            waiting = [call for call in waiting if call.call_id not in {c["id"] for c in value.get("tool_calls", ())}]
        try:
            read = to_messages([decoded(value, ChatMessage, "messages")], earlier=waiting)
        except (RequestError, ParseError) as error:
            raise RenderError(f"chat JSON cannot say this: {error.message}", code=error.code) from None
        self.close(value.get("tool_call_id", ""))
        return read

    def close(self, call_id: str) -> None:
        """The call has its answer."""
        self._open.pop(call_id, None)


def require_text(message: Message) -> None:
    if any(not hasattr(part, "text") for part in message.parts):
        raise RenderError(
            "this form carries text only, and a message has a part of another kind",
            code="unsupported_part",
            hint="Convert to harmony first, which writes system and developer content as text.",
        )


def tool_json(tool: ToolSpec) -> Json:
    told = {"name": tool.name, "description": tool.description or None, "parameters": tool.parameters,
            "strict": tool.strict}  # fmt: skip
    return {"type": "function", "function": {key: value for key, value in told.items() if value is not None}}


def sayable(form: ResponseFormat | None) -> bool:
    return form is None or form.kind in ("text", "json_object", "json_schema")


def format_json(form: ResponseFormat) -> Json:
    if form.kind != "json_schema":
        return {"type": form.kind}
    told = {"name": form.name or "answer", "description": form.description, "schema": form.schema,
            "strict": form.strict}  # fmt: skip
    return {"type": form.kind, "json_schema": {key: value for key, value in told.items() if value is not None}}
