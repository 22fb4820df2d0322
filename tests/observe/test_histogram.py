"""The histogram of each token reports what prometheus-client's own would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from antiphon.observe.metrics import TokenHistogram

BOUNDS = (0.125, 0.5, 1, 2.5)
SECONDS = st.integers(0, 40).map(lambda eighths: eighths / 8)
"""Of which sums are exact, in whatever order."""


@given(st.lists(st.tuples(st.sampled_from("ab"), SECONDS)), st.integers(0, 9))
def test_it_reports_what_the_library_s_histogram_reports(observed: list[tuple[str, float]], first: int) -> None:
    """In two parts, between which somebody looks."""
    reports = []
    for kind in (TokenHistogram, _library_s):
        registry = CollectorRegistry()
        histogram = kind("seconds", "Between tokens.", BOUNDS, "model")
        registry.register(histogram)
        for part in (observed[:first], observed[first:]):
            for label, seconds in part:
                histogram.labels(label).observe(seconds)
            generate_latest(registry)
        reports.append([line for line in generate_latest(registry).splitlines() if b"_created" not in line])
    assert reports[0] == reports[1]


def _library_s(name: str, meaning: str, bounds: tuple[float, ...], label: str) -> Histogram:
    return Histogram(name, meaning, [label], buckets=bounds, registry=None)
