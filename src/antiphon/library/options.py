"""The options of a chat, beside its messages and the type of its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Literal, TypedDict, TypeVar

import msgspec

from antiphon.api.chat.conversation import read_chat, read_messages, read_turn_request
from antiphon.api.chat.read import read_tool
from antiphon.api.chat.schema import Tool
from antiphon.conversation import (
    Conversation,
    End,
    Message,
    ReasoningEffort,
    ResponseFormat,
    Role,
    ToolChoice,
    ToolSpec,
)
from antiphon.errors import Position, RequestError, near
from antiphon.generation import TurnRequest
from antiphon.tools import FunctionTool, Offer, Toolbox
from antiphon.tools.call import DescribedToolSet
from antiphon.tools.function import WANTED
from antiphon.wire.json import decode, encode_given

from .checks import refused

# Dictionaries and lists of a caller as the JSON that a wire reads, with errors at the argument's own place.

Read = TypeVar("Read", bound=msgspec.Struct)


def read_json(value: object, kind: type[Read], path: str) -> Read:
    """The value, a dictionary, as a wire has it. Raises `RequestError` at the field below ``path``."""
    try:
        read, _ = decode(encode_given(value, path), kind)
    except RequestError as error:
        raise below(error, path) from None
    return read


def below(error: RequestError, path: str) -> RequestError:
    """The error about a field of a value at ``path``."""
    inner = error.position.path if error.position and error.position.path else ""
    if inner.startswith(path):
        return error
    place = f"{path}.{inner}" if inner else path
    message = error.message.removeprefix(f"{inner}: ") if inner else error.message
    return RequestError(f"{place}: {message}", code=error.code, position=Position(path=place), hint=error.hint)


ChatInput = str | Message | Conversation | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]
"""A question; messages, values or as chat APIs write them; a conversation; the body of a chat request."""


def read_turn(given: ChatInput, *, system: str | None = None, history: Conversation | None = None) -> TurnRequest:
    """The turn that ``given`` requests: the body of a chat request brings its settings, anything else none.

    Raises `RequestError`, for a conversation without messages too.
    """
    if isinstance(given, Mapping):
        requested = read_turn_request(given)
        conversation = read_input(requested.conversation, system=system, history=history)
    else:
        conversation = read_input(given, system=system, history=history)
        requested = TurnRequest(conversation=conversation)
    if not conversation.messages:
        raise refused("messages", "there are none.", "Give a text.")
    return replace(requested, conversation=conversation)


def read_input(given: ChatInput, *, system: str | None = None, history: Conversation | None = None) -> Conversation:
    """``given`` after ``history``, or with ``system`` as the first message. Raises `RequestError` for both."""
    if system and history is not None:
        raise refused("system", "the history has its own beginning.", "Give one of the two.")
    added = _conversation(given, () if history is None else history.messages)
    if history is not None:
        _check_json(history, "history")
        closed = map(_closed, history.messages) if added.messages else history.messages
        return replace(history, messages=(*closed, *added.messages))
    if not system:
        return added
    return replace(added, messages=(Message(role=Role.SYSTEM, text=system), *added.messages))


def _closed(message: Message) -> Message:
    """An answer that was cut ends where others follow it."""
    end = End.CALL if message.is_call else End.END
    return replace(message, end=end) if message.end is End.NONE else message


def _conversation(given: ChatInput, earlier: Sequence[Message]) -> Conversation:
    if isinstance(given, str):
        return Conversation((Message(role=Role.USER, text=given),))
    if isinstance(given, Conversation):
        _check_json(given, "messages")
        return given
    if isinstance(given, Message):
        return Conversation((given,))
    if isinstance(given, Mapping):
        return read_chat(given)
    return _messages(given, earlier)


def _check_json(conversation: Conversation, path: str) -> None:
    """Raises `RequestError` where a schema or an argument of the template holds what JSON cannot carry."""
    for i, tool in enumerate(conversation.tools):
        encode_given(tool.parameters, f"{path}.tools[{i}].parameters")
    if conversation.response_format is not None:
        encode_given(conversation.response_format.schema, f"{path}.response_format.schema")
    encode_given(conversation.settings.template_kwargs, f"{path}.settings.template_kwargs")


def _messages(given: Sequence[Message | Mapping[str, Any]], earlier: Sequence[Message]) -> Conversation:
    values = [message for message in given if isinstance(message, Message)]
    if len(values) == len(given):
        return Conversation(tuple(values))
    if values:
        hint = "antiphon.read_chat(body).messages makes Message values of chat JSON."
        what = "either all are Message values, or all are chat JSON."
        raise refused("messages", what, hint, code="invalid_type")
    written = [message for message in given if isinstance(message, Mapping)]
    return Conversation(read_messages(written, earlier=earlier))


# The tools that a chat is given: functions, which run here, and descriptions, whose calls go back to the caller.

NAME = re.compile(r"[\w.-]{1,64}")
GivenTool = Callable[..., Any] | ToolSpec | Mapping[str, Any]


def offer_of(tools: Sequence[GivenTool] | None) -> Offer:
    """The tools that the prompt names, in their order, and the router that runs the functions.

    Raises `RequestError` at ``tools[i]`` for a function whose parameters no JSON can carry, a dictionary that is no
    tool as chat APIs write it, a name that no model could call, and a name that is there twice.
    """
    read = [_read(tool, f"tools[{i}]") for i, tool in enumerate(tools or ())]
    specs = tuple(tool.spec if isinstance(tool, FunctionTool) else tool for tool in read)
    check_names(specs)
    router = Toolbox([DescribedToolSet([tool for tool in read if isinstance(tool, FunctionTool)])]).functions.router
    return Offer(specs, (), router)


def check_names(specs: Sequence[ToolSpec], earlier: Sequence[ToolSpec] = ()) -> None:
    """Raises `RequestError` at the first of the tools that has no name, or the name of another."""
    taken = {spec.recipient for spec in earlier}
    for i, spec in enumerate(specs):
        if not NAME.fullmatch(spec.name):
            hint = "Give it one of letters, digits, _, - and dots."
            raise refused(f"tools[{i}]", f"{spec.name[:64]!r} is no name that a model could call.", hint)
        if spec.recipient in taken:
            hint = "Give each tool once, under a name of its own."
            raise refused(f"tools[{i}]", f"another tool is named {spec.name!r}.", hint)
        taken.add(spec.recipient)


def _read(tool: GivenTool, path: str) -> ToolSpec | FunctionTool:
    if isinstance(tool, ToolSpec):
        encode_given(tool.parameters, f"{path}.parameters")
        return tool
    if isinstance(tool, Mapping):
        return read_tool(read_json(tool, Tool, path), path)
    name = getattr(tool, "__name__", type(tool).__name__)
    try:
        return FunctionTool(tool)
    except (TypeError, ValueError, NameError, AttributeError, msgspec.MsgspecError) as error:
        reason = str(error).partition("\n")[0].removeprefix(f"{name}: ")
        hint = f"Give a function. {WANTED}"
        raise refused(path, f"{name} cannot be a tool: {reason}.", hint, code="invalid_type") from error


class ChatOptions(TypedDict, total=False):
    """Options of `chat`, `stream` and `render`; what is absent or None is as the model's defaults say.

    Args:
        system: The first message, a text.
        history: A conversation to go on with (`Reply.conversation`).
        tools: A list of Python functions, which run here (typed, with a docstring), and of `ToolSpec` values or the
            dictionaries of chat APIs, whose calls are given back.
        tool_choice: "auto", "none", "required", or the name of a tool, which is then called once.
        temperature: From 0, always the likeliest token, to 2.
        top_p: The share of the likeliest tokens that are sampled from, above 0 and up to 1.
        max_tokens: The most tokens that one answer may have.
        seed: The same seed gives the same answer, on the same engine.
        stop: One text or several; the answer ends before the first that it would write.
        reasoning_effort: "none", "minimal", "low", "medium", "high", "xhigh" or "max", for a model that reasons.
    """

    system: str | None
    history: Conversation | None
    tools: Sequence[Callable[..., Any] | ToolSpec | Mapping[str, Any]] | None
    tool_choice: Literal["auto", "none", "required"] | str | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    seed: int | None
    stop: str | Sequence[str] | None
    reasoning_effort: ReasoningEffort | str | None


def request_of(
    given: ChatInput, options: ChatOptions, offer: Offer, response_format: ResponseFormat | None
) -> TurnRequest:
    """The requested turn; options come before what the body of a chat request says.

    Raises `RequestError` for messages that cannot be read, and for options that name what there is not.
    """
    requested = read_turn(given, system=options.get("system"), history=options.get("history"))
    conversation = requested.conversation
    if offer.specs:
        check_names(offer.specs, earlier=conversation.tools)
        conversation = replace(conversation, tools=(*conversation.tools, *offer.specs))
    if response_format is not None:
        conversation = replace(conversation, response_format=response_format)
    settings = conversation.settings
    if effort := options.get("reasoning_effort"):
        if effort not in set(ReasoningEffort):
            hint = f"Give one of {', '.join(ReasoningEffort)}."
            raise refused("reasoning_effort", f"{effort[:64]!r} is none.", hint)
        settings = replace(settings, reasoning_effort=ReasoningEffort(effort))
    settings = replace(settings, current_date=settings.current_date or date.today())
    conversation = replace(conversation, settings=settings)
    return replace(requested, conversation=conversation, **_settings(options, conversation.tools))


def _settings(options: ChatOptions, tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The fields of a `TurnRequest` that the options set."""
    plain = {name: options.get(name) for name in ("temperature", "top_p", "max_tokens", "seed")}
    fields: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
    if (stop := options.get("stop")) is not None:
        fields["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    if (choice := options.get("tool_choice")) is not None:
        fields["tool_choice"] = _choice(choice, tools)
    return fields


def _choice(given: str, tools: Sequence[ToolSpec]) -> ToolChoice:
    match given:
        case "auto" | "none" | "required":
            return ToolChoice(given)
        case name if name in {called for tool in tools for called in (tool.name, tool.recipient)}:
            return ToolChoice("required", (name,), once=True)
    hint = near(given, ["auto", "none", "required", *(tool.name for tool in tools)])
    raise refused("tool_choice", f"no tool is named {given[:64]!r}.", hint)
