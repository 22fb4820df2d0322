"""The frames of a text that changes: read again from the frame before a change until they are as they were."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from antiphon.conversation import End, Message, Role
from antiphon.errors import Position
from antiphon.errors.place import Place

from .body import has_tool_calls
from .declarations import AUTHORS, TITLE
from .finding import Finding
from .frame import Found, Frame
from .frame_reader import FrameReader


@dataclass(frozen=True, slots=True)
class Change:
    """A part that was read again: from the offset ``start`` to the place ``new``, which was ``old``.

    ``found`` is what is there, after the ``number`` items before it; ``replaced`` is what was there.
    """

    start: int
    old: Place
    new: Place
    number: int
    found: Sequence[Found]
    replaced: Sequence[Found]

    def moved(self, at: Position) -> Position:
        """A place behind what was read again, where it is now."""
        place = Place(at.offset or 0, at.line or 1, at.column or 1)
        self.move(place)
        return place.position()

    def behind(self, one: Found) -> Found:
        """A frame or a finding behind what was read again, where it is now; a frame is moved, not copied."""
        if isinstance(one, Finding):
            return replace(one, position=self.moved(one.position))
        if isinstance(one, Frame):
            self.move(one.places.start, one.places.body, one.places.footer, *([one.marker] if one.marker else ()))
        return one

    def move(self, *places: Place) -> None:
        old, new = self.old, self.new
        for place in places:
            if place.line == old.line:
                place.column += new.column - old.column
            place.line += new.line - old.line
            place.offset += new.offset - old.offset


class EditedFrames:
    """``found`` are the frames and findings of the text that was read last, ``end`` is the place of its end.

    ``change``: what the latest `read` read; None where that was all.
    """

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.end = Place()
        self.change: Change | None = None
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
        anew = header != self._header or before < begin.offset
        reader = FrameReader()
        reader.heads.declare(tuple(names))
        reader.place = begin.copy()
        frames = [] if anew else [i for i, one in enumerate(self.found) if isinstance(one, Frame)]
        ended = frames[:-1] if frames and self._frame(frames[-1]).message.end is End.NONE else frames
        kept = bisect_right(ended, before, key=lambda i: self._frame(i).behind.offset)
        later = ended[bisect_left(ended, behind, kept, key=lambda i: self._frame(i).places.footer.offset) :]
        if kept:
            reader.resume(self._frame(ended[kept - 1]))
        change = self._read_again(reader, ended[kept - 1] + 1 if kept else 0, later, len(text) - len(old))
        self.change = None if anew else change

    def _frame(self, number: int) -> Frame:
        frame = self.found[number]
        assert isinstance(frame, Frame)
        return frame

    def _read_again(self, reader: FrameReader, first: int, later: Sequence[int], grown: int) -> Change:
        """Replaces what was found from number ``first`` on, up to one of the frames ``later`` that ends where it did.

        ``grown``: how much longer the text is. Each step reads twice as many frames as the one before.
        """
        found: list[Found] = []
        start = at = reader.place.offset
        for step in range(len(later).bit_length()):
            number = later[2**step - 1]
            old = self._frame(number).behind
            end = old.offset + grown
            reader.feed(self._text[at:end])
            at, found = end, found + reader.take()
            last = found[-1] if found else None
            if isinstance(last, Frame) and last.behind.offset == end == reader.place.offset:
                change = Change(start, old, last.behind, first, found, self.found[first : number + 1])
                change.move(self.end)
                self.found = [*self.found[:first], *found, *map(change.behind, self.found[number + 1 :])]
                return change
        reader.feed(self._text[at:])
        reader.close()
        found += reader.take()
        change = Change(start, self.end, reader.place, first, found, self.found[first:])
        self.found, self.end = self.found[:first] + found, reader.place.copy()
        return change


@dataclass(frozen=True, slots=True)
class GivenFrames:
    """Some of a text's frames and findings, in place of an `EditedFrames` that has all of them."""

    found: Sequence[Found]
    end: Place

    def read(self, text: str, begin: Place, names: Sequence[str] = ()) -> None:
        """Reads nothing."""


# What is found in a frame depends on frames elsewhere, but on few of them, and in few ways.


def affecting(found: Sequence[Found], change: Change) -> list[Found] | None:
    """Returns what was read again with all of ``found`` that may matter to what is wrong with it.

    None: nobody can say, or it matters to what is wrong elsewhere.
    """
    fresh = [one for one in change.found if isinstance(one, Frame)]
    if list(_effects(fresh)) != list(_effects(one for one in change.replaced if isinstance(one, Frame))):
        return None
    ids = {frame.message.call_id for frame in fresh} - {None}
    numbered = tuple(f"{id}_" for id in ids)
    last: dict[tuple[Role, bool], int] = {}
    numbers = {*range(change.number, change.number + len(change.found)), *_turn(found[: change.number])}
    for i, one in enumerate(found):
        if not isinstance(one, Frame):
            numbers.add(i)
            continue
        if one.is_incomplete:
            return None
        last[one.message.role, one.head.is_legacy_reply] = i
        call_id = one.message.call_id or ""
        if call_id in ids or call_id.startswith(numbered) or _declared(one.message):
            numbers.add(i)
    return [found[i] for i in sorted({*numbers, *last.values()})]


def _effects(frames: Iterable[Frame]) -> Iterator[tuple[object, ...]]:
    """The facts of frames that others depend on: author, recipient, call id, declared tools, calls as JSON."""
    for frame in frames:
        message, head = frame.message, frame.head
        in_json, called = has_tool_calls(message.text), message.recipient if message.is_call else None
        if message.role is not Role.ASSISTANT or called or in_json or message.call_id:
            declared = _declared(message)
            yield message.role, message.call_id, called, in_json, declared, head.is_unknown, head.is_legacy_reply


def _declared(message: Message) -> str | None:
    return message.text if message.role in AUTHORS and TITLE in message.text else None


def _turn(before: Sequence[Found]) -> Iterator[int]:
    """The numbers of who spoke before the turn that is open, and of its calls: the last, or all beside JSON."""
    calls: list[int] = []
    in_json = False
    for i in range(len(before) - 1, -1, -1):
        one = before[i]
        if isinstance(one, Frame):
            if one.message.role not in (Role.ASSISTANT, Role.TOOL):
                yield i
                break
            marked = has_tool_calls(one.message.text)
            in_json = in_json or marked
            calls += [i] if one.message.is_call or marked else []
    yield from calls if in_json else calls[:1]


def _common(one: str, other: str) -> int:
    """The number of characters with which both texts begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
