"""Ollama's requests in the words of chat and completions, which read the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec.structs import replace as replace_fields

from antiphon.api.chat.schema import ChatMessage, ChatRequest, ContentPart, FunctionCall, Tool, ToolCall
from antiphon.api.completions.schema import CompletionRequest
from antiphon.conversation import Message, OpaquePart
from antiphon.errors import Position, RequestError, UnsupportedError
from antiphon.formats.replies.probe import SWITCHES
from antiphon.generation import Model, Overflow, TurnRequest
from antiphon.generation.normalize import hears_effort
from antiphon.wire.dialect import Dialect
from antiphon.wire.errors import refused
from antiphon.wire.json import decode, encode
from antiphon.wire.names.translate import Names
from antiphon.wire.projection import arguments_as_written
from antiphon.wire.sampling import sampled, stop_strings

from .schema import (
    KeepAlive,
    OllamaChatRequest,
    OllamaGenerateRequest,
    OllamaMessage,
    OllamaOptions,
    OllamaRequest,
    OllamaTool,
    OllamaToolCall,
)

# What ``options`` says, and the same names beside it, as one; errors keep the client's own path.

PLACE = "options"
_DURATION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)((ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*)?")
USUAL_CONTEXTS = (2048, 4096)
"""Ollama's own ``num_ctx``, then and now."""
_USUAL_PENALIZED = 64
"""Ollama's own ``repeat_last_n``."""


def merged_options(wire: OllamaRequest, names: Names) -> tuple[OllamaOptions, Names]:
    """The settings of a request from both places, and how the client named them.

    ``names`` are those of the body. Raises `RequestError` for what cannot be honoured, and for two values of one name.
    """
    inner, within = _decoded(wire.options or {})
    outer = {name: getattr(wire, name) for name in OllamaOptions.__struct_fields__}
    given = {name: value for name in outer if (value := getattr(inner, name)) is not None}
    restored = dict(_restored(given, within))
    for name, value in given.items():
        if outer[name] is not None and outer[name] != value:
            other = names.restored.get(name, name)
            raise refused(restored.get(name, f"{PLACE}.{name}"), f"{other} is there with another value.")
    ignored = [f"{PLACE}.{name}" for name in within.ignored]
    settings = OllamaOptions(**{**outer, **given})
    if settings.repeat_last_n not in (None, _USUAL_PENALIZED):
        ignored.append(restored.get("repeat_last_n", "repeat_last_n"))
    # The body's own ignored fields were noted as it was read.
    return settings, replace_fields(names, restored={**names.restored, **restored}, ignored=tuple(ignored))


def check_keep_alive(keep_alive: KeepAlive) -> None:
    """Raises `RequestError` for what is no duration."""
    if isinstance(keep_alive, str) and not _DURATION.fullmatch(keep_alive):
        raise refused("keep_alive", f"{keep_alive[:40]!r} is no duration.", hint="Send seconds, or 5m.")


def unloads(keep_alive: KeepAlive) -> bool:
    """Whether the duration is nothing."""
    if isinstance(keep_alive, str):
        return not re.search(r"[1-9]", keep_alive)
    return keep_alive == 0 and keep_alive is not None


def _decoded(options: Mapping[str, msgspec.Raw]) -> tuple[OllamaOptions, Names]:
    try:
        return decode(encode(dict(options)), OllamaOptions)
    except RequestError as error:
        raise _within(error) from None


def _within(error: RequestError) -> RequestError:
    """The error with the path of the whole body."""
    path = error.position.path if error.position else None
    if path is None:
        return error
    place = f"{PLACE}.{path}"
    if error.message.startswith(path):
        error.message = place + error.message[len(path) :]
        error.args = (error.message,)
    error.position = Position(path=place)
    return error


def _restored(given: Mapping[str, object], within: Names) -> Iterator[tuple[str, str]]:
    """Paths as the routes know them, and as the client wrote them; the longest that is known comes first."""
    for ours, theirs in within.restored.items():
        yield ours, f"{PLACE}.{theirs}"
    for name in given:
        if name not in within.restored:
            yield name, f"{PLACE}.{name}"


OLLAMA = Dialect(name="ollama", tools_answer_in_order=True, stream_default=True)
"""How chat reads what is made here: results without an id answer in order."""
IN_CHAT = {"reasoning_effort": "think"}
"""The field of the chat request that is made here, and where its value comes from."""
IN_PROMPT = {"messages": "prompt", "use_raw_prompt": "raw", **IN_CHAT}
"""The same of a prompt."""
Effort = Literal["none", "low", "medium", "high", "max"]
EFFORTS: Mapping[str, Effort] = MappingProxyType({"low": "low", "medium": "medium", "high": "high", "max": "max"})
"""Values of ``think`` beside true and false."""
ROLES = ("system", "developer", "user", "assistant", "tool")
DEFAULT = ":latest"
"""The tag of a name without one."""


def bare_name(name: str) -> str:
    """A model's name as it is compared: in small letters, without the default tag."""
    return name.lower().removesuffix(DEFAULT)


def chat_request(wire: OllamaChatRequest, settings: OllamaOptions, model: Model) -> ChatRequest:
    """The chat request that says the same. Raises `RequestError` naming Ollama's field."""
    tools = [_tool(tool) for tool in wire.tools or ()]
    given = wire.messages or ()
    waiting = _Waiting({call.id for message in given for call in message.tool_calls or () if call.id})
    messages = [_message(message, f"messages[{i}]", waiting) for i, message in enumerate(given)]
    return _chat(wire, settings, model, messages, tools)


def prompt_request(wire: OllamaGenerateRequest, settings: OllamaOptions, model: Model) -> ChatRequest:
    """The chat of one prompt. Raises `RequestError` naming Ollama's field."""
    system = [ChatMessage(role="system", content=wire.system)] if wire.system else []
    content = _pictured(wire.prompt or "", wire.images) if wire.images else wire.prompt
    return _chat(wire, settings, model, [*system, ChatMessage(role="user", content=content)], [])


def raw_request(wire: OllamaGenerateRequest, settings: OllamaOptions) -> CompletionRequest:
    """The completion of a prompt as it is, or of the text before ``suffix``."""
    if wire.think:
        raise refused("think", "a raw prompt says itself whether there is a thought.")
    return CompletionRequest(
        prompt=wire.prompt or "",
        suffix=wire.suffix or None,
        use_raw_prompt=None if wire.suffix else "force",
        max_tokens=settings.max_tokens,
        response_format=settings.response_format,
    )


def settled_turn(turn: TurnRequest, wire: OllamaRequest, settings: OllamaOptions) -> TurnRequest:
    """The turn with what chat and generate say alike. Raises `RequestError`."""
    if wire.top_logprobs and not wire.logprobs:
        raise refused("top_logprobs", "logprobs must be true for it.")
    prompt = isinstance(wire, OllamaGenerateRequest)
    messages = tuple([_renamed(one, prompt=prompt) if one.parts else one for one in turn.conversation.messages])
    return replace(
        sampled(turn, settings),
        conversation=replace(turn.conversation, messages=messages),
        stop=stop_strings(settings.stop, OLLAMA),
        logprobs=(wire.top_logprobs or 0) if wire.logprobs else None,
        overflow=Overflow.DROP_OLDEST if wire.truncate else Overflow.REFUSE,
    )


def _renamed(message: Message, *, prompt: bool) -> Message:
    """The message with Ollama's names of the places of its images, which come before its text."""

    def place(path: str) -> str:
        field, _, number = path.rpartition(".content")
        return f"images{number}" if prompt else f"{field}.images{number}"

    parts = tuple(
        replace(part, path=place(part.path)) if isinstance(part, OpaquePart) else part for part in message.parts
    )
    return replace(message, parts=parts)


def check_generate(wire: OllamaGenerateRequest) -> None:
    """Raises `RequestError` for fields that cannot be together, or that are the owner's choice."""
    if wire.raw and (wire.template or wire.system or wire.context):
        raise RequestError(
            "raw mode does not support template, system, or context",
            code="invalid_value",
            position=Position(path="raw"),
        )
    hints = {
        "template": (wire.template, "A model's template is its owner's choice."),
        "context": (wire.context, "Use /api/chat, and send the messages."),
        "system": (wire.system if wire.suffix else None, "What fills in the middle reads no system message."),
        "images": (wire.images if wire.raw or wire.suffix else None, "A prompt as it stands has no places for images."),
    }
    for name, (given, hint) in hints.items():
        if given:
            raise UnsupportedError(f"{name} cannot be honoured.", position=Position(path=name), hint=hint)


def check_request(wire: OllamaRequest) -> None:
    """Raises `RequestError` for what no model here can do."""
    if wire.shift:
        hint = "An answer ends where the context does."
        raise UnsupportedError("shift cannot be honoured.", position=Position(path="shift"), hint=hint)


def check_task(wire: OllamaRequest, model: Model, task: str) -> None:
    """Raises `UnsupportedError`, in Ollama's words, for a model that writes nothing."""
    if model.task != "chat":
        raise UnsupportedError(f'"{wire.model[:200]}" does not support {task}')


def _chat(
    wire: OllamaRequest, settings: OllamaOptions, model: Model, messages: list[ChatMessage], tools: list[Tool]
) -> ChatRequest:
    return ChatRequest(
        messages=messages,
        tools=tools or None,
        max_tokens=settings.max_tokens,
        response_format=settings.response_format,
        reasoning_effort=effort_of(wire, model),
    )


def effort_of(wire: OllamaRequest, model: Model) -> Effort | None:
    """The effort that ``think`` means.

    Raises `RequestError` for a word that means none, and for a model that does not think and shall.
    """
    think = wire.think
    if isinstance(think, str) and think not in EFFORTS:
        raise refused("think", f"{think[:40]!r} is none of true, false, {', '.join(EFFORTS)}.")
    if think is None or not (model.facts.reasoning or {*SWITCHES} & {*model.format.arguments}):
        if think:
            raise UnsupportedError(f'"{wire.model[:200]}" does not support thinking', position=Position(path="think"))
        return None
    if isinstance(think, str):
        return EFFORTS[think]
    if not think:
        return "none"
    return "medium" if hears_effort(model) else None


def _pictured(text: str, images: Sequence[str]) -> list[ContentPart]:
    """The images, and then the text: as Ollama has them in its prompts."""
    urls = [ContentPart("image_url", image_url=f"data:;base64,{image}") for image in images]
    return [*urls, ContentPart(text=text)] if text else [*urls]


def _tool(tool: OllamaTool) -> Tool:
    return Tool(type=tool.type or "function", function=tool.function)


def _message(message: OllamaMessage, path: str, waiting: _Waiting) -> ChatMessage:
    role = message.role.lower()
    if message.tool_calls and role != "assistant":
        raise refused(f"{path}.tool_calls", "only an assistant's message has tool calls.")
    content = message.content or ""
    if message.images and role != "user":
        raise refused(f"{path}.images", "only a user's message has images.")
    match role:
        case "assistant":
            calls = [waiting.called(call) for call in message.tool_calls or ()]
            return ChatMessage("assistant", content, tool_calls=calls or None, reasoning=message.thinking)
        case "tool":
            id = message.tool_call_id or waiting.answered(message.tool_name)
            waiting.close(id)
            named = id is None and bool(message.tool_name)
            return ChatMessage("function" if named else "tool", content, name=message.tool_name, tool_call_id=id)
        case "user" if message.images:
            return ChatMessage(role, _pictured(content, message.images))
        case "system" | "developer" | "user":
            return ChatMessage(role, content)
        case _:
            raise refused(f"{path}.role", f"{message.role[:40]!r} is none of {', '.join(ROLES)}.")


@dataclass(slots=True)
class _Waiting:
    """The calls that wait for their results, by their ids; ``taken`` are those that the client gives."""

    taken: set[str]
    calls: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def called(self, call: OllamaToolCall) -> ToolCall:
        """The call under its own id, else under one that no other has."""
        id, function = call.id or self._free(), call.function
        self.calls[id] = function.name
        arguments = function.arguments if bytes(function.arguments) != b"null" else msgspec.Raw(b"{}")
        return ToolCall(id=id, function=FunctionCall(function.name, arguments_as_written(arguments)))

    def answered(self, name: str | None) -> str | None:
        """The oldest call of the tool ``name``, else the oldest; None where none waits."""
        oldest = next((id for id, called in self.calls.items() if called == name), None)
        return oldest or next(iter(self.calls), None)

    def close(self, id: str | None) -> None:
        if id is not None:
            self.calls.pop(id, None)

    def _free(self) -> str:
        while (id := f"call_{self.made}") in self.taken:
            self.made += 1
        self.made += 1
        return id
