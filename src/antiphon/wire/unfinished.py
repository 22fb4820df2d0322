"""Turns that wait for the results of their calls, found again by what their client sends back of them.

A client is shown a part of what the model wrote. All of it is stored until the turn is over, and stands in the prompts
of its next requests in place of what the client sends, so that each goes on with the last one, id for id (HAR-70).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from antiphon.conversation import End, Message, Role
from antiphon.errors import StoreError
from antiphon.generation.reply import as_history
from antiphon.store import UnfinishedTurns

LONGEST = 256
"""Messages with calls, the latest of an unfinished turn, whose own text is looked for."""
Item = TypeVar("Item")
Turn = tuple[Message, ...]
Names = Mapping[int, tuple[str, ...]]
"""The number of a message at which a turn may begin → the names under which it may be stored, the surest first."""
OffLoop = Callable[[Callable[[], Names]], Awaitable[Names]]
"""Does work on the whole request, beside the event loop where it is long."""
log = logging.getLogger("antiphon.wire")


class WireMemory(msgspec.Struct, Generic[Item], frozen=True):
    """The unfinished turns of one owner with one model. Without its store a request goes on, and the log says so.

    A wire says what its clients see of a turn. `names`: those of the turns that may be among the messages.
    `names_behind`: those of the turn behind them, none where its client sees all of it. `matching`: the turn as it
    stands at a message, empty where that is another.
    """

    turns: UnfinishedTurns
    owner: str
    model: str
    off_loop: OffLoop

    def names(self, messages: Sequence[Item]) -> Names:
        raise NotImplementedError

    def names_behind(self, messages: Sequence[Item], turn: Sequence[Message]) -> Names:
        raise NotImplementedError

    def matching(self, messages: Sequence[Item], number: int, turn: Turn) -> Turn:
        raise NotImplementedError

    async def recall(self, messages: Sequence[Item]) -> dict[int, Turn]:
        """All of each turn of which the client changed nothing, by the number of the first message that has of it."""
        if self.turns.limits.lifetime <= 0:
            return {}
        names = await self.off_loop(lambda: self.names(messages))
        try:
            found = {i: await self.turns.find(self.owner, under) for i, under in names.items()}
        except StoreError as error:
            log.warning("reasoning of an unfinished turn is not found: %s", error.code)
            return {}
        turns = {i: turn for i, whole in found.items() if (turn := self.matching(messages, i, whole))}
        first = {found[i]: i for i in sorted(turns, reverse=True)}
        return {i: turns[i] for i in first.values()}

    async def keep(self, messages: Sequence[Item], turn: Sequence[Message]) -> None:
        """Stores the turn that answers ``messages``, if calls of it wait for results of the client's.

        ``turn`` has calls that were answered here with their results.
        """
        calls = waiting_calls(turn)
        if not calls or any(call.end is End.NONE for call in calls):
            return
        names = await self.off_loop(lambda: self.names_behind(messages, turn))
        for under in names.values():
            try:
                stored = await self.turns.put(self.owner, under, [*as_history(turn)])
            except StoreError as error:
                log.warning("reasoning of an unfinished turn is not stored: %s", error.code)
                return
            if not stored and self.turns.limits.lifetime > 0:
                log.warning("an unfinished turn is not stored: it has more than %s bytes", self.turns.limits.bytes)


def waiting_calls(turn: Sequence[Message]) -> list[Message]:
    """The calls that nobody answered yet: those of the client's."""
    answered = {one.call_id for one in turn if one.role is Role.TOOL}
    return [one for one in turn if one.is_call and one.call_id not in answered]
