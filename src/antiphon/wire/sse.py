"""The bytes of server-sent events."""

DONE = b"data: [DONE]\n\n"
"""OpenAI's last event."""


def event(json: bytes) -> bytes:
    """One event without a name; ``json`` is one line."""
    return b"data: " + json + b"\n\n"
