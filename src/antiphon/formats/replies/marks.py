"""Finds literals in a stream of pieces, where a control token is one character of its own.

Controls are written as characters that no text has (surrogates), so that a literal of text and controls is one string,
and text that spells a control is not the control.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from antiphon.tokens import Control

_FIRST = 0xD800
_MOST = 0x800
SYMBOL = re.compile("[\ud800-\udfff]")


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
        longest_first = sorted(self.literals, key=len, reverse=True)
        self._whole = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._prefixes = {literal[:n] for literal in self.literals for n in range(1, len(literal))}
        self._reach = max(map(len, self.literals), default=1) - 1
        self.begins = _begins(self.literals).search
        """Finds where a literal may begin, as far as two characters tell."""

    def all_in(self, text: str) -> list[str]:
        """Every literal in a text, in order."""
        return self._whole.findall(text)

    def find(self, text: str, start: int, *, last: bool) -> tuple[int, int]:
        """Where the first literal is: its start and its end. They are the same where none is: text up to there is none.

        ``last``: no more text comes.
        """
        while found := self.begins(text, start):
            start = found.start()
            if not last and len(text) - start <= self._reach and text[start:] in self._prefixes:
                return start, start
            if whole := self._whole.match(text, start):
                return whole.span()
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
