"""What a word of a header means when it names a tool that was offered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from antiphon.conversation import Channel, Role

CHANNELS = tuple(channel.value for channel in Channel)
ROLES = tuple(role.value for role in Role)
CONTENT_TYPES = frozenset({"json", "code", "text", "markdown"})

_WORDS = frozenset({*CHANNELS, *ROLES, *CONTENT_TYPES})


def offered_names(recipients: Collection[str]) -> Mapping[str, str]:
    """Name → recipient: each recipient by itself, and by its last part alone (``bash`` for ``functions.bash``).

    A last part that two recipients share, or that is a word of headers, names none.
    """
    bare = {recipient: recipient.rpartition(".")[2] for recipient in recipients}
    shared = Counter(bare.values())
    alone = {name: recipient for recipient, name in bare.items() if shared[name] == 1 and name not in _WORDS}
    return {**alone, **{recipient: recipient for recipient in recipients}}
