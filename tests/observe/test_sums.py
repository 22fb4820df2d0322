"""What several processes count, as one scrape."""

from __future__ import annotations

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from antiphon.observe import Metrics
from antiphon.observe.metrics import Family, growing, summed, text_of


def report(*, status: int, requests: int, seconds: float) -> list[Family]:
    """What one process reports, as it comes out of another's hands."""
    metrics = Metrics()
    for _ in range(requests):
        metrics.requests.labels("/chat", "POST", str(status)).inc()
        metrics.seconds.labels("/chat").observe(seconds)
    metrics.running.labels("small").inc(requests)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(metrics.families()), type=list[Family])


def samples(families: list[Family]) -> dict[str, float]:
    return {
        sample.name + "".join(f",{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text_of(families).decode())
        for sample in family.samples
    }


def test_counts_times_and_states_are_added_by_their_labels() -> None:
    found = samples(summed([report(status=200, requests=2, seconds=0.01), report(status=200, requests=3, seconds=4)]))
    assert found["antiphon_requests_total,POST,/chat,200"] == 5
    assert found["antiphon_request_seconds_count,/chat"] == 5
    assert found["antiphon_request_seconds_bucket,0.025,/chat"] == 2
    assert found["antiphon_turns_running,small"] == 5


def test_what_only_one_process_counted_is_there() -> None:
    found = samples(summed([report(status=200, requests=2, seconds=1), report(status=503, requests=1, seconds=1)]))
    assert (found["antiphon_requests_total,POST,/chat,200"], found["antiphon_requests_total,POST,/chat,503"]) == (2, 1)


def test_one_process_alone_reports_what_it_would_without_others() -> None:
    metrics = Metrics()
    metrics.requests.labels("/chat", "POST", "200").inc()
    own = [line for line in metrics.render().decode().splitlines() if "process" not in line]
    assert [line for line in text_of(metrics.families()).decode().splitlines() if "process" not in line] == own


def test_what_all_see_of_one_engine_is_not_added() -> None:
    def seen(slots: float, restarts: float) -> list[Family]:
        model = (("model", "small"),)
        lives = ("antiphon_engine_restarts_total", model, restarts)
        return [
            Family("antiphon_engine_slots", "Slots.", "gauge", (("antiphon_engine_slots", model, slots),)),
            Family("antiphon_engine_restarts", "Lives.", "counter", (lives,)),
        ]

    found = samples(summed([seen(4, 1), seen(4, 2)]))
    assert (found["antiphon_engine_slots,small"], found["antiphon_engine_restarts_total,small"]) == (4, 2)


def test_of_a_process_that_is_gone_what_grows_still_counts_and_what_it_was_doing_does_not() -> None:
    gone, there = report(status=200, requests=2, seconds=1), report(status=200, requests=3, seconds=1)
    found = samples(summed([growing(gone), there]))
    assert found["antiphon_requests_total,POST,/chat,200"] == 5
    assert found["antiphon_turns_running,small"] == 3
