"""Sampling for MCP servers: a text by one of our models, for the servers that the operator allows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from antiphon.conversation import Conversation, FinishReason, Message, Role, ToolChoice, visible_to_user
from antiphon.generation import Model, TurnRequest, collect, prepare_turn, run_turn
from antiphon.tools.mcp import SamplingAnswer, SamplingMessage, SamplingRequest
from antiphon.tools.mcp.host import Sample

WHOLE = (FinishReason.STOP_EOS, FinishReason.STOP_SEQUENCE)
ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def sampler(get: Callable[[str], Awaitable[Model]], name: str) -> Sample:
    """Texts by the model of that name, which ``get`` loads. They raise what it, planning and the engine raise."""

    async def sample(request: SamplingRequest) -> SamplingAnswer:
        model = await get(name)
        plan = await prepare_turn(model, turn_request(request))
        async with aclosing(run_turn(plan)) as events:
            reply = (await collect(events))[0]
        text = "\n\n".join(message.text for message in reply.messages if visible_to_user(message))
        return SamplingAnswer(text, model.name, complete=reply.reason in WHOLE)

    return sample


def turn_request(request: SamplingRequest) -> TurnRequest:
    """The server's texts as messages of a conversation of its own: it sees no other."""
    system = (Message(role=Role.SYSTEM, text=request.system),) if request.system else ()
    return TurnRequest(
        conversation=Conversation(messages=(*system, *map(message_of, request.messages))),
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        stop=request.stop,
        tool_choice=ToolChoice("none"),
    )


def message_of(message: SamplingMessage) -> Message:
    return Message(role=ROLES[message.role], text=message.text)
