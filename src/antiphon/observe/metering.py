"""Counts of the turns of one request: metrics, a span, and the tokens of whoever pays for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from antiphon.conversation import TurnEnded
from antiphon.errors import AntiphonError, ConfigError
from antiphon.errors.extras import extra
from antiphon.generation import TurnMeter

from .metrics import Metrics

if TYPE_CHECKING:
    from opentelemetry.trace import Span, StatusCode, TracerProvider


# One OpenTelemetry span a turn: where it belongs to a trace of its client's, in that trace.

# The names of OpenTelemetry's conventions for generative AI (in development, as of 2026), all in one place.

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
ERROR_TYPE = "error.type"
CHAT = "chat"


class Tracing:
    """Makes the spans of turns. ``provider`` None: the one that the process has set up.

    Raises `ConfigError` (``extra_missing``) without the extra ``antiphon[traces]``.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        with extra("traces", "the spans of turns"):
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        self._tracer = trace.get_tracer("antiphon", tracer_provider=provider)
        self._kind = trace.SpanKind.SERVER
        self._failed = trace.StatusCode.ERROR
        self._propagator = TraceContextTextMapPropagator()

    def turn(self, model: str, *, prompt_tokens: int, parent: str | None = None) -> TurnSpan:
        """The span of one turn, which begins now. ``parent`` is the request's ``traceparent`` header (W3C)."""
        attributes: dict[str, str | int] = {
            OPERATION: CHAT,
            PROVIDER: "antiphon",
            REQUEST_MODEL: model,
            INPUT_TOKENS: prompt_tokens,
        }
        above = self._propagator.extract({"traceparent": parent}) if parent else None
        span = self._tracer.start_span(f"{CHAT} {model}", above, kind=self._kind, attributes=attributes)
        return TurnSpan(span, self._failed)


class TurnSpan:
    """Numbers, reasons and error codes alone: a span never holds content."""

    def __init__(self, span: Span, failed: StatusCode) -> None:
        self._span = span
        self._failed = failed
        self._reasons: dict[int, str] = {}

    def ended(self, choice: int, end: TurnEnded) -> None:
        self._reasons[choice] = end.reason.value

    def end(self, tokens: int, error: BaseException | None) -> None:
        """The turn is over, with so many ``tokens``; ``error`` ended it early."""
        self._span.set_attribute(OUTPUT_TOKENS, tokens)
        self._span.set_attribute(FINISH_REASONS, [self._reasons[choice] for choice in sorted(self._reasons)])
        if isinstance(error, Exception):
            code = error.code if isinstance(error, AntiphonError) else type(error).__name__
            self._span.set_attribute(ERROR_TYPE, code)
            self._span.set_status(self._failed)
        self._span.end()


class Exported:
    """Spans that are sent to an OpenTelemetry collector, in batches, beside the event loop.

    ``endpoint`` is its OTLP/HTTP address, such as ``http://127.0.0.1:4318/v1/traces``. Raises `ConfigError`.
    """

    def __init__(self, endpoint: str, service: str) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise ConfigError(
                f"traces.endpoint: {endpoint!r} is no http:// or https:// address", code="traces_endpoint"
            )
        with extra("traces", "the spans of turns"):
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        resource = Resource.create({"service.name": service})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self.tracing = Tracing(self._provider)

    def close(self) -> None:
        """Sends what is left; may take some seconds."""
        self._provider.shutdown()


class Account(Protocol):
    """Pays for tokens."""

    def __call__(self, *, prompt: int, completion: int, cached: int | None) -> None:
        """A turn took so many tokens; ``cached`` None: its engine does not report it."""


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
    on_first: Callable[[], None] = lambda: None
    on_incident: Callable[[str], None] = lambda code: None

    def begin(self, prompt_tokens: int) -> TurnMeter:
        # A client waits for its request's first turn from the request on, for those after it from their own beginning.
        since, self.since = self.since or time.perf_counter(), None
        return MeteredTurn(self, prompt_tokens, since)


class MeteredTurn:
    """One turn of a request; its client waits ``since`` then."""

    def __init__(self, meter: RequestMeter, prompt_tokens: int, since: float) -> None:
        model, metrics = meter.model, meter.metrics
        self._meter = meter
        self._since = since
        self._ended = 0
        self._prompt_tokens = prompt_tokens
        self._cached_tokens: int | None = None
        self._span: TurnSpan | None = None
        if meter.tracing is not None:
            self._span = meter.tracing.turn(model, prompt_tokens=prompt_tokens, parent=meter.parent)
        self._between = metrics.between_tokens.labels(model)
        self.between: Callable[[float], object] = self._between.observe
        metrics.prompt_tokens.labels(model).inc(prompt_tokens)
        metrics.running.labels(model).inc()

    def first(self) -> None:
        self._meter.on_first()
        self._meter.metrics.first_token.labels(self._meter.model).observe(time.perf_counter() - self._since)

    def incident(self, code: str) -> None:
        self._meter.on_incident(code)
        self._meter.metrics.incidents.labels(code).inc()

    def ended(self, choice: int, end: TurnEnded) -> None:
        """A choice is over. The prompt was read once for all of them."""
        model, metrics = self._meter.model, self._meter.metrics
        self._ended += 1
        if more := end.usage.prompt_tokens - self._prompt_tokens:  # Images are counted where they are seen.
            metrics.prompt_tokens.labels(model).inc(more)
            self._prompt_tokens += more
        self._cached_tokens = end.usage.cached_tokens
        metrics.turns.labels(model, end.reason.value).inc()
        if end.usage.cached_tokens and self._ended == 1:
            metrics.cached_tokens.labels(model).inc(end.usage.cached_tokens)
        if self._span is not None:
            self._span.ended(choice, end)

    def end(self, tokens: Mapping[int, int], error: BaseException | None) -> None:
        model, metrics, completion = self._meter.model, self._meter.metrics, sum(tokens.values())
        self._between.count()
        metrics.running.labels(model).dec()
        metrics.completion_tokens.labels(model).inc(completion)
        if error is not None and (self._ended < len(tokens) or not tokens):
            metrics.turns.labels(model, "error" if isinstance(error, Exception) else "cancelled").inc()
        if self._span is not None:
            self._span.end(completion, error)
        self._meter.account(prompt=self._prompt_tokens, completion=completion, cached=self._cached_tokens)
