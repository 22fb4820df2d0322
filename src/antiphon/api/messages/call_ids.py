"""Ids of calls as Messages has them: ``toolu_…``, unique over all conversations, from which our own come back.

An id that we gave a call is random already, and changes its prefix alone. A model's own id (``functions.f:0``) is in
other conversations too: it is written behind a random part, in letters that every client takes.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets

from antiphon.generation.call_ids import is_random

OWN, ANTHROPIC, SERVER = "call_", "toolu_", "srv"
_WRAPPED = re.compile(r"toolu_[0-9a-f]{16}_([A-Za-z0-9_-]+)")
_RANDOM_BYTES = 8


def to_client(call_id: str) -> str:
    """The id under which the client sees the call."""
    if is_random(call_id):
        return ANTHROPIC + call_id.removeprefix(OWN)
    own = base64.urlsafe_b64encode(call_id.encode("utf-8", "replace")).decode().rstrip("=")
    return f"{ANTHROPIC}{secrets.token_hex(_RANDOM_BYTES)}_{own}"


def from_client(id: str) -> str:
    """The call's own id again; an id of another server's stays as it is."""
    id = id.removeprefix(SERVER) if id.startswith(SERVER + ANTHROPIC) else id
    random = OWN + id.removeprefix(ANTHROPIC)
    if id.startswith(ANTHROPIC) and is_random(random):
        return random
    wrapped = _WRAPPED.fullmatch(id)
    if wrapped is None:
        return id
    try:
        own = wrapped[1]
        return base64.b64decode(own + "=" * (-len(own) % 4), altchars=b"-_", validate=True).decode() or id
    except (binascii.Error, UnicodeDecodeError):
        return id


def to_server_client(call_id: str) -> str:
    """The id of a call that runs here."""
    return SERVER + to_client(call_id)
