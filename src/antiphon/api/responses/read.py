"""A Responses request → a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace as replace_in

from antiphon.config import Limits
from antiphon.conversation import Conversation, Message, ReasoningEffort, Role, Settings
from antiphon.errors import Position, RequestError
from antiphon.formats import SamplingDefaults
from antiphon.generation import Overflow, Plan, TurnRequest
from antiphon.tenancy import Tenant
from antiphon.tools import Offer
from antiphon.tools.mcp import ClientToolSet
from antiphon.wire.definitions import at_grammar, read_response_format
from antiphon.wire.dialect import check_metadata
from antiphon.wire.errors import refused
from antiphon.wire.prompt_notes import notes_of
from antiphon.wire.sampling import sampled

from .open_items import ClientTool
from .schema import ConversationRef, Response, ResponsesRequest, TokensRequest
from .tools import NO_SERVERS, Tools, read_choice, read_tools

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
"""Values of ``include``; one that no item here has adds nothing, and others are told."""
PARAMS = {
    "max_tokens": "max_output_tokens",
    "messages": "input",
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
"""How this API calls what a plan names in its errors."""


class RequestedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was read: its turn, its tools, and the paths of what was ignored in it."""

    turn: TurnRequest
    tools: Tools
    ignored: tuple[str, ...]


def read_request(
    wire: TokensRequest,
    messages: Sequence[Message],
    *,
    server: Offer | None,
    offer_tools: bool,
    limits: Limits,
    most_tools: int | None,
    documented: SamplingDefaults,
    today: date,
    tenant: Tenant,
    clients: Mapping[str, ClientToolSet] = NO_SERVERS,
) -> RequestedResponse:
    """The turn that is requested after ``messages``. Raises `RequestError` naming the field.

    ``clients`` are the MCP servers that the client names, by their labels.
    """
    if len(messages) > limits.max_messages:
        raise refused("input", f"there are {len(messages)} messages; at most {limits.max_messages} are read.")
    always = offer_tools and server is not None
    tools = read_tools(wire.tools or [], server, always=always, most=most_tools, clients=clients)
    found = Conversation(tuple(messages)).callable
    named = ((spec.name, *spec.name.rpartition(".")) for spec in found)
    offers = {whole: ClientTool(name, space or None) for whole, space, _, name in named} | tools.offers
    tools = replace_in(tools, offers=offers)
    choice = read_choice(wire, replace_in(tools, specs=(*tools.specs, *found)))
    offered = choice.mode != "none"
    instructions = (Message(role=Role.SYSTEM, text=wire.instructions),) if wire.instructions else ()
    effort, form = wire.reasoning.effort if wire.reasoning else None, wire.text.format if wire.text else None
    turn = TurnRequest(
        conversation=Conversation(
            messages=(*instructions, *messages),
            tools=tools.specs if offered else (),
            builtins=tools.builtins if offered else (),
            settings=Settings(
                reasoning_effort=ReasoningEffort(effort) if effort else None,
                current_date=today,
            ),
            response_format=None if form is None else read_response_format(form, form, "text.format", "text.format"),
        ),
        thinking=False if effort == "none" and wire.enable_thinking is None else wire.enable_thinking,
        thinking_token_budget=wire.thinking_token_budget,
        tool_choice=choice,
        parallel_tool_calls=wire.parallel_tool_calls is not False,
        tenant=tenant,
        documented=documented,
        overflow=Overflow.DROP_OLDEST if wire.truncation == "auto" else Overflow.REFUSE,
        reword=partial(_reworded, tools),
    )
    ignored = tools.dropped
    if wire.text and wire.text.verbosity not in (None, "medium"):  # chat's `verbosity` is told by the table of names
        ignored = (*ignored, "text.verbosity")
    return RequestedResponse(turn=turn, tools=tools, ignored=ignored)


def with_sampling(requested: RequestedResponse, wire: ResponsesRequest) -> RequestedResponse:
    """The same turn with the request's sampling settings; ranges are checked by the plan."""
    turn = replace(
        sampled(requested.turn, wire),
        max_tokens=wire.max_output_tokens,
        stop=(wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ()),
        return_token_ids=bool(wire.return_token_ids),
        explain_prefix=bool(wire.explain_prefix),
        prefix_policy=wire.prefix_policy or "bridge",
        storable=wire.store is not False,
        logprobs=(wire.top_logprobs or 0) if wants_logprobs(wire) else None,
    )
    if wire.include and not set(wire.include) <= {*INCLUDES}:
        unknown = (f"include[{i}]" for i, name in enumerate(wire.include) if name not in INCLUDES)
        requested = msgspec.structs.replace(requested, ignored=(*requested.ignored, *unknown))
    return msgspec.structs.replace(requested, turn=turn)


def wants_logprobs(wire: ResponsesRequest) -> bool:
    return bool(wire.top_logprobs) or "message.output_text.logprobs" in (wire.include or ())


def check_possible(wire: ResponsesRequest) -> None:
    """Raises `RequestError` at a value that is none of its field's, and at fields that exclude each other."""
    _check_together(wire)
    if wire.max_output_tokens is not None and wire.max_output_tokens < 1:
        raise refused("max_output_tokens", f"is {wire.max_output_tokens}; it must be at least 1.")
    if wire.max_tool_calls is not None and wire.max_tool_calls < 0:
        raise refused("max_tool_calls", f"is {wire.max_tool_calls}; it cannot be negative.")
    check_metadata(wire.metadata)
    check_context_management(wire)


def _check_together(wire: ResponsesRequest) -> None:
    """Fields that exclude or need each other."""
    if wire.conversation and wire.previous_response_id:
        raise refused("previous_response_id", "cannot be together with conversation.")
    if wire.background and wire.store is False:
        raise refused("background", "a response in the background must be stored.")
    if wire.stream_options is not None and not wire.stream:
        raise refused("stream_options", "only a streamed answer has stream options.", hint="Set stream to true.")


def check_context_management(wire: ResponsesRequest) -> None:
    """One compaction at most, from a number of tokens on."""
    entries = wire.context_management or []
    if len(entries) > 1:
        raise refused("context_management", f"there are {len(entries)} entries; a prompt is compacted once.")
    threshold = entries[0].compact_threshold if entries else None
    if threshold is not None and threshold < 1:
        raise refused("context_management[0].compact_threshold", f"is {threshold}; it must be at least 1.")


def _reworded(tools: Tools, error: RequestError) -> None:
    """An error of planning names this API's parameter."""
    offers = ((i, tools.offers.get(spec.name)) for i, spec in enumerate(tools.specs))
    if not at_grammar(error, {i: offer.grammar_at for i, offer in offers if offer and offer.kind == "custom"}):
        error.position = _renamed(error.position)


def _renamed(position: Position | None) -> Position | None:
    if position is None or position.path is None:
        return position
    if position.path.startswith("tools["):
        return replace(position, path=position.path.replace(".function.", ".", 1))
    for planned, name in PARAMS.items():
        if position.path == planned or position.path.startswith((f"{planned}.", f"{planned}[")):
            return replace(position, path=name + position.path[len(planned) :])
    return position


def conversation_id(wire: TokensRequest) -> str:
    return wire.conversation.id if isinstance(wire.conversation, ConversationRef) else wire.conversation or ""


# The head of a response: all that is known of it before the model writes.


def head_of(wire: ResponsesRequest, requested: RequestedResponse, plan: Plan, *, id: str, created: int) -> Response:
    """The response before its first token: the settings as they are in force."""
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
        parallel_tool_calls=requested.turn.parallel_tool_calls,
        previous_response_id=wire.previous_response_id,
        conversation=ConversationRef(conversation_id(wire)) if wire.conversation else None,
        prompt_cache_key=wire.prompt_cache_key,
        reasoning={"effort": effort, "summary": None},
        safety_identifier=wire.safety_identifier,
        store=wire.store is not False,
        temperature=plan.sampling.temperature,
        text=_text(wire),
        tool_choice=_choice(wire, requested),
        tools=requested.tools.echo,
        top_logprobs=wire.top_logprobs or 0,
        top_p=plan.sampling.top_p,
        presence_penalty=plan.sampling.presence_penalty,
        frequency_penalty=plan.sampling.frequency_penalty,
        truncation=wire.truncation or "disabled",
        user=wire.user,
        metadata=wire.metadata or {},
        prompt_token_ids=list(plan.prompt_ids) if plan.request.return_token_ids else msgspec.UNSET,
        antiphon=notes_of(plan.prefix, plan.prefix.lost.message if plan.prefix and plan.prefix.lost else None),
    )


def _text(wire: TokensRequest) -> dict[str, Any]:
    requested = wire.text.format if wire.text else None
    format: dict[str, Any] = {"type": requested.type if requested else "text"}
    if requested is not None and requested.type == "json_schema":
        format |= {
            "name": requested.name,
            "description": requested.description,
            "schema": requested.schema,
            "strict": bool(requested.strict),
        }
    return {"format": format, "verbosity": "medium"}


def _choice(wire: TokensRequest, requested: RequestedResponse) -> Any:
    choice = wire.tool_choice
    if choice is None or choice in ("none", "auto", "required"):
        return choice or "auto"
    if isinstance(choice, str):
        return "required" if choice == "any" else {"type": "function", "name": choice}
    if choice.type == "allowed_tools":
        listed = [_given(tool) for tool in choice.tools or []]
        return {"type": choice.type, "mode": choice.mode, "tools": listed}
    return _given(choice)


def _given(tool: Any) -> dict[str, Any]:
    names = ("type", "name", "namespace", "server_label")
    return {name: getattr(tool, name) for name in names if getattr(tool, name) is not None}
