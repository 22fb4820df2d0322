"""Turns of transcripts that wait for the results of their calls, found again in what their client sends back.

A transcript has no reasoning where the server hides it, and no call that a tool refused. What the model wrote is stored
until the turn is over, and stands in the next prompts in place of what the transcript has of it (HAR-70, OCM-80).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from antiphon.conversation import End, Message, Role, visible_to_user
from antiphon.errors import StoreError
from antiphon.formats.openchatml import read_tool_reply
from antiphon.generation.call_ids import is_random
from antiphon.generation.reply import as_history
from antiphon.store import UnfinishedTurns
from antiphon.tools.call import CALL_SCHEMA
from antiphon.wire.chat.unfinished import LONGEST, canonical

Places = dict[int, tuple[str, ...]]
"""Where a turn may begin → the names under which it may be stored, the surest first."""
OffLoop = Callable[[Callable[[], Places]], Awaitable[Places]]
"""Does work on the whole transcript, beside the event loop where it is long."""
log = logging.getLogger("antiphon.wire")


class TranscriptMemory(msgspec.Struct, frozen=True):
    """The unfinished turns of one owner with one model. Without its store a request goes on, and the log says so."""

    turns: UnfinishedTurns
    owner: str
    model: str
    off_loop: OffLoop

    async def recall(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages, with all of each turn since the last question that the client sends back unchanged."""
        if self.turns.limits.lifetime <= 0:
            return tuple(messages)
        places = await self.off_loop(lambda: turn_places(messages, self.model))
        whole = list(messages)
        try:
            for place in reversed(places):
                turn = await self.turns.find(self.owner, places[place])
                seen = shown(turn)
                if seen and _signs(messages[place : place + len(seen)]) == _signs(seen):
                    whole[place : place + len(seen)] = turn
        except StoreError as error:
            log.warning("reasoning of an unfinished turn is not found: %s", error.code)
        return tuple(whole)

    async def keep(self, messages: Sequence[Message], turn: Sequence[Message]) -> None:
        """Stores the turn that goes on with ``messages``, if calls of it wait and some of it is hidden."""
        answered = {one.call_id for one in turn if one.role is Role.TOOL}
        waiting = [one for one in turn if one.is_call and one.call_id not in answered]
        if not waiting or any(call.end is End.NONE for call in waiting) or len(shown(turn)) == len(turn):
            return
        begun = (*messages, *shown(turn))
        names = await self.off_loop(lambda: {0: _names(begun, len(messages), _context(messages), self.model)})
        try:
            stored = await self.turns.put(self.owner, names[0], [*as_history(turn)])
        except StoreError as error:
            log.warning("reasoning of an unfinished turn is not stored: %s", error.code)
            return
        if not stored and self.turns.limits.lifetime > 0:
            log.warning("an unfinished turn is not stored: it has more than %s bytes", self.turns.limits.bytes)


def shown(turn: Sequence[Message]) -> list[Message]:
    """What a transcript has of the turn where the server hides reasoning."""
    replies = (one for one in turn if one.role is Role.TOOL)
    refused = {one.call_id for one in replies if _is_refusal(one)}
    exchanged = (one for one in turn if one.is_call or one.role is Role.TOOL or visible_to_user(one))
    return [one for one in exchanged if one.call_id is None or one.call_id not in refused]


def _is_refusal(reply: Message) -> bool:
    failure = read_tool_reply(reply.text).error
    return failure is not None and failure.code == CALL_SCHEMA


def turn_places(messages: Sequence[Message], model: str) -> Places:
    """The places behind the last question or answer at which a turn with calls may begin, the latest `LONGEST`."""
    begin = next((i + 1 for i in reversed(range(len(messages))) if _is_over(messages[i])), 0)
    if not any(message.is_call for message in messages[begin:]):
        return {}
    places: Places = {}
    context = _context(messages[:begin])
    for i in range(begin, len(messages)):
        if messages[i].role is Role.ASSISTANT and (i == begin or messages[i - 1].role is Role.TOOL):
            places[i] = _names(messages, i, context, model)
        _note(context, messages[i])
    return {place: places[place] for place in list(places)[-LONGEST:]}


def _is_over(message: Message) -> bool:
    return message.role in (Role.USER, Role.SYSTEM, Role.DEVELOPER) or message.end is End.RETURN


def _names(messages: Sequence[Message], place: int, context: hashlib._Hash, model: str) -> tuple[str, ...]:
    """By the id of its first call, which no other conversation has; and by all that came before, for other ids."""
    call = next((messages[i] for i in range(place, len(messages)) if messages[i].is_call), None)
    if call is None:
        return ()
    by_context = _digest([model, context.hexdigest(), _sign(call)])
    return (_digest([model, _sign(call)]), by_context) if is_random(call.call_id or "") else (by_context,)


def _context(messages: Sequence[Message]) -> hashlib._Hash:
    context = hashlib.sha256(b"openchatml")
    for message in messages:
        _note(context, message)
    return context


def _note(context: hashlib._Hash, message: Message) -> None:
    context.update(json.dumps(_sign(message)).encode() + b"\n")


def _sign(message: Message) -> list[str | None]:
    """What makes a message the same: arguments count by their value, in whatever spelling."""
    text = canonical(message.text) if message.is_call else message.text.strip()
    return [message.role, message.recipient, message.name, message.call_id, text]


def _signs(messages: Sequence[Message]) -> list[list[str | None]]:
    return [_sign(message) for message in messages]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(["openchatml", value]).encode()).hexdigest()
