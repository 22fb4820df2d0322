"""A vocabulary in which most texts can be sampled in several ways, as in real ones."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from antiphon.tokens import ByteTokenizer, Control, Piece
from kit.api import sampled

CHATML = [Control("<|im_start|>"), Control("<|im_end|>"), Control("<think>"), Control("</think>")]
FRAMES = [Control(f"<|{name}|>") for name in "start channel message call constrain return end".split()]
LITERAL = [Control("<|literal|>"), Control("<|endliteral|>")]
TOOLS = [Control("<tool_call>"), Control("</tool_call>")]
PAIRS = ["th", "he", "in", " a", "\n\n", "é", "…"]


class PairTokenizer(ByteTokenizer):
    """Bytes, and some pairs of them: most texts can be sampled in several ways, and `encode` takes one of them."""

    def __init__(self) -> None:
        super().__init__([*CHATML, *FRAMES, *LITERAL, *TOOLS])
        self._first = super().size
        self._pairs = [pair.encode() for pair in PAIRS]

    @property
    def name(self) -> str:
        return "pairs"

    @property
    def size(self) -> int:
        return self._first + len(self._pairs)

    def encode(self, text: str) -> list[int]:
        data, ids = text.encode(), list[int]()
        while data:
            pair = next((pair for pair in self._pairs if data.startswith(pair)), data[:1])
            ids.append(self._first + self._pairs.index(pair) if pair in self._pairs else pair[0])
            data = data[len(pair) :]
        return ids

    def piece(self, id: int) -> bytes | Control:
        return self._pairs[id - self._first] if id >= self._first else super().piece(id)


TOKENIZER = PairTokenizer()


def ids(*pieces: Piece) -> list[int]:
    """The pieces as `encode` has them."""
    return sampled(TOKENIZER, pieces)


def sampled_ids(random: Random, pieces: Sequence[Piece]) -> list[int]:
    """The pieces as a model may sample them: now a pair, now its bytes."""
    found: list[int] = []
    for id in ids(*pieces):
        piece = TOKENIZER.piece(id)
        apart = isinstance(piece, bytes) and len(piece) > 1 and random.random() < 0.5
        found += piece if apart and isinstance(piece, bytes) else [id]
    return found
