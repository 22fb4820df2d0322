"""A few seconds of what `make soak` does for minutes."""

from __future__ import annotations

from clients.soak import soak


def test_nothing_is_left_of_a_hundred_bad_clients() -> None:
    run = soak(seconds=2, streams=100, delay=0.01, rounds=1)
    assert not run.faults, run.table()
    done = {"whole", "stream", "hang_up", "read_slowly", "nonsense", "half", "background"}
    assert {name for name in done if run.counts[name]} == done
