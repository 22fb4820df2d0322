"""`antiphon tools` and `antiphon chat --tools` as a user has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.program import in_process

CONFIG = """
model = "calling"
[models.calling]
engine = "scripted"
format = "chatml"
reply = '<tool_call>{"name": "shout", "arguments": {"text": "hi"}}</tool_call>'
context = 100000
"""
MINE = '''
def shout(text: str) -> str:
    """Say it loud."""
    return text.upper()
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def test_tools_are_listed_with_what_they_are_for(home: Path) -> None:
    done = in_process("tools", "list", "--json", "--tools", f"browser,{home / 'mine.py'}", home=home)
    listed = {tool["name"]: tool["description"] for tool in json.loads(done.stdout)}
    assert set(listed) == {"browser.search", "browser.open", "browser.find", "functions.shout"}
    assert listed["functions.shout"] == "Say it loud."


def test_a_tool_is_called_by_hand(home: Path) -> None:
    done = in_process("tools", "call", "shout", '{"text": "hey"}', "--tools", str(home / "mine.py"), home=home)
    assert (done.returncode, done.stdout) == (0, "HEY\n")


def test_a_tool_is_shown_with_its_schema(home: Path) -> None:
    done = in_process("tools", "show", "shout", "--json", "--tools", str(home / "mine.py"), home=home)
    shown = json.loads(done.stdout)
    assert (shown["name"], shown["description"]) == ("functions.shout", "Say it loud.")
    assert shown["parameters"]["properties"]["text"]["type"] == "string"
    misspelled = in_process("tools", "show", "functions.shot", "--tools", str(home / "mine.py"), home=home)
    assert misspelled.returncode == 2
    assert "Did you mean functions.shout" in misspelled.stderr


def test_a_call_that_fails_says_why_and_exits_with_1(home: Path) -> None:
    done = in_process("tools", "call", "shout", "{}", "--tools", str(home / "mine.py"), "--json", home=home)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "E-CALL-SCHEMA"


def test_a_chat_shows_each_call_while_it_runs_and_ends_at_its_limit(home: Path) -> None:
    done = in_process("chat", "Shout!", "--tools", str(home / "mine.py"), "--json", home=home)
    answer = json.loads(done.stdout)
    assert [message["text"] for message in answer["messages"] if message["role"] == "tool"] == ["HI"] * 16
    assert answer["incidents"][-1]["code"] == "tool_rounds_exceeded"
    shown = in_process("chat", "Shout!", "--tools", str(home / "mine.py"), home=home)
    assert shown.stderr.count('· functions.shout {"text": "hi"}\n') == 16
    assert shown.stderr.count("· functions.shout ok") == 16
