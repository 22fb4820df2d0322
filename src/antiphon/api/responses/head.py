"""The head of a response: all that is known of it before the model writes."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.generation import Plan
from antiphon.wire.prompt_notes import notes_of

from .read import RequestedResponse, conversation_id
from .schema import ConversationRef, Response, ResponsesRequest, TokensRequest


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
