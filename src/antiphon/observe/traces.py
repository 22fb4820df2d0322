"""One OpenTelemetry span a turn: where it belongs to a trace of its client's, in that trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.conversation import TurnEnded
from antiphon.errors import AntiphonError, ConfigError
from antiphon.errors.extras import extra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.trace import Span, StatusCode, TracerProvider


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
        self._provider = _provider(endpoint, service)
        self.tracing = Tracing(self._provider)

    def close(self) -> None:
        """Sends what is left; may take some seconds."""
        self._provider.shutdown()


def _provider(endpoint: str, service: str) -> SdkTracerProvider:
    with extra("traces", "the spans of turns"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return provider
