"""A histogram of what happens for each token, where prometheus-client's takes longer than the reading of the token."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class Observations:
    """Those of one label: noted as they come, counted when there is time."""

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
        """What is observed of the label's ``value``."""
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
