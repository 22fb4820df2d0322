"""A Responses request → a turn, and the head of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from antiphon.config import Limits
from antiphon.conversation import (
    Conversation,
    Message,
    ReasoningEffort,
    ResponseFormat,
    Role,
    Settings,
)
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError
from antiphon.generation import Draft, Model, Plan, TurnRequest, constrain, plan_turn
from antiphon.tools import Offer
from antiphon.wire.definitions import read_response_format
from antiphon.wire.errors import refused
from antiphon.wire.sampling import sampled

from .schema import (
    ConversationRef,
    Response,
    ResponsesRequest,
    TextFormat,
    TokensRequest,
)
from .tools import Tools, read_choice, read_tools

INCLUDES = (
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
    "code_interpreter_call.outputs",
    "web_search_call.action.sources",
    "web_search_call.results",
    "file_search_call.results",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
)
"""What may be asked for; what no item here has is included by having none."""
MAX_METADATA, MAX_KEY, MAX_VALUE = 16, 64, 512
PARAMS = {
    "max_tokens": "max_output_tokens",
    "messages": "input",
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
}
"""How this API calls what a plan names in its errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was read: its turn, its tools, and what was ignored in it."""

    turn: TurnRequest
    tools: Tools
    truncate: bool
    ignored: tuple[str, ...]


def read_request(
    wire: TokensRequest,
    messages: Sequence[Message],
    *,
    server: Offer | None,
    offer_tools: bool,
    limits: Limits,
    most_tools: int | None,
    today: date,
    affinity: str | None,
) -> Asked:
    """The turn that is asked for after ``messages``. Raises `RequestError` naming the field."""
    if len(messages) > limits.max_messages:
        raise refused("input", f"there are {len(messages)} messages; at most {limits.max_messages} are read.")
    tools = read_tools(wire.tools or [], server, always=offer_tools and server is not None, most=most_tools)
    choice = read_choice(wire, tools)
    offered = choice.mode != "none"
    instructions = (Message(role=Role.SYSTEM, text=wire.instructions),) if wire.instructions else ()
    effort = wire.reasoning.effort if wire.reasoning else None
    turn = TurnRequest(
        conversation=Conversation(
            messages=(*instructions, *messages),
            tools=tools.specs if offered else (),
            builtins=tools.builtins if offered else (),
            settings=Settings(
                reasoning_effort=ReasoningEffort(effort) if effort else None,
                current_date=today,
            ),
            response_format=_format(wire.text.format if wire.text else None),
        ),
        tool_choice=choice,
        parallel_tool_calls=wire.parallel_tool_calls is not False,
        affinity=affinity,
    )
    ignored = tools.dropped
    if wire.text and wire.text.verbosity not in (None, "medium"):
        ignored = (*ignored, "text.verbosity")
    return Asked(turn=turn, tools=tools, truncate=wire.truncation == "auto", ignored=ignored)


def with_sampling(asked: Asked, wire: ResponsesRequest) -> Asked:
    """The same turn with the request's sampling settings; ranges are checked by the plan."""
    turn = replace(
        sampled(asked.turn, wire),
        max_tokens=wire.max_output_tokens,
        stop=(wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ()),
        logprobs=(wire.top_logprobs or 0) if wants_logprobs(wire) else None,
    )
    return replace(asked, turn=turn)


def wants_logprobs(wire: ResponsesRequest) -> bool:
    return bool(wire.top_logprobs) or "message.output_text.logprobs" in (wire.include or ())


def check_possible(wire: ResponsesRequest) -> None:
    """What cannot be honoured is refused by name: ignoring it would be an answer to another question."""
    impossible: dict[str, tuple[object, str | None]] = {
        "prompt": (wire.prompt, "Prompt templates are not kept here: send input."),
        "modalities": (set(wire.modalities or ()) - {"text"}, "The models here write text."),
    }
    for name, (asked, hint) in impossible.items():
        if asked:
            raise UnsupportedError(f"{name} cannot be honoured.", position=Position(path=name), hint=hint)
    if wire.conversation and wire.previous_response_id:
        raise refused("previous_response_id", "cannot be together with conversation.")
    if wire.background and wire.store is False:
        raise refused("background", "a response in the background must be stored.")
    if wire.stream_options is not None and not wire.stream:
        raise refused("stream_options", "only a streamed answer has stream options.", hint="Set stream to true.")
    if wire.max_output_tokens is not None and wire.max_output_tokens < 1:
        raise refused("max_output_tokens", f"is {wire.max_output_tokens}; it must be at least 1.")
    if wire.max_tool_calls is not None and wire.max_tool_calls < 0:
        raise refused("max_tool_calls", f"is {wire.max_tool_calls}; it cannot be negative.")
    for i, name in enumerate(wire.include or ()):
        if name not in INCLUDES:
            raise refused(
                f"include[{i}]", f"{name[:64]!r} is nothing to include.", hint=f"Known: {', '.join(INCLUDES)}."
            )
    check_metadata(wire.metadata)


def check_metadata(metadata: dict[str, str] | None) -> None:
    """At most 16 pairs; keys of 64 characters, values of 512."""
    if metadata is None:
        return
    if len(metadata) > MAX_METADATA:
        raise refused("metadata", f"there are {len(metadata)} pairs; at most {MAX_METADATA} are kept.")
    for key, value in metadata.items():
        if len(key) > MAX_KEY or len(value) > MAX_VALUE:
            raise refused("metadata", f"a key has at most {MAX_KEY} characters and a value at most {MAX_VALUE}.")


def plan_response(model: Model, asked: Asked) -> Draft:
    """The plan; its errors name this API's parameters. ``truncation: auto`` leaves out the oldest turns, as need be."""
    try:
        return _truncated(model, asked.turn) if asked.truncate else plan_turn(model, asked.turn)
    except RequestError as error:
        error.position = _renamed(error.position)
        raise


async def prepare_response(model: Model, asked: Asked) -> Plan:
    """The plan, made beside the event loop, with the grammar of its reply."""
    draft = await asyncio.to_thread(plan_response, model, asked)
    try:
        return await constrain(draft)
    except RequestError as error:
        error.position = _renamed(error.position)
        raise


def _truncated(model: Model, turn: TurnRequest) -> Draft:
    """Whole turns go, oldest first: a cut inside one would part a call from its answer. Instructions stay."""
    try:
        return plan_turn(model, turn)
    except ContextError as error:
        too_long = error
    messages = turn.conversation.messages
    cuts = [i for i, message in enumerate(messages) if message.role is Role.USER][1:]
    best: Draft | None = None
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) // 2
        try:
            best = plan_turn(model, _without(turn, cuts[middle]))
            high = middle
        except ContextError:
            low = middle + 1
    if best is None:
        raise too_long
    return best


def _without(turn: TurnRequest, cut: int) -> TurnRequest:
    kept = tuple(
        message
        for i, message in enumerate(turn.conversation.messages)
        if i >= cut or message.role in (Role.SYSTEM, Role.DEVELOPER)
    )
    return replace(turn, conversation=replace(turn.conversation, messages=kept))


def _renamed(position: Position | None) -> Position | None:
    if position is None or position.path is None:
        return position
    if position.path.startswith("tools["):
        return replace(position, path=position.path.replace(".function.", ".", 1))
    for theirs, ours in PARAMS.items():
        if position.path == theirs or position.path.startswith((f"{theirs}.", f"{theirs}[")):
            return replace(position, path=ours + position.path[len(theirs) :])
    return position


def _format(wire: TextFormat | None) -> ResponseFormat | None:
    return read_response_format(wire.type, wire, "text.format") if wire is not None else None


def head_of(wire: ResponsesRequest, asked: Asked, plan: Plan, *, id: str, created: int) -> Response:
    """The response before anything is said: the settings as they are in force."""
    effort = wire.reasoning.effort if wire.reasoning else None
    return Response(
        id=id,
        created_at=created,
        status="queued" if wire.background else "in_progress",
        background=bool(wire.background),
        instructions=wire.instructions,
        max_output_tokens=wire.max_output_tokens,
        max_tool_calls=wire.max_tool_calls,
        model=plan.model.name,
        parallel_tool_calls=asked.turn.parallel_tool_calls,
        previous_response_id=wire.previous_response_id,
        conversation=ConversationRef(conversation_id(wire)) if wire.conversation else None,
        prompt_cache_key=wire.prompt_cache_key,
        reasoning={"effort": effort, "summary": None},
        safety_identifier=wire.safety_identifier,
        store=wire.store is not False,
        temperature=plan.sampling.temperature,
        text=_text(wire),
        tool_choice=_choice(wire, asked),
        tools=asked.tools.echo,
        top_logprobs=wire.top_logprobs or 0,
        top_p=plan.sampling.top_p,
        presence_penalty=plan.sampling.presence_penalty,
        frequency_penalty=plan.sampling.frequency_penalty,
        truncation=wire.truncation or "disabled",
        user=wire.user,
        metadata=wire.metadata or {},
    )


def conversation_id(wire: TokensRequest) -> str:
    return wire.conversation.id if isinstance(wire.conversation, ConversationRef) else wire.conversation or ""


def _text(wire: TokensRequest) -> dict[str, Any]:
    wanted = wire.text.format if wire.text else None
    told: dict[str, Any] = {"type": wanted.type if wanted else "text"}
    if wanted is not None and wanted.type == "json_schema":
        told |= {
            "name": wanted.name,
            "description": wanted.description,
            "schema": wanted.schema,
            "strict": bool(wanted.strict),
        }
    return {"format": told, "verbosity": "medium"}


def _choice(wire: TokensRequest, asked: Asked) -> Any:
    if wire.tool_choice is None or isinstance(wire.tool_choice, str):
        return wire.tool_choice or "auto"
    choice = wire.tool_choice
    if choice.type == "allowed_tools":
        listed = [_given(tool) for tool in choice.tools or []]
        return {"type": choice.type, "mode": choice.mode, "tools": listed}
    return _given(choice)


def _given(tool: Any) -> dict[str, Any]:
    names = ("type", "name", "namespace", "server_label")
    return {name: getattr(tool, name) for name in names if getattr(tool, name) is not None}
