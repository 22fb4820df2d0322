"""`antiphon convert` and `validate` of folders, patterns and several files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.program import in_process

GOOD = 'version: "2.2"\n<|start|>user<|message|>Hi<|end|>\n<|start|>assistant<|message|>Hello<|return|>\n'
BAD = 'version: "2.2"\n<|start|>moderator<|message|>Hello<|end|>\n'
CALL = (
    'version: "2.2"\n<|start|>user<|message|>Hi<|end|>\n'
    "<|start|>assistant call_id=w1 to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n"
)
CHAT = json.dumps({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """A folder with transcripts and a chat, one of them below another folder, and what is none."""
    folder = tmp_path / "chats"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.ocm").write_text(CALL)
    (folder / "b.json").write_text(CHAT)
    (folder / "sub" / "c.ocm").write_text(CALL)
    (folder / "notes.md").write_text("nothing")
    (folder / ".hidden.ocm").write_text(BAD)
    (folder / "a.ocm.sidecar.json").write_text("{}")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_folder_is_converted_with_its_names_and_one_summary(chats: Path) -> None:
    out = chats.parent / "out"
    done = in_process("convert", str(chats), "--to", "harmony", "-o", str(out), home=chats.parent)
    assert (done.returncode, done.stdout) == (0, "")
    assert names(out) == ["a.harmony", "b.harmony", "sub/c.harmony"]
    single = in_process("convert", str(chats / "a.ocm"), "--to", "harmony", home=chats.parent)
    assert (out / "a.harmony").read_text() == single.stdout
    assert done.stderr.splitlines() == [
        f"3 of 3 files are in {out}: what is not in them:",
        f"      2 × messages[].call_id in 2 files, first {chats / 'a.ocm'}: 'w1' becomes None",
    ]


def test_programs_get_one_object(chats: Path) -> None:
    (chats / "bad.ocm").write_text(BAD)
    out = chats.parent / "out"
    done = in_process("convert", str(chats), "--to", "harmony", "-o", str(out), "--json", home=chats.parent)
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert [row["file"] for row in report["converted"]] == [
        str(chats / name) for name in ("a.ocm", "b.json", "sub/c.ocm")
    ]
    (failed,) = report["failed"]
    assert (failed["file"], failed["error"]["code"]) == (str(chats / "bad.ocm"), "E-PARSE-HEADER")
    (lost,) = report["losses"]
    assert (lost["path"], lost["count"], lost["files"], lost["first"]) == (
        "messages[].call_id", 2, 2, str(chats / "a.ocm"),
    )  # fmt: skip


def test_a_file_that_fails_has_a_line_and_the_others_are_converted(chats: Path) -> None:
    (chats / "aa.ocm").write_text(BAD)
    out = chats.parent / "out"
    done = in_process("convert", str(chats), "--to", "chat", "-o", str(out), home=chats.parent)
    assert done.returncode == 1
    assert names(out) == ["a.json", "b.json", "sub/c.json"]
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"{chats / 'aa.ocm'}: 2:10: unknown role 'moderator'  [E-PARSE-HEADER]")
    assert "3 of 4 files" in done.stderr


def test_nothing_is_written_over_without_being_told(chats: Path) -> None:
    out = chats.parent / "out"
    out.mkdir()
    (out / "a.harmony").write_text("mine")
    words = ("convert", str(chats), "--to", "harmony", "-o", str(out))
    refused = in_process(*words, home=chats.parent)
    assert (refused.returncode, (out / "a.harmony").read_text()) == (1, "mine")
    assert "is there already" in refused.stderr
    assert names(out) == ["a.harmony", "b.harmony", "sub/c.harmony"]
    assert in_process(*words, "--force", home=chats.parent).returncode == 0
    assert (out / "a.harmony").read_text() != "mine"


def test_an_input_is_never_written_over_and_two_inputs_have_two_outputs(chats: Path) -> None:
    (chats / "a.json").write_text(CHAT)
    before = (chats / "b.json").read_bytes()
    onto = in_process("convert", str(chats), "--to", "chat", "-o", str(chats), "--force", home=chats.parent)
    assert (onto.returncode, (chats / "b.json").read_bytes()) == (1, before)
    out = chats.parent / "out"
    both = in_process("convert", str(chats), "--to", "harmony", "-o", str(out), "--force", home=chats.parent)
    assert both.returncode == 1
    assert "the output of another" in both.stderr


def test_outputs_below_the_inputs_are_no_inputs_the_next_time(chats: Path) -> None:
    out = chats / "converted"
    for _ in range(2):
        done = in_process("convert", str(chats), "--to", "chat", "-o", str(out), "--force", home=chats.parent)
        assert (done.returncode, names(out)) == (0, ["a.json", "b.json", "sub/c.json"])


def test_a_pattern_is_the_files_that_are_named_like_it(chats: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(chats)
    done = in_process("convert", "**/*.ocm", "--to", "harmony", "-o", "out", home=chats.parent)
    assert (done.returncode, names(chats / "out")) == (0, ["a.harmony", "c.harmony"])
    checked = in_process("validate", "*.ocm", home=chats.parent)
    assert checked.stdout.splitlines() == ["a.ocm: valid", "1 file: all valid"]
    assert in_process("convert", "*.none", "--to", "chat", "-o", "out", home=chats.parent).returncode == 2


def test_sidecars_of_many_bring_everything_back(chats: Path) -> None:
    there, back = chats.parent / "there", chats.parent / "back"
    (chats / "a.ocm.sidecar.json").unlink()
    words = ("--sidecar", "--from")
    done = in_process(
        "convert", str(chats), "--to", "harmony", "-o", str(there), *words, "openchatml", home=chats.parent
    )
    assert done.returncode == 0
    done = in_process(
        "convert", str(there), "--to", "openchatml", "-o", str(back), *words, "harmony", home=chats.parent
    )
    assert done.returncode == 0
    assert [(back / name).read_text() for name in ("a.ocm", "sub/c.ocm")] == [CALL, CALL]


def test_several_checks_end_with_their_totals(chats: Path) -> None:
    (chats / "bad.ocm").write_text(BAD)
    done = in_process("validate", str(chats), home=chats.parent)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "3 files: 1 error in 1")
    report = json.loads(in_process("validate", str(chats), "--json", home=chats.parent).stdout)
    assert report["totals"] == {"files": 3, "invalid": 1, "errors": 1, "warnings": 0}
    assert report["valid"] is False


LINES = "\n".join(
    [
        json.dumps(
            {"messages": [{"role": "user", "content": "a\nb", "weight": 0}, {"role": "assistant", "content": "c"}]}
        ),
        "",
        json.dumps({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], "id": 4}),
        '{"mess',
        json.dumps({"messages": [{"role": "user", "content": "q", "weight": 1}, {"role": "tool", "content": "r"}]}),
        json.dumps({"messages": [{"role": "user", "content": "q", "weight": 1}]}),
    ]
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "data.jsonl"
    file.write_text(LINES)
    return file


def test_a_data_set_is_converted_line_by_line_and_summed_up(data: Path) -> None:
    out = data.with_name("out.jsonl")
    done = in_process("convert", str(data), "--to", "openchatml", "-o", str(out), home=data.parent)
    assert (done.returncode, done.stdout) == (1, "")
    texts = [json.loads(line)["text"] for line in out.read_text().splitlines()]
    assert [text.count("<|start|>user") for text in texts] == [1, 1, 1]
    assert done.stderr.splitlines() == [
        f"{data}:4:2: not JSON: Unterminated string  [not_json]",
        f"{data}:5: messages[1].tool_call_id: a tool message needs the id of its call.  [missing_required_parameter]",
        "3 of 5 lines are converted: what is not in them:",
        "      2 × messages[].weight in 2 lines, first 1: 0",
        "      1 × id in line 3: 4",
    ]


@pytest.mark.parametrize("form", ["openchatml", "harmony", "harmony-ids", "responses", "harmony-json", "chat"])
def test_lines_of_every_form_are_read_again(data: Path, form: str) -> None:
    out = data.with_name("out.jsonl")
    in_process("convert", str(data), "--to", form, "--limit", "2", "-o", str(out), home=data.parent)
    done = in_process("convert", str(out), "--to", "chat", home=data.parent)
    assert done.returncode == 0
    said = [[message["content"] for message in json.loads(line)["messages"]] for line in done.stdout.splitlines()]
    assert said == [["a\nb", "c"], ["q", "a"]]


def test_programs_get_an_object_a_loss_and_an_error_with_its_line(data: Path) -> None:
    done = in_process("convert", "-", "--lines", "--to", "chat", "--json", home=data.parent, stdin=LINES)
    rows = list(map(json.loads, done.stderr.splitlines()))
    assert [row["line"] for row in rows] == [1, 3, 4, 5, 6]
    assert rows[0] == {"line": 1, "path": "messages[0].weight", "what": "0", "becomes": None, "kind": "semantic"}
    assert rows[2]["error"]["code"] == "not_json"


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["data.jsonl", "--sidecar", "-o", "x"], "a sidecar is of one conversation"),
        (["talk.ocm", "--limit", "2"], "--limit counts lines"),
        (["data.jsonl", "talk.ocm", "-o", "x"], "are converted alone"),
        (["data.jsonl", "--from", "sharegtp"], "'sharegtp' cannot be read back"),
    ],
)
def test_an_option_that_lines_have_not_is_refused(data: Path, more: list[str], problem: str) -> None:
    data.with_name("talk.ocm").write_text(GOOD)
    found = [str(data.with_name(word)) if "." in word or word == "x" else word for word in more]
    done = in_process("convert", "--to", "chat", *found, home=data.parent)
    assert done.returncode != 0
    assert problem in done.stderr


def test_lines_that_are_no_conversation_are_found(data: Path) -> None:
    done = in_process("validate", str(data), home=data.parent)
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            "4:2  not_json  not JSON: Unterminated string",
            "5:1  missing_required_parameter  messages[1].tool_call_id: a tool message needs the id of its call.",
            f"{data}: 2 errors",
        ],
    )
    assert in_process("validate", str(data), "--limit", "2", home=data.parent).returncode == 0
    assert "--limit counts lines" in in_process("validate", "talk.ocm", "--limit", "2", home=data.parent).stderr


def test_a_transcript_in_a_line_is_checked_with_the_rules_of_its_form(tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text("\n".join(json.dumps({"text": text}) for text in (GOOD, BAD)))
    done = in_process("validate", str(file), "--json", home=tmp_path)
    (error,) = json.loads(done.stdout)["errors"]
    assert (error["code"], error["line"]) == ("E-PARSE-HEADER", 2)


def test_each_line_is_rendered_as_a_prompt(data: Path) -> None:
    done = in_process("render", str(data), "--to", "chatml", home=data.parent)
    texts = [json.loads(line)["text"] for line in done.stdout.splitlines()]
    assert [text.removesuffix("<|im_start|>assistant\n").count("<|im_start|>") for text in texts] == [2, 2, 1]
    assert done.returncode == 1
    assert f"\n{data}:4:2: not JSON" in done.stderr
    assert f"warning: {data}:1: " in done.stderr  # of fields that have no effect
    done = in_process("render", str(data), "--to", "harmony", "--ids", "--limit", "1", home=data.parent)
    assert json.loads(done.stdout)["ids"][0] == 200006
    assert done.returncode == 0


def test_a_data_set_among_the_files_of_a_folder_is_named_and_left_out(data: Path) -> None:
    (data.parent / "hi.json").write_text('{"messages": [{"role": "user", "content": "Hi"}]}')
    out = data.parent / "out"
    done = in_process("convert", str(data.parent), "-o", str(out), "--to", "harmony", home=data.parent)
    assert f"warning: {data}: left out" in done.stderr
    assert [file.name for file in out.iterdir()] == ["hi.harmony"]
