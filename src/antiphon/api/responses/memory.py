"""What a WebSocket connection remembers: its latest response that is stored nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from antiphon.errors import RequestError

from .archive import History
from .items import Entry

SOCKET = "antiphon.responses.socket"
"""The key of a `SocketTurn` in the scope of a request that came over a WebSocket."""


@dataclass(slots=True)
class Memory:
    """The latest response of ``store: false``, with all that it went on from; of ``most`` characters at most."""

    most: int
    _id: str = ""
    _history: History = field(default_factory=History)

    def history(self, id: str) -> History | None:
        """Everything up to the end of response ``id``; None where it is not the latest."""
        return self._history if self.has(id) else None

    def has(self, id: str | None) -> bool:
        return bool(id) and id == self._id

    def remember(self, id: str, entries: Sequence[Entry], thread: str) -> None:
        size = sum(len(message.text) for entry in entries for message in entry.messages)
        if size > self.most:
            self.forget()
        else:
            self._id, self._history = id, History(tuple(entries), thread)

    def forget(self) -> None:
        self._id, self._history = "", History()


class SocketTurn(msgspec.Struct, frozen=True):
    """How one request of a connection is answered. ``generate`` false: the prompt is read, and nothing is answered."""

    memory: Memory
    generate: bool = True


@contextmanager
def forgetting_failed(turn: SocketTurn | None, previous: str | None) -> Iterator[None]:
    """A request that cannot go on from the response that its connection remembers costs that response."""
    try:
        yield
    except RequestError:
        if turn is not None and turn.memory.has(previous):
            turn.memory.forget()
        raise
