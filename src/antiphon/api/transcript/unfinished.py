"""The part of an unfinished turn that a transcript has: no reasoning where the server hides it, and no call
that a tool refused (HAR-70, OCM-80).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from antiphon.conversation import End, Message, Role, visible_to_user
from antiphon.formats.openchatml import read_tool_reply
from antiphon.generation.call_ids import is_random
from antiphon.generation.reply import canonical
from antiphon.tools.call import CALL_SCHEMA
from antiphon.wire.unfinished import LONGEST, Names, Turn, WireMemory


class TranscriptMemory(WireMemory[Message], frozen=True):
    """The unfinished turns of transcripts."""

    def names(self, messages: Sequence[Message]) -> Names:
        """The places behind the last question or answer at which a turn with calls may begin, the latest `LONGEST`."""
        begin = next((i + 1 for i in reversed(range(len(messages))) if _is_over(messages[i])), 0)
        if not any(message.is_call for message in messages[begin:]):
            return {}
        places: dict[int, tuple[str, ...]] = {}
        context = _context(messages[:begin])
        for i in range(begin, len(messages)):
            if messages[i].role is Role.ASSISTANT and (i == begin or messages[i - 1].role is Role.TOOL):
                places[i] = _names(messages, i, context, self.model)
            _note(context, messages[i])
        return {place: places[place] for place in list(places)[-LONGEST:]}

    def names_behind(self, messages: Sequence[Message], turn: Sequence[Message]) -> Names:
        seen = shown(turn)
        if len(seen) == len(turn):
            return {}
        return {len(messages): _names((*messages, *seen), len(messages), _context(messages), self.model)}

    def matching(self, messages: Sequence[Message], number: int, turn: Turn) -> Turn:
        seen = shown(turn)
        return turn if seen and _signs(messages[number : number + len(seen)]) == _signs(seen) else ()


def with_turns(messages: Sequence[Message], recalled: Mapping[int, Turn]) -> tuple[Message, ...]:
    """The messages, with all of each turn that was recalled in place of what is shown of it."""
    whole = list(messages)
    for place in sorted(recalled, reverse=True):
        whole[place : place + len(shown(recalled[place]))] = recalled[place]
    return tuple(whole)


def shown(turn: Sequence[Message]) -> list[Message]:
    """Returns the turn as a transcript has it where the server hides reasoning."""
    replies = (one for one in turn if one.role is Role.TOOL)
    refused = {one.call_id for one in replies if _is_refusal(one)}
    exchanged = (one for one in turn if one.is_call or one.role is Role.TOOL or visible_to_user(one))
    return [one for one in exchanged if one.call_id is None or one.call_id not in refused]


def _is_refusal(reply: Message) -> bool:
    failure = read_tool_reply(reply.text).error
    return failure is not None and failure.code == CALL_SCHEMA


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
    """Fields that identify a message: arguments count by their value, in whatever spelling."""
    text = canonical(message.text) if message.is_call else message.text.strip()
    return [message.role, message.recipient, message.name, message.call_id, text]


def _signs(messages: Sequence[Message]) -> list[list[str | None]]:
    return [_sign(message) for message in messages]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(["openchatml", value]).encode()).hexdigest()
