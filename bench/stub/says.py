"""What the engines of this comparison say, by the seed of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice

from tokenizers import Tokenizer

TEXT, CALL, PACED, WIDE = 1, 2, 3, 4
"""Seeds: letters without a pause; one tool call; a token each `PACE` seconds; `WIDTH` tokens a message."""
PACE = 0.01
WIDTH = 16
WORDS = "the quick brown fox jumps over the lazy dog and runs away from all of it "
ARGUMENTS = (
    '{"city": "Paris", "country": "France", "days": 7, "unit": "celsius", "notes": "' + "sun or rain " * 28 + '"}'
)
CALLED = f'<tool_call>\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
END = "<|im_end|>"


@dataclass(frozen=True)
class Says:
    """``width`` ids a message, each ``pace`` seconds after the one before. ``stops``: its last id ends the reply."""

    ids: tuple[int, ...]
    width: int = 1
    pace: float = 0.0
    stops: bool = False

    def messages(self) -> list[list[int]]:
        return [list(self.ids[i : i + self.width]) for i in range(0, len(self.ids), self.width)]


class Speaker:
    """Knows the ids of everything that is said."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._words = tokenizer.encode(WORDS, add_special_tokens=False).ids
        self._text = cache(lambda id: str(tokenizer.decode([id])))
        self._call = (*tokenizer.encode(CALLED, add_special_tokens=False).ids, tokenizer.token_to_id(END))

    @property
    def call_tokens(self) -> int:
        return len(self._call)

    def text(self, ids: Sequence[int]) -> str:
        return "".join(map(self._text, ids))

    def says(self, seed: int, tokens: int) -> Says:
        """What a request with this seed gets; texts have as many ``tokens`` as it allows."""
        if seed == CALL:
            return Says(self._call, stops=True)
        ids = tuple(islice(cycle(self._words), tokens))
        return Says(ids, width=WIDTH if seed == WIDE else 1, pace=PACE if seed == PACED else 0.0)
