"""Counts of several processes of one server, as one scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

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
            found[name, labels] = _together(name, found[name, labels], value) if (name, labels) in found else value
    return [
        Family(name, head.meaning, head.kind, tuple((*key, value) for key, value in values[name].items()))
        for name, head in heads.items()
    ]


def _together(name: str, one: float, other: float) -> float:
    if name.endswith("_created"):
        return min(one, other)
    return COMMON[name](one, other) if name in COMMON else one + other


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
