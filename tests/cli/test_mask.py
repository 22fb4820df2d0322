"""``render --mask``: whose each id is, which of them the model samples, and what the next turn keeps."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kit.program import in_process, on_screen

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city": "東京"}'}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather? 👋"},
    {"role": "assistant", "reasoning_content": "Call f.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "clear"},
    {"role": "assistant", "content": "It is clear."},
]
NEXT = [*TALK, {"role": "user", "content": "And tomorrow?"}]
CONSTRAIN = "<|constrain|>[200003]"
HARMONY = ("--to", "harmony")


def rendered(
    messages: list[dict[str, Any]], *options: str, home: Path, screen: bool = False, **environ: str
) -> subprocess.CompletedProcess[str]:
    file = home / "talk.json"
    file.write_text(json.dumps({"messages": messages}), "utf-8")
    return (on_screen if screen else in_process)("render", str(file), *options, home=home, **environ)


def mask(*options: str, home: Path) -> dict[str, Any]:
    done = rendered(TALK, "--mask", "--json", *options, home=home)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def options_of(model: str, request: pytest.FixtureRequest) -> tuple[str, ...]:
    if model == "harmony":
        return HARMONY
    return "--model", str(request.getfixturevalue("smollm2_path"))


def test_a_pipe_gets_a_line_a_stretch_with_whose_it_is_and_what_is_sampled(tmp_path: Path) -> None:
    out = rendered(TALK, "--mask", *HARMONY, home=tmp_path).stdout
    lines = [line.split("\t")[1:] for line in out.splitlines() if "\t" in line]
    assert lines[1] == ["system", "0", "", "kept", '"Be brief."']
    assert lines[3] == ["user", "1", "", "kept", '"Weather? 👋"']
    assert [(line[0], line[1], line[2], line[4]) for line in lines if line[2] or line[0] == "tool"] == [
        ("assistant", "2 markup", "sampled", '"<|channel|>[200005]analysis<|message|>[200008]"'),
        ("assistant", "2 reasoning", "sampled", '"Call f."'),
        ("assistant", "3 markup", "sampled", '"<|end|>[200007]<|start|>[200006]assistant to="'),
        ("assistant", "3 name", "sampled", '"functions.f"'),
        ("assistant", "3 markup", "sampled", f'"<|channel|>[200005]commentary {CONSTRAIN}json<|message|>[200008]"'),
        ("assistant", "3 arguments", "sampled", '"{\\"city\\": \\"東京\\"}"'),
        ("assistant", "3 end", "sampled", '"<|call|>[200012]"'),
        ("tool", "4", "", '"clear"'),
        ("assistant", "5 markup", "sampled", '"<|channel|>[200005]final<|message|>[200008]"'),
        ("assistant", "5 content", "sampled", '"It is clear."'),
        ("assistant", "5 end", "sampled", '"<|return|>[200002]"'),
    ]
    assert "\x1b" not in out


@pytest.mark.parametrize("model", ["harmony", "smollm2"])
def test_the_next_prompt_begins_with_exactly_what_is_kept(
    tmp_path: Path, request: pytest.FixtureRequest, model: str
) -> None:
    options = options_of(model, request)
    found = mask(*options, home=tmp_path)
    ids, kept = found["ids"], found["next_turn"]["kept"]
    next_ids = [int(id) for id in rendered(NEXT, "--tokens", *options, home=tmp_path).stdout.split()]
    assert next_ids[:kept] == ids[:kept]
    assert kept == len(ids) or next_ids[kept] != ids[kept]
    assert found["next_turn"]["cause"] == {"harmony": "reasoning", "smollm2": None}[model]


@pytest.mark.parametrize("model", ["harmony", "smollm2"])
def test_the_stretches_have_all_ids_once_and_changes_tell_what_is_dropped(
    tmp_path: Path, request: pytest.FixtureRequest, model: str
) -> None:
    found = mask(*options_of(model, request), home=tmp_path)
    edges = [(one["start"], one["end"]) for one in found["stretches"]]
    assert [start for start, _ in edges] == [0, *(end for _, end in edges[:-1])]
    assert edges[-1][1] == len(found["ids"])
    dropped = [(one["kind"], one["message"]) for one in found["changes"]]
    assert dropped == {"harmony": [], "smollm2": [("reasoning_dropped", 2)]}[model]
    assert {one["owner"] for one in found["stretches"]} == {"template", "system", "user", "assistant", "tool"}


def test_people_read_below_it_what_is_dropped_and_where_the_next_turn_parts(tmp_path: Path) -> None:
    ended = rendered([*TALK[:2], {"role": "assistant", "content": "Clear."}], "--mask", *HARMONY, home=tmp_path)
    assert 'then it has "<|end|>" (200007), not "<|return|>" (200002)  [end]' in ended.stdout.splitlines()[-1]
    later = [{**TALK[4], "reasoning_content": "Look."}, {"role": "user", "content": "?"}, TALK[4]]
    lost = rendered([TALK[1], *later], "--mask", *HARMONY, home=tmp_path).stdout
    assert 'message 1 (assistant analysis: "Look."): the template leaves out the reasoning' in lost


def test_a_terminal_gets_the_colours_of_owners_underlined_where_it_is_sampled(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "a\x1b[2Jb"}, {"role": "assistant", "content": "c\x1b[2Jd"}]
    out = rendered(talk, "--mask", *HARMONY, home=tmp_path, screen=True, NO_COLOR="").stdout
    assert "\x1b[32muser\x1b[0m" in out.splitlines()[0]
    assert "[200008]\x1b[0m\x1b[32ma\ufffd[2Jb\x1b[0m\x1b[1;36m<|end|>" in out
    assert "\x1b[4m\x1b[94mc\ufffd[2Jd\x1b[0m\x1b[7m┃\x1b[0m\x1b[4m\x1b[1;36m<|return|>" in out
    plain = rendered(talk, "--mask", *HARMONY, home=tmp_path, screen=True, NO_COLOR="1").stdout
    assert "\x1b[3" not in plain
    assert "\x1b[9" not in plain
    assert "sampled" in plain


@pytest.mark.parametrize("option", ["--pretty", "--tokens", "--whole", "--lines"])
def test_what_has_no_place_beside_the_mask_is_refused_with_a_hint(tmp_path: Path, option: str) -> None:
    done = rendered(TALK, "--mask", option, *HARMONY, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    message, hint = done.stderr.splitlines()
    assert option in message
    assert hint.strip()


def test_a_conversation_without_an_answer_is_kept_whole(tmp_path: Path) -> None:
    done = rendered(TALK[:2], "--mask", *HARMONY, home=tmp_path)
    assert "sampled" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("The next turn keeps all")
