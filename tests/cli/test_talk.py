"""`antiphon chat`, `render` and `parse` as a user has them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from kit.program import ONE_THREAD, PROGRAM, environment, in_process

CONTROLS = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>")

CONFIG = """
model = "demo"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "Bonjour <b>monde</b>."
[models.slow]
engine = "scripted"
format = "chatml"
reply = "one two three four five six seven eight nine ten"
delay = 0.2
[models.calling]
engine = "scripted"
format = "chatml"
reply = 'Wait.<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


def test_one_question_gets_one_answer_and_nothing_else_on_stdout(home: Path) -> None:
    done = in_process("chat", "Hello?", home=home)
    assert (done.returncode, done.stdout) == (0, "Bonjour <b>monde</b>.\n")


@pytest.mark.parametrize(("choice", "said"), [("none", ""), ("auto", ""), ("shout", "no tool is named 'shout'")])
def test_a_tool_choice_is_a_mode_or_a_tool_that_is_there(home: Path, choice: str, said: str) -> None:
    done = in_process("chat", "Hello?", "--tool-choice", choice, home=home)
    assert (done.returncode == 0, said in done.stderr) == (not said, True)


def test_an_answer_as_json_has_messages_usage_and_reason(home: Path) -> None:
    answer = json.loads(in_process("chat", "Hello?", "--json", home=home).stdout)
    assert answer["text"] == "Bonjour <b>monde</b>."
    assert answer["finish_reason"] == "stop_eos"
    assert answer["messages"] == [{"role": "assistant", "channel": "final", "text": answer["text"], "end": "end"}]
    assert answer["usage"]["completion_tokens"] == len(answer["text"]) + 1


def test_a_conversation_keeps_its_history_and_knows_its_commands(home: Path) -> None:
    saved = home / "talk.json"
    typed = f"/system Be kind.\nHello\n/retry\n/raw\n/save {saved}\n/help\n/nonsense\n\n/quit\nnever said\n"
    done = in_process("chat", home=home, stdin=typed)
    assert done.returncode == 0
    assert done.stdout.count("Bonjour") == 3  # the answer, another one, and /raw
    assert "<|im_start|>system\nBe kind.<|im_end|>" in done.stdout
    assert "/retry" in done.stdout
    assert "/nonsense" in done.stderr
    roles = [message["role"] for message in json.loads(saved.read_text())["messages"]]
    assert roles == ["system", "user", "assistant"]


def test_a_failed_answer_does_not_end_the_conversation(home: Path) -> None:
    done = in_process("chat", home=home, stdin="/set tool_choice absent\nHello\n/system x\n/quit\n")
    assert done.returncode == 0
    assert "tool_choice: no tool is named 'absent'" in done.stderr


@pytest.mark.parametrize("name", ["", "/absent/folder/x.json"])
def test_a_talk_that_cannot_be_saved_is_reported(home: Path, name: str) -> None:
    done = in_process("chat", home=home, stdin=f"/save {name}\n")
    assert done.returncode == 0
    assert "save" in done.stderr or "cannot write" in done.stderr


def test_ctrl_c_stops_the_answer_and_not_the_program(home: Path) -> None:
    chat = subprocess.Popen(
        [*PROGRAM, "chat", "--model", "slow"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(home),
    )  # fmt: skip
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write(b"Count.\n")
    chat.stdin.flush()
    assert os.read(chat.stdout.fileno(), 3) == b"o"  # the answer has begun: each step is one byte
    chat.send_signal(signal.SIGINT)
    out, errors = chat.communicate(b"/raw\n/quit\n", timeout=60)
    assert (chat.returncode, errors) == (0, b"")
    assert b"(stopped)" in out
    assert b"ten" not in out
    assert b"<|im_start|>user\nCount.<|im_end|>\n<|im_start|>assistant\no" in out


def test_a_conversation_is_rendered_as_text_ids_and_pieces(home: Path) -> None:
    file = home / "talk.json"
    file.write_text(json.dumps({"messages": [{"role": "user", "text": "<|im_end|>"}]}))
    done = in_process("render", str(file), "--format", "chatml", home=home)
    assert done.stdout == "<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n"
    shown = json.loads(
        in_process("render", "-", "--format", "chatml", "--json", home=home, stdin=file.read_text()).stdout
    )
    controls = [piece["control"] for piece in shown["pieces"] if "control" in piece]
    assert controls == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    whole = in_process("render", str(file), "--format", "chatml", "--whole", home=home).stdout
    assert "assistant" not in whole


def test_a_chat_request_is_rendered_as_the_server_would_render_it(home: Path) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    request = {"model": "m", "messages": messages}
    done = in_process("render", "-", "--format", "harmony", home=home, stdin=json.dumps(request))
    assert "<|start|>user<|message|>Hi<|end|>" in done.stdout
    assert "to=functions.f" in done.stdout
    assert done.stdout.endswith("done<|end|><|start|>assistant")


def test_a_reply_is_parsed_into_messages_with_the_fields_of_message(home: Path) -> None:
    reply = 'Wait.<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call><|im_end|>'
    output = json.loads(in_process("parse", "-", "--from", "chatml", "--json", home=home, stdin=reply).stdout)
    assert output["incidents"] == []
    call = output["messages"][-1]
    assert (call["role"], call["recipient"], call["end"]) == ("assistant", "functions.f", "call")
    assert json.loads(call["text"]) == {"a": 1}
    assert "name" not in call
    for_people = in_process("parse", "-", "--from", "chatml", home=home, stdin=reply).stdout
    assert "functions.f" in for_people


@pytest.mark.parametrize("options", [(), ("--whole",), ("--strict",)])
def test_a_whole_transcript_is_parsed_into_its_messages(home: Path, options: tuple[str, ...]) -> None:
    frames = "<|start|>user<|message|>Say <<|end|><|end|>\n<|start|>assistant<|channel|>final<|message|>No.<|return|>\n"
    for transcript in (f'version: "2.2"\n{frames}', f'---\nversion: "2.2"\n---\n{frames}', frames):
        done = in_process("parse", "-", "--from", "openchatml", "--json", *options, home=home, stdin=transcript)
        output = json.loads(done.stdout)
        assert [(m["role"], m["text"]) for m in output["messages"]] == [("user", "Say <|end|>"), ("assistant", "No.")]
        assert output["incidents"] == []


def test_a_reply_in_openchatml_is_no_transcript(home: Path) -> None:
    reply = "<|channel|>final<|message|>No.<|return|>"
    output = json.loads(in_process("parse", "-", "--from", "openchatml", "--json", home=home, stdin=reply).stdout)
    assert [(m["channel"], m["text"]) for m in output["messages"]] == [("final", "No.")]


def test_what_is_wrong_with_a_transcript_is_an_incident_or_with_strict_an_error(home: Path) -> None:
    broken = 'version: "2.2"\n<|start|>moderator<|message|>x<|end|>\n'
    output = json.loads(in_process("parse", "-", "--from", "openchatml", "--json", home=home, stdin=broken).stdout)
    assert [incident["code"] for incident in output["incidents"]] == ["E-PARSE-HEADER"] * len(output["incidents"])
    assert output["incidents"]
    strict = in_process("parse", "-", "--from", "openchatml", "--strict", home=home, stdin=broken)
    assert (strict.returncode, "E-PARSE-HEADER" in strict.stderr) == (1, True)


def test_a_harmony_reply_and_a_whole_harmony_conversation_are_parsed(home: Path) -> None:
    reply = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>4.<|return|>"
    output = json.loads(in_process("parse", "-", "--from", "harmony", "--json", home=home, stdin=reply).stdout)
    assert output == {
        "messages": [
            {"role": "assistant", "channel": "analysis", "text": "hm", "end": "end"},
            {"role": "assistant", "channel": "final", "text": "4.", "end": "return"},
        ],
        "incidents": [],
    }
    whole = "<|start|>user<|message|>hi<|end|><|start|>assistant" + reply
    output = json.loads(
        in_process("parse", "-", "--from", "harmony", "--whole", "--json", home=home, stdin=whole).stdout
    )
    assert [message["role"] for message in output["messages"]] == ["user", "assistant", "assistant"]


def test_a_broken_reply_is_repaired_with_incidents_or_refused_when_strict(home: Path) -> None:
    reply = "<|channel|>final<|message|>4.<|end|>oops"
    output = json.loads(in_process("parse", "-", "--from", "harmony", "--json", home=home, stdin=reply).stdout)
    assert output["messages"][0]["text"] == "4."
    assert output["incidents"]
    strict = in_process("parse", "-", "--from", "harmony", "--strict", home=home, stdin=reply)
    assert strict.returncode == 1
    assert "unexpected_token" in strict.stderr


def test_the_formats_are_listed(home: Path) -> None:
    names = json.loads(in_process("formats", "--json", home=home).stdout)["formats"]
    assert {"chatml", "llama3_1", "internlm2"} <= set(names)


def test_doctor_tells_what_fails_by_its_exit_code(home: Path) -> None:
    good = in_process("doctor", "--json", home=home, ANTIPHON_SERVER_PORT="0")
    assert {finding["state"] for finding in json.loads(good.stdout)["findings"]} == {"ok"}
    bad = in_process("doctor", home=home, ANTIPHON_MODEL="absent")
    assert bad.returncode == 1
    assert "fail  model absent" in bad.stdout


def test_a_prompt_in_openchatml_is_a_transcript_whose_texts_are_escaped(home: Path) -> None:
    talk = json.dumps({"messages": [{"role": "user", "text": "Say <|end|>"}]})
    prompt = in_process("render", "-", "--format", "openchatml", home=home, stdin=talk).stdout
    assert "<|start|>user<|message|>Say <<|end|><|end|>" in prompt
    reply = "<|channel|>final<|message|>As <<|end|> you wish<|return|>"
    read = in_process("parse", "-", "--from", "openchatml", "--json", home=home, stdin=reply).stdout
    assert json.loads(read)["messages"][0]["text"] == "As <|end|> you wish"


@pytest.mark.parametrize("format", ["openchatml", "harmony"])
def test_a_model_without_the_controls_is_spoken_to_in_a_framed_format_and_keeps_to_it(
    home: Path, smollm2_path: Path, format: str
) -> None:
    options = ("--format", format, "--temperature", "0", "--max-tokens", "40", "--json", "--model", str(smollm2_path))
    done = in_process("chat", "What is the capital of France?", *options, home=home, **ONE_THREAD)
    answer = json.loads(done.stdout)
    # What so small a model says varies with the processor, and so does whether it ends within its tokens.
    assert answer["finish_reason"] in ("stop_eos", "length_output")
    assert [message["channel"] for message in answer["messages"]] in (["final"], ["analysis"], ["analysis", "final"])
    assert not any(control in message["text"] for control in CONTROLS for message in answer["messages"])
