"""The options of a chat, beside its messages and the type of its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict

import msgspec

from antiphon.api.chat.read import read_tool
from antiphon.api.chat.schema import Tool
from antiphon.conversation import Conversation, ReasoningEffort, ResponseFormat, ToolChoice, ToolSpec
from antiphon.errors import Position, RequestError, near
from antiphon.generation import TurnRequest
from antiphon.tools import FunctionTool, Offer, Toolbox
from antiphon.tools.call import DescribedToolSet
from antiphon.wire.json import encode_given

from .inputs import ChatInput, read_json, read_turn

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
            raise _refused(i, f"{spec.name[:64]!r} is no name that a model could call", hint)
        if spec.recipient in taken:
            raise _refused(i, f"another tool is named {spec.name!r}", "Give each tool once, under a name of its own.")
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
        raise RequestError(
            f"{path}: {name} cannot be a tool: {reason}.",
            code="invalid_type",
            position=Position(path=path),
            hint="Give a function with a name, and each parameter a type that JSON can carry (str, list[int] …).",
        ) from error


def _refused(index: int, message: str, hint: str) -> RequestError:
    path = f"tools[{index}]"
    return RequestError(f"{path}: {message}.", code="invalid_value", position=Position(path=path), hint=hint)


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
    if effort := options.get("reasoning_effort"):
        settings = replace(conversation.settings, reasoning_effort=_effort(effort))
        conversation = replace(conversation, settings=settings)
    return replace(requested, conversation=conversation, **_settings(options, conversation.tools))


def _settings(options: ChatOptions, tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The fields of a `TurnRequest` that the options set."""
    plain = {
        "temperature": options.get("temperature"),
        "top_p": options.get("top_p"),
        "max_tokens": options.get("max_tokens"),
        "seed": options.get("seed"),
    }
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
    raise RequestError(
        f"tool_choice: no tool is named {given[:64]!r}.",
        code="invalid_value",
        position=Position(path="tool_choice"),
        hint=near(given, ["auto", "none", "required", *(tool.name for tool in tools)]),
    )


def _effort(given: str) -> ReasoningEffort:
    try:
        return ReasoningEffort(given)
    except ValueError:
        raise RequestError(
            f"reasoning_effort: {given[:64]!r} is none.",
            code="invalid_value",
            position=Position(path="reasoning_effort"),
            hint=f"Give one of {', '.join(ReasoningEffort)}.",
        ) from None
