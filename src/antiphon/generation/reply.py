"""A turn as values, for those who do not stream."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Generic, TypeVar

import msgspec

from antiphon.conversation import (
    PARAGRAPH,
    Channel,
    End,
    Event,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    Role,
    TextDelta,
    TokenLogprob,
    TurnEnded,
    Usage,
    visible_to_user,
)
from antiphon.tokens import well_formed

# What a turn gives: event by event, or all that one step of its engine was.

PromptLogprobs = Sequence[TokenLogprob | None]
"""One for each id of a prompt, None for the first: nothing comes before it."""
EventT_co = TypeVar("EventT_co", covariant=True)


class ChoiceEvent(msgspec.Struct, frozen=True):
    """An event of one of the ``n`` choices of a turn, for which ``completion_tokens`` were sampled so far."""

    choice: int
    event: Event
    completion_tokens: int = 0


class StepEvents(msgspec.Struct, Generic[EventT_co], frozen=True, gc=False):
    """One step of an engine for one choice: at least one event, and the tokens of the choice so far.

    ``ids``: what was sampled since the choice's last step, where the request has ``return_token_ids``. ``prompt``: the
    log probability of each id of the prompt (None for the first), with a choice's first step, where it has
    ``prompt_logprobs``. ``prompt_tokens`` are as far as they are known, and ``cached_tokens`` those of
    them that needed no evaluation; None: not reported yet.
    """

    choice: int
    events: Sequence[EventT_co]
    completion_tokens: int = 0
    ids: tuple[int, ...] = ()
    prompt: PromptLogprobs | None = None
    cached_tokens: int | None = None
    prompt_tokens: int | None = None


class Reply(msgspec.Struct, frozen=True):
    """One choice, collected."""

    messages: tuple[Message, ...]
    reason: FinishReason
    usage: Usage
    matched: str | None = None
    incidents: tuple[Incident, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    """The log probabilities of the visible text's tokens."""


async def collect(events: AsyncIterator[ChoiceEvent], n: int = 1) -> list[Reply]:
    """The turn as values: what a caller who does not stream gets, of the very same events."""
    gathered: list[list[Event]] = [[] for _ in range(n)]
    async for choice_event in events:
        gathered[choice_event.choice].append(choice_event.event)
    return [reply_of(events) for events in gathered]


def reply_of(events: Iterable[Event]) -> Reply:
    """One choice's events as a value; they must hold its `TurnEnded`."""
    messages: list[Message] = []
    incidents: list[Incident] = []
    logprobs: list[TokenLogprob] = []
    ended: TurnEnded | None = None
    shown = False
    for event in events:
        match event:
            case MessageStarted(message):
                shown = visible_to_user(message)
            case TextDelta(_, of_text):
                logprobs += of_text if shown else ()
            case MessageEnded(message):
                messages.append(message)
            case Incident():
                incidents.append(event)
            case TurnEnded():
                ended = event
    assert ended is not None, "a choice without its end"
    return Reply(tuple(messages), ended.reason, ended.usage, ended.matched, tuple(incidents), tuple(logprobs))


def merge_usage(replies: Sequence[Usage]) -> Usage:
    """The usage of a whole request: the prompt once, completion tokens summed over the choices."""
    first = replies[0]
    return msgspec.structs.replace(
        first,
        completion_tokens=sum(usage.completion_tokens for usage in replies),
        reasoning_tokens=sum(usage.reasoning_tokens for usage in replies),
    )


def as_history(messages: Sequence[Message]) -> Iterator[Message]:
    """An answer as later turns see it: one that its limit cut ends there; a call that was cut was never made."""
    for message in messages:
        if message.end is not End.NONE:
            yield message
        elif not message.is_call:
            yield replace(message, end=End.END)


def bundled(messages: Sequence[Message]) -> list[Message]:
    """A turn as clients have it that show one message: its thoughts as one, its texts as one, then its calls."""
    if len(messages) == 1:
        return [one for one in messages if one.text or one.is_call]
    calls = [one for one in messages if one.is_call]
    texts = [one for one in messages if one.text and not one.is_call]
    thoughts = [one for one in texts if one.channel == Channel.ANALYSIS]
    hidden = [one for one in texts if one.channel != Channel.ANALYSIS and not visible_to_user(one)]
    return [*_joined(thoughts), *hidden, *_joined([one for one in texts if visible_to_user(one)]), *calls]


def _joined(messages: Sequence[Message]) -> Sequence[Message]:
    if len(messages) < 2:
        return messages
    return [replace(messages[-1], text=PARAGRAPH.join(one.text for one in messages))]


def meaning(message: Message) -> tuple[str, str]:
    """The meaning of a message, apart from its spelling: whom it calls and with what value; a thought; or a text."""
    if message.is_call:
        return message.recipient or "", canonical(message.text)
    return "analysis" if message.channel == Channel.ANALYSIS else "", message.text


class Digests:
    """A digest of a conversation up to each of its messages; empty where that is not the model's.

    Several texts of a turn are as one, as some clients have them. An open message, which the model continues, is in
    none, and nor is what follows: where it ends is not known. Nobody finds what is of another ``domain``.
    """

    def __init__(self, domain: str, messages: Iterable[Message] = ()) -> None:
        self._so_far = hashlib.sha256(domain.encode())
        self._run: list[Message] = []
        self.keys: list[bytes] = []
        self.open = False
        """Whether a message is open."""
        self._read(messages)

    def behind(self, reply: Iterable[Message]) -> Digests:
        """The digests of the conversation with the reply."""
        whole = copy(self)
        whole._so_far, whole._run, whole.keys = self._so_far.copy(), [*self._run], [*self.keys]
        whole._read(reply)
        return whole

    def _read(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.open = self.open or message.end is End.NONE
            if self.open:
                break
            if message.role is Role.ASSISTANT:
                self._run.append(message)
                self.keys.append(_digest(self._so_far.copy(), bundled(self._run)).digest())
            else:
                _digest(self._so_far, [*bundled(self._run), message])
                self._run.clear()
                self.keys.append(b"")


def _digest(so_far: hashlib._Hash, messages: Iterable[Message]) -> hashlib._Hash:
    for message in messages:
        role, name, id, (to, value) = message.role, message.name or "", message.call_id or "", meaning(message)
        text = f"{len(role)}:{role}{len(name)}:{name}{len(id)}:{id}{len(to)}:{to}{len(value)}:{value}"
        so_far.update(text.encode("utf-8", "surrogatepass"))
    return so_far


def canonical(arguments: str) -> str:
    """The value of a call's arguments: clients read them and write them anew. What is no JSON stays as it is."""
    arguments = well_formed(arguments)
    try:
        return _ENCODER.encode(_DECODER.decode(arguments or "{}"))
    except (ValueError, RecursionError):
        return arguments


def _number(text: str) -> float | int:
    """1.0 is 1: not every language tells them apart."""
    number = float(text)
    return int(number) if number.is_integer() else number


_DECODER, _ENCODER = json.JSONDecoder(parse_float=_number), json.JSONEncoder(sort_keys=True)
