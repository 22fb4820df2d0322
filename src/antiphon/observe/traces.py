"""One OpenTelemetry span a turn, for programs that have its API. Where spans go is set up there, not here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.conversation import TurnEnded
from antiphon.errors import AntiphonError, ConfigError
from antiphon.generation import ChoiceEvent

from . import genai

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider


class Tracing:
    """Makes the spans of turns. ``provider`` None: the one that the process has set up.

    Raises `ConfigError` without the extra ``antiphon[traces]``.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:  # An optional extra.
            from opentelemetry import trace
        except ImportError:
            raise ConfigError("traces need the extra antiphon[traces]", code="traces_missing") from None
        self._tracer = trace.get_tracer("antiphon", tracer_provider=provider)
        self._kind = trace.SpanKind.SERVER
        self._failed = trace.StatusCode.ERROR

    def turn(self, model: str, *, prompt_tokens: int) -> TurnSpan:
        attributes: dict[str, str | int] = {
            genai.OPERATION: genai.CHAT,
            genai.PROVIDER: "antiphon",
            genai.REQUEST_MODEL: model,
            genai.INPUT_TOKENS: prompt_tokens,
        }
        span = self._tracer.start_span(f"{genai.CHAT} {model}", kind=self._kind, attributes=attributes)
        return TurnSpan(span)


class TurnSpan:
    """Numbers, reasons and error codes alone: a span never holds content."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._said: dict[int, int] = {}
        self._reasons: dict[int, str] = {}

    def see(self, event: ChoiceEvent) -> None:
        self._said[event.choice] = event.completion_tokens
        if isinstance(event.event, TurnEnded):
            self._reasons[event.choice] = event.event.reason.value

    def end(self, error: BaseException | None) -> None:
        self._span.set_attribute(genai.OUTPUT_TOKENS, sum(self._said.values()))
        self._span.set_attribute(genai.FINISH_REASONS, [self._reasons[choice] for choice in sorted(self._reasons)])
        if isinstance(error, Exception):
            code = error.code if isinstance(error, AntiphonError) else type(error).__name__
            self._span.set_attribute(genai.ERROR_TYPE, code)
        self._span.end()
