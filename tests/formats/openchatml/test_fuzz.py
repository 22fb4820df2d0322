"""A short run of the fuzz target; `python tests/fuzz/openchatml.py 600` is the long one."""

from __future__ import annotations

import pytest

from fuzz.openchatml import fuzz


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_and_mutated_transcripts_never_break_a_reader(seed: int) -> None:
    tried, found = fuzz(seed, count=400)
    assert found is None
    assert tried == 400
