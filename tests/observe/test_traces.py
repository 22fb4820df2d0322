"""Spans of turns: under the GenAI names, in the client's trace, without content."""

from __future__ import annotations

import gzip
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.applications import Starlette

from antiphon.engines import ScriptedEngine
from antiphon.errors import ConfigError, EngineLostError
from antiphon.observe import Exported, Tracing
from kit.api import END, app, chat, ids, post, request, running, scripted
from kit.breaking import Breaking

WORDS = "private words"


class Collected:
    """Spans in memory, and an application that makes them."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.app: Starlette = app(engine, tracing=Tracing(provider))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_is_a_span_with_its_numbers_and_nothing_that_was_said(stream: bool) -> None:
    collected = Collected(scripted(ids(WORDS, END)))
    with running(collected.app) as base:
        chat(base, stream=stream, user=WORDS, messages=[{"role": "user", "content": WORDS}])
    (span,) = collected.spans
    assert (span.name, span.kind, span.status.status_code) == ("chat small", SpanKind.SERVER, StatusCode.UNSET)
    attributes = dict(span.attributes or {})
    assert attributes.pop("gen_ai.usage.input_tokens") > len(WORDS)  # type: ignore[operator]  # it is a number
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "antiphon",
        "gen_ai.request.model": "small",
        "gen_ai.usage.output_tokens": len(WORDS) + 1,
        "gen_ai.response.finish_reasons": ("stop_eos",),
    }
    assert WORDS not in span.to_json()


def test_each_choice_has_its_finish_reason() -> None:
    collected = Collected(scripted(lambda prompt, sampling, choice: ids("word " * 9 if choice else "Hi", END)))
    with running(collected.app) as base:
        chat(base, n=2, max_tokens=5)
    (span,) = collected.spans
    assert dict(span.attributes or {})["gen_ai.response.finish_reasons"] == ("stop_eos", "length_output")


def test_an_error_is_reported_by_its_code_alone() -> None:
    collected = Collected(Breaking(ids("Hel"), EngineLostError(WORDS)))
    with running(collected.app) as base:
        chat(base)
    (span,) = collected.spans
    attributes = dict(span.attributes or {})
    assert (attributes["error.type"], attributes["gen_ai.usage.output_tokens"]) == ("engine_lost", 3)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert WORDS not in span.to_json()


def test_turns_of_a_request_with_a_traceparent_belong_to_its_trace() -> None:
    collected = Collected(scripted(ids("ok", END)))
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with running(collected.app) as base:
        for header in (f"00-{trace}-{parent}-01", "nonsense"):
            post_traced(base, header)
    own, other = collected.spans
    assert own.context is not None
    assert own.parent is not None
    assert (f"{own.context.trace_id:032x}", f"{own.parent.span_id:016x}") == (trace, parent)
    assert other.parent is None


def post_traced(base: str, header: str) -> None:
    body = b'{"messages": [{"role": "user", "content": "Hi"}]}'
    assert request(base, "POST", "/v1/chat/completions", body, traceparent=header).status == 200


class Collector(BaseHTTPRequestHandler):
    """An OTLP/HTTP collector that keeps what it is sent."""

    got: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.got.append(ExportTraceServiceRequest.FromString(body))  # type: ignore[attr-defined]  # set below
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def test_spans_reach_a_collector() -> None:
    collector = HTTPServer(("127.0.0.1", 0), Collector)
    collector.got = []  # type: ignore[attr-defined]  # what its handler fills
    thread = threading.Thread(target=collector.serve_forever)
    thread.start()
    try:
        exported = Exported(f"http://127.0.0.1:{collector.server_port}/v1/traces", "mine")
        with running(app(scripted(ids("ok", END)), tracing=exported.tracing)) as base:
            post(base, "/v1/completions", prompt="Hi")
        exported.close()
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    (sent,) = collector.got  # type: ignore[attr-defined]
    (resource,) = sent.resource_spans
    assert ("service.name", "mine") in [(one.key, one.value.string_value) for one in resource.resource.attributes]
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["chat small"]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace.propagation.tracecontext", None)
    for make in (Tracing, lambda: Exported("http://127.0.0.1:4318/v1/traces", "mine")):
        with pytest.raises(ConfigError, match="needs the extra") as missing:
            make()
        assert missing.value.hint == "pip install 'antiphon[traces]'"


def test_an_endpoint_that_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"traces\.endpoint"):
        Exported("localhost:4317", "mine")
