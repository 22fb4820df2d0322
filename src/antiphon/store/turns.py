"""Turns that wait for the results of their calls: all that the model wrote in them, for clients who see less of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from antiphon.conversation import Message
from antiphon.errors import StoreError

from .clock import ConfirmedClock, steady_time
from .codec import pack, unpack
from .retry import unless_changed
from .store import Delete, Key, Record, Store, Write, total

KIND = "turn"
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[list[bytes] | str] = msgspec.msgpack.Decoder(list[bytes] | str)
"""The messages of a turn, or the name under which they are."""


class TurnLimits(msgspec.Struct, frozen=True):
    """A turn expires ``lifetime`` seconds after it was stored, or last found by then; 0: none is stored.

    ``bytes`` is the largest size of one turn, and ``count`` how many of one owner each server stores, the latest: so
    many servers that share a store, so many times ``count`` there are.
    """

    lifetime: float = 3600.0
    bytes: int = 256 << 10
    count: int = 1000


_Names = tuple[str, ...]


@dataclass(slots=True)
class UnfinishedTurns:
    """Turns by their owner and a name; what is a name is for the wire to say.

    ``clock`` gives Unix time in seconds, ``steady`` seconds that nobody can set: see `ConfirmedClock`.
    """

    store: Store
    clock: Callable[[], float]
    limits: TurnLimits = field(default_factory=TurnLimits)
    steady: Callable[[], float] = steady_time
    _stored: dict[str, deque[tuple[float, _Names]]] = field(default_factory=dict)
    """By owner, what this process stored: when each turn expires, and its names, the oldest first."""
    _confirmed: ConfirmedClock = field(init=False)

    def __post_init__(self) -> None:
        self._confirmed = ConfirmedClock(self.clock, self.steady)

    async def put(self, owner: str, names: Sequence[str], messages: Sequence[Message]) -> bool:
        """Store a turn under each of the names, the first of which no other has; False where it is too large or off.

        Once this returned, every server that shares the store finds it. Raises `StoreError`.
        """
        packed = [pack(message) for message in messages]
        if self.limits.lifetime <= 0 or total(packed) > self.limits.bytes:
            return False
        now = self.clock()
        values = {names[0]: _ENCODER.encode(packed)} | dict.fromkeys(names[1:], _ENCODER.encode(names[0]))
        expires = now + self.limits.lifetime
        writes = [Write(Key(KIND, owner, name), Record(value, now, expires)) for name, value in values.items()]
        await self.store.put_all(*self._room(owner, now), *writes)
        self._stored.setdefault(owner, deque()).append((expires, tuple(names)))
        return True

    async def find(self, owner: str, names: Sequence[str]) -> tuple[Message, ...]:
        """The turn under the first of the names that has one; nothing where none has. Raises `StoreError`."""
        for name in names:
            found = await self._value(owner, name)
            if isinstance(found, str):
                found = await self._value(owner, found)
            if isinstance(found, list):
                return tuple(map(unpack, found))
        return ()

    async def _value(self, owner: str, name: str) -> list[bytes] | str | None:
        key = Key(KIND, owner, name)
        record = await self.store.get(key)
        if record is None or self._confirmed.expired(record.expires, self.limits.lifetime):
            return None
        await self._prolong(key, record)
        try:
            return _DECODER.decode(record.value)
        except msgspec.DecodeError as error:
            raise StoreError("A stored turn cannot be read.", code="store_corrupt") from error

    async def _prolong(self, key: Key, record: Record) -> None:
        """What is gone on with is needed until the turn is over, however many calls it has."""
        now = self.clock()
        if record.expires is not None and record.expires - now < self.limits.lifetime / 2:
            longer = Record(record.value, record.created, now + self.limits.lifetime)
            await unless_changed(self.store.put(key, longer, expected=record.version))

    def _room(self, owner: str, now: float) -> Iterator[Delete]:
        """What must go for one more turn of this owner. A further name stays where a later turn has it."""
        stored = self._stored.get(owner, deque())
        while stored and stored[0][0] <= now:  # The sweep deletes these, unless they were prolonged.
            stored.popleft()
        while len(stored) >= max(1, self.limits.count):
            first, *others = stored.popleft()[1]
            yield from (Delete(Key(KIND, owner, name), _ENCODER.encode(first)) for name in others)
            yield Delete(Key(KIND, owner, first))
