"""A row of a data set as a conversation: chat JSON, ShareGPT, Alpaca, Harmony and OpenChatML."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import msgspec

from antiphon.api.chat.messages import to_messages
from antiphon.api.chat.schema import ChatMessage
from antiphon.conversation import Channel, Conversation, Message, ReasoningEffort, Role, Settings, ToolSpec
from antiphon.conversation.calls import GivenCalls
from antiphon.conversion.convert import source_named
from antiphon.conversion.detect import HarmonyJsonReader, JsonReader, ShareGptReader, Survey, detect, read_function
from antiphon.conversion.json_text import Repeated
from antiphon.errors import AntiphonError, ParseError, Position, utf8_words
from antiphon.generation.images import check_seen
from antiphon.structs import ready

AUTO = "auto"
"""The form is found out for each row, by its fields."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row that was read. ``elements``: for each message the index of the element of ``path`` that it is of.

    ``weights``: the loss weights of the messages that have one, by their index. ``is_chat``: chat JSON, in
    which a change can be written back.
    """

    conversation: Conversation
    path: str = "messages"
    elements: Sequence[int] = ()
    weights: Mapping[int, float] | None = None
    is_chat: bool = False

    def place(self, message: int) -> str:
        """The path in the row of a message: ``messages[2]``; empty for none."""
        return f"{self.path}[{self.elements[message]}]" if 0 <= message < len(self.elements) else ""


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads rows of one form (`FORMS`), or of any. ``field`` has the text of transcripts; None: the usual names."""

    form: str = AUTO
    field: str | None = None

    def read(self, data: bytes, name: str = "") -> Row:
        """The conversation of a row. ``name``: the file, where all of it is the row.

        Raises `ParseError` for what is no JSON or no conversation, `RequestError` with the path of a wrong field.
        """
        if data.lstrip()[:1] != b"{":
            return self._text(data, name)
        try:
            value = msgspec.json.decode(data)
        except RecursionError:
            raise ParseError("the row is nested too deeply", code="not_json") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            words = utf8_words(error) if isinstance(error, UnicodeDecodeError) else str(error)
            raise ParseError(f"the row is not JSON: {words}", code="not_json", hint="One JSON object a line.") from None
        form = form_of(value, self.field) if self.form == AUTO else self.form
        form = "harmony-json" if form == "harmony" and "messages" in value else form
        if form in FORMS:
            return FORMS[form](value, data)
        if not isinstance(text := value.get(self.field or "text"), str):
            raise wrong(self.field or "text", "is no text")
        return _transcript(form, text.encode("utf-8", "surrogateescape"))

    def _text(self, data: bytes, name: str) -> Row:
        """A row that is no object: a transcript that is a file of its own."""
        if not name:
            raise ParseError("the row is no JSON object", code="not_json", hint="One JSON object a line.")
        return _transcript(detect(data) if self.form == AUTO else self.form, data)


def form_of(value: Mapping[str, Any], field: str | None = None) -> str:
    """The form of a row, by its fields. Raises `ParseError` (``unknown_form``)."""
    if isinstance(value.get("conversations"), list):
        return "sharegpt"
    if isinstance(messages := value.get("messages"), list):
        survey = Survey()
        for message in messages:
            survey.note(message)
        return "harmony-json" if survey.any_harmony else "chat"
    if "instruction" in value and "output" in value:
        return "alpaca"
    if isinstance(value.get("prompt"), list) and isinstance(value.get("completion"), list):
        return "prompt-completion"
    if isinstance(text := value.get(field or "text"), str):
        return detect(text.encode("utf-8", "surrogateescape"))
    raise ParseError(
        f"a row with the fields {', '.join(map(repr, list(value)[:8])) or 'of nothing'} is no conversation known here",
        code="unknown_form",
        hint="Name the form with --from, or the field of a transcript with --field.",
    )


# Chat JSON: messages as the chat API takes them, with tools beside them.


class RowMessage(ChatMessage):
    """A chat message of a data set. ``weight``: of its loss; 0 leaves it untrained. ``thinking``: its reasoning."""

    weight: float | None = None
    thinking: str | None = None


class ChatRow(msgspec.Struct):
    messages: list[RowMessage]
    tools: list[Any] | str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None


def read_chat_row(value: Any, data: bytes) -> Row:
    """A row of chat JSON. ``tools`` may be a list, or JSON of one in a text; calls need no ids."""
    if _give_ids(value.get("messages")):
        data = json.dumps(value).encode()
    try:
        row = msgspec.json.decode(data, type=ready(ChatRow))
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        raise wrong(where.rstrip("`"), problem) from None
    calls = GivenCalls()
    messages: list[Message] = []
    elements: list[int] = []
    weights: dict[int, float] = {}
    for i, message in enumerate(row.messages):
        if message.thinking and not (message.reasoning or message.reasoning_content):
            message.reasoning = message.thinking
        frames = to_messages([message], earlier=calls, first=i, in_order=True)
        check_seen(frames, seen=False)
        if message.weight is not None:
            weights |= dict.fromkeys(range(len(messages), len(messages) + len(frames)), message.weight)
        messages += frames
        elements += [i] * len(frames)
    effort = next((effort for effort in ReasoningEffort if effort == row.reasoning_effort), None)
    settings = Settings(reasoning_effort=effort, template_kwargs=row.chat_template_kwargs or {})
    conversation = Conversation(tuple(messages), read_functions(row.tools), settings=settings)
    return Row(conversation, "messages", elements, weights, is_chat=True)


def _give_ids(messages: Any) -> bool:
    """Gives each call that has no id one by its place; returns whether there was any."""
    numbers, given = count(), False
    for message in messages if isinstance(messages, list) else ():
        for call in (message.get("tool_calls") if isinstance(message, dict) else None) or ():
            if isinstance(call, dict) and not call.get("id"):
                call["id"], given = f"call_{next(numbers)}", True
    return given


def read_functions(tools: Any) -> tuple[ToolSpec, ...]:
    """The tools of a row. Raises `ParseError` at the first that is none."""
    if isinstance(tools, str):
        try:
            tools = msgspec.json.decode(tools) if tools else None
        except (msgspec.DecodeError, RecursionError):
            raise wrong("tools", "is no JSON") from None
    if not isinstance(tools, list | None):
        raise wrong("tools", "is not a list")
    return tuple(read_function(tool, f"tools[{i}]") for i, tool in enumerate(tools or ()))


def wrong(path: str, problem: str) -> ParseError:
    return ParseError(f"{path}: {problem}" if path else problem, code="wrong_value", position=Position(path=path))


def read_prompt_completion(value: Any, data: bytes) -> Row:
    """``prompt`` and ``completion`` are chat messages, of which the prompt is not trained."""
    prompt = [{**message, "weight": 0} if isinstance(message, dict) else message for message in value["prompt"]]
    rest = {key: inner for key, inner in value.items() if key not in ("prompt", "completion")}
    whole = {**rest, "messages": [*prompt, *value["completion"]]}
    return replace(read_chat_row(whole, json.dumps(whole).encode()), is_chat=False)


# The other forms of JSON.


def _elements(reader: Callable[[Survey], JsonReader]) -> Callable[[Any, bytes], Row]:
    """A row whose elements a reader makes messages of."""

    def read(value: Any, data: bytes) -> Row:
        source = reader(Survey(members=Repeated(value)))
        messages, elements = [*source.begin()], [-1] * len(source.begin())
        for i, element in enumerate(value[source.path]):
            frames = source.read(element, i)
            messages += frames
            elements += [i] * len(frames)
        return Row(replace(source.about, messages=tuple(messages)), source.path, elements)

    return read


def read_alpaca(value: Any, data: bytes) -> Row:
    """``instruction`` and ``input`` are the question, ``output`` its answer; ``system`` and ``history`` before them."""
    texts = {name: value.get(name) or "" for name in ("system", "instruction", "input", "output")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise wrong(name, "is no text")
    question = "\n".join(filter(None, (texts["instruction"], texts["input"])))
    messages = [Message(role=Role.SYSTEM, text=texts["system"])] if texts["system"] else []
    history = value.get("history") or []
    for i, turn in enumerate([*(history if isinstance(history, list) else [history]), [question, texts["output"]]]):
        match turn:
            case [str(asked), str(answer)]:
                messages.append(Message(role=Role.USER, text=asked))
                messages.append(Message(role=Role.ASSISTANT, channel=Channel.FINAL, text=answer))
            case _:
                raise wrong(f"history[{i}]", "is no question with its answer")
    return Row(Conversation(tuple(messages)))


# Transcripts: one in a field of the row, or in a file of its own.


def _transcript(form: str, data: bytes) -> Row:
    source = source_named(form)
    messages = [*source.feed(data), *source.close()]
    return Row(replace(source.about, messages=tuple(messages)), "messages", range(len(messages)))


FORMS: Mapping[str, Callable[[Any, bytes], Row]] = {
    "chat": read_chat_row,
    "prompt-completion": read_prompt_completion,
    "sharegpt": _elements(ShareGptReader),
    "alpaca": read_alpaca,
    "harmony-json": _elements(HarmonyJsonReader),
}
"""The forms of rows that are JSON, each with its reader."""
ROW_FORMS = (AUTO, *FORMS, "harmony", "openchatml")
"""The forms of rows, by the names that `--from` takes; of the last two a row has the text in a field."""


def error_of(error: Exception) -> AntiphonError:
    """The error of a row. One that is none of ours, a fault of ours or of a library's, ends no run."""
    if isinstance(error, AntiphonError):
        return error
    return AntiphonError(f"{type(error).__name__}: {error}", code="internal_error")
