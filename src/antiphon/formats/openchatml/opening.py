"""Where a transcript's header ends and its frames begin (A-O28)."""

from __future__ import annotations

import re

from .document import MAX_HEADER

_FENCE = re.compile(r"[ \t\r\n]*---[ \t]*\r?\n")
_CLOSE = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?(\n|\Z)", re.MULTILINE)
_FRAME = re.compile(r"^<\|start\|>", re.MULTILINE)
_FRAME_FIRST = re.compile(r"[ \t\r\n]*<\|start\|>")


class Opening:
    """Collects a transcript's first characters until it is known where its frames begin.

    That is behind a closing fence, or at the first line that begins with ``<|start|>`` (the header may name the
    controls elsewhere in a line). ``end`` is where the frames begin, ``yaml`` where the header's text ends.
    """

    def __init__(self) -> None:
        self.text = ""
        self.bom = ""
        self.end: int | None = None
        self.yaml = 0
        self.too_long = False
        self._searched = 0

    def feed(self, text: str, *, last: bool = False) -> bool:
        """Whether the frames are reached; more text is needed when not."""
        if not self.text and not self.bom and text.startswith("\ufeff"):
            self.bom, text = "\ufeff", text[1:]
        self.text += text
        self._search(last)
        self._searched = self.text.rfind("\n") + 1
        if self.end is None and last:
            self.end = self.yaml = len(self.text)
        self.too_long = (len(self.text) if self.end is None else self.end) > MAX_HEADER
        return self.end is not None or self.too_long

    def _search(self, last: bool) -> None:
        frame = _FRAME_FIRST.match(self.text) or _FRAME.search(self.text, self._searched)
        if frame:
            self.end = self.yaml = frame.end() - len("<|start|>")
        fence = _FENCE.match(self.text)
        if fence is None:
            return
        limit = len(self.text) if self.end is None else self.end
        close = _CLOSE.search(self.text, max(fence.end(), self._searched), limit)
        if close and (close.group(1) or last):
            self.end, self.yaml = close.end(), close.start()


def frames_behind(text: str) -> int:
    """Where the frames begin in a text whose header was given up; -1 when it has none."""
    at = text.find("\n<|start|>")
    return at + 1 if at >= 0 else -1
