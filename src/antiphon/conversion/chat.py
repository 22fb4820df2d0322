"""OpenAI's chat JSON, written: turns bundled as chat messages are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from antiphon.api.chat.conversation import ChatElement, ChatMessageWriter, has_format, own_functions, settings_json
from antiphon.api.chat.messages import TEXT_PARTS, to_messages
from antiphon.api.chat.read import read_format, read_tools
from antiphon.api.chat.schema import ChatMessage, ResponseFormatObject, Tool
from antiphon.conversation import (
    FUNCTIONS,
    Channel,
    Conversation,
    Loss,
    Message,
    OpaquePart,
    Part,
    ResponseFormat,
    Role,
    Settings,
    TextPart,
)
from antiphon.conversation.calls import OpenCalls
from antiphon.errors import ParseError, Position, RenderError, RequestError
from antiphon.structs import ready
from antiphon.wire.projection import custom_input

from .detect import Json, JsonList, JsonReader, Survey, well_formed_json
from .form import (
    CHAT,
    Lifted,
    Written,
    carried_request,
    read_effort,
    read_request,
    taken_content,
    taken_function,
    unread,
    written_request,
)

# OpenAI's chat JSON, read as the server reads it; parts that are no text are carried as they came.


class ChatReader(JsonReader):
    """Reads the messages of a request's body, or their list alone."""

    path = "messages"

    def __init__(self, survey: Survey) -> None:
        survey.require(self.path)
        request = survey.members
        effort = request.get("reasoning_effort")
        extra, carried = read_request(request, CHAT)
        tools = [decoded(value, Tool, f"tools[{i}]") for i, value in enumerate(survey.tools)]
        with as_parse_errors():
            specs = read_tools(tools, any_name=True)
        self.about = Conversation(
            tools=specs,
            settings=Settings(reasoning_effort=read_effort(effort)),
            response_format=response_format(request.get("response_format")),
            extra=extra,
        )
        taken = {self.path: request.get(self.path), **carried, **_taken_about(self.about)}
        self.unread = list(unread("", request, taken))
        self._calls = OpenCalls()
        self._last: Message | None = None

    def read(self, element: Any, index: int) -> Sequence[Message]:
        messages = read_message(element, index, self._calls)
        path = f"{self.path}[{index}]"
        self.unread += unread(path, element, _taken(element, messages))
        last, first, self._last = self._last, messages[0], messages[-1]
        if last is None or last.role is not Role.ASSISTANT or first.role is not Role.ASSISTANT:
            return messages
        # Only an answer ends a message of the assistant's: what follows is written as part of it, if it can be.
        if last.channel == Channel.ANALYSIS or (first.is_call and last.channel != Channel.FINAL):
            self.unread.append(Loss(path, "a message of its own", f"part of {self.path}[{index - 1}]"))
        return messages


def _taken(element: Json, frames: Sequence[Message]) -> Json:
    """The parts of a chat message that its frames have."""
    calls = [frame for frame in frames if frame.is_call]
    thought = next((frame.text for frame in frames if frame.channel == Channel.ANALYSIS), "")
    message = next((frame for frame in frames if not frame.is_call and frame.channel != Channel.ANALYSIS), None)
    listed = element.get("tool_calls") or []
    taken: Json = {
        "role": element["role"],
        "content": taken_content(element.get("content"), message),
        "reasoning": thought,
        "reasoning_content": thought,
        "tool_calls": [
            {
                "type": "function",
                "id": call.call_id,
                "function": _taken_function(given.get("function") or {}, call),
                "custom": {"name": _function_name(call.recipient), "input": custom_input(call.text)},
            }
            for given, call in zip(listed, calls, strict=False)
        ],
        "annotations": [],
    }
    if "function_call" in element and len(calls) > len(listed):
        taken["function_call"] = _taken_function(element["function_call"], calls[-1])
    if message is None:
        return taken
    if message.role is Role.TOOL:
        return {**taken, "name": _function_name(message.name), "tool_call_id": message.call_id}
    # The text is carried, but not that it is a refusal.
    refused = element.get("refusal") is not None and message.text == element["refusal"]
    return {**taken, "name": message.name, "refusal": {"content": message.text} if refused else None}


def _taken_function(given: Json, call: Message) -> Json:
    spelled = given.get("arguments")
    arguments = json.loads(call.text) if isinstance(spelled, dict) else call.text
    return {"name": _function_name(call.recipient), "arguments": arguments}


def _function_name(recipient: str | None) -> str:
    return (recipient or "").removeprefix(f"{FUNCTIONS}.")


def _taken_about(about: Conversation) -> Json:
    """The parts of a chat request beside its messages that a conversation has."""
    form = about.response_format
    return {
        "tools": [{"type": "function", "function": taken_function(tool)} for tool in about.tools],
        "reasoning_effort": about.settings.reasoning_effort,
        "response_format": form and {
            "type": form.kind,
            "json_schema": {name: getattr(form, name) for name in ("name", "description", "schema", "strict")},
            "pattern": form.pattern, "choices": list(form.choices or ()), "grammar": form.grammar,
            "compact": form.compact,
        },
    }  # fmt: skip


def read_message(element: Any, index: int, calls: OpenCalls) -> tuple[Message, ...]:
    """The frames of one chat message behind those whose ``calls`` wait. Raises `ParseError` with a path."""
    content = element.get("content") if isinstance(element, dict) else None
    parts = content if isinstance(content, list) else []
    media = not all(map(_is_text, parts))
    texts = {**element, "content": [part for part in parts if _is_text(part)]} if media else element
    wire = decoded(texts, ChatMessage, f"messages[{index}]")
    with as_parse_errors():
        frames = to_messages([wire], earlier=calls, first=index)
    if not media:
        return frames
    carried = _parts(parts)  # They go to the frame that has the text; a message that only calls has none.
    return tuple(
        frame if frame.is_call or frame.channel == Channel.ANALYSIS else replace(frame, parts=carried)
        for frame in frames
    )


def _is_text(part: Any) -> bool:
    return not isinstance(part, dict) or part.get("type") in (*TEXT_PARTS, "refusal") or "type" not in part


def _parts(content: list[Json]) -> tuple[Part, ...]:
    return tuple(
        TextPart(part["refusal" if part["type"] == "refusal" else "text"])
        if _is_text(part)
        else OpaquePart(str(part["type"]), part)
        for part in content
    )


def decoded(value: object, kind: type[Any], path: str) -> Any:
    """A JSON value as a struct of the wire; through text, because some fields keep their own spelling."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value), type=ready(kind))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        problem, _, where = str(error).partition(" - at `$")
        raise ParseError(problem, code="wrong_value", position=Position(path=f"{path}{where.rstrip('`')}")) from None


def response_format(value: Any) -> ResponseFormat | None:
    """The answer's format; ``text`` stays where it was given."""
    if value is None:
        return None
    wire = decoded(value, ResponseFormatObject, "response_format")
    with as_parse_errors():
        return read_format(wire) or ResponseFormat("text")


@contextmanager
def as_parse_errors() -> Iterator[None]:
    """Turns a wire reader's refusal into a fault of the input."""
    try:
        yield
    except RequestError as error:
        raise ParseError(error.message, code=error.code, position=error.position, hint=error.hint) from None


class ChatTarget:
    """Writes the body of a chat request. The frames of a turn wait until their chat message is whole."""

    def __init__(self) -> None:
        self._list = JsonList("messages")
        self._writer = ChatMessageWriter()
        self._lifted = Lifted()

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        carried = Conversation(
            tools=tuple(own_functions(about.tools)),
            settings=Settings(reasoning_effort=about.settings.reasoning_effort),
            response_format=about.response_format if has_format(about.response_format) else None,
            extra=carried_request(about, CHAT),
        )
        return Written(self._list.opening()), carried

    def write(self, message: Message) -> list[Written]:
        lift = self._lifted.lift(message)
        if lift is None:
            return list(map(self._written, self._writer.write(message)))
        elements = self._writer.close() if lift.rest is None else self._writer.write(lift.rest)
        return lift.parts(list(map(self._written, elements)))

    def close(self, about: Conversation) -> list[Written]:
        more = written_request(about, CHAT) | settings_json(self._lifted.with_tools(about))
        return [*map(self._written, self._writer.close()), Written(self._list.closing(more))]

    def _written(self, element: ChatElement) -> Written:
        value = well_formed_json(element.value)
        return Written(
            self._list.element(value), element.messages, read_back(msgspec.structs.replace(element, value=value))
        )


def read_back(element: ChatElement) -> tuple[Message, ...]:
    """The messages that a reader gets from a chat message behind those before it."""
    try:
        return read_message(element.value, 0, OpenCalls(filter(None, [element.answers])))
    except ParseError as error:
        raise RenderError(f"chat JSON cannot say this: {error.message}", code=error.code) from None
