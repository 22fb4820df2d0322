"""A conversation as a value, and one answer to it that can be stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import assert_never

import msgspec

from antiphon.cli.transcript import IncidentForm, incident_form
from antiphon.conversation import (
    Conversation,
    End,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    OpaquePart,
    ReasoningEffort,
    ResponseFormat,
    Role,
    TextDelta,
    TextPart,
    ToolChoice,
    TurnEnded,
    text_and_parts,
    visible_to_user,
)
from antiphon.conversation.json import MessageJson, message_json
from antiphon.errors import RequestError
from antiphon.generation import Model, RoundEvent, TurnRequest, prepare_turn, turns_of
from antiphon.generation.meter import UNLIMITED, Deadline
from antiphon.generation.resume.tape import Input, ReplayLog, Sampled, TurnBegan
from antiphon.tools import Offer, Toolbox, ToolCancelled, ToolEnded, ToolStarted
from antiphon.wire.definitions import chosen_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """How answers are made; None: as the model's defaults say."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    tool_choice: str | None = None
    """A mode, or the name of a tool, which is called once."""
    tools: tuple[str, ...] | None = None
    """The names of the tools that are offered; None: all that are open."""


@dataclass(frozen=True, slots=True)
class ChatState:
    """The conversation so far, and how to go on: a value; each turn gives the next."""

    conversation: Conversation = field(default_factory=Conversation)
    answers: Answers = field(default_factory=Answers)

    def with_system(self, system: str) -> ChatState:
        """With another system text, or none when it is empty; the other messages stay."""
        others = tuple(message for message in self.conversation.messages if message.role is not Role.SYSTEM)
        first = (Message(role=Role.SYSTEM, text=system),) if system else ()
        return replace(self, conversation=replace(self.conversation, messages=first + others))

    @property
    def system(self) -> str:
        """The system message's text; empty where there is none."""
        return next((one.text for one in self.conversation.messages if one.role is Role.SYSTEM), "")

    def with_effort(self, effort: ReasoningEffort | None) -> ChatState:
        settings = replace(self.conversation.settings, reasoning_effort=effort)
        return replace(self, conversation=replace(self.conversation, settings=settings))

    def with_format(self, form: ResponseFormat | None) -> ChatState:
        """With a form that the next answers are constrained to, or none."""
        return replace(self, conversation=replace(self.conversation, response_format=form))

    def with_question(self, question: str, images: Sequence[OpaquePart] = ()) -> ChatState:
        text, parts = text_and_parts([*images, TextPart(question)])
        return replace(self, conversation=self.conversation.add(Message(role=Role.USER, text=text, parts=parts)))

    def last_images(self) -> list[OpaquePart]:
        """The images of the last question."""
        users = [message for message in self.conversation.messages if message.role is Role.USER]
        return [part for message in users[-1:] for part in message.parts if isinstance(part, OpaquePart)]

    def answered(self, *messages: Message) -> ChatState:
        return replace(self, conversation=self.conversation.add(*messages))

    def last_question(self) -> str:
        """Raises `RequestError` where there is none."""
        users = [message.text for message in self.conversation.messages if message.role is Role.USER]
        if not users:
            raise RequestError("there is no question yet")
        return users[-1]

    def before_last_question(self) -> ChatState:
        """As it was before the last question."""
        messages = self.conversation.messages
        last = max((i for i, message in enumerate(messages) if message.role is Role.USER), default=len(messages))
        return replace(self, conversation=replace(self.conversation, messages=messages[:last]))


Show = Callable[[RoundEvent, int], None]
"""Takes each event, with the number of tokens that were sampled until then."""


@dataclass(frozen=True, slots=True)
class ChatTarget:
    """A model, and the tools that run here for it."""

    model: Model
    toolbox: Toolbox | None = None

    def offer(self, chosen: tuple[str, ...] | None) -> Offer | None:
        """The tools that go by the names, all for None; None where there are none."""
        if self.toolbox is None or chosen == ():
            return None
        offer = self.toolbox.offered(builtins=self.model.format.framed)
        return offer if chosen is None else offer.only(chosen)


@dataclass(slots=True)
class Seen:
    """Ids that the engine had: the prompt of an answer's last turn, and what was sampled behind it.

    ``text``: what was sampled, of an engine that reports no ids.
    """

    ids: list[int] = field(default_factory=list)
    text: str = ""

    def note(self, happened: Input) -> None:
        match happened:
            case TurnBegan(kept, more):
                self.ids[kept:], self.text = more, ""
            case Sampled():
                self.ids += happened.ids
                self.text += happened.text or ""


async def stream_answer(
    target: ChatTarget, state: ChatState, show: Show, seen: Seen
) -> tuple[ChatState, list[RoundEvent]]:
    """Streams the model's answer to ``show``. Ctrl-C stops it in the engine too; the text until then stays.

    ``seen`` notes the ids that the engine has.

    Raises what planning or the engine raises. Without a `TurnEnded` among the events the answer was stopped.
    """
    events: list[RoundEvent] = []

    async def read() -> None:
        async with aclosing(answering(target, state, seen)) as answer:
            async for event, tokens in answer:
                events.append(event)
                show(event, tokens)

    reading = asyncio.create_task(read())
    with on_interrupt(reading.cancel):
        await asyncio.wait([reading])
    if not reading.cancelled():
        reading.result()
    return state.answered(*map(ended, messages_of(events))), events


def ended(message: Message) -> Message:
    """A message that was cut ends where it was cut: a question follows it."""
    return replace(message, end=End.END) if message.end is End.NONE else message


async def answering(target: ChatTarget, state: ChatState, seen: Seen) -> AsyncGenerator[tuple[RoundEvent, int], None]:
    """The events of an answer, with those of the tools that it needs; and how many tokens were sampled until each."""
    plan, offer = await prepare_turn(target.model, turn_request(target, state)), target.offer(state.answers.tools)
    turns = turns_of(plan, offer.router if offer else None, session="chat", log=ReplayLog(seen.note))
    async with aclosing(turns(Deadline(UNLIMITED))) as steps:
        async for step in steps:
            for event in step.events:
                yield event, step.completion_tokens


def turn_request(target: ChatTarget, state: ChatState) -> TurnRequest:
    """The request for an answer. Raises `RequestError` for a tool choice that is not there."""
    conversation, how = state.conversation, state.answers
    offer = target.offer(how.tools)
    conversation = replace(conversation, tools=offer.specs if offer else (), builtins=offer.builtins if offer else ())
    return TurnRequest(
        conversation=conversation,
        temperature=how.temperature,
        top_p=how.top_p,
        max_tokens=how.max_tokens,
        seed=how.seed,
        tool_choice=_choice(how.tool_choice, conversation),
    )


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


# One answer of a model as JSON, for files and pipes.


class AnswerForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer: ``text`` is what an end user may see of it."""

    text: str
    messages: tuple[MessageJson, ...]
    incidents: tuple[IncidentForm, ...]
    finish_reason: FinishReason | msgspec.UnsetType = msgspec.UNSET
    usage: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


def answer_form(events: Sequence[RoundEvent]) -> AnswerForm:
    """One answer as JSON; without ``finish_reason`` and ``usage`` when it was stopped."""
    messages = messages_of(events)
    ended = next((event for event in events if isinstance(event, TurnEnded)), None)
    return AnswerForm(
        text="\n".join(message.text for message in messages if visible_to_user(message)),
        messages=tuple(map(message_json, messages)),
        incidents=tuple(incident_form(event) for event in events if isinstance(event, Incident)),
        finish_reason=ended.reason if ended else msgspec.UNSET,
        usage={"prompt_tokens": ended.usage.prompt_tokens, "completion_tokens": ended.usage.completion_tokens}
        if ended
        else msgspec.UNSET,
    )
