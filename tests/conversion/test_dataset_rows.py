"""Rows of data sets: read from files of every kind, each by its number, and as conversations of every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from antiphon.conversion.datasets import rows as reading
from antiphon.conversion.datasets.forms import RowReader
from antiphon.conversion.datasets.rows import Chunk, Place, chunks, files_of
from antiphon.errors import AntiphonError, ConfigError
from kit.datasets import FUNCTION, TOOL, called, jsonl, said

ROWS = [said(("user", f"question {i}"), ("assistant", f"answer {i}")) for i in range(40)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a few rows, and rows of a thousand bytes at most."""
    monkeypatch.setattr(reading, "CHUNK", 300)
    monkeypatch.setattr(reading, "BATCH", 3)
    monkeypatch.setattr(reading, "LONGEST_ROW", 1000)


def read(found: list[Chunk]) -> list[tuple[int, Any]]:
    return [(number, json.loads(data)) for chunk in found for number, data in chunk.rows()]


def written(folder: Path, ending: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"rows{ending}"
    match ending:
        case ".jsonl":
            path.write_bytes(jsonl(rows))
        case ".json":
            path.write_text(json.dumps(rows))
        case ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=10)
    return path


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet"])
def test_every_row_is_read_once_by_its_number_from_any_place_on(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path, ending, ROWS)
    whole = list(chunks([path], Place()))
    assert read(whole) == list(enumerate(ROWS, 1))
    assert len(whole) > 3
    for i, chunk in enumerate(whole):
        assert read(list(chunks([path], chunk.end))) == read(whole[i + 1 :])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet"])
@pytest.mark.parametrize("limit", [1, 7, 39, 40, 41])
def test_a_limit_counts_rows_of_all_files(tmp_path: Path, ending: str, limit: int) -> None:
    path = written(tmp_path, ending, ROWS[:25])
    (other := tmp_path / "other.jsonl").write_bytes(jsonl(ROWS[25:]))
    found = read(list(chunks([path, other], Place(), limit)))
    assert [row for _, row in found] == ROWS[:limit]


@pytest.mark.usefixtures("small")
def test_blank_lines_count_and_are_no_rows_and_a_last_line_needs_no_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}')
    assert read(list(chunks([path], Place()))) == [(1, {"a": 1}), (4, {"a": 2})]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [1001, 2000, 5000])
def test_a_row_that_is_too_long_is_named_and_those_around_it_are_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(ROWS[:5]) + b"x" * size + b"\n" + jsonl(ROWS[5:]))
    found = list(chunks([path], Place()))
    assert [row for _, row in read([one for one in found if one.problem is None])] == ROWS
    [named] = [one for one in found if one.problem is not None]
    assert (named.first, named.problem) == (6, ("not_json", "the row has more than 1000 bytes"))


def test_a_list_that_is_cut_gives_the_rows_before_the_cut_and_the_next_file(tmp_path: Path) -> None:
    cut, whole = tmp_path / "a.json", tmp_path / "b.jsonl"
    cut.write_text(json.dumps(ROWS)[:400])
    whole.write_bytes(jsonl(ROWS))
    found = list(chunks([cut, whole], Place()))
    good = read([one for one in found if one.problem is None])
    assert [row for _, row in good[-len(ROWS) :]] == ROWS
    before = good[: -len(ROWS)]
    assert before == list(enumerate(ROWS, 1))[: len(before)] != []
    [named] = [one for one in found if one.problem is not None]
    assert named.first == len(before) + 1
    assert "not JSON" in str(named.problem)


def test_a_parquet_file_that_is_cut_is_named_and_the_next_file_is_read(tmp_path: Path) -> None:
    cut = written(tmp_path, ".parquet", ROWS)
    cut.write_bytes(cut.read_bytes()[:-40])
    (whole := tmp_path / "b.jsonl").write_bytes(jsonl(ROWS))
    first, *rest = chunks([cut, whole], Place())
    assert (first.path, first.problem and first.problem[0]) == (str(cut), "unreadable_input")
    assert [row for _, row in read(rest)] == ROWS


def test_fields_that_are_null_in_parquet_are_absent(tmp_path: Path) -> None:
    path = written(tmp_path, ".parquet", [called(), said(("user", "a"), ("assistant", "b"))])
    [(_, first), (_, second)] = read(list(chunks([path], Place())))
    given = called()
    del given["messages"][1]["content"]
    assert first == given
    assert second == said(("user", "a"), ("assistant", "b"))


def test_a_folder_is_read_in_the_order_of_its_names_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b/2.jsonl", "a.ocm", "b/1.json", ".hidden/3.jsonl", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert [str(path.relative_to(tmp_path)) for path in files_of([tmp_path])] == ["a.ocm", "b/1.json", "b/2.jsonl"]


def test_what_is_not_there_and_a_folder_without_data_sets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        files_of([tmp_path / "none.jsonl"])
    with pytest.raises(ConfigError, match=r"no \*\.jsonl"):
        files_of([tmp_path])


# Rows of each form.

SAME: dict[str, dict[str, Any]] = {
    "chat": said(("system", "Be kind."), ("user", "Why?"), ("assistant", "So.")),
    "prompt-completion": {
        "prompt": said(("system", "Be kind."), ("user", "Why?"))["messages"],
        "completion": said(("assistant", "So."))["messages"],
    },
    "sharegpt": {
        "conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}],
        "system": "Be kind.",
    },
    "alpaca": {"instruction": "Why?", "input": "", "output": "So.", "system": "Be kind."},
    "harmony-json": {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "channel": "final", "content": "So."},
        ]
    },
    "harmony": {
        "text": "<|start|>system<|message|>Be kind.<|end|><|start|>user<|message|>Why?<|end|>"
        "<|start|>assistant<|channel|>final<|message|>So.<|end|>"
    },
    "openchatml": {
        "text": '---\nversion: "2.2"\n---\n<|start|>system<|message|>Be kind.<|end|>\n'
        "<|start|>user<|message|>Why?<|end|>\n<|start|>assistant<|channel|>final<|message|>So.<|end|>\n"
    },
}


@pytest.mark.parametrize("form", SAME)
@pytest.mark.parametrize("named", [True, False])
def test_each_form_is_found_by_its_fields_and_says_the_same(form: str, named: bool) -> None:
    row = RowReader(form if named else "auto").read(json.dumps(SAME[form]).encode())
    said = [(message.role.value, message.text) for message in row.conversation.messages]
    assert said == [("system", "Be kind."), ("user", "Why?"), ("assistant", "So.")]
    assert row.conversation.messages[-1].channel == "final"


def test_harmony_may_be_a_text_or_the_json_of_the_reference() -> None:
    read = RowReader("harmony").read
    text, value = (read(json.dumps(SAME[form]).encode()).conversation for form in ("harmony", "harmony-json"))
    assert [message.text for message in text.messages] == [message.text for message in value.messages]


def test_alpaca_has_its_input_below_the_instruction_and_earlier_turns_before() -> None:
    value = {"instruction": "Add.", "input": "1 2", "output": "3", "history": [["Hi", "Hello"]]}
    row = RowReader().read(json.dumps(value).encode())
    assert [message.text for message in row.conversation.messages] == ["Hi", "Hello", "Add.\n1 2", "3"]


def test_a_transcript_may_stand_in_another_field_or_be_a_file_of_its_own() -> None:
    text = SAME["openchatml"]["text"]
    named = RowReader(field="talk").read(json.dumps({"talk": text, "text": 1}).encode())
    alone = RowReader().read(text.encode(), "a.ocm")
    assert named.conversation.messages == alone.conversation.messages
    assert len(alone.conversation.messages) == 3


def test_places_are_those_of_the_row_though_one_chat_message_is_several() -> None:
    row = RowReader().read(json.dumps(called()).encode())
    assert [row.place(i) for i in range(len(row.conversation.messages))] == [
        "messages[0]", "messages[1]", "messages[1]", "messages[2]", "messages[3]",
    ]  # fmt: skip
    assert row.place(-1) == ""


def test_weights_of_chat_messages_are_those_of_all_that_they_become() -> None:
    value = called()
    value["messages"][1]["weight"] = 0
    value["messages"][3]["weight"] = 0.5
    assert RowReader().read(json.dumps(value).encode()).weights == {1: 0, 2: 0, 4: 0.5}


def test_a_prompt_is_not_trained_and_its_completion_is() -> None:
    assert RowReader().read(json.dumps(SAME["prompt-completion"]).encode()).weights == {0: 0, 1: 0}


@pytest.mark.parametrize("tools", [[TOOL], [FUNCTION], json.dumps([TOOL])])
def test_tools_may_be_a_list_with_or_without_types_or_its_json(tools: Any) -> None:
    row = RowReader().read(json.dumps({**called(), "tools": tools}).encode())
    assert [tool.recipient for tool in row.conversation.tools] == ["functions.weather"]
    assert row.conversation.tools[0].parameters == FUNCTION["parameters"]


def test_calls_without_ids_get_the_same_ones_each_time_and_results_answer_them_in_order() -> None:
    value = called()
    del value["messages"][1]["tool_calls"][0]["id"], value["messages"][2]["tool_call_id"]
    first, second = (RowReader().read(json.dumps(value).encode()).conversation for _ in range(2))
    assert first.messages == second.messages
    assert first.messages[2].call_id == first.messages[3].call_id == "call_0"
    assert first.messages[3].name == "functions.weather"


@pytest.mark.parametrize(
    ("row", "code", "words"),
    [
        (b'{"messages": [', "not_json", "not JSON"),
        (b"[1]", "not_json", "no JSON object"),
        (b'{"messages": "x"}', "unknown_form", "'messages'"),
        (b'{"question": "?"}', "unknown_form", "'question'"),
        (b'{"messages": [{"role": "king", "content": "x"}]}', "wrong_value", "messages[0].role"),
        (b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', "unsupported_content", "messages[0]"),
        (b'{"messages": [{"role": "user", "content": "x"}], "tools": "["}', "wrong_value", "tools"),
        (b'{"instruction": "x", "output": 3}', "wrong_value", "output"),
        (b'{"conversations": [{"from": "king", "value": "x"}]}', "wrong_value", "conversations[0].from"),
        (b'{"text": "<|start|>king"}', "truncated-header", ""),
        (b'{"messages": ' + b"[" * 100_000, "not_json", ""),
        ('{"messages": "\xff"}'.encode("latin-1"), "not_json", ""),
    ],
)
def test_a_row_that_is_no_conversation_is_an_error_with_a_place(row: bytes, code: str, words: str) -> None:
    with pytest.raises(AntiphonError) as caught:
        RowReader().read(row)
    assert caught.value.code == code
    assert words in f"{caught.value.position} {caught.value.message}"
