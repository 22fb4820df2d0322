"""The heads of a transcript, by their spelling: each is read once, and one in canonical form by a pattern."""

from __future__ import annotations

import re

from antiphon.conversation import Channel, Role
from antiphon.tokens import Piece

from .head import ATTRIBUTES, INTENTS, Head, ToolNames
from .head_reader import read_head
from .spelling import BY_SPELLING, CHANNEL, CONSTRAIN, PLAIN_VALUE, TOKEN

_VALUES = {"intent": "|".join(INTENTS)}
_CANONICAL = re.compile(
    f"(?P<role>{'|'.join(Role)})"
    + "".join(f"(?: {key}=(?P<{key}>{_VALUES.get(key, PLAIN_VALUE)}))?+" for key in ATTRIBUTES)
    + rf"(?:{re.escape(CHANNEL.spelling)}(?P<channel>{'|'.join(Channel)}))?+"
    + rf"(?:{re.escape(CONSTRAIN.spelling)}(?P<constrain>{PLAIN_VALUE}))?+"
)
_PLACES = [(key, len(key) + 1 if key in ATTRIBUTES else 0) for key in _CANONICAL.groupindex]
_ROLES = {role.value: role for role in Role}


class Heads:
    """Reads heads. They repeat, so they are kept; the memory is small and starts over when full."""

    def __init__(self) -> None:
        self._tools = ToolNames()
        self._read: dict[str | tuple[Piece, ...], Head] = {}

    def declare(self, tools: tuple[str, ...]) -> None:
        """Namespaces that the transcript's header names; they are known to the heads that follow."""
        self._tools = self._tools.declare(tools)
        self._read.clear()

    def spelled(self, text: str) -> Head:
        """The head that a text spells, its controls too."""
        return self._read.get(text) or self._keep(text, canonical_head(text, self._tools) or self._of(split(text)))

    def of(self, parts: tuple[Piece, ...]) -> Head:
        """The head that these pieces are."""
        return self._read.get(parts) or self._keep(parts, self._of(parts))

    def _of(self, parts: tuple[Piece, ...]) -> Head:
        return read_head(parts, self._tools)

    def _keep(self, key: str | tuple[Piece, ...], head: Head) -> Head:
        if len(self._read) >= 512:
            self._read.clear()
        self._read[key] = head
        return head


def canonical_head(text: str, tools: ToolNames) -> Head | None:
    """What `read_head` reads of a head that is in canonical form and has no problem; None for any other.

    Half of a transcript's heads carry a call id of their own, so no memory knows them.
    """
    found = _CANONICAL.fullmatch(text)
    if found is None:
        return None
    author, to, call_id, name, intent, content_type, channel, constrain = found.groups()
    role = _ROLES[author]
    if to is not None and to != "assistant" and not tools.knows(to):
        return None
    if role is Role.TOOL and (name is None or tools.qualify(name) != name):
        return None
    if content_type is not None and constrain is not None:
        return None
    places = {key: found.start(key) - lead for key, lead in _PLACES if found[key] is not None}
    return Head(
        role, author, name, to, channel, content_type if constrain is None else constrain, constrain is not None,
        call_id, intent, len(text), places=places, canonical=True,
    )  # fmt: skip


def split(text: str) -> tuple[Piece, ...]:
    """A spelled head as its pieces."""
    pieces: list[Piece] = []
    start = 0
    for found in TOKEN.finditer(text):
        pieces += ([text[start : found.start()]] if found.start() > start else []) + [BY_SPELLING[found.group()]]
        start = found.end()
    return (*pieces, *((text[start:],) if start < len(text) else ()))
