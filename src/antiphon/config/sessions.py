"""The table ``[sessions]``: what is stored between requests."""

from __future__ import annotations

import msgspec


class SessionsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``store`` is a file for sessions, responses, conversations and chat completions, or "memory", which a restart
    empties, or ``NAME:…`` for a store of another package.

    ``lifetime`` is what a session has after its last turn, in seconds.
    """

    store: str = ""
    lifetime: float = 7 * 24 * 3600.0
