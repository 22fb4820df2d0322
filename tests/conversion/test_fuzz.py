"""A short run of the fuzz target; `python tests/fuzz/conversions.py 5000` is the long one."""

from __future__ import annotations

import pytest

from fuzz.conversions import fuzz


@pytest.mark.parametrize("seed", range(1, 6))
def test_what_differs_after_any_way_there_and_back_is_reported_and_nothing_else(seed: int) -> None:
    counts, failures = fuzz(seed, 200, ways=1)
    assert failures == []
    assert counts["trips"] > 150
