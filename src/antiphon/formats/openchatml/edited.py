"""The frames of a text that changes: read again from the frame before a change until they are as they were."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from antiphon.conversation import End
from antiphon.errors.place import Place

from .finding import Finding
from .frame import Found, Frame
from .frame_reader import FrameReader


class EditedFrames:
    """``found`` are the frames and findings of the text that was read last, ``end`` is the place of its end."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.end = Place()
        self._text = ""
        self._header: tuple[int, tuple[str, ...]] | None = None

    def read(self, text: str, begin: Place, names: Sequence[str] = ()) -> None:
        """Reads a transcript's frames from ``begin`` on; its header declares the namespaces ``names``.

        Gives what one `FrameReader` gives of all of it. Frames behind a change are moved, not read.
        """
        old, self._text = self._text, text
        header, self._header = self._header, (begin.offset, tuple(names))
        before = _common(old, text)
        behind = len(old) - _common(old[before:][::-1], text[before:][::-1])
        if header != self._header or before < begin.offset:
            self.found = []
        reader = FrameReader()
        reader.heads.declare(tuple(names))
        reader.place = begin.copy()
        frames = [(i, one) for i, one in enumerate(self.found) if isinstance(one, Frame)]
        if frames and frames[-1][1].message.end is End.NONE:
            frames.pop()
        kept = bisect_right(frames, before, key=lambda numbered: numbered[1].behind.offset)
        later = bisect_left(frames, behind, kept, key=lambda numbered: numbered[1].places.footer.offset)
        found: list[Found] = []
        if kept:
            reader.resume(frames[kept - 1][1])
            found = self.found[: frames[kept - 1][0] + 1]
        self._splice(reader, found, frames[later:], len(text) - len(old))

    def _splice(self, reader: FrameReader, found: list[Found], later: Sequence[tuple[int, Frame]], grown: int) -> None:
        """Reads on behind what was ``found`` until one of the frames ``later`` ends where it did.

        ``grown``: how much longer the text is. Each step reads twice as many frames as the one before.
        """
        at = reader.place.offset
        for step in range(len(later).bit_length()):
            number, frame = later[2**step - 1]
            old = frame.behind
            end = old.offset + grown
            reader.feed(self._text[at:end])
            at, found = end, found + reader.take()
            last = found[-1] if found else None
            if isinstance(last, Frame) and last.behind.offset == end == reader.place.offset:
                self.found = found + [_moved(one, old, last.behind) for one in self.found[number + 1 :]]
                _move((self.end,), old, last.behind)
                return
        reader.feed(self._text[at:])
        reader.close()
        self.found, self.end = found + reader.take(), reader.place


def _common(one: str, other: str) -> int:
    """The number of characters with which both texts begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _moved(one: Found, old: Place, new: Place) -> Found:
    """The same in a text in which ``old`` has become ``new``."""
    if isinstance(one, Frame):
        places = one.places
        _move((places.start, places.body, places.footer), old, new)
        if one.marker is not None:
            _move((one.marker,), old, new)
    elif isinstance(one, Finding):
        at = one.position
        place = Place(at.offset or 0, at.line or 1, at.column or 1)
        _move((place,), old, new)
        return replace(one, position=place.position())
    return one


def _move(places: Iterable[Place], old: Place, new: Place) -> None:
    offset, line, column = new.offset - old.offset, new.line - old.line, new.column - old.column
    for place in places:
        if place.line == old.line:
            place.column += column
        place.offset += offset
        place.line += line
