"""A conversation as a value, and one answer to it that can be stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import assert_never

from antiphon.conversation import (
    Conversation,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    Role,
    TextDelta,
    ToolChoice,
    TurnEnded,
)
from antiphon.generation import Model, RoundEvent, TurnRequest, prepare_turn, run_rounds
from antiphon.tools import Toolbox, ToolCancelled, ToolEnded, ToolStarted
from antiphon.wire.choosing import chosen_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """How answers are made; None: as the model's defaults say."""

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    tool_choice: str | None = None
    """A mode, or the name of a tool, which is called once."""


@dataclass(frozen=True, slots=True)
class Talk:
    """The conversation so far, and how to go on: a value; each turn gives the next."""

    conversation: Conversation = field(default_factory=Conversation)
    answers: Answers = field(default_factory=Answers)

    def with_system(self, system: str) -> Talk:
        """With another system text, or none when it is empty; the other messages stay."""
        others = tuple(message for message in self.conversation.messages if message.role is not Role.SYSTEM)
        first = (Message(role=Role.SYSTEM, text=system),) if system else ()
        return replace(self, conversation=replace(self.conversation, messages=first + others))

    def with_question(self, question: str) -> Talk:
        return replace(self, conversation=self.conversation.add(Message(role=Role.USER, text=question)))

    def answered(self, *messages: Message) -> Talk:
        return replace(self, conversation=self.conversation.add(*messages))

    @property
    def last_question(self) -> str | None:
        users = [message.text for message in self.conversation.messages if message.role is Role.USER]
        return users[-1] if users else None

    def before_last_question(self) -> Talk:
        """As it was before the last question."""
        messages = self.conversation.messages
        last = max((i for i, message in enumerate(messages) if message.role is Role.USER), default=len(messages))
        return replace(self, conversation=replace(self.conversation, messages=messages[:last]))


Show = Callable[[RoundEvent], None]


@dataclass(frozen=True, slots=True)
class Partner:
    """Whom one talks to: a model, and the tools that run here for it."""

    model: Model
    toolbox: Toolbox | None = None


async def hear(partner: Partner, talk: Talk, show: Show) -> tuple[Talk, list[RoundEvent]]:
    """The model's answer, shown while it comes. Ctrl-C stops it in the engine too; the text until then stays.

    Raises what planning or the engine raises. Without a `TurnEnded` among the events the answer was stopped.
    """
    heard: list[RoundEvent] = []
    listening = asyncio.create_task(listen(partner, talk, heard, show))
    with on_interrupt(listening.cancel):
        await asyncio.wait([listening])
    if not listening.cancelled():
        listening.result()
    return talk.answered(*messages_of(heard)), heard


async def listen(partner: Partner, talk: Talk, heard: list[RoundEvent], show: Show) -> None:
    async with aclosing(answering(partner, talk)) as events:
        async for event in events:
            heard.append(event)
            show(event)


async def answering(partner: Partner, talk: Talk) -> AsyncGenerator[RoundEvent, None]:
    """The events of an answer, with those of the tools that it needs."""
    model, conversation, how, router = partner.model, talk.conversation, talk.answers, None
    if partner.toolbox is not None:
        offer = partner.toolbox.offered(builtins=model.format.framed)
        conversation, router = replace(conversation, tools=offer.specs, builtins=offer.builtins), offer.router
    request = TurnRequest(
        conversation=conversation,
        temperature=how.temperature,
        max_tokens=how.max_tokens,
        seed=how.seed,
        tool_choice=_choice(how.tool_choice, conversation),
    )
    async with aclosing(run_rounds(await prepare_turn(model, request), router, session="chat")) as events:
        async for event in events:
            yield event


def _choice(given: str | None, conversation: Conversation) -> ToolChoice:
    """Raises `RequestError` for a tool that is not there."""
    match given:
        case None:
            return ToolChoice()
        case "auto" | "none" | "required":
            return ToolChoice(given)
    return ToolChoice(
        "required", chosen_tools(given, "tool_choice", (), conversation.tools, conversation.builtins), once=True
    )


def messages_of(events: Iterable[RoundEvent]) -> tuple[Message, ...]:
    """The messages of an answer; one that was stopped in the middle ends where it was stopped."""
    messages: list[Message] = []
    begun: Message | None = None
    for event in events:
        match event:
            case MessageStarted(message):
                begun = message
            case TextDelta(text):
                begun = replace(begun, text=begun.text + text) if begun else None
            case MessageEnded(message):
                begun = None
                messages.append(message)
            case ToolEnded(result):
                messages.append(result.message())
            case Incident() | TurnEnded() | ToolStarted() | ToolCancelled():
                pass
            case _:
                assert_never(event)
    return (*messages, replace(begun, end=End.END)) if begun else tuple(messages)


@contextmanager
def on_interrupt(act: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C does ``act`` and nothing else meanwhile."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, act)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
