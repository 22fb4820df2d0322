"""A reply's text as it comes: a reading takes what it needs and waits where there is no more."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from antiphon.conversation import TextDelta
from antiphon.tokens import Control

# Finds literals in a stream of pieces, where a control token is one character of its own.
#
# Controls are written as characters that no text has (surrogates), so that a literal of text and controls is one
# string, and text that spells a control is not the control.

_FIRST = 0xD800
_MOST = 0x7FF
SYMBOLS = "\ud800-\udfff"
"""The range of those characters, as a class of a pattern has it."""
UNKNOWN = "\udfff"
"""A control that no literal spells."""
SYMBOL = re.compile(f"[{SYMBOLS}]")


class Alphabet:
    """The controls that a vocabulary has of those that some literals spell, each as one character."""

    def __init__(self, controls: Collection[Control], literals: Iterable[str]) -> None:
        texts = list(literals)
        spelled = sorted({c.spelling for c in controls if c.spelling and any(c.spelling in text for text in texts)})
        self._symbols = {spelling: chr(_FIRST + i) for i, spelling in enumerate(spelled[:_MOST])}
        self._spellings = {symbol: spelling for spelling, symbol in self._symbols.items()}
        self.symbols = frozenset(self._spellings)
        longest_first = sorted(self._symbols, key=len, reverse=True)
        self._spelling = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def symbol(self, spelling: str) -> str | None:
        """A control's character; None for a control that no literal spells."""
        return self._symbols.get(spelling)

    def encode(self, literal: str) -> str:
        """The literal with a character for each control that it spells."""
        return self._spelling.sub(lambda found: self._symbols[found.group()], literal)

    def decode(self, text: str) -> str:
        """The text with each control spelled out."""
        return SYMBOL.sub(lambda found: self._spellings.get(found.group(), "\ufffd"), text)


class Marks:
    """A set of literals to find: leftmost, then longest. A tail that may become one is held back."""

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = frozenset(literal for literal in literals if literal)
        self.longest_first = sorted(self.literals, key=len, reverse=True)
        self._whole = re.compile("|".join(map(re.escape, self.longest_first)) or "(?!)")
        self._prefixes = {literal[:n] for literal in self.literals for n in range(1, len(literal))}
        self._reach = max(map(len, self.literals), default=1) - 1
        self.begins = _begins(self.literals).search
        """Finds where a literal may begin, as far as two characters tell."""

    def all_in(self, text: str) -> list[str]:
        """Every literal in a text, in order."""
        return self._whole.findall(text)

    def tail(self, text: str, start: int) -> int:
        """The start of a tail that may become a literal; the text's end if there is none."""
        places = range(max(start, len(text) - self._reach), len(text))
        return next((at for at in places if text[at:] in self._prefixes), len(text))

    def at(self, text: str, start: int, *, last: bool) -> int | None:
        """The end of the longest literal that is at this place, which is its start where none is.

        None where more text tells.
        """
        if not last and len(text) - start <= self._reach and text[start:] in self._prefixes:
            return None
        found = self._whole.match(text, start)
        return found.end() if found else start

    def find(self, text: str, start: int, *, last: bool) -> tuple[int, int]:
        """The start and the end of the first literal. They are the same where none is: text up to there is none.

        ``last``: no more text comes.
        """
        while found := self.begins(text, start):
            start = found.start()
            if (end := self.at(text, start, last=last)) != start:
                return start, start if end is None else end
            start += 1
        return len(text), len(text)


def _begins(literals: Iterable[str]) -> re.Pattern[str]:
    """A first character with a second one of a literal, or at the text's end."""
    seconds: dict[str, set[str]] = {}
    for literal in literals:
        seconds.setdefault(literal[0], set()).add(re.escape(literal[1:2]))
    branches = [
        re.escape(first) + ("" if "" in each else f"(?:\\Z|[{''.join(sorted(each))}])")
        for first, each in sorted(seconds.items())
    ]
    return re.compile("|".join(branches) or "(?!)")


# Pieces that are more text of the open message, whatever comes behind them: nearly all of a reply.

_MOST_PIECES = 8192
_MOST_LONG = 16


class PlainTexts(dict[str, TextDelta | None]):
    """The event of each piece that is plain in one place of a reply, None for the others; filled as pieces are met.

    ``special`` finds what is not plain there, ``spell`` is how the message has the text. All replies of a description
    share a table. It keeps short pieces only, so many at most: the tokens that recur.
    """

    def __init__(self, special: Callable[[str], object], spell: Callable[[str], str] = str) -> None:
        super().__init__()
        self._special = special
        self._spell = spell

    def __missing__(self, piece: str) -> TextDelta | None:
        plain = piece and (piece.isascii() or not SYMBOL.search(piece)) and not self._special(piece)
        delta = TextDelta(self._spell(piece)) if plain else None
        if len(piece) <= _MOST_LONG:
            if len(self) >= _MOST_PIECES:
                self.clear()
            self[str(piece)] = delta
        return delta


def known(texts: Sequence[str | None], start: int) -> Iterator[str]:
    """The texts from ``start`` up to the first that is not known."""
    for text in islice(texts, start, None):
        if text is None:
            return
        yield text


T = TypeVar("T")

Reading = Generator[None, None, T]
"""Reads on when it is resumed, and returns what it read."""

Put = Callable[[str], PlainTexts | None]
"""Takes text as it comes, and returns the pieces that may continue the open message behind it without being fed."""

_BLANKS = re.compile(r"\s*")


def after_blanks(text: str, start: int) -> int:
    """The end of the blanks that the text has at a place."""
    found = _BLANKS.match(text, start)
    return found.end() if found else start


class Source:
    """Text that was fed and not yet taken. A reading waits (yields) where it needs more than there is.

    While it waits for the end of something long, a step takes what comes, and it is not resumed for each piece.
    """

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.position = 0
        """How much was taken, in characters; a control is one."""
        self.last = False
        """No more comes."""
        self.cut = False
        """More was to come: what is left where a literal was looked for began that, and is not read."""
        self.left = ""
        self.waits = False
        """Whether a mark is looked for that tells what the text before it is."""
        self.plain: PlainTexts | None = None
        """Pieces that need not be fed: each is more text of the open message."""
        self.reach: Callable[[str], int] | None = None
        """How much of a text, in characters, would just be more of the open message."""
        self.steps = 0
        """Counts what was, or is, read by a step."""
        self._step: Callable[[], bool] | None = None
        self._over = False
        self._taken: list[str] | None = None

    def feed(self, text: str) -> bool:
        """Whether the reading is to be resumed: more came than its step could take."""
        self.text += text
        if self._step is None:
            return True
        self._over = self._step()
        if not self._over and not self.last:
            self.text, self.at = self.text[self.at :], 0
            return False
        self.let_go()
        return True

    def let_go(self) -> None:
        """Nothing is read by a step any more. (What reads, and where text goes, hold the reader, and it them.)"""
        self._step = self.plain = self.reach = None

    def more(self) -> Reading[bool]:
        """Waits for more; False where the reply is over."""
        if self.last:
            self.set_rest_aside()
            return False
        self.text, self.at = self.text[self.at :], 0
        yield
        return True

    def read(self, step: Callable[[], bool]) -> Reading[bool]:
        """Reads by ``step``, which takes what it can, until that is true; False where the reply is over before."""
        self._over = step()
        if not self._over and not self.last:
            self._step, self.steps = step, self.steps + 1
            yield from self.more()
        self.let_go()
        return self._over

    def begins(self, beginning: re.Pattern[str], *, if_cut: bool = False) -> Reading[bool]:
        """Whether what follows is such a beginning, which stays. A match without a group needs more text.

        ``if_cut``: the answer where a limit cut that.
        """
        while (found := beginning.match(self.text, self.at)) is not None:
            if found.lastgroup is not None:
                return True
            if self.last:
                return self.cut and if_cut
            yield from self.more()
        return False

    def take(self, end: int) -> str:
        """The text up to ``end``, which is taken with that."""
        taken, self.at = self.text[self.at : end], end
        self.position += len(taken)
        if self._taken is not None:
            self._taken.append(taken)
        return taken

    def record(self, mark: str = "") -> None:
        """Remembers the mark and what is taken from here on, for a reading that may have to be undone."""
        self._taken = [mark]

    @property
    def records(self) -> bool:
        """A reading may have to be undone."""
        return self._taken is not None

    def recorded(self) -> str:
        """Ends `record`; returns the text that was taken since."""
        taken, self._taken = self._taken or [], None
        return "".join(taken)

    def after_blanks(self) -> Reading[str]:
        """Takes blanks; the character behind them, which stays."""
        while True:
            self.take(after_blanks(self.text, self.at))
            if self.at < len(self.text):
                return self.text[self.at]
            if not (yield from self.more()):
                return ""

    def until(self, marks: Marks, put: Put) -> Reading[str]:
        """Puts the text before the next of the marks, as it comes, and takes the mark; empty at the reply's end."""
        mark = ""

        def step() -> bool:
            nonlocal mark
            start = end = len(self.text)
            if marks.begins(self.text, self.at):
                start, end = marks.find(self.text, self.at, last=self.last and not self.cut)
            plain = put(self.take(start)) if start > self.at else None
            if end > start:
                mark = self.take(end)
                return True
            self.plain = plain if start == len(self.text) else None
            return False

        if not (yield from self.read(step)):
            self.set_rest_aside()
        return mark

    def text_until(self, marks: Marks) -> Reading[tuple[str, str]]:
        """The text before the next of the marks, and that, both taken."""
        parts: list[str] = []
        mark = yield from self.until(marks, parts.append)
        return "".join(parts), mark

    @property
    def goes_on(self) -> bool:
        """Whether something follows, or may yet."""
        return not self.last or self.at < len(self.text)

    def set_rest_aside(self) -> None:
        """Drops the beginning of a mark that a limit cut."""
        if self.cut:
            self.left += self.text[self.at :]
            self.text = self.text[: self.at]

    def skip(self, literal: str) -> Reading[bool]:
        """Takes blanks and the literal where it follows; where not, the blanks alone."""
        yield from self.after_blanks()
        return (yield from self.skip_exactly(literal))

    def skip_exactly(self, literal: str) -> Reading[bool]:
        """Takes the literal where it is next."""
        found = yield from self.follows(literal)
        if found:
            self.take(self.at + len(literal))
        return found

    def follows(self, literal: str) -> Reading[bool]:
        """Whether the literal is next; it stays."""
        while literal.startswith(ahead := self.text[self.at : self.at + len(literal)]):
            if ahead == literal:
                return True
            if not (yield from self.more()):
                return False
        return False

    def put_back(self, mark: str) -> None:
        """Puts text back that was just taken."""
        self.text, self.at = mark + self.text[self.at :], 0
        self.position -= len(mark)
        if mark and self._taken:
            self._taken.pop()

    def upcoming(self, marks: Marks) -> Reading[str]:
        """Takes blanks; the mark that follows them, which stays."""
        mark = yield from self.ahead(marks)
        self.put_back(mark)
        return mark

    def coming(self, marks: Marks, most: int) -> Reading[str]:
        """The first of the marks that comes within ``most`` characters, where it stays; empty where none does."""
        read, found = 0, ""
        self.waits = True
        while read <= most:
            start, end = marks.find(self.text, self.at + read, last=self.last and not self.cut)
            if end > start or self.last:
                found = self.text[start:end] if start <= self.at + most else ""
                break
            read = start - self.at
            yield from self.more()
        self.waits = False
        return found

    def ahead(self, marks: Marks) -> Reading[str]:
        """Takes blanks, and the mark that follows them; empty where none does."""
        yield from self.after_blanks()
        while self.at < len(self.text):
            start, end = marks.find(self.text, self.at, last=self.last and not self.cut)
            if start > self.at:
                return ""
            if end > start:
                return self.take(end)
            if not (yield from self.more()):
                return ""
        return ""
