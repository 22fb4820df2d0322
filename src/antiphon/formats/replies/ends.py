"""Ends of a text of the model's own, between marks or in quotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum, auto

from .source import Marks, Put, Reading, Source, after_blanks


class Step(Enum):
    """The meaning of a mark inside a text."""

    TEXT = auto()
    OPEN = auto()
    """A call like that round the text begins."""
    CLOSE = auto()
    """The call ends, and none of a reply's marks follows."""
    NEXT = auto()
    """The next part of the reply begins, or the call ends and one follows."""


class Structure:
    """The marks round the values of a form of calls; tells whether a mark within a text is one of them.

    A key is behind the mark ``key`` and before one of ``assigns``, which are patterns; a call begins with the words
    ``opens`` and its ``head`` (what each slot reads, and the words behind it), and ends with the words ``closes``.
    ``follows`` are the marks that may stand behind it; ``ends`` end the reply.
    """

    def __init__(
        self,
        *,
        key: str,
        assigns: Iterable[str],
        opens: Sequence[str],
        head: Iterable[tuple[str, Sequence[str]]],
        closes: Sequence[str],
        follows: Collection[str],
        ends: Iterable[str],
    ) -> None:
        self._key, self._opens, self.closes, self.ends = key, opens[0], tuple(closes), frozenset(ends)
        self.literals = frozenset(filter(None, (*self.ends, key, opens[0], *closes)))
        """Marks that may be more than text."""
        self.behind = Marks((*self.literals, *follows))
        """Marks that may stand behind a value."""
        named = f"({_KEY_NAME})(?:{'|'.join(assigns)})"
        self._named = re.compile(named)
        inside = "|".join((re.escape(key) + named, *map(re.escape, closes[:1])))
        slots = [part for reads, words in head for part in (_SLOTS.get(reads, _KEY_NAME), *map(re.escape, words))]
        self._opening = re.compile(r"\s*".join((*map(re.escape, opens[1:]), *slots, f"(?:{inside})")))

    def step(self, mark: str, text: str, at: int, expects: Callable[[str], bool], *, last: bool) -> Step | None:
        """The meaning of a mark by the text behind ``at``; None where more tells. ``expects``: a key may be next."""
        if mark in self.ends:
            return Step.NEXT
        if mark in self.closes:
            return self._closed(self.closes.index(mark) + 1, text, at, last=last)
        pattern = self._named if mark == self._key else self._opening
        found = pattern.match(text, after_blanks(text, at))
        if found is None:
            return Step.TEXT if last or len(text) - at > _MOST_OPENING else None
        if pattern is self._opening:
            return Step.OPEN
        return Step.NEXT if expects(found.group(1)) else Step.TEXT

    def _closed(self, word: int, text: str, at: int, *, last: bool) -> Step | None:
        """Another call or the reply's end tells that it closed; more of its close, or of the calls', may be first."""
        while (start := after_blanks(text, at)) < len(text):
            end = self.behind.at(text, start, last=last)
            if end is None:
                return None
            mark, at = text[start:end], end
            if mark in self.ends:
                return Step.NEXT
            if mark == self._opens:
                opened = self.step(mark, text, at, no_key, last=last)
                return Step.NEXT if opened is Step.OPEN else opened and Step.CLOSE
            if not mark or mark == self._key or mark in self.closes[:word]:
                return Step.CLOSE
        return Step.NEXT if last else None


def no_key(key: str) -> bool:
    """Tells that no key is behind a mark."""
    return False


_SLOTS = {"name": r"[A-Za-z_][\w.:/-]{0,127}?"}
_KEY_NAME = "[^\\s<>\"'=]{1,128}?"
_MOST_OPENING = 400
"""Characters in which a key, or a call's opening, is whole."""


class TextEnds:
    """The end of such a text: the last of its ``closes`` before the next part of the reply.

    A close counts at once where that part is right behind it: one of the structure's marks, or ``behind``, a pattern as
    `Source.begins` takes it. ``layout``: blanks that may be before such a mark. ``rest``: the words of the close behind
    its first. ``escapes``: a backslash takes a sign's meaning.
    """

    def __init__(
        self,
        closes: Collection[str],
        structure: Structure,
        *,
        layout: Iterable[str] = ("",),
        rest: Sequence[str] = (),
        behind: re.Pattern[str] | None = None,
        escapes: bool = False,
    ) -> None:
        others = [blanks + mark for mark in structure.literals for blanks in layout]
        self.marks = Marks((*closes, *others, *("\\" * escapes)))
        self.closes = frozenset(closes)
        self.structure = structure
        self._rest = rest
        self._behind = behind

    def counts(self, text: str, at: int, *, last: bool) -> bool | None:
        """Whether a close up to ``at`` ends the text at once; None where more of the text tells."""
        if self._behind is not None:
            found = self._behind.match(text, at)
            return False if found is None else found.lastgroup is not None or last or None
        for word in self._rest:
            at = after_blanks(text, at)
            if not text.startswith(word, at):
                return None if not last and word.startswith(text[at : at + len(word)]) else False
            at += len(word)
        at = after_blanks(text, at)
        if at == len(text):
            return last or None
        end = self.structure.behind.at(text, at, last=last)
        return end if end is None else end > at


_Span = tuple[int, int]


class Enclosed:
    """Reads one such text into ``put``. ``expects``: whether a key may be the call's next one."""

    def __init__(self, source: Source, ends: TextEnds, put: Put, expects: Callable[[str], bool]) -> None:
        self._source, self._ends, self._put, self._expects = source, ends, put, expects
        self._over = False
        """The reply ends."""
        self._depth = 0
        """How many calls the text has open, which are an example if they close before the text does."""
        self._end: _Span | None = None
        """The close, or the place before the next part. Spans count from the text's beginning."""
        self._pending: _Span | None = None
        """The same, if no more comes."""
        self._within: _Span | None = None
        self._opened: _Span | None = None
        self._last: _Span | None = None
        self._first: _Span | None = None
        """In default of an end: the first close within an open call, where that began, the last close, the call's."""

    def read(self) -> Reading[bool | None]:
        """Whether its own close ended it; None where the reply did."""
        source, marks, at = self._source, self._ends.marks, 0
        mark = yield from source.until(marks, self._put)
        if not mark:
            return None
        source.put_back(mark)
        while self._end is None:
            start, end = marks.find(source.text, source.at + at, last=source.last and not source.cut)
            self._pending = None
            behind = self._behind(start, end) if end > start else None
            at = (start if behind is None else behind) - source.at
            if behind is None:
                if source.last or self._over:
                    break
                yield from source.more()
        found = self._end or (self._pending if source.cut else self._default)
        text, mark_end = found or (at, at)
        if text:
            self._put(source.take(source.at + text))
        source.take(source.at + mark_end - text)
        if found is None:
            source.set_rest_aside()
            return None
        return mark_end > text

    @property
    def _default(self) -> _Span | None:
        return self._within or self._opened or self._last or self._first

    def _behind(self, start: int, end: int) -> int | None:
        """Sees what a mark is, and returns the place behind it; None where more text tells."""
        text, last, base = self._source.text, self._source.last and not self._source.cut, self._source.at
        mark, span, here = text[start:end], (start - base, end - base), (start - base, start - base)
        if mark == "\\":
            return end + 1 if end < len(text) else end if last else None
        if mark in self._ends.closes:
            counts = self._ends.counts(text, end, last=last)
            if counts is None:
                self._pending = span
                return None
            if self._depth:
                self._within = self._within or (span if counts else None)
            else:
                self._end, self._last = span if counts else None, span
            return end
        structure = self._ends.structure
        step = structure.step(mark.strip(), text, end, self._expects, last=last)
        if step is None:
            self._pending = (self._last or here) if mark.strip() in structure.closes else None
            return None
        if mark in structure.ends:
            self._end, self._over = self._default, True
            return end if self._end else None
        if step is Step.OPEN:
            self._end = self._last if not self._depth else None
            self._opened = self._opened or here
            self._depth += 1
        elif step is Step.NEXT and not self._depth:
            self._end = self._last or here
        elif step is not Step.TEXT and mark.strip() in structure.closes:
            self._first = self._first or here
            self._depth = max(0, self._depth - 1)
        return end
