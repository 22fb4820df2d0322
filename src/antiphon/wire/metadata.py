"""The pairs that clients store with what they make."""

from __future__ import annotations

from .errors import refused

MAX_METADATA, MAX_KEY, MAX_VALUE = 16, 64, 512


def check_metadata(metadata: dict[str, str] | None) -> None:
    """At most 16 pairs; keys of 64 characters, values of 512."""
    if metadata is None:
        return
    if len(metadata) > MAX_METADATA:
        raise refused("metadata", f"there are {len(metadata)} pairs; at most {MAX_METADATA} are stored.")
    for key, value in metadata.items():
        if len(key) > MAX_KEY or len(value) > MAX_VALUE:
            raise refused("metadata", f"a key has at most {MAX_KEY} characters and a value at most {MAX_VALUE}.")
