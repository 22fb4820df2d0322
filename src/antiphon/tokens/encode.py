"""Pieces → ids, with a memo: a history that grew by one message encodes one message."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from threading import Lock
from typing import Protocol

import msgspec

from antiphon.errors import TokenError

from .pieces import Control, Piece, SampledText, Strip, Tokenizer
from .slices import between_matches
from .table import TableTokenizer

Segment = str | tuple[str, str]
"""A text, or a domain and a text."""


class Memo(Protocol):
    """A cache in which `encode_pieces` looks for a text that was encoded before, and stores one that was not."""

    def get(self, text: str) -> tuple[int, ...] | None: ...

    def put(self, text: str, ids: tuple[int, ...]) -> None: ...


class SegmentMemo:
    """Encoded segments of one tokenizer, least recently used out first, bounded by the number of their ids.

    A memo belongs to one tokenizer; several threads may share it. `of` divides it: nobody learns from the time that an
    encoding takes what was encoded for others.
    """

    def __init__(self, capacity: int = 2_000_000) -> None:
        self.capacity = capacity
        self.size: int = 0
        self._segments: OrderedDict[Segment, tuple[int, ...]] = OrderedDict()
        # For counting and dropping, which are several steps; looking up is one step each and needs none.
        self._lock = Lock()

    def of(self, domain: str) -> Memo:
        """The part of it that is for ``domain`` alone; for the empty one, all that is in no part."""
        return _Part(self, domain) if domain else self

    def get(self, text: Segment) -> tuple[int, ...] | None:
        ids = self._segments.get(text)
        if ids is not None:
            with suppress(KeyError):  # another thread dropped it since
                self._segments.move_to_end(text)
        return ids

    def put(self, text: Segment, ids: tuple[int, ...]) -> None:
        """Keep the ids, unless they alone would take a quarter of the room."""
        if len(ids) > self.capacity // 4:
            return
        with self._lock:
            if text in self._segments:
                return
            self._segments[text] = ids
            self.size += len(ids) + 1
            while self.size > self.capacity:
                _, dropped = self._segments.popitem(last=False)
                self.size -= len(dropped) + 1

    def segments(self) -> dict[Segment, tuple[int, ...]]:
        """The encoded segments, the least recently used first."""
        with self._lock:
            return dict(self._segments)


class _Part(msgspec.Struct, frozen=True):
    """The segments of one domain."""

    memo: SegmentMemo
    domain: str

    def get(self, text: str) -> tuple[int, ...] | None:
        return self.memo.get((self.domain, text))

    def put(self, text: str, ids: tuple[int, ...]) -> None:
        self.memo.put((self.domain, text), ids)


def may_fit(pieces: Iterable[Piece], tokenizer: Tokenizer, limit: int) -> bool:
    """False where the pieces have more than ``limit`` ids whatever these are, which is found without encoding them."""
    fewest = 0
    for piece in pieces:
        if isinstance(piece, Control):
            fewest += 1
        elif isinstance(piece, SampledText) and piece.vocabulary == tokenizer.name:
            fewest += len(piece.ids)
        else:
            fewest += tokenizer.fewest(piece)
        if fewest > limit:
            return False
    return True


def encode_pieces(
    pieces: Iterable[Piece], tokenizer: Tokenizer, memo: Memo | None = None, *, limit: int | None = None
) -> list[int]:
    """The ids of the pieces in order: controls by id, each text by itself and never as a control.

    A control that the vocabulary lacks is an error: a model without the controls is given their spellings as text by
    its format, never by accident here. With ``limit`` encoding stops where there are more ids than that: what it gives
    then are the first ``limit`` + 1.
    """
    ids: list[int] = []
    name = tokenizer.name
    most = inf if limit is None else limit
    known: dict[str, int] = {}  # a spelling's hash is cached by Python, a control's is worked out each time
    before: Piece | None = None  # Sampled text is not joined to the text behind it.
    for piece in stripped(pieces, tokenizer.strips) if tokenizer.strips else pieces:
        if len(ids) > most:
            break
        if isinstance(piece, Control):
            id = known.get(piece.spelling)
            if id is None:
                id = known[piece.spelling] = _control_id(piece, tokenizer)
            ids.append(id)
        elif isinstance(piece, SampledText) and piece.vocabulary == name:
            ids.extend(piece.ids)
        else:
            ids.extend(encode_text(piece, before, tokenizer, memo, None if limit is None else limit - len(ids)))
        before = piece or before
    if limit is not None:
        del ids[limit + 1 :]
    return ids


def encode_text(
    text: str, before: Piece | None, tokenizer: Tokenizer, memo: Memo | None = None, limit: int | None = None
) -> Sequence[int]:  # fmt: skip
    """The ids of a text behind another piece; more than ``limit`` of them may be the beginning only."""
    found: Sequence[int] | None = None
    if before is not None:
        found = tokenizer.encode_following(text, control=isinstance(before, Control))
    if found is None and memo is not None:
        found = memo.get(text)
    if found is not None:
        return found
    ids = tokenizer.encode(text) if limit is None else tokenizer.encode_up_to(text, limit)
    if memo is not None and (limit is None or len(ids) <= limit):
        memo.put(text, tuple(ids))
    return ids


def stripped(pieces: Iterable[Piece], strips: Mapping[Control, Strip]) -> Iterator[Piece]:
    """The pieces without the blanks that controls take away."""
    text, behind = "", ""
    for piece in pieces:
        if isinstance(piece, Control):
            strip = strips.get(piece, Strip())
            yield text.rstrip(strip.before) if strip.before else text
            yield piece
            text, behind = "", strip.behind
            continue
        yield text
        text = piece if isinstance(piece, SampledText) or not behind else piece.lstrip(behind)
        behind = ""
    yield text


def _control_id(control: Control, tokenizer: Tokenizer) -> int:
    id = tokenizer.control_id(control)
    if id is None:
        raise TokenError(
            f"the vocabulary {tokenizer.name!r} has no control token {control.spelling!r}",
            code="unknown_control",
            hint="Choose a format whose controls this model has, or its literal spelling.",
        )
    return id


# Many texts of one vocabulary, of one owner: words that were encoded before are looked up.

LONGEST_WORD = 32
"""Characters of a word that is remembered."""


class Words:
    """Encodes as the vocabulary does, word by word where that changes no id, and remembers ``capacity`` words.

    Not for what several owners send: the time that a text takes tells which words came before.
    """

    def __init__(self, tokenizer: Tokenizer, capacity: int = 200_000) -> None:
        self._tokenizer = tokenizer
        self._in_words = isinstance(tokenizer, TableTokenizer) and tokenizer.in_words
        self._capacity = capacity
        self._known: dict[str, bytes] = {}
        """The memory of ids, which is read at one place; a list of them has a number at each of many."""
        self._behind_blank: dict[str, bytes] = {}
        """The same of words that have a blank before them, by what is behind it; none of them ends in one."""

    def encode(self, text: str, before: Piece | None = None) -> array[int]:
        """The ids of a text behind another piece."""
        if not self._in_words:
            return array("i", encode_text(text, before, self._tokenizer))
        if len(self._known) + len(self._behind_blank) > self._capacity:
            self._known.clear()
            self._behind_blank.clear()
        return array("i", b"".join(map(self._line, lines_of(text))))

    def _line(self, line: str) -> bytes:
        first, *others = line.split(" ")
        if others and not first[-1:].isspace():
            last = others.pop()
            with suppress(KeyError):
                known = map(self._behind_blank.__getitem__, others)
                return b"".join(chain((self._word(first),), known, (self._word(f" {last}"),)))
        return b"".join(map(self._word, words_of(line)))

    def _word(self, word: str) -> bytes:
        known, key = self._known, word
        if word[:1] == " " and not word[-1].isspace():
            known, key = self._behind_blank, word[1:]
        ids = known.get(key)
        if ids is None:
            parts = [*between_matches(word, 1)]
            several = len(parts) > 1
            ids = b"".join(map(self._word, parts)) if several else array("i", self._tokenizer.encode(word)).tobytes()
            if len(word) <= LONGEST_WORD:
                known[key] = ids
        return ids


def lines_of(text: str) -> Iterator[str]:
    """The text, cut where a line that is not empty ends before a letter of ASCII, as `between_matches` cuts it too."""
    line, *others = text.split("\n")
    for other in others:
        begins = other[:1].isascii() and other[:1].isalpha()
        if begins and line and not line[-1].isspace():
            yield line + "\n"
            line = other
        else:
            line += "\n" + other
    yield line


def words_of(text: str) -> Iterator[str]:
    """The text, cut before each blank that follows none: at some of the places where `between_matches` cuts it."""
    word, *parts = text.split(" ")
    for part in parts:
        if word and not word[-1].isspace():
            yield word
            word = ""
        word += " " + part
    if word:
        yield word
