"""One answer of a model with the tools that run here: the events of generation as what a library user reads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic, TypeVar, assert_never

from antiphon.conversation import (
    Channel,
    Conversation,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    TextDelta,
    TurnEnded,
    visible_to_user,
)
from antiphon.generation import Model, RoundEvent, TurnRequest, prepare_turn, run_rounds
from antiphon.tools import Router, ToolCall, ToolCancelled, ToolEnded, ToolStarted

from .reply import Delta, Reply
from .shape import Shape, with_schema

Parsed = TypeVar("Parsed")
WHOLE = (FinishReason.STOP_EOS, FinishReason.STOP_SEQUENCE)
"""How an answer ends that nothing cut short."""


@dataclass(slots=True)
class Answer(Generic[Parsed]):
    """The answer to one request while it is made. `feed` takes the events, one by one."""

    conversation: Conversation
    shape: Shape[Parsed] | None
    _messages: list[Message] = field(default_factory=list)
    _field: str = ""

    def feed(self, event: RoundEvent) -> Delta[Parsed] | None:
        """What the event adds for the caller; None: nothing."""
        match event:
            case TextDelta(text):
                return self._text(text)
            case MessageStarted(message):
                self._field = field_of(message)
                return None
            case MessageEnded(message):
                self._messages.append(message)
                return None
            case ToolStarted(call):
                return Delta(call=call)
            case ToolEnded(result):
                self._messages.append(result.message())
                return Delta(result=result)
            case ToolCancelled() | Incident():
                return None
            case TurnEnded():
                return Delta(reply=self._reply(event))
            case _:
                assert_never(event)

    def _text(self, text: str) -> Delta[Parsed] | None:
        match self._field:
            case "text":
                return Delta(text=text)
            case "reasoning":
                return Delta(reasoning=text)
            case _:
                return None

    def _reply(self, ended: TurnEnded) -> Reply[Parsed]:
        messages = tuple(self._messages)
        answered = {message.call_id for message in messages if message.name is not None}
        calls = [message for message in messages if message.is_call and message.call_id not in answered]
        text = "\n\n".join(message.text for message in messages if field_of(message) == "text")
        return Reply(
            text=text,
            parsed=self._parsed(messages, ended),
            reasoning="\n\n".join(message.text for message in messages if field_of(message) == "reasoning"),
            calls=tuple(ToolCall.of(message, fallback_id=f"call_{i}") for i, message in enumerate(calls)),
            messages=messages,
            conversation=self.conversation.add(*messages),
            finish_reason=ended.reason,
            usage=ended.usage,
        )

    def _parsed(self, messages: Sequence[Message], ended: TurnEnded) -> Parsed | None:
        """The value of the final message; None for an answer that was cut, and for one that is a call."""
        if self.shape is None or ended.reason not in WHOLE or not messages or field_of(messages[-1]) != "text":
            return None
        return self.shape.read(messages[-1].text)


def field_of(message: Message) -> str:
    """Which field of a `Delta` a message's text goes to; "" for none."""
    if visible_to_user(message):
        return "text"
    return "reasoning" if message.channel == Channel.ANALYSIS else ""


async def answered(
    model: Model, request: TurnRequest, router: Router, shape: Shape[Parsed] | None
) -> AsyncGenerator[Delta[Parsed], None]:
    """The answer as it is made, calls to the router's tools run in between; the last delta has the whole reply.

    Raises what planning, the engine, or a value of another type raise. Closing the generator stops engine and tools.
    """
    answer = Answer(request.conversation, shape)
    plan = await prepare_turn(model, with_schema(request, model.format))
    async with aclosing(run_rounds(plan, router)) as events:
        async for event in events:
            delta = answer.feed(event)
            if delta is not None:
                yield delta
