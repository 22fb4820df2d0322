"""Prompts of public chat templates for earlier calls and reasoning: what plain Jinja writes, to the byte."""

from __future__ import annotations

import json
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from antiphon.formats.template import JinjaFormat, jinja_format
from antiphon.tokens import ByteTokenizer, Control, ControlScanner, encode_pieces, spell
from kit.corpora import corpora
from kit.plain_jinja import conversation_of, plain_prompt

TODAY = date(2026, 11, 21)


@pytest.fixture(scope="module")
def folder() -> Path:
    named = corpora()
    assert named is not None
    return named / "reply"


def entries(folder: Path) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads((folder / "index.json").read_text("utf-8"))
    return read


def source_of(folder: Path, entry: dict[str, Any]) -> str:
    name: str = entry["template"]
    return (folder / "templates" / name).read_text("utf-8")


def load(folder: Path, entry: dict[str, Any]) -> JinjaFormat:
    return jinja_format(source_of(folder, entry), list(map(Control, entry["controls"])), entry["special"])


@pytest.mark.corpus
@pytest.mark.spec("HAR-70")
def test_every_prompt_is_what_plain_jinja_writes(folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "cases.jsonl").read_text("utf-8").splitlines()]
    formats = {entry["template"]: load(folder, entry) for entry in entries(folder)}
    checked = [row for row in rows if row.get("check_prompt")]
    for row in checked:
        given = row["conversation"]
        kwargs = given.get("kwargs", {})
        conversation = conversation_of(given["messages"], given.get("tools", ()), TODAY, **kwargs)
        pieces = list(formats[row["template"]].render(conversation))
        assert spell(pieces) == row["prompt"], row["id"]
        controls = sum(isinstance(piece, Control) for piece in pieces)
        assert controls == row.get("prompt_controls", controls), row["id"]
    assert len(checked) >= 90


@pytest.mark.corpus
def test_a_turns_prompt_begins_with_as_much_of_the_former_as_in_plain_jinja(folder: Path) -> None:
    for entry in entries(folder):
        controls = list(map(Control, entry["controls"]))
        format, source, tokenizer = load(folder, entry), source_of(folder, entry), ByteTokenizer(controls)
        for turns in conversations(calls=entry["says"]["calls"]):
            ours, plain = [], []
            for messages in turns:
                ours.append(encode_pieces(format.render(conversation_of(messages, (), TODAY)), tokenizer))
                tools: list[dict[str, Any]] | None = [] if format.capabilities.tools_as_list else None
                text = plain_prompt(source, messages, today=TODAY, tools=tools, **entry["special"])
                scanner = ControlScanner(controls)
                plain.append(encode_pieces([*scanner.feed(text), *scanner.close()], tokenizer))
            assert prefixes(ours) == prefixes(plain), entry["template"]


def conversations(*, calls: bool) -> list[list[list[dict[str, Any]]]]:
    """Conversations of three shapes, each at every place where the model is asked."""
    question: dict[str, Any] = {"role": "user", "content": "And then?"}
    answer: dict[str, Any] = {"role": "assistant", "content": "It is sunny."}
    reasoned = {**answer, "reasoning_content": "Let me think."}
    function = {"name": "get_weather", "arguments": {"city": "SF", "days": 3}}
    called: dict[str, Any] = {
        "role": "assistant",
        "content": "",
        "reasoning_content": "I will look.",
        "tool_calls": [{"id": "call00001", "type": "function", "function": function}],
    }
    result = {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "21 degrees"}
    turns = [[answer] * 3, [reasoned] * 3]
    asked = [[m for turn in shape for m in (question, turn)] for shape in turns]
    asked += [[question, called, result, reasoned, question, called, result, answer, question]] if calls else []
    return [[messages[: i + 1] for i, m in enumerate(messages) if m["role"] != "assistant"] for messages in asked]


def prefixes(prompts: list[list[int]]) -> list[int]:
    """How much of each prompt the next one begins with, in tokens."""
    return [common(first, second) for first, second in pairwise(prompts)]


def common(first: list[int], second: list[int]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
