"""Counts and times for Prometheus. Labels are few and bounded: a route's pattern, a model of the catalog, a code."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add
from threading import Lock
from typing import Protocol, runtime_checkable

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from antiphon.generation import Model

# Counts of several processes of one server, as one scrape.

Labels = tuple[tuple[str, str], ...]


class Family(msgspec.Struct, frozen=True, array_like=True):
    """One metric of one process: its samples by name and labels."""

    name: str
    meaning: str
    kind: str
    samples: tuple[tuple[str, Labels, float], ...]


COMMON: Mapping[str, Callable[[float, float], float]] = {
    "antiphon_engine_slots": max,
    "antiphon_engine_restarts_total": max,
    "process_start_time_seconds": min,
    "process_max_fds": min,
}
"""Metrics that are not summed: all processes see the same engine, and of these two the first and the least say more."""
GROWING = ("counter", "histogram")


def families_of(registry: CollectorRegistry) -> list[Family]:
    """Collects what one process reports now."""
    return [
        Family(
            metric.name,
            metric.documentation,
            metric.type,
            tuple((sample.name, tuple(sample.labels.items()), sample.value) for sample in metric.samples),
        )
        for metric in registry.collect()
    ]


def summed(reports: Iterable[Iterable[Family]]) -> list[Family]:
    """One report of several."""
    heads: dict[str, Family] = {}
    values: dict[str, dict[tuple[str, Labels], float]] = {}
    for family in (family for report in reports for family in report):
        heads.setdefault(family.name, family)
        found = values.setdefault(family.name, {})
        for name, labels, value in family.samples:
            together = min if name.endswith("_created") else COMMON.get(name, add)
            found[name, labels] = together(found[name, labels], value) if (name, labels) in found else value
    return [
        Family(name, head.meaning, head.kind, tuple((*key, value) for key, value in values[name].items()))
        for name, head in heads.items()
    ]


def growing(report: Iterable[Family]) -> list[Family]:
    """Picks what only ever grows: it still counts when the process that counted it is gone."""
    return [family for family in report if family.kind in GROWING]


def text_of(report: Iterable[Family]) -> bytes:
    """A report as Prometheus reads it."""
    registry = CollectorRegistry()
    registry.register(_Report(list(report)))
    return generate_latest(registry)


class _Report(Collector):
    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            metric = Metric(family.name, family.meaning, family.kind)
            for name, labels, value in family.samples:
                metric.add_sample(name, dict(labels), value)
            yield metric


# A histogram of what happens for each token, where prometheus-client's takes longer than the reading of the token.


class Observations:
    """Observations of one label: noted as they come, counted when there is time."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._noted = array("d")
        self._counting = Lock()
        self.observe: Callable[[float], None] = self._noted.append
        """Notes one, at the cost of a call in C."""
        self._upto = [0] * len(bounds)
        self._all = 0
        self._sum = 0.0

    def count(self) -> None:
        """Counts what was noted, from whichever thread."""
        with self._counting:
            values = sorted(self._noted[:])
            del self._noted[: len(values)]
            for place, bound in enumerate(self._bounds):
                self._upto[place] += bisect_right(values, bound)
            self._all += len(values)
            self._sum += sum(values)

    def report(self) -> tuple[list[tuple[str, float]], float]:
        """How many there were up to each bound, and the sum of all."""
        self.count()
        return [*zip(map(str, map(float, self._bounds)), self._upto, strict=True), ("+Inf", self._all)], self._sum


class TokenHistogram(Collector):
    """Observations by the value of one label."""

    def __init__(self, name: str, meaning: str, bounds: Sequence[float], label: str) -> None:
        self._about = name, meaning
        self._bounds = bounds
        self._label = label
        self._children: dict[str, Observations] = {}

    def labels(self, value: str) -> Observations:
        """Gives the observations of the label's ``value``."""
        found = self._children.get(value)
        if found is None:
            found = self._children[value] = Observations(self._bounds)
        return found

    def describe(self) -> Iterator[HistogramMetricFamily]:
        yield HistogramMetricFamily(*self._about, labels=[self._label])

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(*self._about, labels=[self._label])
        for value, child in tuple(self._children.items()):
            family.add_metric([value], *child.report())
        yield family


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
BETWEEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
WHOLE = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


@runtime_checkable
class Supervised(Protocol):
    """An engine that is started again when it dies."""

    restarts: int


class Metrics:
    """Everything that one server counts. A value: two servers in one process do not share it."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"antiphon_{name}", meaning, labels, registry=registry)

        def histogram(name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"antiphon_{name}", meaning, labels, buckets=buckets, registry=registry)

        self.requests: Counter = counter("requests", "Requests answered.", "route", "method", "status")
        self.seconds: Histogram = histogram("request_seconds", "From a request to its whole answer.", WHOLE, "route")
        self.clients_gone: Counter = counter("clients_gone", "Clients that hung up before their answer was whole.")
        self.refused_connections: Counter = counter(
            "connections_refused", "Connections ended by a limit or an error.", "code"
        )
        self.ignored_fields: Counter = counter("ignored_fields", "Unknown fields in requests, which were ignored.")
        self.turns: Counter = counter("turns", "Choices made, by why they ended.", "model", "reason")
        self.prompt_tokens: Counter = counter("prompt_tokens", "Tokens of prompts.", "model")
        self.cached_tokens: Counter = counter(
            "cached_tokens", "Tokens of prompts that the engine had in its cache.", "model"
        )
        self.completion_tokens: Counter = counter("completion_tokens", "Tokens that models wrote.", "model")
        self.incidents: Counter = counter("incidents", "Repairs of what models wrote.", "code")
        self.first_token: Histogram = histogram(
            "time_to_first_token_seconds", "From a request to the first event.", FIRST, "model"
        )
        self.between_tokens: TokenHistogram = TokenHistogram(
            "antiphon_inter_token_seconds", "Between tokens, on average of an event.", BETWEEN, "model"
        )
        registry.register(self.between_tokens)
        self.running: Gauge = Gauge("antiphon_turns_running", "Turns in an engine now.", ["model"], registry=registry)

    def follow(self, *, queue: Callable[[], tuple[int, int]], models: Callable[[], Iterable[Model]]) -> None:
        """From now on a scrape also reports how many requests run and wait, and how the loaded engines are."""
        self._registry.register(States(queue, models))

    def render(self) -> bytes:
        """The text of a scrape."""
        return generate_latest(self._registry)

    def families(self) -> list[Family]:
        """Collects what a scrape would report, to be summed with what others report."""
        return families_of(self._registry)


class States:
    """States at the moment of a scrape."""

    def __init__(self, queue: Callable[[], tuple[int, int]], models: Callable[[], Iterable[Model]]) -> None:
        self._queue = queue
        self._models = models

    def collect(self) -> Iterator[Metric]:
        running, waiting = self._queue()
        yield GaugeMetricFamily("antiphon_requests_running", "Requests that are answered now.", running)
        yield GaugeMetricFamily("antiphon_requests_waiting", "Requests that wait for their turn.", waiting)
        slots = GaugeMetricFamily("antiphon_engine_slots", "Answers that an engine makes at once.", labels=["model"])
        restarts = CounterMetricFamily(
            "antiphon_engine_restarts", "Lives of an engine after its first.", labels=["model"]
        )
        for model in self._models():
            slots.add_metric([model.name], model.engine.info.slots)
            if isinstance(model.engine, Supervised):
                restarts.add_metric([model.name], model.engine.restarts)
        yield slots
        yield restarts
