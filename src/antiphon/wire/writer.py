"""How a wire writes the answer to one request: change by change as a stream, or whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from antiphon.conversation import Event
from antiphon.errors import AntiphonError
from antiphon.generation import StepEvents

EVENT_STREAM = "text/event-stream; charset=utf-8"
KEEP_ALIVE = b": keep-alive\n\n"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class StreamForm:
    """What a stream is beside its changes: ``error`` writes the last bytes of one that broke.

    ``keep_alive`` is written while the model is silent; a client must be able to ignore it.
    """

    error: Callable[[AntiphonError], bytes]
    media_type: str = EVENT_STREAM
    keep_alive: bytes = KEEP_ALIVE


class Writer(Protocol):
    """One answer in one wire's form. A stream is each `change` and then `end`; a whole answer each `add`, then `whole`.

    Both get the same steps of the same turn, so they cannot disagree.
    """

    @property
    def form(self) -> StreamForm: ...

    @property
    def media_type(self) -> str:
        """Of the whole answer."""

    def change(self, step: StepEvents[Event]) -> bytes:
        """What one step changes for the client; empty where it sees nothing of it."""

    def end(self) -> bytes:
        """The last bytes, after the last step."""

    def add(self, step: StepEvents[Event]) -> None:
        """Collects one step."""

    def whole(self) -> bytes:
        """The answer that was collected."""
