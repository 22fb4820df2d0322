"""What a server sees of the turns of a request: its times, its tokens, its limits."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

from antiphon.config import Limits
from antiphon.conversation import TurnEnded
from antiphon.generation import ChoiceEvent
from antiphon.observe import Metrics, Tracing, TurnWatcher, watched

from .gate.rates import Rates
from .http.exchange import Exchange


class RequestFilter:
    """The `antiphon.generation.Filter` of one request's turns."""

    def __init__(
        self, exchange: Exchange, model: str, *, limits: Limits, metrics: Metrics, rates: Rates, tracing: Tracing | None
    ) -> None:
        self._exchange = exchange
        self._model = model
        self._limits = limits
        self._metrics = metrics
        self._rates = rates
        self._tracing = tracing
        self._since: float | None = exchange.started

    def __call__(
        self, events: AsyncGenerator[ChoiceEvent, None], *, prompt_tokens: int
    ) -> AsyncGenerator[ChoiceEvent, None]:
        limits = self._limits
        return watched(
            events, lambda: self._watchers(prompt_tokens), first=limits.first_token_timeout, whole=limits.turn_timeout
        )

    def _watchers(self, prompt_tokens: int) -> list[TurnWatcher]:
        # A client waits for its request's first turn from the request on, for those after it from their own beginning.
        since, self._since = self._since or time.perf_counter(), None
        watchers: list[TurnWatcher] = [
            self._metrics.turn(self._model, prompt_tokens=prompt_tokens, since=since),
            Tally(self._exchange, self._rates, prompt_tokens),
        ]
        if self._tracing is not None:
            watchers.append(
                self._tracing.turn(self._model, prompt_tokens=prompt_tokens, parent=self._exchange.traceparent)
            )
        return watchers


class Tally:
    """Tells the request, and the account of its key, how many tokens a turn took."""

    def __init__(self, exchange: Exchange, rates: Rates, prompt_tokens: int) -> None:
        self._exchange = exchange
        self._rates = rates
        self._prompt_tokens = prompt_tokens
        self._cached_tokens: int | None = None
        self._said: dict[int, int] = {}

    def see(self, event: ChoiceEvent) -> None:
        self._said[event.choice] = event.completion_tokens
        if isinstance(event.event, TurnEnded):
            self._cached_tokens = event.event.usage.cached_tokens

    def end(self, error: BaseException | None) -> None:
        said = sum(self._said.values())
        self._exchange.spent(prompt=self._prompt_tokens, completion=said, cached=self._cached_tokens)
        self._rates.charge(self._exchange.owner, self._prompt_tokens + said)
