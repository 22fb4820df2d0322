"""Harmony on the command line: prompts and replies as text, as ids and for the eye, with no model."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from antiphon.tokens import ControlScanner, encode_pieces, o200k_harmony
from kit.harmony_corpora import DIALECTS, Dialect, rows
from kit.program import PROGRAM, environment, in_process
from kit.waiting import PATIENCE

REPLY = (
    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
    '<|message|>{"city": "東京"}<|call|>'
)


def ids_of(text: str) -> list[int]:
    tokenizer = o200k_harmony()
    scanner = ControlScanner(tokenizer.controls)
    return encode_pieces([*scanner.feed(text), *scanner.close()], tokenizer)


def messages(out: str) -> list[tuple[str | None, str | None, str]]:
    return [(m.get("channel"), m.get("recipient"), m["text"]) for m in json.loads(out)["messages"]]


READ = [("analysis", None, "hm"), ("commentary", "functions.f", '{"city": "東京"}')]


@pytest.mark.corpus
@pytest.mark.parametrize("dialect", ["a", "b"])
def test_a_vector_is_rendered_from_the_reference_s_own_form_to_its_ids(tmp_path: Path, dialect: Dialect) -> None:
    expected = "render_conversation_for_completion"
    row = next(
        row
        for row in rows(f"harmony_corpus{DIALECTS[dialect]}")
        if row["op"] == expected
        and "error" not in row
        and "constrain" in row["text"]
        and row["options"]["auto_drop_analysis"]
    )
    assert row["options"]["next_turn_role"] == "assistant"
    words = ("render", "-", "--from", "harmony-json", "--to", "harmony", "--dialect", dialect, "--history", "reference")
    source = json.dumps(row["conversation"])
    assert in_process(*words, home=tmp_path, stdin=source).stdout == row["text"]
    done = in_process(*words, "--tokens", home=tmp_path, stdin=source)
    assert list(map(int, done.stdout.split())) == row["tokens"]


def test_history_and_types_are_chosen_by_name(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"x": {"anyOf": [{"type": "string"}, {"type": "number"}]}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    messages = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "reasoning_content": "so", "content": "one"},
        {"role": "user", "content": "2"},
    ]
    source = json.dumps({"model": "m", "messages": messages, "tools": [tool]})

    def rendered(*options: str) -> str:
        done = in_process("render", "-", "--from", "openai", "--to", "harmony", *options, home=tmp_path, stdin=source)
        assert done.returncode == 0, done.stderr
        return done.stdout

    plain = rendered()
    assert "<|message|>so<|end|>" not in plain
    assert "<|message|>so<|end|>" in rendered("--history", "keep_all")
    assert "x?: any," in plain
    assert "string | number" in rendered("--types", "full")


@pytest.mark.parametrize("options", [(), ("--tokens",)])
def test_ids_are_read_as_an_array_or_with_blanks_between_them(tmp_path: Path, options: tuple[str, ...]) -> None:
    ids = ids_of(REPLY)
    text = "\n".join(map(str, ids)) if options else json.dumps(ids)
    done = in_process("parse", "-", "--from", "harmony", *options, "--json", home=tmp_path, stdin=text)
    assert messages(done.stdout) == READ
    assert json.loads(done.stdout)["incidents"] == []


def test_a_text_of_digits_is_a_text(tmp_path: Path) -> None:
    done = in_process("parse", "-", "--from", "harmony", "--json", home=tmp_path, stdin="42 <|return|>")
    assert messages(done.stdout) == [("final", None, "42 ")]


def test_strict_reading_stops_at_what_would_be_repaired(tmp_path: Path) -> None:
    stray = json.dumps([*ids_of(REPLY), *ids_of("<|end|>")])
    assert in_process("parse", "-", "--from", "harmony", home=tmp_path, stdin=stray).returncode == 0
    done = in_process("parse", "-", "--from", "harmony", "--strict", home=tmp_path, stdin=stray)
    assert done.returncode == 1
    assert "Unexpected token" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def parsing(tmp_path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The two ends of a running `parse`."""
    command = [*PROGRAM, "parse", "-", "--from", "harmony"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(tmp_path)) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        yield program.stdin, program.stdout
        program.stdin.close()
        assert program.wait(PATIENCE) == 0


@pytest.mark.parametrize("by_ids", [False, True])
def test_messages_are_reported_as_they_come_and_half_characters_wait(
    parsing: tuple[IO[bytes], IO[bytes]], by_ids: bool
) -> None:
    to, output = parsing
    first, rest = REPLY.split("<|start|>")
    rest = f"<|start|>{rest}"
    if by_ids:
        head, tail = " ".join(map(str, ids_of(first))), " ".join(map(str, ids_of(rest)))
        parts = [f"[{head} ".encode(), tail[:15].encode(), f"{tail[15:]}]".encode()]
    else:
        cut = rest.encode().index("東".encode()) + 1
        parts = [first.encode(), rest.encode()[:cut], rest.encode()[cut:]]
    to.write(parts[0])
    to.flush()
    assert [output.readline() for _ in range(3)] == [b"[assistant] channel=analysis end=end\n", b"hm\n", b"\n"]
    for part in parts[1:]:
        to.write(part)
        to.flush()
    assert b"functions.f" in output.readline()
    assert output.readline().decode() == '{"city": "東京"}\n'


def test_the_pretty_view_shows_the_ids_of_controls_and_has_no_colour_in_a_pipe(tmp_path: Path) -> None:
    source = json.dumps([{"role": "user", "content": "<|end|>"}])
    words = ("render", "-", "--from", "openai", "--to", "harmony", "--pretty")
    out = in_process(*words, home=tmp_path, stdin=source).stdout
    assert out.endswith("<|start|>[200006]user<|message|>[200008]<|end|><|end|>[200007]\n<|start|>[200006]assistant\n")
    assert "\x1b" not in out
    shown = in_process("parse", "-", "--from", "harmony", "--pretty", home=tmp_path, stdin=REPLY).stdout
    assert shown.startswith(
        "<|channel|>[200005]analysis<|message|>[200008]hm<|end|>[200007]\n<|start|>[200006]assistant"
    )


def test_the_pretty_view_has_colour_on_a_terminal_and_lets_no_escape_of_the_text_through(tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    file.write_text(json.dumps([{"role": "user", "text": "a\x1b[2Jb"}]))
    here, there = pty.openpty()
    command = [*PROGRAM, "render", str(file), "--to", "harmony", "--pretty"]
    try:
        subprocess.run(command, stdout=there, check=True, timeout=PATIENCE, env=environment(tmp_path, NO_COLOR=""))
        out = os.read(here, 1 << 16).decode()
    finally:
        os.close(here)
        os.close(there)
    assert "\x1b[33muser\x1b[0m" in out
    assert "[200008]\x1b[0ma\ufffd[2Jb\x1b[1;36m<|end|>" in out
