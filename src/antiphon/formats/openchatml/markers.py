"""The reflection markers of §7: words of reasoning, which is on analysis and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from antiphon.conversation import DebugCapability, Message, Role, require_visible, visible_to_user
from antiphon.errors.place import Place

MARKER = re.compile(r"<\|(?:start|end)_(reflect|introspect|reason)\|>")
"""The markers of version 2.2, and the ends that version 0.1 had (A-O35)."""
_WORDS = [f"<|{edge}_{kind}|>" for edge in ("start", "end") for kind in ("reflect", "introspect", "reason")]
_LONGEST = max(map(len, _WORDS))


def without_markers(text: str) -> str:
    return MARKER.sub("", text) if "<|" in text else text


class MarkerFilter:
    """Text without its markers while it comes; what may become a marker waits for the next text, or for `close`."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = ""

    def feed(self, text: str) -> str:
        if "<" not in text and not self._tail:
            return text
        text = without_markers(self._tail + text)
        begun = text.rfind("<", -_LONGEST)
        cut = begun if begun >= 0 and any(word.startswith(text[begun:]) for word in _WORDS) else len(text)
        self._tail = text[cut:]
        return text[:cut]

    def close(self) -> str:
        tail, self._tail = self._tail, ""
        return tail


def first_marker(text: str, at: Place) -> Place | None:
    """The place of the first marker in a text that begins at ``at``."""
    found = MARKER.search(text) if "<" in text else None
    return at.after(text[: found.start()]) if found else None


class MarkerScanner:
    """Finds the first marker of a body that comes cut anywhere; ``found`` is its place."""

    __slots__ = ("_at", "_tail", "found")

    def __init__(self) -> None:
        self.found: Place | None = None
        self._tail = ""
        self._at: Place | None = None

    def feed(self, text: str, at: Place) -> None:
        """Text of the body that begins at ``at`` and follows what came before it at once."""
        if self.found is not None or ("<" not in text and not self._tail):
            return
        whole, begin = self._tail + text, self._at or at
        marker = MARKER.search(whole)
        if marker:
            self.found = begin.after(whole[: marker.start()])
            return
        cut = max(whole.rfind("<", -_LONGEST), -1)
        self._tail = whole[cut:] if cut >= 0 else ""
        self._at = begin.after(whole[:cut]) if cut >= 0 else None

    def interrupt(self) -> None:
        """Something else stands here: what comes next does not continue what came before."""
        self._tail, self._at = "", None


# What a user interface shows (§4, §11), and the reflection markers for people who debug (§7).


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
