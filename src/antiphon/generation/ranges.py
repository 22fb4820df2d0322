"""Where the numbers of a request must lie, whichever engine answers it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Range(msgspec.Struct, frozen=True):
    """Numbers from ``low`` to ``high``; with ``above``, ``low`` itself is none of them."""

    low: float
    high: float
    above: bool = False

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high and not (self.above and value == self.low)

    def __str__(self) -> str:
        high = int(self.high)
        upper = f"2^{high.bit_length()} - 1" if high > 2**16 else str(self.high)
        return f"{'(' if self.above else '['}{self.low}, {upper}]"


MAX_LOGPROBS = 20
"""Alternatives beside each token, at most."""
MAX_STOP_LENGTH = 1024
"""Of a stop string, in characters."""
RANGES: Mapping[str, Range] = {
    "temperature": Range(0, 2),
    "top_p": Range(0, 1, above=True),
    "top_k": Range(-1, 2**31 - 1),
    "min_p": Range(0, 1),
    "presence_penalty": Range(-2, 2),
    "frequency_penalty": Range(-2, 2),
    "repetition_penalty": Range(0, 2, above=True),
    "max_tokens": Range(0, 2**63 - 1),
    "seed": Range(-(2**63), 2**64 - 1),
    "logprobs": Range(0, MAX_LOGPROBS),
    "prompt_logprobs": Range(0, MAX_LOGPROBS),
}
"""By the fields of `TurnRequest`. What an engine cannot do narrows them further."""
BIAS = Range(-100, 100)
"""Of an entry of ``logit_bias``."""
