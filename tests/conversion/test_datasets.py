"""Data sets: what is wrong with a row, what is mended, how rows are packed, and runs that fail or go on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversion.datasets.checks import KINDS, RowFinding
from antiphon.conversion.datasets.run import Run, SeenRows
from antiphon.conversion.datasets.shards import best_fit
from antiphon.conversion.datasets.work import Task, TrainedModel
from antiphon.errors import ConfigError
from kit.datasets import called, failing, harmony, jsonl, said

GOOD = said(("user", "Why?"), ("assistant", "So."))


def check(folder: Path, *rows: Any, open: Callable[[], TrainedModel] = harmony, **task: Any) -> list[RowFinding]:
    """The findings of these rows, in their order."""
    path = folder / "rows.jsonl"
    path.write_bytes(b"".join(row if isinstance(row, bytes) else jsonl([row]) for row in rows))
    run = Run([path], open, Task(check=True, **task), workers=1)
    found = [one for _, result in run.results() for one in result.findings]
    assert run.sums.kinds == {kind: [one.kind for one in found].count(kind) for kind in {one.kind for one in found}}
    return found


WRONG: list[tuple[str, Any, list[tuple[str, str]]]] = [
    ("good", GOOD, []),
    ("a call with its result", called(), []),
    ("a call at the end", {**called(), "messages": called()["messages"][:2]}, []),
    ("no texts", said(("user", ""), ("assistant", "")), [("empty", "messages"), ("untrained", "")]),
    ("no result", called(result=False), [("call_unanswered", "messages[1]")]),
    ("no call", said(("user", "a"), ("tool", "b"), ("assistant", "c")), [("result_without_call", "messages[1]")]),
    ("another tool", called(name="other"), [("tool_not_offered", "messages[1]")]),
    ("no JSON", called("Rome"), [("arguments", "messages[1]")]),
    ("no object", called("[1]"), [("arguments", "messages[1]")]),
    ("a number for a text", called('{"city": 5}'), [("arguments", "messages[1].city")]),
    ("a missing argument", called("{}"), [("arguments", "messages[1]")]),
    ("JSON within JSON", called(json.dumps('{"city": "Rome"}')), [("arguments", "messages[1]")]),
    (
        "no schema",
        {**called(), "tools": [{"name": "weather", "parameters": {"type": 5}}]},
        [("tool_schema", "tools[0]")],
    ),
    ("a control", said(("user", "a <|end|> b"), ("assistant", "c")), [("control_spelled", "messages[0]")]),
    ("tags", said(("user", "a"), ("assistant", "<think>\nb\n</think>\n\nc")), [("thought_in_text", "messages[1]")]),
    ("no reply", said(("user", "a")), [("untrained", "")]),
    (
        "earlier reasoning",
        {
            "messages": [
                *called()["messages"][:1],
                {"role": "assistant", "reasoning": "b", "content": "c"},
                *GOOD["messages"],
            ]
        },
        [("reasoning_dropped", "messages[1]"), ("end_not_shown", "messages[1]")],
    ),
]


@pytest.mark.parametrize(("row", "expected"), [row for _, *row in WRONG], ids=[name for name, *_ in WRONG])
def test_what_is_wrong_is_found_with_its_place(tmp_path: Path, row: Any, expected: list[tuple[str, str]]) -> None:
    found = check(tmp_path, row)
    assert [(one.kind, one.place) for one in found] == expected
    assert all(one.severity == KINDS[one.kind][0] and one.row == 1 for one in found)


def test_the_page_has_each_kind_with_its_severity_and_meaning() -> None:
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text("utf-8")
    rows = re.findall(r"^\| (`\w+`) \| (error|warning) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(f"`{kind}`", severity, meaning) for kind, (severity, meaning) in KINDS.items()]


def test_a_schema_that_is_too_costly_to_judge_by_is_named(tmp_path: Path) -> None:
    node = {"allOf": [{"properties": {"x": {"$ref": "#/$defs/t"}}}] * 2}
    tool = {"name": "weather", "parameters": {"$ref": "#/$defs/t", "$defs": {"t": node}}}
    value: dict[str, Any] = {}
    for _ in range(40):
        value = {"x": value}
    [found] = check(tmp_path, {**called(json.dumps(value)), "tools": [tool]})
    assert (found.kind, found.place) == ("tool_schema", "messages[1]")
    assert "too long" in found.reason


def test_rows_that_say_the_same_are_named_with_the_first_whatever_their_ids_and_spelling(tmp_path: Path) -> None:
    other = called()
    other["messages"][1]["tool_calls"][0]["id"] = other["messages"][2]["tool_call_id"] = "another"
    alpaca = {"instruction": "Why?", "input": "", "output": "So."}
    found = check(tmp_path, called(), GOOD, other, alpaca, said(("user", "Why?"), ("assistant", "No.")))
    assert [(one.row, one.kind) for one in found] == [(3, "duplicate"), (4, "duplicate")]
    assert [one.reason.rpartition(":")[2] for one in found] == ["1", "2"]


def test_a_row_that_cannot_be_read_or_rendered_is_named_and_the_others_are_counted(tmp_path: Path) -> None:
    bad = [b"{\n", jsonl([{"a": 1}]), jsonl([said(("king", "x"))]), jsonl([said(("user", "raise"))])]
    found = check(tmp_path, GOOD, *bad, called(), open=failing)
    assert [(one.row, one.kind) for one in found] == [
        (2, "not_json"), (3, "unknown_form"), (4, "wrong_value"), (5, "internal_error"),
    ]  # fmt: skip
    assert "KeyError" in found[-1].reason


def test_a_row_longer_than_the_context_is_named_with_its_length(tmp_path: Path) -> None:
    long = said(("user", "word " * 500), ("assistant", "So."))
    [found] = check(tmp_path, GOOD, long, context=200)
    assert (found.row, found.kind) == (2, "too_long")
    assert "of which there may be 200" in found.reason


def test_weights_and_owners_say_what_is_trained(tmp_path: Path) -> None:
    untrained = {"messages": [{**GOOD["messages"][0]}, {**GOOD["messages"][1], "weight": 0}]}
    assert [one.kind for one in check(tmp_path, untrained)] == ["untrained"]


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=200), st.integers(0, 2))
def test_the_table_of_rows_tells_where_a_digest_was_first(digests: list[bytes], file: int) -> None:
    seen, first = SeenRows(), dict[bytes, tuple[int, int]]()
    for row, digest in enumerate([*digests, bytes(16), *digests], 1):
        assert seen.first(digest, (file, row)) == first.setdefault(digest, (file, row))


def test_the_table_of_rows_grows() -> None:
    seen = SeenRows()
    digests = [blake2b(i.to_bytes(4), digest_size=16).digest() for i in range(20_000)]
    for row, digest in enumerate(digests):
        assert seen.first(digest, (0, row)) == (0, row)
    assert [seen.first(digest, (9, 9)) for digest in digests] == [(0, row) for row in range(20_000)]


# Rows that are mended.


def fixed(folder: Path, *rows: Any) -> list[Any]:
    (path := folder / "rows.jsonl").write_bytes(jsonl(rows))
    run = Run([path], harmony, Task(check=True, fix=True), workers=1, out=folder / "out")
    assert list(run.results())
    return [
        json.loads(line) for file in sorted((folder / "out").glob("part-*")) for line in file.read_bytes().splitlines()
    ]


def test_what_is_sure_is_mended_and_what_is_wrong_or_there_twice_is_left_out(tmp_path: Path) -> None:
    thought = said(("user", "a"), ("assistant", "<think>\nb\n</think>\n\nc"))
    twice = called(json.dumps('{"city": "Rome"}'))
    mended = fixed(tmp_path, thought, twice, called("no"), GOOD, GOOD)
    assert mended == [
        {"messages": [thought["messages"][0], {"role": "assistant", "content": "c", "reasoning": "b"}]},
        called('{"city":"Rome"}'),
        GOOD,
    ]
    again = tmp_path / "again"
    again.mkdir()
    assert check(again, *mended) == []


def test_a_row_without_findings_stays_as_it_is_byte_for_byte(tmp_path: Path) -> None:
    line = b'{ "messages":[{"role":"user","content":"\\u0041"},{"role":"assistant","content":"b"}] ,"id":7}\n'
    (path := tmp_path / "rows.jsonl").write_bytes(line)
    list(Run([path], harmony, Task(check=True, fix=True), workers=1, out=tmp_path / "out").results())
    assert (tmp_path / "out" / "part-00000.jsonl").read_bytes() == line


# Packing.


@given(st.lists(st.integers(1, 100), max_size=300), st.integers(100, 400))
def test_each_row_is_packed_once_and_whole(sizes: list[int], length: int) -> None:
    sequences = best_fit(sizes, length)
    assert sorted(i for sequence in sequences for i in sequence) == list(range(len(sizes)))
    assert all(sum(sizes[i] for i in sequence) <= length for sequence in sequences)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=300))
def test_no_two_sequences_could_be_one(sizes: list[int]) -> None:
    sums = sorted(sum(sizes[i] for i in sequence) for sequence in best_fit(sizes, 1000))
    assert len(sums) < 2 or sums[0] + sums[1] > 1000


# Runs that go on.


def run_in(folder: Path, out: Path, **more: Any) -> Run:
    return Run([folder / "rows.jsonl"], harmony, Task(columns=("input_ids", "source")), workers=1, out=out, **more)


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a data set of fifty rows, of which each chunk has a few."""
    monkeypatch.setattr("antiphon.conversion.datasets.rows.CHUNK", 300)
    rows = [said(("user", f"question {i}"), ("assistant", f"answer {i}")) for i in range(49)]
    (tmp_path / "rows.jsonl").write_bytes(jsonl(rows[:20]) + b"{\n" + jsonl(rows[20:]))
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("after", [1, 2, 5, 9])
def test_a_run_that_is_ended_anywhere_goes_on_and_gives_the_same(many: Path, after: int) -> None:
    whole = run_in(many, many / "whole", shard_rows=7)
    assert len(list(whole.results())) > 10
    results = run_in(many, many / "part", shard_rows=7).results()
    for _ in range(after):
        next(results)
    results.close()  # type: ignore[attr-defined]
    again = run_in(many, many / "part", shard_rows=7)
    assert 1 <= len(list(again.results())) <= 17 - after + 4
    assert contents(many / "part") == contents(many / "whole")
    assert again.sums == whole.sums
    assert whole.sums.rows == 50


def test_a_run_that_is_over_is_told_and_not_done_again(many: Path) -> None:
    first = run_in(many, many / "out")
    assert list(first.results())
    second = run_in(many, many / "out")
    assert list(second.results()) == []
    assert second.sums == first.sums
    assert second.earlier == 50


def test_duplicates_are_known_across_a_run_that_goes_on(many: Path) -> None:
    (many / "rows.jsonl").write_bytes(jsonl([GOOD, called()] * 20))
    run = partial(Run, [many / "rows.jsonl"], harmony, Task(check=True), workers=1, out=many / "out", shard_rows=3)
    results = run().results()
    next(results)
    results.close()  # type: ignore[attr-defined]
    (whole := run()).results()
    assert list(whole.results())
    assert whole.sums.kinds == {"duplicate": 38}


def test_a_folder_of_another_run_is_refused_with_what_differs(many: Path) -> None:
    list(run_in(many, many / "out").results())
    with pytest.raises(ConfigError, match=r"with other limit\."):
        list(run_in(many, many / "out", limit=3).results())
    with (many / "rows.jsonl").open("ab") as file:
        file.write(jsonl([GOOD]))
    with pytest.raises(ConfigError, match=r"with other files\.") as caught:
        list(run_in(many, many / "out").results())
    assert "--force" in str(caught.value.hint)
    assert len(list(run_in(many, many / "out", force=True).results())) > 10


def test_a_folder_of_other_files_is_refused_and_those_stay(many: Path) -> None:
    (many / "out").mkdir()
    (many / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        list(run_in(many, many / "out").results())
    list(run_in(many, many / "out", force=True).results())
    assert (many / "out" / "thesis.txt").read_text() == "mine"


def test_what_a_killed_run_had_begun_to_write_is_gone_and_other_files_stay(many: Path) -> None:
    list(run_in(many, many / "whole").results())
    list(run_in(many, many / "out").results())
    begun = (
        ".part-00001.jsonl.1a2b.part",
        "..rows-00001.bin.1a2b.part",
        "..state.json.1a2b.part",
        "findings-00001.jsonl",
    )
    for name in (*begun, "thesis.part"):
        (many / "out" / name).write_text("half")
    list(run_in(many, many / "out").results())
    assert contents(many / "out") == {**contents(many / "whole"), "thesis.part": b"half"}


def test_results_in_a_folder_that_is_read_are_no_rows_of_it(many: Path) -> None:
    for _ in range(2):
        run = Run([many], harmony, Task(check=True, fix=True), workers=1, out=many / "out")
        list(run.results())
        assert run.sums.rows == 50
    assert (many / "out" / "part-00000.jsonl").exists()


def test_a_limit_holds_across_a_run_that_goes_on(many: Path) -> None:
    results = run_in(many, many / "out", limit=30, shard_rows=5).results()
    for _ in range(4):
        next(results)
    results.close()  # type: ignore[attr-defined]
    again = run_in(many, many / "out", limit=30, shard_rows=5)
    list(again.results())
    assert again.sums.rows == 30
