"""Turns of chat completions that wait for the results of their calls, found again by what their client sends back.

A client is shown a part of what the model wrote: no reasoning, no calls that the server answered, arguments without
their header. The rest is stored until the turn is over, and stands in the prompts of its next requests in place of what
the client sends of it, so that each of them goes on with the last one, id for id (HAR-70, HAR-91).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from antiphon.conversation import End, Event, Message, MessageEnded, MessageStarted, Role, TextDelta
from antiphon.errors import RequestError, StoreError
from antiphon.generation.call_ids import is_random
from antiphon.generation.reply import as_history
from antiphon.store import UnfinishedTurns
from antiphon.tokens import well_formed
from antiphon.wire.projection import whole

from .messages import arguments_text
from .schema import ChatMessage, Content, FunctionCall

LONGEST = 256
"""Messages with calls, the latest of an unfinished turn, whose own text is looked for."""
Names = Mapping[int, tuple[str, ...]]
"""The number of a message with calls → the names under which what the model wrote may be stored, the surest first."""
OffLoop = Callable[[Callable[[], Names]], Awaitable[Names]]
"""Does work on the whole request, beside the event loop where it is long."""
log = logging.getLogger("antiphon.wire")


class TurnMemory(msgspec.Struct, frozen=True):
    """The unfinished turns of one owner with one model. Without its store a request goes on, and the log says so."""

    turns: UnfinishedTurns
    owner: str
    model: str
    off_loop: OffLoop

    async def recall(self, messages: Sequence[ChatMessage]) -> dict[int, tuple[Message, ...]]:
        """What the model wrote for messages of the unfinished turn, by their numbers, where the client changed nothing.

        What a message leaves out of its turn is not changed: the reasoning, the text, some of the calls; those are left
        out of the result too. A turn that the client cut into several messages is found for the first of them.
        """
        if self.turns.limits.lifetime <= 0:
            return {}
        names = await self.off_loop(lambda: recalled_names(messages, self.model))
        try:
            found = {i: await self.turns.find(self.owner, under) for i, under in names.items()}
        except StoreError as error:
            log.warning("reasoning of an unfinished turn is not found: %s", error.code)
            return {}
        fitted = {i: turn for i, whole in found.items() if (turn := _fitted(messages[i], whole))}
        first = {found[i]: i for i in reversed(fitted)}
        return {i: fitted[i] for i in first.values()}

    async def keep(self, messages: Sequence[ChatMessage], turn: Sequence[Message]) -> None:
        """Stores the turn that answers ``messages``, if calls of it wait for results of the client's.

        ``turn`` has calls that were answered here with their results.
        """
        calls = _waiting(turn)
        if not calls or any(call.end is End.NONE for call in calls):
            return
        names = await self.off_loop(lambda: stored_names(messages, turn, self.model))
        try:
            stored = await self.turns.put(self.owner, names[len(messages)], [*as_history(turn)])
        except StoreError as error:
            log.warning("reasoning of an unfinished turn is not stored: %s", error.code)
            return
        if not stored and self.turns.limits.lifetime > 0:
            log.warning("an unfinished turn is not stored: it has more than %s bytes", self.turns.limits.bytes)


class Seen(msgspec.Struct, frozen=True):
    """What a client sees of a message with calls, or says of it: arguments by their value, in whatever spelling.

    ``calls`` are names and arguments, ``ids`` those of the calls in their order.
    """

    text: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]
    ids: tuple[str | None, ...]


def recalled_names(messages: Sequence[ChatMessage], model: str) -> dict[int, tuple[str, ...]]:
    """The names for each message with calls since the last answer."""
    places = set(_unfinished(messages))
    if not places:
        return {}
    found: dict[int, tuple[str, ...]] = {}
    context = hashlib.sha256()
    for i, message in enumerate(messages):
        if i in places:
            found[i] = _names(_sent(message), context, model)
        _note(context, message)
    return found


def stored_names(messages: Sequence[ChatMessage], turn: Sequence[Message], model: str) -> dict[int, tuple[str, ...]]:
    """The names for what answers ``messages``."""
    context = hashlib.sha256()
    for message in messages:
        _note(context, message)
    return {len(messages): _names(shown(turn), context, model)}


def shown(turn: Sequence[Message]) -> Seen:
    """The turn as its client is shown it where the server exposes reasoning."""
    waiting = _waiting(turn)
    own = [one for one in turn if one.role is Role.ASSISTANT and (not one.is_call or one in waiting)]
    answer = whole((event for one in own for event in _events(one)), expose_reasoning=True)
    calls = tuple((call.name, canonical("".join(call.arguments))) for call in answer.calls)
    reasoning = well_formed("".join(answer.reasoning)).strip()
    return Seen(well_formed("".join(answer.text)).strip(), reasoning, calls, tuple(call.id for call in answer.calls))


def _events(message: Message) -> Iterator[Event]:
    yield MessageStarted(message)
    if message.text:
        yield TextDelta(message.text)
    yield MessageEnded(message)


def canonical(arguments: str) -> str:
    """The value of a call's arguments: clients read them and write them anew. What is no JSON stays as it is."""
    arguments = well_formed(arguments)
    try:
        return json.dumps(json.loads(arguments or "{}", parse_float=_number), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _number(text: str) -> float | int:
    """1.0 is 1: not every language tells them apart."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _waiting(turn: Sequence[Message]) -> list[Message]:
    """The calls that nobody answered yet: those of the client's."""
    answered = {one.call_id for one in turn if one.role is Role.TOOL}
    return [one for one in turn if one.is_call and one.call_id not in answered]


def _unfinished(messages: Sequence[ChatMessage]) -> list[int]:
    """The numbers of the messages with calls since the last answer, the latest first."""
    places: list[int] = []
    for i in reversed(range(len(messages))):
        message = messages[i]
        if message.role != "assistant":
            continue
        if not _calls(message) or len(places) == LONGEST:
            break
        places.append(i)
    return places


def _fitted(message: ChatMessage, turn: Sequence[Message]) -> tuple[Message, ...]:
    """The turn with the calls of the message under its ids; nothing where the message says what its client did not see.

    It need not say all of it.
    """
    sent, seen = _sent(message), shown(turn)
    given = _given(sent, seen)
    if sent.text not in ("", seen.text) or sent.reasoning not in ("", seen.reasoning):
        return ()
    left_out = set(seen.ids) - given.keys()
    kept = [one for one in turn if one.call_id not in left_out] if given else []
    return tuple(replace(one, call_id=given[one.call_id]) if one.call_id in given else one for one in kept)


def _given(sent: Seen, seen: Seen) -> dict[str | None, str | None]:
    """The ids of calls as the client sends them, by those under which they were made; nothing where it sends others."""
    calls, each = dict(zip(seen.ids, seen.calls, strict=True)), zip(sent.ids, sent.calls, strict=True)
    if len(set(sent.ids)) == len(sent.ids) and all(calls.get(id) == call for id, call in each):
        return {id: id for id in sent.ids}
    return dict(zip(seen.ids, sent.ids, strict=True)) if sent.calls == seen.calls else {}


def _names(seen: Seen, context: hashlib._Hash, model: str) -> tuple[str, ...]:
    """By each id that no other conversation has; and by all that came before, for ids that the client gave anew.

    A model's own ids (``functions.f:0``) are in other conversations too: its turns are found by what came before alone.
    """
    calls = [(id, call) for id, call in zip(seen.ids, seen.calls, strict=True) if id is not None and is_random(id)]
    by_context = _digest([model, context.hexdigest(), seen.calls])
    return (*(_digest([model, id, call]) for id, call in calls), by_context)


def _note(context: hashlib._Hash, message: ChatMessage) -> None:
    seen = _sent(message)
    context.update(_json([message.role, message.name, seen.text, seen.calls]))


def _sent(message: ChatMessage) -> Seen:
    calls = _calls(message)
    return Seen(
        (_text(message.content) or message.refusal or "").strip(),
        (message.reasoning or message.reasoning_content or "").strip(),
        tuple((function.name, canonical(_arguments(function))) for _, function in calls),
        tuple(id for id, _ in calls),
    )


def _calls(message: ChatMessage) -> list[tuple[str | None, FunctionCall]]:
    calls: list[tuple[str | None, FunctionCall]] = [(call.id, call.function) for call in message.tool_calls or ()]
    return [*calls, (None, message.function_call)] if message.function_call else calls


def _arguments(function: FunctionCall) -> str:
    try:
        return arguments_text(function.arguments, "arguments")
    except RequestError:  # The reader refuses it by its place.
        return ""


def _text(content: Content) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join((part.refusal if part.type == "refusal" else part.text) or "" for part in content)


def _digest(value: object) -> str:
    return hashlib.sha256(_json(value)).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
