"""What a user interface shows (§4, §11), and the reflection markers for people who debug (§7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from antiphon.conversation import DebugCapability, Message, Role, require_visible, visible_to_user

from .markers import MARKER, without_markers


def shown(messages: Iterable[Message], *, debug: DebugCapability | None = None) -> list[Message]:
    """The messages as an end user sees them; all of them, as they are, for a holder of the debug capability."""
    if debug is not None:
        return list(messages)
    return [_without_markers(message) for message in messages if visible_to_user(message)]


def show(message: Message, *, debug: DebugCapability | None = None) -> str:
    """The text of one message, for an end user. Raises `VisibilityError` (E-PERM-VISIBILITY) when it is hidden."""
    visible = require_visible(message, debug=debug)
    return visible.text if debug is not None else _without_markers(visible).text


def _without_markers(message: Message) -> Message:
    """§7: an answer's reflection markers are not shown."""
    text = without_markers(message.text) if message.role is Role.ASSISTANT else message.text
    return message if text == message.text else replace(message, text=text)


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
    for marker in MARKER.finditer(text):
        found.append(Reflection(kind, text[start : marker.start()]))
        kind = marker.group(1) if marker.group().startswith("<|start_") else None
        start = marker.end()
    found.append(Reflection(kind, text[start:]))
    return [stretch for stretch in found if stretch.text]
