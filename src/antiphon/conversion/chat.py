"""OpenAI's chat JSON, written: turns bundled as chat messages are."""

from __future__ import annotations

from dataclasses import replace

from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    Conversation,
    Message,
    OpaquePart,
    ResponseFormat,
    Role,
    Settings,
    TextPart,
    ToolSpec,
)
from antiphon.errors import ParseError, RenderError

from .chat_reader import read_message
from .codec import Written
from .json_forms import Json, JsonList, mended


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
        refuse_content(message)
        if message.role is Role.ASSISTANT:
            flushed = [] if self._bundle.takes(message) else self._flush()
            self._bundle.add(message, self._calls)
            return flushed
        value: Json = {"role": message.role.value, "content": content_of(message)}
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
        self._content: str | list[Json] | None = None
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
            self._content, self._name = content_of(message), message.name
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
        id = value.get("tool_call_id", "")
        call = replace(self._open[id], call_id=id) if id in self._open else None
        try:
            read = read_message(value, 0, answers=call)
        except ParseError as error:
            raise RenderError(f"chat JSON cannot say this: {error.message}", code=error.code) from None
        self.close(id)
        return read

    def close(self, call_id: str) -> None:
        """The call has its answer."""
        self._open.pop(call_id, None)


def refuse_content(message: Message) -> None:
    """Raises `RenderError` for content that only Harmony has."""
    if any(not isinstance(part, TextPart | OpaquePart) for part in message.parts):
        raise RenderError(
            "this form carries text only, and a message has a part of another kind",
            code="unsupported_part",
            hint="Convert to harmony first, which writes system and developer content as text.",
        )


def content_of(message: Message) -> str | list[Json]:
    """The text; with parts of other kinds, a list of all of them as chat JSON has them."""
    if not any(isinstance(part, OpaquePart) and _is_chat(part) for part in message.parts):
        return message.text
    return [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else part.data
        for part in message.parts
        if isinstance(part, TextPart) or (isinstance(part, OpaquePart) and _is_chat(part))
    ]


def _is_chat(part: OpaquePart) -> bool:
    """Whether the part came from chat JSON; those of tools have a form of their own."""
    return isinstance(part.data, dict) and part.data.get("type") == part.kind


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
