"""How many threads this machine, or the control group that the process is in, has time for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from antiphon.engines.llama_cpp import LlamaCppSettings
from antiphon.engines.machine import computing_threads, usable_cores

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("max 100000", CORES), ("100000 100000", 1), ("150000 100000", 1), ("5000 100000", 1), ("9900000 100000", CORES),
     ("nonsense", CORES)],
)  # fmt: skip
def test_no_more_threads_than_the_control_group_has_time_for(tmp_path: Path, limit: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(limit + "\n")
    assert usable_cores(tmp_path) == cores
    assert computing_threads(tmp_path) <= cores


def test_two_cores_that_share_a_unit_are_worth_one_thread(tmp_path: Path) -> None:
    for core in os.sched_getaffinity(0):
        topology = tmp_path / f"cpu{core}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text("0-999\n")
    assert computing_threads(tmp_path / "no group", tmp_path) == 1
    assert computing_threads(tmp_path / "no group", tmp_path / "no topology") == CORES


def test_an_engine_that_is_not_told_otherwise_has_a_thread_for_each() -> None:
    assert LlamaCppSettings(model=Path("x")).thread_count() == computing_threads()
    assert LlamaCppSettings(model=Path("x"), threads=5).thread_count() == 5
