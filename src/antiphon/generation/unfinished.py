"""Turns that wait for the results of their calls, found again by what their client sends back of them.

A client is shown a part of what the model wrote: seldom its reasoning, or calls that the server answered, and never the
headers of calls. All of it is stored until the turn is over, and stands in the prompts of the next requests in place of
what the client sends, so that each goes on with the last one, id for id (HAR-70, HAR-91).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from antiphon.conversation import FUNCTIONS, PARAGRAPH, Channel, End, Message, Role, visible_to_user
from antiphon.errors import StoreError
from antiphon.store import UnfinishedTurns
from antiphon.tokens import well_formed
from antiphon.tools.call import CALL_SCHEMA, TOOL_UNKNOWN

from .call_ids import is_random
from .reply import as_history, canonical
from .request import TurnRequest

LONGEST = 256
"""Runs of messages with calls, the latest of an unfinished turn, whose own text is looked for."""
TOGETHER = 32
"""Turns that are looked for at once."""
PREFIX = f"{FUNCTIONS}."
Values = dict[str, str]
"""The arguments of a request's calls, and what they are in any spelling."""
Names = Mapping[tuple[int, int], tuple[str, ...]]
"""The begin and end of a run of the assistant's messages → names of its stored turn, surest first."""
OffLoop = Callable[[Callable[[], tuple[str, ...]]], Awaitable[tuple[str, ...]]]
"""Does work on the whole request, beside the event loop where it is long."""
log = logging.getLogger("antiphon.generation")


class TurnView(msgspec.Struct, frozen=True):
    """A turn as its client sees it, or sends it: arguments by their value, in whatever spelling.

    ``calls`` are the names and arguments of those that wait, ``ids`` theirs. ``exchanges`` are the calls that were
    answered within the turn, with their results.
    """

    texts: tuple[str, ...]
    thoughts: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    ids: tuple[str | None, ...]
    exchanges: tuple[tuple[str, str], ...]


class HasTurn(Protocol):
    """Rounds of turns and tools, or what runs them."""

    @property
    def turn(self) -> Sequence[Message]:
        """All messages of the turns that are over, and the results of tools between them."""


@dataclass(slots=True)
class TurnMemory:
    """The unfinished turns of one owner with one model, for one request. Without its store the request goes on.

    ``reveals``: the client may see reasoning; to another, no prompt shows its ids that has more than was sent.
    ``exact``: it sees calls that ran here, and changes of them are its own. ``recalled`` are the ids of calls whose
    turns were found.
    """

    turns: UnfinishedTurns
    owner: str
    model: str
    off_loop: OffLoop
    reveals: bool
    exact: bool = False
    recalled: set[str | None] = field(default_factory=set)
    _sent: Sequence[Message] = ()
    _names: Names = field(default_factory=dict)
    _values: Values = field(default_factory=dict)
    _context: tuple[hashlib._Hash, int] = field(default_factory=lambda: (hashlib.sha256(), 0))
    """A digest of the first messages, and how many those are."""
    _places: list[tuple[int, int, int]] = field(default_factory=list)
    """Each turn that was found: its begin, the number of its messages, and of those that they replace."""

    def read(self, request: TurnRequest) -> bool:
        """Takes the request as its client sent it; whether turns of it may be stored."""
        self._sent = request.conversation.messages
        self._context = hashlib.sha256(), 0
        shows = not self.reveals and any(request.of_ids)
        self._names = self._find_names() if self.turns.limits.lifetime > 0 and not shows else {}
        return bool(self._names)

    async def recall(self, request: TurnRequest) -> TurnRequest:
        """The request with all of each turn of which the client changed nothing. Results stay the client's."""
        try:
            turns: list[Sequence[Message]] = []
            for place in range(0, len(self._names), TOGETHER):  # what is looked for at once is read at once
                names = [*self._names.values()][place : place + TOGETHER]
                turns += await asyncio.gather(*(self.turns.find(self.owner, one) for one in names))
        except StoreError as error:
            log.warning("reasoning of an unfinished turn is not found: %s", error.code)
            return request
        messages: list[Message] = []
        self._places.clear()
        taken, seen = 0, set[tuple[tuple[str | None, str], ...]]()
        for (begin, end), stored in sorted(zip(self._names, turns, strict=True)):
            begin = self._first(begin, stored)
            same = tuple((one.call_id, one.text) for one in stored)
            turn = () if begin < taken or same in seen else self._as_sent(stored, self._sent[begin:end])
            if turn:
                seen.add(same)
                messages += self._sent[taken:begin]
                self._places.append((len(messages), len(turn), end - begin))
                messages, taken = [*messages, *turn], end
                self.recalled |= {message.call_id for message in turn}
        messages += self._sent[taken:]
        return replace(request, conversation=replace(request.conversation, messages=tuple(messages)))

    async def keep(self, turn: Sequence[Message]) -> None:
        """Stores the turn that answers the request, if calls of it wait for results of the client's.

        ``turn`` has calls that were answered here with their results.
        """
        view = _view(turn, self._values)
        if not view.calls or any(one.is_call and one.end is End.NONE for one in turn):
            return
        names = await self.off_loop(lambda: _names(view, self._context_of(len(self._sent)), self.model))
        try:
            stored = await self.turns.put(self.owner, names, [*as_history(turn)])
        except StoreError as error:
            log.warning("reasoning of an unfinished turn is not stored: %s", error.code)
            return
        if not stored and self.turns.limits.lifetime > 0:
            log.warning("an unfinished turn is not stored: it has more than %s bytes", self.turns.limits.bytes)

    def keeper(
        self, request: TurnRequest, rounds: HasTurn | None = None
    ) -> Callable[[Sequence[Message]], Awaitable[None]] | None:
        """`keep` of each choice's messages, or of the turn of ``rounds``; None where nothing may be called."""
        if request.calls is not None and not request.calls:
            return None

        async def keep(messages: Sequence[Message]) -> None:
            await self.keep(messages if rounds is None else rounds.turn)

        return keep

    def place_as_sent(self, number: int) -> int:
        """The number that the message ``number`` of the recalled request has among those that were sent."""
        for begin, length, replaced in reversed(self._places):
            if number >= begin + length:
                number -= length - replaced
            elif number >= begin:
                number = begin
        return number

    def _find_names(self) -> Names:
        """The names for each run with calls since the last answer, the latest `LONGEST`."""
        return {
            (begin, end): _names(_view(self._sent[begin:end], self._values), self._context_of(begin), self.model)
            for begin, end in _unfinished(self._sent)
        }

    def _context_of(self, place: int) -> hashlib._Hash:
        """The digest of the messages before ``place``, which is the same whether a client brings back reasoning or not.

        Calls of it come in the order of places.
        """
        known, done = self._context
        context = known.copy()  # several choices may be stored at once
        for message in self._sent[done:place]:
            if message.channel != Channel.ANALYSIS:
                context.update(_json([message.role, _sign(message, self._values)]))
        self._context = context, place
        return context

    def _as_sent(self, turn: Sequence[Message], sent: Sequence[Message]) -> Sequence[Message]:
        """The turn, its calls under the ids that the messages give them; nothing where their client did not see all.

        They need not say all of the turn: what they leave out of its calls is left out here too.
        """
        seen, view = _view(turn, self._values), _view(sent, self._values)
        ids = _ids_by_call(view, seen)
        if not (ids and _says(view.texts, seen.texts) and _says(view.thoughts, seen.thoughts)):
            return ()
        if self.exact and view.exchanges not in (seen.exchanges, _view(_without_refused(turn), self._values).exchanges):
            return ()
        left_out = set(seen.ids) - ids.keys()
        kept = (message for message in turn if message.call_id not in left_out)
        return tuple(replace(one, call_id=ids[one.call_id]) if one.call_id in ids else one for one in kept)

    def _first(self, begin: int, turn: Sequence[Message]) -> int:
        """The begin of a turn whose last run begins at ``begin``: before the results of calls that it ran here."""
        sent, ran = self._sent, {message.name for message in turn if message.role is Role.TOOL}
        while begin and sent[begin - 1].role is Role.TOOL and sent[begin - 1].name in ran:
            while begin and sent[begin - 1].role is Role.TOOL:
                begin -= 1
            while begin and sent[begin - 1].role is Role.ASSISTANT:
                begin -= 1
        return begin


def _unfinished(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """The begin and end of each run of the assistant's messages with calls since the last answer."""
    runs: list[tuple[int, int]] = []
    end = len(messages)
    while end and len(runs) < LONGEST:
        begin = end
        while begin and messages[begin - 1].role is Role.ASSISTANT:
            begin -= 1
        if begin == end:
            end -= 1
            continue
        if not any(message.is_call for message in messages[begin:end]):
            break
        runs.append((begin, end))
        end = begin
    return runs[::-1]


def _view(messages: Sequence[Message], values: Values) -> TurnView:
    answered = {message.call_id for message in messages if message.role is Role.TOOL}
    waiting = [message for message in messages if message.is_call and message.call_id not in answered]
    own = [message for message in messages if not message.is_call and message.role is Role.ASSISTANT]
    exchanges = [one for one in messages if one.role is Role.TOOL or (one.is_call and one.call_id in answered)]
    return TurnView(
        _texts(message for message in own if visible_to_user(message)),
        _texts(message for message in own if message.channel == Channel.ANALYSIS),
        tuple(_sign(message, values) for message in waiting),
        tuple(message.call_id for message in waiting),
        tuple(_sign(message, values) for message in exchanges),
    )


def _texts(messages: Iterable[Message]) -> tuple[str, ...]:
    return tuple(filter(None, (well_formed(message.text).strip() for message in messages)))


def _sign(message: Message, values: Values) -> tuple[str, str]:
    text = message.text
    if not message.is_call:
        return (message.name or message.role).removeprefix(PREFIX), text.strip()
    if text not in values:
        values[text] = canonical(text)
    return (message.recipient or message.role).removeprefix(PREFIX), values[text]


def _without_refused(turn: Sequence[Message]) -> list[Message]:
    """The turn without calls that no tool understood, which transcripts do not have (OCM-80)."""
    replies = (one for one in turn if one.role is Role.TOOL)
    refused = {one.call_id for one in replies if CALL_SCHEMA in one.text or TOOL_UNKNOWN in one.text}
    return [one for one in turn if one.call_id is None or one.call_id not in refused]


def _says(sent: Sequence[str], seen: Collection[str]) -> bool:
    """Whether nothing else is said, be it of several texts in one."""
    return set(sent) <= set(seen) or PARAGRAPH.join(sent) == PARAGRAPH.join(seen)


def _ids_by_call(sent: TurnView, seen: TurnView) -> dict[str | None, str | None]:
    """The ids of calls as the client sends them, by those under which they were made; nothing where it sends others."""
    calls, each = dict(zip(seen.ids, seen.calls, strict=True)), zip(sent.ids, sent.calls, strict=True)
    if len(set(sent.ids)) == len(sent.ids) and all(calls.get(id) == call for id, call in each):
        return {id: id for id in sent.ids}
    return dict(zip(seen.ids, sent.ids, strict=True)) if sent.calls == seen.calls else {}


def _names(view: TurnView, context: hashlib._Hash, model: str) -> tuple[str, ...]:
    """By each id that no other conversation has; and by all that came before, for ids that the client gave anew.

    A model's own ids (``functions.f:0``) are in other conversations too: its turns are found by what came before alone.
    """
    calls = [(id, call) for id, call in zip(view.ids, view.calls, strict=True) if id is not None and is_random(id)]
    by_context = _digest([model, context.hexdigest(), view.calls])
    return (*(_digest([model, id, call]) for id, call in calls), by_context)


def _digest(value: object) -> str:
    return hashlib.sha256(_json(value)).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
