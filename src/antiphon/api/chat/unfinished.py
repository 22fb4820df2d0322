"""The view that clients of chat completions have of an unfinished turn: no reasoning, no calls that the
server answered, arguments without their header (HAR-70, HAR-91).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from antiphon.conversation import Event, Message, MessageEnded, MessageStarted, Role, TextDelta
from antiphon.errors import RequestError
from antiphon.generation.call_ids import is_random
from antiphon.generation.reply import canonical
from antiphon.tokens import well_formed
from antiphon.wire.projection import whole
from antiphon.wire.unfinished import LONGEST, Names, Turn, WireMemory, waiting_calls

from .messages import arguments_text
from .schema import ChatMessage, Content, FunctionCall


class ClientView(msgspec.Struct, frozen=True):
    """A message with calls as its client sees it, or sends it: arguments by their value, in whatever spelling.

    ``calls`` are names and arguments, ``ids`` those of the calls in their order.
    """

    text: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]
    ids: tuple[str | None, ...]


class TurnMemory(WireMemory[ChatMessage], frozen=True):
    """The unfinished turns of chats."""

    def names(self, messages: Sequence[ChatMessage]) -> Names:
        """The names for each message with calls since the last answer."""
        places = set(_unfinished(messages))
        if not places:
            return {}
        found: dict[int, tuple[str, ...]] = {}
        context = hashlib.sha256()
        for i, message in enumerate(messages):
            if i in places:
                found[i] = _names(_view_of_request(message), context, self.model)
            _note(context, message)
        return found

    def names_behind(self, messages: Sequence[ChatMessage], turn: Sequence[Message]) -> Names:
        """The names for what answers ``messages``."""
        context = hashlib.sha256()
        for message in messages:
            _note(context, message)
        return {len(messages): _names(shown(turn), context, self.model)}

    def matching(self, messages: Sequence[ChatMessage], number: int, turn: Turn) -> Turn:
        """The turn with the calls of the message under its ids; nothing where it says what its client did not see.

        The message need not say all of the turn: what it leaves out of the calls is left out here too.
        """
        sent, seen = _view_of_request(messages[number]), shown(turn)
        ids = _ids_by_call(sent, seen)
        if sent.text not in ("", seen.text) or sent.reasoning not in ("", seen.reasoning):
            return ()
        left_out = set(seen.ids) - ids.keys()
        kept = [one for one in turn if one.call_id not in left_out] if ids else []
        return tuple(replace(one, call_id=ids[one.call_id]) if one.call_id in ids else one for one in kept)


def shown(turn: Sequence[Message]) -> ClientView:
    """The turn as its client is shown it where the server exposes reasoning."""
    waiting = waiting_calls(turn)
    own = [one for one in turn if one.role is Role.ASSISTANT and (not one.is_call or one in waiting)]
    answer = whole((event for one in own for event in _events(one)), expose_reasoning=True)
    calls = tuple((call.name, canonical("".join(call.arguments))) for call in answer.calls)
    text, reasoning = (well_formed("".join(parts)).strip() for parts in (answer.text, answer.reasoning))
    return ClientView(text, reasoning, calls, tuple(call.id for call in answer.calls))


def _events(message: Message) -> Iterator[Event]:
    yield MessageStarted(message)
    if message.text:
        yield TextDelta(message.text)
    yield MessageEnded(message)


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


def _ids_by_call(sent: ClientView, seen: ClientView) -> dict[str | None, str | None]:
    """The ids of calls as the client sends them, by those under which they were made; nothing where it sends others."""
    calls, each = dict(zip(seen.ids, seen.calls, strict=True)), zip(sent.ids, sent.calls, strict=True)
    if len(set(sent.ids)) == len(sent.ids) and all(calls.get(id) == call for id, call in each):
        return {id: id for id in sent.ids}
    return dict(zip(seen.ids, sent.ids, strict=True)) if sent.calls == seen.calls else {}


def _names(seen: ClientView, context: hashlib._Hash, model: str) -> tuple[str, ...]:
    """By each id that no other conversation has; and by all that came before, for ids that the client gave anew.

    A model's own ids (``functions.f:0``) are in other conversations too: its turns are found by what came before alone.
    """
    calls = [(id, call) for id, call in zip(seen.ids, seen.calls, strict=True) if id is not None and is_random(id)]
    by_context = _digest([model, context.hexdigest(), seen.calls])
    return (*(_digest([model, id, call]) for id, call in calls), by_context)


def _note(context: hashlib._Hash, message: ChatMessage) -> None:
    seen = _view_of_request(message)
    context.update(_json([message.role, message.name, seen.text, seen.calls]))


def _view_of_request(message: ChatMessage) -> ClientView:
    calls = _calls(message)
    return ClientView(
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
