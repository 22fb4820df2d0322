"""How many tokens a choice took."""

from __future__ import annotations

from antiphon.conversation import Usage


class Counts:
    """Tokens of one choice, counted id by id: the engine's way to cut its steps changes nothing."""

    __slots__ = ("cached", "completion", "reasoning")

    def __init__(self) -> None:
        self.completion = 0
        self.reasoning = 0
        self.cached: int | None = None

    def usage(self, prompt_tokens: int) -> Usage:
        return Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=self.completion,
            cached_tokens=self.cached,
            reasoning_tokens=self.reasoning,
        )
