"""What a chat may be asked with, beside its messages and the type of its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict

from antiphon.conversation import Conversation, ReasoningEffort, ResponseFormat, ToolChoice, ToolSpec
from antiphon.errors import near
from antiphon.generation import TurnRequest
from antiphon.tools import FunctionToolSet, Offer, Toolbox

from .inputs import ChatInput, read_turn


class ChatOptions(TypedDict, total=False):
    """Options of `chat` and `stream`; what is absent or None is as the model's defaults say.

    ``system`` is the first message, ``history`` a conversation to go on with (`Reply.conversation`). ``tools`` are
    Python functions, which run here (typed, with a docstring), and `ToolSpec` values, whose calls are given back.
    ``tool_choice`` is a mode or a tool's name. ``max_tokens`` bounds one answer of the model, ``stop`` ends it.
    """

    system: str | None
    history: Conversation | None
    tools: Sequence[Callable[..., Any] | ToolSpec]
    tool_choice: Literal["auto", "none", "required"] | str | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    seed: int | None
    stop: str | Sequence[str]
    reasoning_effort: ReasoningEffort | str | None


def check_options(options: ChatOptions) -> None:
    """Raises `TypeError` for an option that there is not, as a call of Python does."""
    for name in options:
        if name not in ChatOptions.__annotations__:
            raise TypeError(f"unknown option {name!r}. {near(name, ChatOptions.__annotations__)}")


def offer_of(options: ChatOptions) -> Offer:
    """The tools of a request: what the model is told of them, and the router that runs the functions.

    Raises `TypeError` for an unknown option.
    """
    check_options(options)
    given = options.get("tools", ())
    functions = [tool for tool in given if not isinstance(tool, ToolSpec)]
    offer = Toolbox([FunctionToolSet(functions)]).functions
    return replace(offer, specs=(*offer.specs, *(tool for tool in given if isinstance(tool, ToolSpec))))


def request_of(
    given: ChatInput, options: ChatOptions, offer: Offer, response_format: ResponseFormat | None
) -> TurnRequest:
    """The turn that is asked for; options come before what the body of a chat request says.

    Raises `RequestError` for messages that cannot be read.
    """
    asked = read_turn(given, system=options.get("system"), history=options.get("history"))
    conversation = asked.conversation
    if offer.specs:
        conversation = replace(conversation, tools=(*conversation.tools, *offer.specs))
    if response_format is not None:
        conversation = replace(conversation, response_format=response_format)
    if effort := options.get("reasoning_effort"):
        settings = replace(conversation.settings, reasoning_effort=ReasoningEffort(effort))
        conversation = replace(conversation, settings=settings)
    return replace(asked, conversation=conversation, **_settings(options))


def _settings(options: ChatOptions) -> dict[str, Any]:
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
        fields["tool_choice"] = _choice(choice)
        # Who names a tool wants one call of it: a function that acts must not act twice.
        fields["parallel_tool_calls"] = not fields["tool_choice"].names
    return fields


def _choice(given: str) -> ToolChoice:
    match given:
        case "auto" | "none" | "required":
            return ToolChoice(given)
        case name:
            return ToolChoice("required", (name,))
