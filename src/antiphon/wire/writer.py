"""How a wire writes the answer to one request: change by change as a stream, or whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from antiphon.errors import AntiphonError
from antiphon.generation import StepEvents
from antiphon.wire.json import encode

# The bytes of server-sent events.

DONE = b"data: [DONE]\n\n"
"""OpenAI's last event."""


def event(json: bytes) -> bytes:
    """One event without a name; ``json`` is one line."""
    return b"data: " + json + b"\n\n"


def events_in(written: bytes) -> list[bytes]:
    """The events that were written, one by one; their data have no empty line, for JSON has no line end in it."""
    return [one + b"\n\n" for one in written.split(b"\n\n") if one]


def with_id(number: int, event: bytes) -> bytes:
    """The event with its number as its id, which a browser that connects again sends as ``last-event-id``."""
    return b"id: %d\n%b" % (number, event)


def named_event(name: str, json: bytes) -> bytes:
    """One event under its name; ``json`` is one line."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json)


def event_bytes(event: msgspec.Struct) -> bytes:
    """One event under the name of its type."""
    return named_event(str(event.__struct_config__.tag), encode(event))


EVENT_STREAM = "text/event-stream; charset=utf-8"
KEEP_ALIVE = b": keep-alive\n\n"
JSON = "application/json"

Happened_contra = TypeVar("Happened_contra", contravariant=True)


class StreamForm(msgspec.Struct, frozen=True):
    """Form of a stream beside its changes: ``error`` writes the last bytes of one that broke.

    ``keep_alive``, or what it makes, is written while the model is silent; a client must be able to ignore it.
    """

    error: Callable[[AntiphonError], bytes]
    media_type: str = EVENT_STREAM
    keep_alive: bytes | Callable[[], bytes] = KEEP_ALIVE


class Writer(Protocol[Happened_contra]):
    """One answer in one wire's form. A stream is each `change` and then `end`; a whole answer each `add`, then `whole`.

    Both get the same steps of the same turn, so they cannot disagree. A writer is of the events that it takes:
    of a turn's, or of a turn's and its tools'.
    """

    @property
    def form(self) -> StreamForm: ...

    @property
    def media_type(self) -> str:
        """The media type of the whole answer."""

    def change(self, step: StepEvents[Happened_contra]) -> bytes:
        """Writes one step's changes for the client; empty where it sees nothing of it."""

    def end(self) -> bytes:
        """The last bytes, after the last step."""

    def add(self, step: StepEvents[Happened_contra]) -> None:
        """Collects one step."""

    def whole(self) -> bytes:
        """The answer that was collected."""
