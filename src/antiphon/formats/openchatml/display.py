"""What a user interface shows (§4, §11), and the reflection markers for people who debug (§7)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from antiphon.conversation import DebugCapability, Message, require_visible, visible_to_user

_MARKER = re.compile(r"<\|(?:start|end)_(reflect|introspect|reason)\|>")


def shown(messages: Iterable[Message], *, debug: DebugCapability | None = None) -> list[Message]:
    """The messages that an end user sees; all of them for a holder of the debug capability."""
    return [message for message in messages if debug is not None or visible_to_user(message)]


def show(message: Message, *, debug: DebugCapability | None = None) -> str:
    """The text of one message, for an end user. Raises `VisibilityError` (E-PERM-VISIBILITY) when it is hidden."""
    return require_visible(message, debug=debug).text


@dataclass(frozen=True, slots=True)
class Reflection:
    """A stretch of reasoning; ``kind`` is reflect, introspect, reason, or None for what no marker names."""

    kind: str | None
    text: str


def reflections(text: str) -> list[Reflection]:
    """Reasoning split at its markers (A-O35). They are text, and make nothing happen (§7).

    The end markers of version 0.1 are understood too. Together the stretches are the text without its markers.
    """
    found: list[Reflection] = []
    kind: str | None = None
    start = 0
    for marker in _MARKER.finditer(text):
        found.append(Reflection(kind, text[start : marker.start()]))
        kind = marker.group(1) if marker.group().startswith("<|start_") else None
        start = marker.end()
    found.append(Reflection(kind, text[start:]))
    return [stretch for stretch in found if stretch.text]
