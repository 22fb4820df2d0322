"""The accounts of the nightly comparisons: what is argued, and what is not."""

from __future__ import annotations

import json
from pathlib import Path

from nightly.published import tried
from nightly.run import ARGUED, Argued, Result, pruned, unargued
from nightly.shapes import SHAPES

WHY: Argued = [{"why": "as it should be", "suite": ["old", "known"]}, {"why": "another", "published": ["x: reply y"]}]


def test_each_failure_is_argued_once_and_in_words() -> None:
    argued = json.loads(ARGUED.read_text("utf-8"))
    rows = [(part, row) for entry in argued for part, all_rows in entry.items() if part != "why" for row in all_rows]
    assert len(rows) == len(set(rows))
    assert all(len(entry["why"].split()) >= 4 for entry in argued)


def test_a_new_failure_and_an_idle_argument_are_both_told() -> None:
    result = Result(failures={"known": "", "new": "it was read otherwise"})
    assert list(unargued("suite", result, WHY)) == [
        "new: it was read otherwise",
        "old: is argued, and fails no longer",
    ]


def test_what_fails_no_longer_is_taken_out_of_the_parts_that_ran() -> None:
    kept = pruned(WHY, {"suite": Result(failures={"known": ""})})
    assert kept == [{"why": "as it should be", "suite": ["known"]}, WHY[1]]
    assert pruned(kept, {"suite": Result(), "published": Result()}) == []


def test_shapes_have_names_of_their_own_and_arguments_that_are_json() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 19
    assert all(json.loads(json.dumps(given)) == given for shape in SHAPES for _, given in shape.calls)


def test_a_template_that_does_not_compile_is_a_fault_with_its_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% if tool_calls %}")
    assert [name for name, _ in tried(broken).faults] == ["load"]
