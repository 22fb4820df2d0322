"""Keeps what users typed apart from what a template writes, through rendering and back to pieces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from antiphon.tokens import Control, Piece, SampledText

_PRIVATE_USE = range(0xE000, 0xF8FF)
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_ESCAPED = re.compile(r"\\u(e[0-9a-f]{3}|f[0-8][0-9a-f]{2})")
"""One of them as Python and JSON escape it."""


def unused(count: int, *texts: str) -> list[str]:
    """Private-use characters that occur in none of the texts, escaped or not. (No prompt has all 6,400 of them.)"""
    present = {char for text in texts if not text.isascii() for char in _PRIVATE.findall(text)}
    present |= {chr(int(code, 16)) for text in texts if "\\u" in text for code in _ESCAPED.findall(text)}
    return [char for char in map(chr, _PRIVATE_USE[: len(present) + count]) if char not in present][:count]


def joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Neighbouring texts as one, because the model saw them as one; sampled text stands alone with its ids."""
    run: list[str] = []
    for piece in pieces:
        if isinstance(piece, str) and not isinstance(piece, SampledText):
            run.append(piece)
            continue
        if text := "".join(run):
            yield text
        run = []
        yield piece
    if text := "".join(run):
        yield text


def aligned(pieces: Sequence[Piece], text: str) -> list[Piece] | None:
    """The pieces with the blanks of ``text``, which says the same without some of theirs; None when it says more.

    Controls stay what they are, so no spelling in a text can become one by being taken from ``text``.
    """
    found: list[Piece] = []
    at = 0
    for piece in pieces:
        if isinstance(piece, Control):
            if not text.startswith(piece.spelling, at):
                return None
            at += len(piece.spelling)
            found.append(piece)
            continue
        start = at
        if text.startswith(piece, at):
            at += len(piece)
            found.append(piece)
            continue
        for char in piece:
            if text.startswith(char, at):
                at += 1
            elif not char.isspace():
                return None
        if at > start:
            found.append(text[start:at])
    return found if at == len(text) else None


class ControlSpellings:
    """The control spellings of a vocabulary, ready to be found."""

    def __init__(self, controls: Collection[Control]) -> None:
        self._controls = {control.spelling: control for control in controls if control.spelling}
        spellings = sorted(self._controls, key=len, reverse=True)
        self.whole = re.compile("|".join(map(re.escape, spellings)) or r"(?!)")
        self.leads = re.compile("|".join(re.escape(lead) for lead in {s[:2] for s in spellings}) or r"(?!)")
        self._prefixes = {s[:n] for s in spellings for n in range(1, len(s))}
        self._firsts = {spelling[0] for spelling in spellings}
        self._reach = max(map(len, spellings), default=1) - 1

    def scan(self, text: str) -> Iterator[Piece]:
        """A template's own text: control spellings in it are controls, leftmost and longest first."""
        start = 0
        for found in self.whole.finditer(text):
            if found.start() > start:
                yield text[start : found.start()]
            yield self._controls[found.group()]
            start = found.end()
        if start < len(text):
            yield text[start:]

    def suspicious(self, text: str) -> bool:
        """The text contains the beginning of a spelling that is not whole."""
        leads = self.leads.search  # A whole spelling has one, too.
        return leads(text) is not None and leads(self.whole.sub("", text)) is not None

    def open_end(self, text: str) -> int:
        """The end of the text without its last blanks, when a spelling may begin there and go on behind it; else -1."""
        end = len(text.rstrip())
        tail = text[max(0, end - self._reach) : end]
        if self._firsts.isdisjoint(tail):
            return -1
        begins = any(char in self._firsts and tail[i:] in self._prefixes for i, char in enumerate(tail))
        return end if begins else -1


class Placeholders:
    """Placeholders for users' texts: for templates that never look into a text. Exact, whatever the text spells."""

    def __init__(self, own_text: str) -> None:
        self._open, self._close = unused(2, own_text)
        self._texts: list[str] = []

    def protect(self, text: str) -> str:
        """The placeholder to render in the text's place."""
        self._texts.append(text)
        return f"{self._open}{len(self._texts) - 1}{self._close}"

    def pieces(self, prompt: str, spellings: ControlSpellings) -> Iterator[Piece]:
        """The rendered prompt with the texts in their places."""
        return joined(self._apart(prompt, spellings))

    def _apart(self, prompt: str, spellings: ControlSpellings) -> Iterator[Piece]:
        for i, part in enumerate(re.split(f"{self._open}(\\d+){self._close}", prompt)):
            if i % 2:
                yield self._texts[int(part)]
            else:
                yield from spellings.scan(part)


class MarkedText:
    """Users' texts with marks around control spellings: for templates that look into texts and must see them.

    Texts without a spelling stay as they are. ``thorough`` marks also break every beginning of a spelling, against
    templates that cut texts apart and join them anew.
    """

    def __init__(self, spellings: ControlSpellings, texts: Iterable[str], *, thorough: bool = False) -> None:
        self._spellings = spellings
        self._thorough = thorough
        self._open, self._close, self._break, self.cut = unused(4, *texts)
        self._drop = str.maketrans("", "", self._open + self._close + self._break + self.cut)
        self.marks = False
        """Whether any text was given a mark."""
        self._marked = re.compile(f"({self._open}[^{self._open}{self._close}]*{self._close})")

    def protect(self, text: str) -> str:
        marked = self._mark(text)
        self.marks = self.marks or marked != text
        return marked

    def _mark(self, text: str) -> str:
        end = self._spellings.open_end(text)
        if end >= 0:
            text = text[:end] + self._break + text[end:]
        spelling = self._spellings.leads if self._thorough else self._spellings.whole
        if spelling.search(text) is None:  # Most texts; a template of `sub` would be looked up for each.
            return text
        before, behind = ("", self._break) if self._thorough else (self._open, self._close)
        return spelling.sub(f"{before}\\g<0>{behind}", text)

    def unescaped(self, prompt: str) -> str:
        """The rendered prompt, in which a template may have escaped the marks: ``repr`` does."""
        if "\\u" not in prompt:
            return prompt
        own = self._open + self._close + self._break + self.cut
        return _ESCAPED.sub(lambda found: char if (char := chr(int(found[1], 16))) in own else found[0], prompt)

    def plain(self, text: str) -> str:
        """The text without its marks, none of which is ASCII."""
        return text if text.isascii() else text.translate(self._drop)

    def pieces(self, prompt: str) -> list[Piece]:
        """The rendered prompt: marked spellings are text, all others are controls."""
        return list(joined(self._apart(prompt)))

    def _apart(self, prompt: str) -> Iterator[Piece]:
        for i, part in enumerate(self._marked.split(prompt)):
            if i % 2:
                yield self.plain(part)
                continue
            for piece in self._spellings.scan(part):
                yield self.plain(piece) if isinstance(piece, str) else piece
