"""`antiphon convert` as a user has it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kit.openchatml import long_transcript
from kit.program import in_process, peak_memory

TRANSCRIPT = """---
version: "2.2"
model: some-model
---
<|start|>system<|message|>Be kind.<|end|>

<|start|>user<|message|>Weather?<|end|>
<|start|>assistant<|channel|>analysis<|message|>I must look.<|end|>
<|start|>assistant call_id=w1  to=functions.weather<|channel|>commentary <|constrain|>json<|message|>{"at": 1}<|call|>
<|start|>tool name=functions.weather call_id=w1<|channel|>commentary<|message|>{"sun": true}<|end|>
<|start|>assistant<|channel|>final<|message|>Sunny.<|return|>
"""


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    file = tmp_path / "talk.ocm"
    file.write_text(TRANSCRIPT)
    return file


@pytest.mark.parametrize("form", ["openchatml", "harmony", "harmony-ids", "harmony-json", "chat", "responses"])
def test_there_and_back_with_sidecars_gives_the_same_file(talk: Path, form: str) -> None:
    there, back = talk.with_name("there"), talk.with_name("back")
    done = in_process("convert", str(talk), "--to", form, "-o", str(there), "--sidecar", home=talk.parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = in_process("convert", str(there), "--to", "openchatml", "-o", str(back), "--sidecar", home=talk.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert back.read_text() == TRANSCRIPT


def test_a_pipe_is_read_and_its_form_is_found(talk: Path) -> None:
    harmony = in_process("convert", "-", "--to", "harmony", home=talk.parent, stdin=TRANSCRIPT).stdout
    assert harmony.startswith("<|start|>system<|message|>Be kind.<|end|><|start|>user<|message|>Weather?<|end|>")
    chat = json.loads(in_process("convert", "-", "--to", "chat", home=talk.parent, stdin=harmony).stdout)
    assert [message["role"] for message in chat["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert chat["messages"][2]["reasoning"] == "I must look."
    assert chat["messages"][2]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"at": 1}'}
    again = in_process("convert", "-", "--to", "harmony", home=talk.parent, stdin=json.dumps(chat)).stdout
    assert again == harmony.replace("<|return|>", "<|end|>")


def test_the_report_lists_what_is_lost(talk: Path) -> None:
    done = in_process("convert", str(talk), "--to", "harmony", "--report", home=talk.parent)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "header.model: 'some-model'",
        "messages[3].call_id: 'w1' becomes None",
        "messages[4].recipient: None becomes 'assistant'  (derivable)",
        "messages[4].call_id: 'w1' becomes None",
    ]
    counted = in_process("convert", str(talk), "--to", "harmony", home=talk.parent)
    assert counted.stderr == "4 things are not in the output; --report lists them\n"


def test_a_template_is_one_way(talk: Path) -> None:
    done = in_process("convert", str(talk), "--to", "chatml", "--report", home=talk.parent)
    assert done.stdout.startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nWeather?<|im_end|>")
    assert "messages[2]: assistant on analysis, 'I must look.'" in done.stderr
    back = in_process("convert", "-", "--from", "chatml", "--to", "chat", home=talk.parent, stdin=done.stdout)
    assert (back.returncode, "one way" in back.stderr) == (2, True)


def test_a_sidecar_of_another_file_is_ignored_with_a_warning(talk: Path) -> None:
    there = talk.with_name("there")
    in_process("convert", str(talk), "--to", "chat", "-o", str(there), "--sidecar", home=talk.parent)
    there.write_text(there.read_text().replace("Sunny.", "Rain."))
    done = in_process(
        "convert", str(there), "--to", "openchatml", "--sidecar", "-o", str(talk.with_name("b")), home=talk.parent
    )
    assert done.returncode == 0
    assert "ignored" in done.stderr
    assert "Rain." in talk.with_name("b").read_text()


def test_what_no_sidecar_has_is_a_warning(tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text('{"messages": [{"role": "user", "content": "Hi", "x": 1}]}')
    there = ("convert", str(chat), "--to", "openchatml", "-o", str(tmp_path / "there"), "--sidecar")
    done = in_process(*there, home=tmp_path)
    assert "1 things of" in done.stderr
    assert "messages[0].x: 1" in in_process(*there, "--report", "--force", home=tmp_path).stderr


def test_a_faulty_output_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = in_process("convert", "-", "--to", "chat", "-o", str(out), home=tmp_path, stdin='version: "2.2"\nnothing')
    assert done.returncode == 1
    assert not out.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells a process its peak memory")
@pytest.mark.parametrize("form", ["openchatml", "chat"])
def test_memory_does_not_grow_with_the_transcript(tmp_path: Path, form: str) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(long_transcript(1))
    large.write_bytes(long_transcript(12))
    peaks = [peak_memory(tmp_path, "convert", str(file), "--to", form) for file in (small, large)]
    assert peaks[1] < 200e6
    assert peaks[1] - peaks[0] < 8e6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells a process its peak memory")
def test_memory_does_not_grow_with_chat_json(tmp_path: Path) -> None:
    pair = [{"role": "user", "content": "Why? " * 400}, {"role": "assistant", "content": "So. " * 600}]
    peaks = []
    for count in (250, 2500):
        file = tmp_path / f"{count}.json"
        file.write_text(json.dumps({"messages": pair * count}))
        peaks.append(peak_memory(tmp_path, "convert", str(file), "--to", "openchatml"))
    assert peaks[1] - peaks[0] < 8e6
