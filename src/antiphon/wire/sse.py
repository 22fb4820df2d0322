"""The bytes of server-sent events."""

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
