"""Some reply that a grammar admits: what a model writes that knows nothing, below the grammar's masks."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from llguidance import LLMatcher

MOST = 1200
LATE = 200
"""After so many ids nearly nothing but what closes something."""


def admitted(
    matcher: LLMatcher,
    ids: Collection[int],
    words: Sequence[list[int]],
    closers: Sequence[list[int]],
    chance: random.Random,
) -> list[int] | None:
    """Ids by chance, one at a time or a word; None for a reply that does not come to its end in time."""
    written: list[int] = []
    while not matcher.is_stopped() and len(written) < MOST:
        if matcher.is_accepting() and chance.random() < 0.5:
            break
        late = len(written) > LATE
        word = chance.choice(closers if late else words)
        if chance.random() < (0.95 if late else 0.5) and matcher.deep_copy().try_consume_tokens(word) == len(word):
            matcher.try_consume_tokens(word)
            written += word
            continue
        mask = matcher.compute_bitmask()
        allowed = [id for id in ids if mask[id // 8] >> id % 8 & 1]
        if not allowed:
            return None
        written.append(chance.choice(allowed))
        matcher.consume_token(written[-1])
    return written if matcher.is_accepting() or matcher.is_stopped() else None
