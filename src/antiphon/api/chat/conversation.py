"""A chat body ⇄ a conversation, for programs: what the server reads of a request, without a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from antiphon.config import Limits
from antiphon.conversation import (
    FUNCTIONS,
    IMAGES,
    Channel,
    Conversation,
    Message,
    OpaquePart,
    Part,
    ResponseFormat,
    Role,
    TextPart,
    ToolSpec,
    image_url,
)
from antiphon.conversation.calls import OpenCalls, make_call
from antiphon.errors import RenderError
from antiphon.generation import TurnRequest
from antiphon.wire.dialect import OPENAI
from antiphon.wire.errors import refused
from antiphon.wire.json import decode, encode_given

from .messages import to_messages
from .read import Reading, to_turn
from .schema import ChatRequest, JsonObject

# Messages → chat messages: the reasoning, text and calls of one turn go into one.


class ChatElement(msgspec.Struct, frozen=True):
    """One chat message, the messages that it stands for, and for a tool's result the call that it answers."""

    value: JsonObject
    messages: tuple[Message, ...]
    answers: Message | None = None


class ChatMessageWriter:
    """Writes messages one by one. Those of an assistant's turn wait until their chat message is complete."""

    def __init__(self) -> None:
        self._bundle = Bundle()
        self._calls = WrittenCalls()

    def write(self, message: Message) -> list[ChatElement]:
        """Returns the elements that are complete now. Raises `RenderError` for content that only Harmony has."""
        refuse_content(message)
        if message.role is Role.ASSISTANT:
            flushed = [] if self._bundle.takes(message) else self.close()
            self._bundle.add(message, self._calls)
            return flushed
        value: JsonObject = {"role": message.role.value, "content": content_of(message)}
        answers: Message | None = None
        if message.role is Role.TOOL:
            id = value["tool_call_id"] = self._calls.answered(message)
            called = self._calls.answer(id)
            if called is not None:
                # Read back, every call on this wire is one of a function.
                answers = make_call(f"{FUNCTIONS}.{called.removeprefix(f'{FUNCTIONS}.')}", "", id)
        elif message.name is not None:
            value["name"] = message.name
        return [*self.close(), ChatElement(value, (message,), answers)]

    def close(self) -> list[ChatElement]:
        """The chat message that still waits, if there is one."""
        bundle, self._bundle = self._bundle, Bundle()
        return [ChatElement(bundle.value(), tuple(bundle.messages))] if bundle.messages else []


class Bundle:
    """The messages of one assistant's chat message: reasoning, then text, then calls."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._reasoning: str | None = None
        self._content: str | list[JsonObject] | None = None
        self._calls: list[JsonObject] = []
        self._name: str | None = None
        self._final = False

    def takes(self, message: Message) -> bool:
        """Whether the message still fits behind what there is, in the order in which it is read back."""
        if self._final:
            return False
        if message.is_call:
            return True
        return self._content is None and not self._calls

    def add(self, message: Message, calls: WrittenCalls) -> None:
        self.messages.append(message)
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

    def value(self) -> JsonObject:
        value: JsonObject = {"role": "assistant", "content": self._content}
        if self._name is not None:
            value["name"] = self._name
        if self._reasoning is not None:
            value["reasoning"] = self._reasoning
        if self._calls:
            value["tool_calls"] = self._calls
        elif self._content is None and self._reasoning is None:
            value["content"] = ""
        return value


class WrittenCalls(OpenCalls):
    """The calls that were written and wait for an answer."""

    def opened(self, call: Message) -> str:
        """The id that the call is written with. Raises `RenderError` for that of one that waits."""
        id = call.call_id or self.free_id()
        if not self.follow(replace(call, call_id=id)):
            raise RenderError(f"two calls that wait for answers have the id {id[:80]!r}")
        return id

    def answered(self, message: Message) -> str:
        """The id of the call that a tool's message answers. A-O15: one that names none answers its tool's oldest."""
        return message.call_id or self.oldest(message.name) or "unknown"


def refuse_content(message: Message) -> None:
    """Raises `RenderError` for content that only Harmony has."""
    if any(not isinstance(part, TextPart | OpaquePart) for part in message.parts):
        raise RenderError(
            "this form carries text only, and a message has a part of another kind",
            code="unsupported_part",
            hint="Convert to harmony first, which writes system and developer content as text.",
        )


def content_of(message: Message) -> str | list[JsonObject]:
    """The text; with parts of other kinds, a list of all of them as chat JSON has them."""
    parts = [(part, _chat_part(part)) for part in message.parts]
    written = [value for _, value in parts if value is not None]
    return written if any(value and isinstance(part, OpaquePart) for part, value in parts) else message.text


def _chat_part(part: Part) -> JsonObject | None:
    """The part in chat JSON; None of what tools send, which has a form of its own."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if not isinstance(part, OpaquePart) or not isinstance(part.data, dict) or part.data.get("type") != part.kind:
        return None
    url = image_url(part) if part.kind in IMAGES and part.kind != "image_url" else None
    return part.data if url is None else {"type": "image_url", "image_url": {"url": url}}


def own_functions(tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    """The caller's functions: the tools that this wire has a place for."""
    return [tool for tool in tools if tool.namespace == FUNCTIONS]


def function_json(tool: ToolSpec) -> JsonObject:
    """A function's definition, absent fields left out."""
    fields = {"name": tool.name, "description": tool.description or None, "parameters": tool.parameters,
              "strict": tool.strict}  # fmt: skip
    return {key: value for key, value in fields.items() if value is not None}


def tool_json(tool: ToolSpec) -> JsonObject:
    return {"type": "function", "function": function_json(tool)}


def has_format(form: ResponseFormat | None) -> bool:
    """Whether chat JSON has a word for the format of the answer."""
    return form is None or form.kind in ("text", "json_object", "json_schema")


def format_json(form: ResponseFormat) -> JsonObject:
    """The answer's format as ``response_format``; its name is ``answer`` where it has none."""
    blanks = {"compact": True} if form.compact else {}
    if form.kind != "json_schema":
        return {"type": form.kind, **blanks}
    fields = {"name": form.name or "answer", "description": form.description, "schema": form.schema,
              "strict": form.strict}  # fmt: skip
    given = {key: value for key, value in fields.items() if value is not None}
    return {"type": form.kind, "json_schema": given, **blanks}


def settings_json(conversation: Conversation) -> JsonObject:
    """The body's fields beside the messages."""
    settings: JsonObject = {}
    if tools := [tool_json(tool) for tool in own_functions(conversation.tools)]:
        settings["tools"] = tools
    if conversation.response_format and has_format(conversation.response_format):
        settings["response_format"] = format_json(conversation.response_format)
    if conversation.settings.reasoning_effort:
        settings["reasoning_effort"] = conversation.settings.reasoning_effort.value
    return settings


SERVER_FIELDS = frozenset(
    {"n", "logprobs", "top_logprobs", "session_id", "sequence_start", "sequence_end", "server_tools"}
)
"""Fields whose effect only a server's answer shows, or that need what only a server has."""


def read_chat(body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | bytes) -> Conversation:
    """The conversation of a chat completions body, or of its messages alone: as a value, or as JSON text.

    Messages, ``tools``, ``response_format`` and ``reasoning_effort`` are read as `POST /v1/chat/completions` reads
    them; what only a server can act on (sampling, streaming) is checked and left out. With ``tool_choice`` none there
    are no tools. Raises `RequestError` with the field's JSON path, for text that is no JSON too.
    """
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    data = data if isinstance(data, bytes) else encode_given(data, "body")
    if data.lstrip()[:1] == b"[":
        data = b'{"messages":' + data + b"}"
    request, names = decode(data, ChatRequest)
    with names.restored_in_errors():
        return conversation_of(request)


def read_turn_request(body: Mapping[str, Any]) -> TurnRequest:
    """The whole turn of a chat completions body, with its sampling, limits and tool choice.

    Raises `RequestError` for a field that only a server can honour, or that nobody knows.
    """
    request, names = decode(encode_given(body, "messages"), ChatRequest)
    stored = {"store"} if request.store else set()
    if refused_fields := sorted({*names.ignored, *stored, *(body.keys() & SERVER_FIELDS)}):
        raise refused(refused_fields[0], "a chat without a server cannot honour it.", code="unsupported_parameter")
    with names.restored_in_errors():
        return to_turn(request, Reading(OPENAI, Limits(), stream=bool(request.stream)))


def read_messages(messages: Sequence[Mapping[str, Any]], *, earlier: Sequence[Message] = ()) -> tuple[Message, ...]:
    """Messages as chat APIs write them, after ``earlier`` ones, whose calls they may answer.

    Raises `RequestError` with the JSON path below ``messages``.
    """
    request, _ = decode(b'{"messages":' + encode_given(messages, "messages") + b"}", ChatRequest)
    return to_messages(request.messages, earlier=earlier)


def conversation_of(request: ChatRequest) -> Conversation:
    """The conversation of a request that is decoded already. Raises `RequestError` with the field's path."""
    if request.enable_thinking is not None:
        hint = "Use reasoning_effort, or the template's own argument in chat_template_kwargs."
        raise refused("enable_thinking", "a conversation without a model cannot have it.", hint=hint)
    return to_turn(request, Reading(OPENAI, Limits(), stream=bool(request.stream))).conversation


def write_messages(messages: Iterable[Message]) -> list[JsonObject]:
    """The chat messages of a conversation: the frames of an assistant's turn are one chat message.

    A call without an id gets one by its position (``call_0``). Raises `RenderError` for content that only Harmony has.
    """
    writer = ChatMessageWriter()
    elements = [element for message in messages for element in writer.write(message)]
    return [element.value for element in (*elements, *writer.close())]


def write_chat(conversation: Conversation) -> JsonObject:
    """The body of a chat request: messages, and where they are given tools, response format and reasoning effort.

    What chat JSON has no place for (channels of its own, built-in tools) is left out; `antiphon.convert` lists it.
    """
    return {"messages": write_messages(conversation.messages), **settings_json(conversation)}
