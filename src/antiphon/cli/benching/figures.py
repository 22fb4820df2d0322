"""What a step of the ladder measured, in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from .client import Reply

GAIN = 1.10
"""A step that has less than this factor more tokens a second than another has gained nothing."""


class Spread(msgspec.Struct, frozen=True):
    """The middle and the 99th percentile, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread | None:
        if not seconds:
            return None
        ordered = sorted(seconds)
        return cls(*(round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * part))], 2) for part in (0.5, 0.99)))


class StepFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of the ladder: ``requests`` were sent, ``concurrency`` at once; ``errors`` counts those of each kind."""

    concurrency: int
    requests: int
    seconds: float
    requests_per_second: float
    tokens_per_second: float
    ttft_ms: Spread | None = None
    inter_token_ms: Spread | None = None
    prompt_tokens: int | None = None
    output_tokens: int = 0
    errors: dict[str, int] = {}

    @property
    def failed(self) -> int:
        return sum(self.errors.values())


def figures(concurrency: int, replies: Sequence[Reply], seconds: float) -> StepFigures:
    """``seconds`` are from the first request to the last answer; rates count what was answered."""
    good = [reply for reply in replies if reply.error is None]
    prompts = [reply.usage.prompt_tokens for reply in good if reply.usage and reply.usage.prompt_tokens]
    tokens = sum(reply.tokens for reply in good)
    return StepFigures(
        concurrency=concurrency,
        requests=len(replies),
        seconds=round(seconds, 3),
        requests_per_second=round(len(good) / seconds, 3),
        tokens_per_second=round(tokens / seconds, 1),
        ttft_ms=Spread.of([reply.first for reply in good]),
        inter_token_ms=Spread.of([gap for reply in good for gap in reply.gaps]),
        prompt_tokens=sorted(prompts)[len(prompts) // 2] if prompts else None,
        output_tokens=tokens,
        errors=dict(Counter(reply.error for reply in replies if reply.error is not None)),
    )


def saturated_at(steps: Sequence[StepFigures]) -> int | None:
    """The concurrency beyond which no step had a tenth more tokens a second; None: the last step still gained."""
    for step in steps[:-1]:
        later = max(other.tokens_per_second for other in steps if other.concurrency > step.concurrency)
        if later < step.tokens_per_second * GAIN:
            return step.concurrency
    return None
