"""The table ``[sessions]``: what is stored between requests."""

from __future__ import annotations

from typing import Literal

import msgspec

from .units import Count, LeaseSeconds, Seconds, SecondsOrNone


class SessionsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``store`` is a file for sessions, responses, conversations and chat completions, or "memory", which a restart
    empties, or ``NAME:…`` for a store of another package.

    ``lifetime`` is what a session has after its last turn, in seconds. Of several servers over one store, one at a time
    works on a session, a conversation or a batch; when nothing was heard of it for ``lease`` seconds, another may.

    What the model wrote in a turn of chat completions that waits for the results of its calls, hidden reasoning
    included, is stored for ``turn_lifetime`` seconds (0: not at all): at most ``turn_bytes`` of one turn, and by each
    server the latest ``turns_per_key`` of each key.
    Events of answers are stored before they are sent, so that another server can send them again and go on with the
    answer where this one dies: those of all streamed responses, of chats whose clients request it, and of responses in
    the background (``events`` is "streams"), of the latter alone ("background"), or of none; not in memory. They are
    stored for ``event_lifetime`` seconds after the last.
    """

    store: str = ""
    lifetime: float = 7 * 24 * 3600.0
    lease: LeaseSeconds = 15.0
    events: Literal["streams", "background", "none"] = "streams"
    event_lifetime: Seconds = 3600.0
    turn_lifetime: SecondsOrNone = 3600.0
    turn_bytes: Count = 256 * 2**10
    turns_per_key: Count = 1000
