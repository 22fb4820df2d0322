"""What a server counts of the turns of one request: metrics, a span, and the tokens of whoever pays for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from antiphon.conversation import TurnEnded
from antiphon.generation import TurnMeter

from .metrics import Metrics, TurnCounts
from .traces import Tracing, TurnSpan


class Account(Protocol):
    """Pays for tokens."""

    def __call__(self, *, prompt: int, completion: int, cached: int | None) -> None:
        """A turn took so many tokens; ``cached`` None: its engine does not report it."""


def _nothing() -> None:
    """Nobody waits for the first event."""


def _no_code(code: str) -> None:
    """Nobody is told of incidents."""


@dataclass(slots=True)
class RequestMeter:
    """The `antiphon.generation.Meter` of one request. ``since``: when its client began to wait (`time.perf_counter`).

    ``parent`` is the request's ``traceparent`` header (W3C). ``on_first`` is called at the first event of a turn,
    and ``on_incident`` with the code of each incident.
    """

    model: str
    metrics: Metrics
    account: Account
    since: float | None = None
    tracing: Tracing | None = None
    parent: str | None = None
    on_first: Callable[[], None] = _nothing
    on_incident: Callable[[str], None] = _no_code

    def begin(self, prompt_tokens: int) -> TurnMeter:
        # A client waits for its request's first turn from the request on, for those after it from their own beginning.
        since, self.since = self.since or time.perf_counter(), None
        counts = self.metrics.turn(self.model, prompt_tokens=prompt_tokens, since=since)
        span = None
        if self.tracing is not None:
            span = self.tracing.turn(self.model, prompt_tokens=prompt_tokens, parent=self.parent)
        return MeteredTurn(counts, span, self.account, prompt_tokens, self.on_first, self.on_incident)


class MeteredTurn:
    """One turn of a request."""

    def __init__(
        self,
        counts: TurnCounts,
        span: TurnSpan | None,
        account: Account,
        prompt_tokens: int,
        on_first: Callable[[], None],
        on_incident: Callable[[str], None],
    ) -> None:
        self._counts = counts
        self._span = span
        self._account = account
        self._prompt_tokens = prompt_tokens
        self._on_first = on_first
        self._on_incident = on_incident
        self._cached_tokens: int | None = None
        self.between = counts.between

    def first(self) -> None:
        self._on_first()
        self._counts.first()

    def incident(self, code: str) -> None:
        self._on_incident(code)
        self._counts.incident(code)

    def ended(self, choice: int, end: TurnEnded) -> None:
        self._cached_tokens = end.usage.cached_tokens
        self._counts.ended(end)
        if self._span is not None:
            self._span.ended(choice, end)

    def end(self, tokens: Mapping[int, int], error: BaseException | None) -> None:
        completion = sum(tokens.values())
        self._counts.end(completion, error, choices=len(tokens))
        if self._span is not None:
            self._span.end(completion, error)
        self._account(prompt=self._prompt_tokens, completion=completion, cached=self._cached_tokens)
