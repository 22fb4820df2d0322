"""``antiphon dataset``: rows are checked, rendered, packed and counted, and a run that was killed goes on."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pyarrow
import pyarrow.parquet
import pytest

from antiphon import training
from antiphon.conversion.datasets.forms import RowReader
from kit.datasets import called, jsonl, said
from kit.program import PROGRAM, environment, in_process
from kit.waiting import wait_until

ROWS = [
    said(("system", "Be kind."), ("user", "Why is the sky blue?"), ("assistant", "Because of how light is scattered.")),
    called(),
    {"instruction": "Add.", "input": "1 and 2", "output": "3"},
    {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]},
]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(jsonl(ROWS))
    return path


def dataset(action: str, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return in_process("dataset", action, str(path), "--format", "harmony", *options, home=path.parent)


def samples(model: Any = "harmony", **options: Any) -> list[training.Sample]:
    """The same rows, rendered in the library."""
    renderer = training.Renderer(model)
    read = [RowReader().read(json.dumps(row).encode()) for row in ROWS]
    return [renderer.render(row.conversation, weights=row.weights, **options) for row in read]


def table(folder: Path) -> list[dict[str, Any]]:
    """The rows of all files of a folder."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("part-*")):
        match path.suffix:
            case ".jsonl":
                found += map(json.loads, path.read_bytes().splitlines())
            case ".parquet":
                found += pyarrow.parquet.read_table(path).to_pylist()
            case ".arrow":
                with pyarrow.ipc.open_file(path) as file:
                    found += file.read_all().to_pylist()
    return found


def test_a_good_data_set_has_no_findings(rows: Path) -> None:
    done = dataset("check", rows)
    assert (done.returncode, done.stdout) == (0, "4 rows, 0 with errors, 0 findings\n"), done.stderr


def test_each_finding_is_a_line_with_its_place_and_errors_are_the_exit_code(rows: Path) -> None:
    rows.write_bytes(jsonl([*ROWS, ROWS[0], called("no")]) + b'{"messages": [')
    done = dataset("check", rows)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{rows}:5: the same conversation as {rows}:1  [duplicate]",
        f"{rows}:6: messages[1]: 'no' is no JSON object  [arguments]",
        f"{rows}:7: the row is not JSON: Input data was truncated  [not_json]  One JSON object a line.",
        "7 rows, 2 with errors, 3 findings",
        "arguments\t1",
        "duplicate\t1",
        "not_json\t1",
    ]


def test_findings_and_sums_are_json_for_programs(rows: Path) -> None:
    rows.write_bytes(jsonl([ROWS[0], ROWS[0]]))
    done = dataset("check", rows, "--json")
    assert done.returncode == 0
    found, sums = map(json.loads, done.stdout.splitlines())
    assert found == {
        "file": str(rows), "row": 2, "place": "", "kind": "duplicate", "severity": "warning",
        "reason": f"the same conversation as {rows}:1", "fix": None, "hint": None,
    }  # fmt: skip
    assert sums["sums"]["rows"] == 2
    assert sums["sums"]["kinds"] == {"duplicate": 1}


COLUMNS = "input_ids,attention_mask,labels,assistant_masks,loss_weights,owners,parts,messages,source"


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
def test_rendered_rows_have_the_ids_and_masks_of_the_library(rows: Path, kind: str) -> None:
    done = dataset("render", rows, "-o", str(rows.parent / "out"), "--to", kind, "--columns", COLUMNS)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    expected: list[dict[str, Any]] = [
        {
            "input_ids": list(sample.ids),
            "attention_mask": [1] * len(sample.ids),
            "labels": list(sample.labels),
            "assistant_masks": list(sample.sampled),
            "loss_weights": list(sample.weights),
            "owners": list(sample.owners),
            "parts": list(sample.parts),
            "messages": list(sample.messages),
            "source": f"{rows}:{number}",
        }
        for number, sample in enumerate(samples(), 1)
    ]
    assert table(rows.parent / "out") == expected
    assert any(label != -100 for row in expected for label in row["labels"])


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columns_have_the_types_that_trainers_read(rows: Path, kind: str) -> None:
    dataset("render", rows, "-o", str(rows.parent / "out"), "--to", kind)
    path = rows.parent / "out" / f"part-00000.{kind}"
    schema = pyarrow.parquet.read_schema(path) if kind == "parquet" else pyarrow.ipc.open_file(path.read_bytes()).schema
    assert {field.name: str(field.type.value_type) for field in schema} == {
        "input_ids": "int32", "attention_mask": "int8", "labels": "int32",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "value"),
    [("last", "last"), ("assistant,user", (training.Owner.ASSISTANT, training.Owner.USER))],
)
def test_train_on_says_which_labels_there_are(rows: Path, words: str, value: Any) -> None:
    dataset("render", rows, "-o", str(rows.parent / "out"), "--train-on", words)
    labels = [row["labels"] for row in table(rows.parent / "out")]
    assert labels == [list(sample.labels) for sample in samples(train_on=value)]
    assert labels != [list(sample.labels) for sample in samples()]


def test_a_row_that_cannot_be_rendered_is_named_and_the_others_are_written(rows: Path) -> None:
    rows.write_bytes(jsonl(ROWS[:2]) + b"{}\n" + jsonl(ROWS[2:]))
    done = dataset("render", rows, "-o", str(rows.parent / "out"))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{rows}:3: a row with the fields of nothing is no conversation")
    assert [row["input_ids"] for row in table(rows.parent / "out")] == [list(sample.ids) for sample in samples()]
    [found] = map(json.loads, (rows.parent / "out" / "findings-00000.jsonl").read_bytes().splitlines())
    assert (found["file"], found["row"], found["kind"]) == (str(rows), 3, "unknown_form")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_packed_sequences_have_each_row_whole_and_once(rows: Path, kind: str) -> None:
    rows.write_bytes(jsonl(ROWS * 50))
    length = 1000
    done = dataset("pack", rows, "-o", str(rows.parent / "out"), "--length", str(length), "--to", kind, "--json")
    assert done.returncode == 0, done.stderr
    packed = table(rows.parent / "out")
    found: list[tuple[list[int], list[int]]] = []
    for sequence in packed:
        assert sum(sequence["seq_lengths"]) == len(sequence["input_ids"]) == len(sequence["labels"]) <= length
        assert sequence["position_ids"] == [i for size in sequence["seq_lengths"] for i in range(size)]
        start = 0
        for size in sequence["seq_lengths"]:
            found.append((sequence["input_ids"][start : start + size], sequence["labels"][start : start + size]))
            start += size
    assert sorted(found) == sorted((list(one.ids), list(one.labels)) for one in samples() * 50)
    sums = json.loads(done.stdout)["sums"]
    assert sums["sequences"] == len(packed)
    assert sums["filled"] == pytest.approx(sum(len(ids) for ids, _ in found) / (len(packed) * length), abs=1e-4)
    assert sums["filled"] > 0.9


def test_a_row_longer_than_a_sequence_is_named_and_not_cut(rows: Path) -> None:
    longest = max(len(sample.ids) for sample in samples())
    done = dataset("pack", rows, "-o", str(rows.parent / "out"), "--length", str(longest - 1))
    assert done.returncode == 1
    assert done.stdout == f"{rows}:2: {longest} tokens, of which there may be {longest - 1}  [too_long]\n"
    assert sum(size for row in table(rows.parent / "out") for size in row["seq_lengths"]) == sum(
        len(sample.ids) for sample in samples() if len(sample.ids) < longest
    )


def test_stats_count_tokens_by_whose_they_are(rows: Path) -> None:
    sums = json.loads(dataset("stats", rows, "--json").stdout)
    all_of = samples()
    owners = Counter(training.Owner(owner).name.lower() for sample in all_of for owner in sample.owners)
    parts = Counter(training.Part(part).name.lower() for sample in all_of for part in sample.parts if part)
    assert sums["rows"] == len(ROWS)
    assert sums["tokens"] == sum(len(sample.ids) for sample in all_of)
    assert sums["sampled"] == sum(sum(sample.sampled) for sample in all_of)
    assert (sums["owners"], sums["parts"]) == (owners, parts)
    assert sums["tools"] == {"functions.weather": 1}
    assert sums["lengths"]["max"] == max(len(sample.ids) for sample in all_of)
    assert "tokens\t" in dataset("stats", rows).stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("render", "--columns", "ids"), "--columns: 'ids' is not known"),
        (("render", "--to", "csv"), "--to: 'csv' is not known"),
        (("render", "--train-on", "king"), "--train-on: 'king' is not known"),
        (("render", "--from", "xml"), "--from: 'xml' is not known"),
        (("render", "--date", "tomorrow"), "--date: 'tomorrow' is no day"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(rows: Path, options: tuple[str, ...], words: str) -> None:
    action, *rest = options
    done = dataset(action, rows, "-o", str(rows.parent / "out"), *rest)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert not (rows.parent / "out").exists()


def test_mended_rows_need_a_folder(rows: Path) -> None:
    done = dataset("check", rows, "--fix")
    assert (done.returncode, "--output" in done.stderr) == (2, True)


def test_a_real_vocabulary_and_template_give_the_same_as_the_library(rows: Path, smollm2_path: Path) -> None:
    out = rows.parent / "out"
    named = ("-m", str(smollm2_path), "--date", "2026-01-31")
    done = in_process("dataset", "render", str(rows), *named, "-o", str(out), home=rows.parent)
    assert done.returncode == 0, done.stderr
    assert [(row["input_ids"], row["labels"]) for row in table(out)] == [
        (list(sample.ids), list(sample.labels)) for sample in samples(smollm2_path)
    ]


def test_a_folder_of_a_tokenizer_and_a_template_is_a_model(rows: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "model").mkdir()
    vocabulary = {letter: id for id, letter in enumerate(map(chr, range(33, 127)))} | {"Ġ": 94, "<|im_end|>": 95}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    end = {"id": 95, "content": "<|im_end|>", "special": True, "single_word": False, "lstrip": False, "rstrip": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {"version": "1.0", "model": model, "pre_tokenizer": level, "decoder": level}
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "added_tokens": [{**end, "normalized": False}]}))
    template = "{% for m in messages %}{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, "eos_token": "<|im_end|>"}))
    rows.write_bytes(jsonl([said(("user", "Why?"), ("assistant", "So."))]))
    done = in_process("dataset", "render", str(rows), "-m", str(folder), "-o", str(tmp_path / "out"), home=tmp_path)
    assert done.returncode == 0, done.stderr
    spelled = {id: letter for letter, id in vocabulary.items()}
    [row] = table(tmp_path / "out")
    assert "".join(map(spelled.__getitem__, row["input_ids"])) == "user:Why?<|im_end|>assistant:So.<|im_end|>"


def test_a_killed_run_goes_on_and_gives_what_a_whole_one_gives(rows: Path) -> None:
    text = "word " * 12_000
    rows.write_bytes(jsonl([said(("user", f"{i}"), ("assistant", text)) for i in range(40)]))
    options = ("dataset", "render", str(rows), "--format", "harmony", "--shard-rows", "1")
    killed, whole = rows.parent / "killed", rows.parent / "whole"
    environ = environment(rows.parent)
    run = subprocess.Popen(
        [*PROGRAM, *options, "--workers", "2", "-o", str(killed)], env=environ, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: (killed / "part-00001.jsonl").exists())
    workers = psutil.Process(run.pid).children(recursive=True)
    run.kill()
    run.wait()
    wait_until(lambda: not any(worker.is_running() for worker in workers))
    before = {path.name: path.read_bytes() for path in killed.glob("part-*")}
    assert 2 <= len(before) < 40
    done = in_process(*options, "--workers", "1", "-o", str(killed), home=rows.parent)
    assert (done.returncode, "rows were done before" in done.stderr) == (0, True), done.stderr
    in_process(*options, "--workers", "1", "-o", str(whole), home=rows.parent)
    files = {path.name: path.read_bytes() for path in whole.iterdir()}
    assert {path.name: path.read_bytes() for path in killed.iterdir()} == files
    assert before.items() <= files.items()
    assert len(table(whole)) == 40
