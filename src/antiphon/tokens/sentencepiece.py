"""SentencePiece's merges, as llama.cpp makes them: of all neighbours that are a piece together, the best one first."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

from .slices import EncodeUpTo, cut_at, in_slices

BLANK = "▁"
"""How pieces spell a blank."""
_WORDS = 2**15
"""Words whose ids are remembered."""
_LONG = 64
"""Characters of a word that is too long to be remembered."""


class PieceMerges:
    """Merges characters to pieces by their scores. Safe to call from several threads.

    ``pieces`` give the id of each, ``scores`` the score of each id, and ``byte_ids`` the ids that spell the bytes of a
    character that is no piece; a byte without one is left out.
    """

    def __init__(self, pieces: Mapping[str, int], scores: Sequence[float], byte_ids: Mapping[int, int]) -> None:
        self._pieces = pieces
        self._scores = scores
        self._byte_ids = byte_ids
        self._remembered = lru_cache(_WORDS)(self._word)
        # No merge crosses a place that is inside no piece: in nearly all vocabularies a blank begins a word.
        inside = set(re.findall(rf"([^{BLANK}\0]){BLANK}", "\0".join(pieces)))
        joints = re.escape("".join(sorted(inside)))
        goes_on = rf"|(?<=[{joints}]){BLANK}+" if inside else ""
        self._words = re.compile(rf"{BLANK}*(?:[^{BLANK}]{goes_on})+|{BLANK}+", re.DOTALL)
        self._places = re.compile(rf"(?<=[^{BLANK}{joints}]){BLANK}")

    def encoder(self) -> EncodeUpTo:
        """The ids of a text whose blanks are spelled, part by part."""
        return in_slices(self._encode, cut_at(self._places))

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for word in self._words.findall(text):
            ids += self._remembered(word) if len(word) <= _LONG else self._word(word)
        return ids

    def _word(self, word: str) -> tuple[int, ...]:
        pieces = self._pieces
        return tuple(
            id for piece in self._merged(word) for id in ((pieces[piece],) if piece in pieces else self._spelled(piece))
        )

    def _spelled(self, character: str) -> list[int]:
        ids = map(self._byte_ids.get, character.encode())
        return [id for id in ids if id is not None]

    def _merged(self, word: str) -> list[str]:
        """The best pair first, of equal ones the leftmost. A pair of which a part was merged meanwhile is passed."""
        pieces, scores = self._pieces, self._scores
        parts = list(word)
        count = len(parts)
        before, after = list(range(-1, count - 1)), list(range(1, count + 1))
        pairs = [
            (-scores[id], left, left + 1, 2)
            for left in range(count - 1)
            if (id := pieces.get(word[left : left + 2])) is not None
        ]
        heapify(pairs)
        while pairs:
            _, left, right, length = heappop(pairs)
            if not parts[left] or not parts[right] or len(parts[left]) + len(parts[right]) != length:
                continue
            parts[left] += parts[right]
            parts[right] = ""
            following = after[left] = after[right]
            if following < count:
                before[following] = left
            for first, second in ((before[left], left), (left, following)):
                if first < 0 or second == count:
                    continue
                id = pieces.get(parts[first] + parts[second])
                if id is not None:
                    heappush(pairs, (-scores[id], first, second, len(parts[first]) + len(parts[second])))
        return [part for part in parts if part]


def without_controls(make: Callable[[bool], EncodeUpTo], controls: frozenset[int]) -> EncodeUpTo:
    """The encoder that ``make`` gives for all pieces; where a text would get a control, the one for all others."""
    encode = make(False)
    strict = lru_cache(1)(lambda: make(True))

    def encode_text(text: str, limit: int | None = None) -> list[int]:
        ids = encode(text, limit)
        return ids if controls.isdisjoint(ids) else strict()(text, limit)

    return encode_text
