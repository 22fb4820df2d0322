"""Long texts: the least number of their tokens, without encoding them, and cuts that change no id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from math import ceil, inf
from typing import TYPE_CHECKING, Protocol

from .pieces import Control

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# The library `tokenizers`: its call for several texts finds no offsets, and gives the interpreter's lock away.


def library_ids(library: Tokenizer, text: str) -> list[int]:
    """The library's ids of a text."""
    ids: list[int] = library.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return ids


EncodeText = Callable[[str], list[int]]
"""Ids of a text without lone surrogates. Safe to call from several threads."""
Cut = Callable[[str], Iterator[str]]
"""A text in parts: their ids, one after the other, are those of the text."""

SLICE = 2**14
"""Characters of a part at least; a shorter text is one part."""
SHORT = 2**15
"""Characters of a text that is encoded without a look at how few tokens it may have."""
UNCUT = 2**19
"""Characters after which a text is cut wherever that is, so that what one part takes is bounded."""
_WORDS = re.compile(r"(?<=\S) |(?<=[A-Za-z0-9])[!-&(-/:-@\[-`{-~]|(?<=\S\n)(?=[A-Za-z])")
_LETTERS = re.compile(r"(?<=[A-Za-z]) (?=[A-Za-z])")


class EncodeUpTo(Protocol):
    """`EncodeText` that stops where there are more ids than ``limit``: what it gives then are more than that."""

    def __call__(self, text: str, limit: int | None = None, /) -> list[int]: ...


def between_matches(text: str, least: int = SLICE) -> Iterator[str]:
    """Cut before a blank that follows no blank, and between a letter or digit and punctuation (but an apostrophe).

    Between the end of a line and a letter too, where one alone ends it.

    Exact where a text is split by expressions as GPT-2's and its successors', which match everything: no match of
    theirs goes on there, whatever stands around, and nothing is merged across matches.
    """
    return _cut(text, _WORDS, least)


def is_cut(text: str) -> bool:
    """Whether `between_matches` may cut inside this text."""
    return _WORDS.search(text) is not None


def between_words(text: str, least: int = SLICE) -> Iterator[str]:
    """The same where the expressions leave gaps: cut between two words of ASCII letters, which no gap spans."""
    return _cut(text, _LETTERS, least)


def nowhere(text: str) -> Iterator[str]:
    """For vocabularies of which nothing is known: cut after `UNCUT` characters only."""
    return (text[start : start + UNCUT] for start in range(0, len(text), UNCUT))


def cut_at(place: re.Pattern[str]) -> Cut:
    """Cut before a match of ``place``."""
    return lambda text: _cut(text, place, SLICE)


def _cut(text: str, place: re.Pattern[str], least: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        found = place.search(text, start + least, start + UNCUT)
        end = start + UNCUT if found is None else found.start()
        yield text[start:end]
        start = end


def in_slices(encode: EncodeText, cut: Cut) -> EncodeUpTo:
    """``encode``, part by part: between them other threads run, and it stops where there are ids enough."""

    def encode_up_to(text: str, limit: int | None = None) -> list[int]:
        if len(text) <= SLICE:
            return encode(text)
        ids: list[int] = []
        for part in cut(text):
            ids += encode(part)
            if limit is not None and len(ids) > limit:
                break
        return ids

    return encode_up_to


def in_bytes(text: str) -> Iterator[bytes]:
    """The bytes of a text, part by part, so that no step takes long; surrogates are left out."""
    return (text[start : start + SHORT].encode("utf-8", "ignore") for start in range(0, len(text), SHORT))


class Fewest:
    """How many tokens a text has at least, where every byte of a text is in a token.

    A token with a byte b is at most L(b) bytes long, so the sum of 1/L over the bytes of one token is at most 1, and
    over a text's it is at most the number of its tokens. Reads the vocabulary at its first use.

    ``shrinks``: by how many times a normaliser may shorten a text; then the longest token of all counts.
    ``dropped`` are bytes that the vocabulary lacks and leaves out.
    """

    def __init__(
        self, pieces: Callable[[], Iterable[bytes | Control]], *, shrinks: int = 1, dropped: bytes = b""
    ) -> None:
        self._pieces = pieces
        self._shrinks = shrinks
        self._dropped = dropped
        self._longest: dict[int, float] | None = None

    def __call__(self, text: str) -> int:
        """0 for a text so short that it is encoded faster than looked at."""
        if len(text) <= SHORT:
            return 0
        longest = self._longest
        if longest is None:
            longest = self._longest = longest_tokens(self._pieces(), dropped=self._dropped)
        if self._shrinks > 1:
            return ceil(sum(map(len, in_bytes(text))) / self._shrinks / max(longest.values(), default=inf))
        kinds = sorted({length for length in longest.values() if length < inf})
        table = bytes(kinds.index(longest[byte]) if longest.get(byte, inf) < inf else 255 for byte in range(256))
        fewest = 0.0
        for data in in_bytes(text):
            kind_of = data.translate(table)
            fewest += sum(kind_of.count(i) / length for i, length in enumerate(kinds))
        return ceil(fewest - 1e-6)


def longest_tokens(pieces: Iterable[bytes | Control], *, dropped: bytes = b"") -> dict[int, float]:
    """The length of the longest token that has a byte, for each byte that any token has."""
    texts = sorted((piece for piece in pieces if isinstance(piece, bytes)), key=len, reverse=True)
    longest: dict[int, float] = dict.fromkeys(dropped, inf)
    for text in texts:
        for byte in set(text) - longest.keys():
            longest[byte] = len(text)
        if len(longest) == 256:
            break
    return longest
