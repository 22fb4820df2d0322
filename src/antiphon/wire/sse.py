"""The bytes of server-sent events."""

DONE = b"data: [DONE]\n\n"
"""OpenAI's last event."""


def event(json: bytes) -> bytes:
    """One event without a name; ``json`` is one line."""
    return b"data: " + json + b"\n\n"


def named_event(name: str, json: bytes) -> bytes:
    """One event under its name; ``json`` is one line."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json)
