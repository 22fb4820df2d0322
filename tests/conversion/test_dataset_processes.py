"""Data sets in several processes: what one gives, and what becomes of rows that end theirs."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from antiphon.conversion.datasets import pool
from antiphon.conversion.datasets.run import Run
from antiphon.conversion.datasets.work import Task
from antiphon.errors import ModelError
from kit.datasets import called, failing, harmony, jsonl, missing, said

GOOD = said(("user", "Why?"), ("assistant", "So."))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_several_processes_give_what_one_gives(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.conversion.datasets.rows.CHUNK", 2000)
    rows.write_bytes(jsonl([said(("user", f"question {i % 700}"), ("assistant", "So.")) for i in range(900)]) + b"{")
    task = Task(check=True)
    one = Run([rows], harmony, task, workers=1)
    two = Run([rows], harmony, task, workers=2)
    assert [(chunk, result) for chunk, result in two.results()] == [(chunk, result) for chunk, result in one.results()]
    assert one.sums == two.sums
    assert one.sums.kinds == {"duplicate": 200, "not_json": 1}
    assert multiprocessing.active_children() == []


def test_a_row_that_ends_its_process_or_takes_too_long_is_named_and_nothing_else_is_lost(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CHUNK_SECONDS", 1.0)
    monkeypatch.setattr(pool, "ROW_SECONDS", 5.0)  # In which a row that does not wait is done on any machine.
    rows.write_bytes(jsonl([GOOD, said(("user", "die")), called(), said(("user", "wait")), GOOD]))
    run = Run([rows], failing, Task(columns=("source",)), workers=2)
    results = [result for _, result in run.results()]
    found = [(one.row, one.kind) for result in results for one in result.findings]
    assert found == [(2, "work_limit"), (4, "work_limit")]
    assert (run.sums.rows, run.sums.failed, run.sums.written) == (5, 2, 3)
    lines = [json.loads(line)["source"] for result in results for out in result.output for line in out.splitlines()]
    assert [line.rpartition(":")[2] for line in lines] == ["1", "3", "5"]


def test_a_model_that_cannot_be_opened_is_the_error_of_the_run(rows: Path) -> None:
    rows.write_bytes(jsonl([GOOD]))
    with pytest.raises(ModelError, match="no such model"):
        list(Run([rows], missing, Task(), workers=2).results())
