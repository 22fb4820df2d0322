"""A conversation as callers give it → the messages of a Harmony prompt.

Callers write as chat APIs do: instructions in a system message, several calls at once, no channels. Harmony has its own
system message, one developer message, a channel on every message of an assistant or a tool, and each call followed by
its result. A verbatim conversation is left as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace

from antiphon.conversation import (
    FUNCTIONS,
    TRAINED,
    Channel,
    ChannelConfig,
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    Role,
    Settings,
    SystemContent,
    TextPart,
    ToolNamespace,
    described,
)
from antiphon.conversation.tools import by_namespace
from antiphon.errors import RenderError

from .render import header_as_written

# The arguments of gpt-oss's chat template, which clients of other servers send, as Harmony's settings.

EFFORT, MODEL_IDENTITY = "reasoning_effort", "model_identity"
ARGUMENTS = frozenset((EFFORT, MODEL_IDENTITY))


def with_arguments(settings: Settings) -> Settings:
    """The settings, template arguments before what else the request says. Raises `RenderError` for a wrong value."""
    given = settings.template_kwargs
    effort, identity = given.get(EFFORT), given.get(MODEL_IDENTITY)
    if effort is not None:
        if effort not in tuple(ReasoningEffort):
            raise _refused(EFFORT, f"is one of {', '.join(ReasoningEffort)}")
        settings = replace(settings, reasoning_effort=ReasoningEffort(effort))
    if identity is not None:
        if not isinstance(identity, str):
            raise _refused(MODEL_IDENTITY, "is a text")
        settings = replace(settings, identity=identity)
    return settings


def _refused(name: str, kind: str) -> RenderError:
    return RenderError(f"the template argument {name} {kind}", code="bad_template_kwargs")


IDENTITY = "You are ChatGPT, a large language model trained by OpenAI."
KNOWLEDGE_CUTOFF = "2024-06"
CHANNELS = tuple(channel.value for channel in Channel)


def arrange(conversation: Conversation, *, names: bool = False) -> list[Message]:
    """The messages to render. ``names`` keeps the names of users and assistants (A-H12: off by default)."""
    if conversation.verbatim:
        return list(conversation.messages)
    head, rest = split(conversation.messages)
    arranger = Arranger(names=names)
    arranged = [completed for message in rest for completed in arranger.add(message)]
    return [*opening(conversation, head), *arranged, *arranger.pending()]


def split(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """The system and developer messages at the start, and the others."""
    start = next((i for i, m in enumerate(messages) if m.role not in (Role.SYSTEM, Role.DEVELOPER)), len(messages))
    return messages[:start], messages[start:]


def opening(conversation: Conversation, head: Sequence[Message]) -> Iterator[Message]:
    """The system message and, unless it would be empty, the developer message (X-08, HAR-49)."""
    own = [m for m in head if _has(m, SystemContent)]
    yield from own
    if not own:
        content = system_content(with_arguments(conversation.settings), conversation.builtins)
        yield Message(role=Role.SYSTEM, parts=(content,))
    developer = _developer(conversation, [m for m in head if m not in own])
    if developer != DeveloperContent():
        yield Message(role=Role.DEVELOPER, parts=(developer,))


def system_content(settings: Settings, builtins: Iterable[ToolNamespace] = ()) -> SystemContent:
    """The system message's content; absent settings have gpt-oss's defaults (HAR-50, HAR-53, HAR-63, A-H07, A-H08)."""
    tools = {namespace.name: described(namespace) for namespace in builtins}
    return SystemContent(
        identity=settings.identity if settings.identity is not None else IDENTITY,
        reasoning_effort=settings.reasoning_effort or ReasoningEffort.MEDIUM,
        start_date=settings.current_date.isoformat() if settings.current_date else None,
        knowledge_cutoff=settings.knowledge_cutoff if settings.knowledge_cutoff is not None else KNOWLEDGE_CUTOFF,
        channels=ChannelConfig(settings.channels if settings.channels is not None else CHANNELS),
        tools=tools or None,
    )


def _developer(conversation: Conversation, head: Iterable[Message]) -> DeveloperContent:
    """All instructions as one text, a blank line between them; the caller's tools; the response format."""
    texts: list[str] = []
    tools: dict[str, ToolNamespace] = {}
    response_format = conversation.response_format
    for message in head:
        for content in _contents(message):
            if content.instructions is not None:
                texts.append(content.instructions)
            tools |= content.tools or {}
            response_format = content.response_format or response_format
    tools |= by_namespace(conversation.tools)
    return DeveloperContent(
        instructions="\n\n".join(texts) if texts else None, tools=tools or None, response_format=response_format
    )


def _contents(message: Message) -> Iterator[DeveloperContent]:
    if not message.parts:
        yield DeveloperContent(instructions=message.text)
    for part in message.parts:
        match part:
            case DeveloperContent():
                yield part
            case TextPart(text):
                yield DeveloperContent(instructions=text)
            case _:
                # The renderer refuses a part of another kind, so it stays in its message.
                pass


class Arranger:
    """The messages after the opening: calls paired with their results, channels and recipients filled in.

    Resolution A-H15: calls made together are written one by one in their order, each before its own result, so a call
    waits until its result or another message comes, and what is behind it waits as well.
    """

    def __init__(self, *, names: bool = False) -> None:
        self._names = names
        self._waiting: list[Message] = []
        self._calls: dict[str, Message] = {}
        self._last_call: Message | None = None

    def add(self, message: Message) -> list[Message]:
        """Add a message; return the messages whose order is now final."""
        if message.is_call and message.call_id is not None:
            self._waiting.append(message)
            return []
        if message.role is not Role.TOOL or message.call_id is None:
            ready, self._waiting = [*self._waiting, message], []
        else:
            ids = [call.call_id if call.is_call else None for call in self._waiting]
            place = ids.index(message.call_id) + 1 if message.call_id in ids else len(ids)
            self._waiting.insert(place, message)
            behind = [one.role for one in self._waiting[1:]] + [Role.ASSISTANT]
            open = (i for i, role in enumerate(behind) if self._waiting[i].is_call and role is not Role.TOOL)
            length = next(open, len(behind))
            ready, self._waiting = self._waiting[:length], self._waiting[length:]
        return [self._written(m) for m in ready]

    def pending(self) -> list[Message]:
        """The calls that still have no result, and what is behind them, as a prompt shows them now."""
        later = copy(self)
        later._calls = dict(self._calls)
        return [later._written(message) for message in self._waiting]

    def _written(self, message: Message) -> Message:
        completed = _completed(message, self._calls, self._last_call)
        if completed.is_call:
            self._last_call = completed
            if completed.call_id is not None:
                self._calls[completed.call_id] = completed
        return self._named(completed)

    def _named(self, message: Message) -> Message:
        keep = self._names or message.name is None or message.role is Role.TOOL
        return message if keep else replace(message, name=None)


def _completed(message: Message, calls: dict[str, Message], last_call: Message | None) -> Message:
    """Fill in the header fields that Harmony needs and chat APIs leave out (HAR-83, HAR-88, A-H04, A-O01)."""
    match message.role:
        case Role.SYSTEM | Role.DEVELOPER if not _has(message, SystemContent):
            return replace(message, role=Role.DEVELOPER, text="", parts=tuple(_contents(message)), channel=None)
        case Role.SYSTEM | Role.DEVELOPER | Role.USER:
            return message if message.channel is None else replace(message, channel=None)
        case Role.ASSISTANT if message.is_call:
            return _completed_call(message)
        case Role.ASSISTANT:
            return message if message.channel is not None else replace(message, channel=Channel.FINAL)
        case Role.TOOL:
            call = calls.get(message.call_id or "") or _called_as(message, last_call)
            channel = call.channel if call is not None else Channel.COMMENTARY
            return replace(
                message,
                name=message.name or (call.recipient if call is not None else None),
                recipient=message.recipient or Role.ASSISTANT,
                channel=message.channel or channel,
            )


def _completed_call(call: Message) -> Message:
    function = (call.recipient or "").startswith(f"{FUNCTIONS}.")
    if call.channel is None:
        builtin = (call.recipient or "").partition(".")[0] in TRAINED
        call = replace(call, channel=Channel.ANALYSIS if builtin else Channel.COMMENTARY)
    if function and call.content_type is None and not header_as_written(call):
        call = replace(call, content_type="json", constrained=True)
    return call


def is_reasoning(message: Message) -> bool:
    """Whether it is dropped once its turn is over: on analysis, except calls of functions and their results."""
    tool = message.recipient if message.is_call else message.name if message.role is Role.TOOL else None
    return message.channel == Channel.ANALYSIS and not (tool or "").startswith(f"{FUNCTIONS}.")


def _called_as(result: Message, call: Message | None) -> Message | None:
    """The call that a result without a known id belongs to: the last one, if it was to the same tool."""
    return call if call is not None and result.name in (None, call.recipient) else None


def _has(message: Message, kind: type[SystemContent]) -> bool:
    return any(isinstance(part, kind) for part in message.parts)
