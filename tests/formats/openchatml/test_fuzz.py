"""A short run of the fuzz target; `python tests/fuzz/openchatml.py 600` is the long one."""

from __future__ import annotations

from fuzz.openchatml import fuzz


def test_random_and_mutated_transcripts_never_break_a_reader() -> None:
    assert fuzz(1, count=500) == (500, None)
