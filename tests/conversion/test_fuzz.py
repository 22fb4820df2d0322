"""A short run of the fuzz target; `python tests/fuzz/conversions.py 5000` is the long one."""

from __future__ import annotations

from fuzz.conversions import fuzz


def test_what_differs_after_any_way_there_and_back_is_reported_and_nothing_else() -> None:
    counts, failures = fuzz(1, 250, ways=1)
    assert failures == []
    assert counts["trips"] > 180
