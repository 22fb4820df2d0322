"""The kind of store that an address is of."""

from __future__ import annotations

import re

MEMORY = "memory"
"""The address of the store that is no file."""

# At least two letters, so that C:\sessions.db is a path.
_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def store_name(address: str) -> str | None:
    """The ``NAME`` of an address ``NAME:…``, in lower case; None for ``memory`` and for a path."""
    named = _NAMED.match(address)
    return named[1].lower() if named else None
