"""`antiphon chat` at a terminal: what a person types, sees, and finds again the next time."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from antiphon.formats.openchatml import read
from kit.program import ONE_THREAD, environment, in_process
from kit.terminal import PROMPT, Terminal, at_terminal

CTRL_C, CTRL_D, CTRL_R, UP, TAB, ALT_ENTER = "\x03", "\x04", "\x12", "\x1b[A", "\t", "\x1b\r"
CONFIG = """
model = "demo"
[models.demo]
engine = "scripted"
format = "harmony"
reply = '<|channel|>analysis<|message|>secret thought<|end|><|start|>assistant<|channel|>final<|message|>Bonjour.'
[models.other]
engine = "scripted"
format = "chatml"
reply = "Guten Tag."
[models.slow]
engine = "scripted"
format = "chatml"
reply = "one two three four five six seven eight nine ten"
delay = 0.2
[models.calling]
engine = "scripted"
format = "harmony"
reply = '<|channel|>commentary to=functions.lines<|message|>{"count": 9}<|call|>'
"""
TOOLS = '''
"""Tools of a test."""

def lines(count: int) -> str:
    """So many lines."""
    return "\\n".join(f"line {n}" for n in range(count))

tools = [lines]
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


@contextmanager
def chat(home: Path, *arguments: str, **environ: str) -> Iterator[Terminal]:
    with at_terminal("chat", *arguments, environ=environment(home, **environ)) as terminal:
        terminal.until(PROMPT)
        yield terminal


def left(terminal: Terminal) -> int:
    """Leaves at the next prompt; the exit code."""
    terminal.until(PROMPT)
    terminal.type(CTRL_D)
    return terminal.ended()


def test_an_answer_has_its_thoughts_hidden_and_a_line_of_figures(home: Path) -> None:
    with chat(home) as terminal:
        shown = terminal.enter("Hello", "tok/s")
        assert "Bonjour." in shown
        assert "tokens (hidden)" in shown
        assert "secret" not in shown
        terminal.until(PROMPT)
        terminal.enter("/set reasoning on", PROMPT)
        assert "secret thought" in terminal.enter("/retry", "tok/s")
        assert left(terminal) == 0


def test_a_conversation_begins_with_who_answers_and_commands_say_what_they_did(home: Path) -> None:
    with at_terminal("chat", environ=environment(home)) as terminal:
        assert "demo  /help lists the commands" in terminal.until(PROMPT)
        for line, words in {
            "/system Be kind.": "the system message: Be kind.",
            "/system": "the system message: Be kind.",
            "/system off": "the system message: none",
            "/effort": "effort: the default of the model",
            "/schema": "schema: none",
            "/set max_tokens 5": "max_tokens: 5",
            "/tools off": "offered: no tools",
            "/clear": "all is forgotten",
        }.items():
            terminal.enter(line, words)
            terminal.until(PROMPT)
        terminal.type("/bye\r")
        assert terminal.ended() == 0


def test_without_a_terminal_nothing_but_answers_is_printed(home: Path) -> None:
    assert piped(home, "/system Be kind.", "/set max_tokens 50", "Hello", "/exit", "never") == ("Bonjour.\n", "")


def test_help_and_cards_are_as_wide_as_the_terminal(home: Path) -> None:
    out, _ = piped(home, "/help", environ={"COLUMNS": "40"})
    assert max(map(len, out.splitlines())) <= 40
    assert "/quit" in out
    assert "lists" in piped(home, "/help tools")[0]
    (home / "wide.py").write_text(TOOLS.replace('f"line {n}"', '"long " * 40'))
    with chat(home, "--model", "calling", "--tools", str(home / "wide.py"), COLUMNS="40") as terminal:
        card = terminal.enter("Go.", "more lines")
        assert max(len(line) for line in card.splitlines() if "│" in line) == 40


def test_what_is_piped_goes_with_the_one_question(home: Path) -> None:
    asked = in_process("chat", "--file", "-", "--model", "other", "What is it?", home=home, stdin="a note")
    assert (asked.returncode, asked.stdout) == (0, "Guten Tag.\n")
    alone = in_process("chat", "--file", "-", home=home, stdin="a note")
    assert (alone.returncode, "needs a question" in alone.stderr) == (2, True)


def test_what_was_typed_is_found_again_in_the_next_session(home: Path) -> None:
    with chat(home) as terminal:
        terminal.enter("remember these words", "tok/s")
        terminal.until(PROMPT)
        terminal.enter(" and forget those", "tok/s")
        assert left(terminal) == 0
    file = home / "chat_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "forget" not in file.read_text()
    with chat(home) as terminal:
        terminal.type(UP)
        terminal.until("remember these words")
        terminal.enter("", "tok/s")
        terminal.until(PROMPT)
        terminal.type(f"{CTRL_R}these")
        terminal.until("remember")
        terminal.type("\r\r")
        terminal.until("tok/s")
        terminal.until(PROMPT)
        terminal.enter("/raw", "words<|end|>")
        terminal.until("words<|end|>")
        assert left(terminal) == 0


def test_a_question_of_several_lines_is_one_question_and_the_last_can_be_edited(home: Path) -> None:
    saved = home / "talk.json"
    with chat(home) as terminal:
        terminal.type('"""first\rsecond\r\r/help"""\r')
        terminal.until("tok/s")
        terminal.until(PROMPT)
        terminal.type(f"third{ALT_ENTER}fourth\r")
        terminal.until("tok/s")
        terminal.until(PROMPT)
        terminal.enter("/edit", "fourth")
        terminal.enter(" again", "tok/s")
        terminal.until(PROMPT)
        terminal.enter(f"/save {saved}", "saved")
        assert left(terminal) == 0
    texts = [one["text"] for one in json.loads(saved.read_text())["messages"] if one["role"] == "user"]
    assert texts == ["first\nsecond\n\n/help", "third\nfourth again"]


def test_tab_completes_commands_models_and_files(home: Path) -> None:
    (home / "notes-of-today.txt").write_text("The door is blue.")
    with chat(home) as terminal:
        for begun, completed in (("/mod", "el"), (" oth", "er")):
            terminal.type(begun + TAB)
            terminal.until(completed)
        terminal.enter("", "now other")
        terminal.until(PROMPT)
        for begun, completed in (("/fil", "e"), (f" {home}/notes", "-of-today.txt")):
            terminal.type(begun + TAB)
            terminal.until(completed)
        terminal.enter("", "notes-of-today.txt (17 characters)")
        terminal.until(PROMPT)
        terminal.enter("What colour?", "Guten Tag.")
        terminal.until(PROMPT)
        terminal.enter("/raw", "The door is blue.\n```\n\nWhat colour?<|im_end|>")
        assert left(terminal) == 0


def test_ctrl_c_clears_a_line_and_stops_an_answer_and_never_the_program(home: Path) -> None:
    with chat(home, "--model", "slow") as terminal:
        terminal.type(f"half a question{CTRL_C}")
        terminal.until(PROMPT)
        terminal.enter("Count.", "one")
        terminal.type(CTRL_C)
        assert "ten" not in terminal.until("(stopped)")
        terminal.until(PROMPT)
        shown = terminal.enter("/raw", "<|im_start|>assistant\none")
        assert "half" not in shown
        assert left(terminal) == 0


def test_a_tool_has_a_card_with_its_arguments_state_time_and_folded_result(home: Path) -> None:
    tools = home / "lines.py"
    tools.write_text(TOOLS)
    with chat(home, "--model", "calling") as terminal:
        terminal.enter(f"/tools {tools}", PROMPT)
        card = terminal.enter("Go.", "more lines")
        assert '● functions.lines {"count": 9}' in card
        assert "functions.lines  ok  0." in card
        assert "│ line 3" in card
        assert "line 5" not in card
        terminal.until("the model went on calling tools")
        assert "cut at the most tokens" not in terminal.until(PROMPT)
        terminal.enter("/tools off", PROMPT)
        assert "●" not in terminal.enter("/retry", "tok/s")
        assert left(terminal) == 0


def piped(
    home: Path, *lines: str, options: tuple[str, ...] = (), environ: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, str]:
    """What a conversation prints whose lines come through a pipe."""
    done = in_process("chat", *options, home=home, stdin="\n".join(lines), **environ)
    assert done.returncode == 0
    return done.stdout, done.stderr


def test_a_saved_conversation_is_a_transcript_that_is_loaded_again(home: Path) -> None:
    saved = home / "talk.ocml"
    out, errors = piped(home, "/system Be kind.", "/effort high", "Say <|end|>!", f"/save {saved}")
    assert (out, errors) == ("Bonjour.\n", f"saved {saved}\n")
    conversation = read(saved.read_bytes())
    assert [(one.role, one.text) for one in conversation.messages] == [
        ("system", "Be kind."),
        ("user", "Say <|end|>!"),
        ("assistant", "secret thought"),
        ("assistant", "Bonjour."),
    ]
    again = home / "again.json"
    out, errors = piped(home, f"/load {saved}", "And?", f"/save {again}", "/show")
    assert "loaded 4 messages" in errors
    assert "effort\thigh" in out
    assert len(json.loads(again.read_text())["messages"]) == 7


@pytest.mark.parametrize(
    ("name", "content", "messages"),
    [
        ("a.json", '[{"role": "user", "content": "Hi"}]', 1),
        ("b.json", '{"messages": [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Ho"}]}', 2),
        ("c.txt", "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Ho<|return|>", 2),
    ],
)
def test_other_forms_are_loaded_too(home: Path, name: str, content: str, messages: int) -> None:
    (home / name).write_text(content)
    _, errors = piped(home, f"/load {home / name}")
    assert f"loaded {messages} messages" in errors


REFUSED = {
    "/rety": "Did you mean /retry",
    "/load": "needs a file's name",
    "/load {home}/gone.json": "No such file",
    "/load {home}/confi.toml": "config.toml",
    "/load {home}/prose.txt": "no form of a conversation",
    "/load {home}/broken.json": "broken.json",
    "/load {home}/picture.json": "image_url",
    "/load {home}": "Is a directory",
    "/save": "needs a file's name",
    "/save {home}/x.json": "nothing to save",
    "/file {home}/cat.png": "a PNG image, and demo reads text only",
    "/file {home}/latin.txt": "no text in UTF-8",
    "/file {home}/long.txt": "more than 1048576 bytes",
    "/schema {home}/list.json": "a JSON object",
    "/schema {home}/broken.json": "not JSON",
    '/schema {{"type": "object"}}': "takes no grammars",
    "/effort hi": "high",
    "/set temprature 1": "temperature",
    "/set temperature warm": "temperature cannot be 'warm'",
    "/set temperature 7": "a number in [0, 2]",
    "/set max_tokens -4": "max_tokens cannot be '-4'",
    "/help nothing": "unknown command /nothing",
    "/file -": "standard input is what you type",
    "/set reasoning maybe": "on, or off",
    "/model demon": "Did you mean demo",
    "/tools brwser": "Did you mean browser",
    "/retry": "no question yet",
    "/undo": "no question yet",
    "/edit": "no question yet",
}


def test_what_cannot_be_done_is_said_in_words_and_the_conversation_goes_on(home: Path) -> None:
    (home / "broken.json").write_text('{"messages": [')
    (home / "list.json").write_text("[]")
    (home / "prose.txt").write_text("Once upon a time.")
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    (home / "picture.json").write_text(json.dumps([{"role": "user", "content": [picture]}]))
    (home / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    (home / "latin.txt").write_bytes("Größe".encode("latin-1"))
    (home / "long.txt").write_bytes(b"x" * (2**20 + 1))
    out, errors = piped(home, *(line.format(home=home) for line in REFUSED), "Hello")
    assert out == "Bonjour.\n"
    assert errors.count("error: ") == len(REFUSED)
    reports = errors.split("error: ")[1:]
    for (line, words), report in zip(REFUSED.items(), reports, strict=True):
        assert words in report, line
    assert "Traceback" not in errors


def test_a_question_is_undone_edited_and_asked_with_other_settings(home: Path) -> None:
    saved = home / "talk.ocml"
    lines = (
        "One",
        "Two",
        "/undo",
        "/edit Three",
        "/set max_tokens 5",
        "/model other",
        "Four",
        f"/save {saved}",
        "/raw",
    )
    out, errors = piped(home, *lines)
    assert "without 'Two'" in errors
    assert "One" not in out
    assert "<|im_start|>user\nThree<|im_end|>" in out
    assert out.rstrip().endswith("<|im_start|>user\nFour<|im_end|>\n<|im_start|>assistant\nGuten")
    assert [one.text for one in read(saved.read_bytes()).messages if one.role == "user"] == ["Three", "Four"]


def test_files_go_with_one_question_and_none_of_them_closes_its_fence(home: Path) -> None:
    (home / "code.md").write_text("```\nx\n```\n")
    out, _ = piped(home, f"/file {home}/code.md", "Why?", "And?", "/raw", options=("--model", "other"))
    assert "<|im_start|>user\ncode.md:\n````\n```\nx\n```\n````\n\nWhy?<|im_end|>" in out
    assert "<|im_start|>user\nAnd?<|im_end|>" in out


def test_a_file_and_a_conversation_can_be_given_with_the_command(home: Path) -> None:
    (home / "talk.json").write_text('[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]')
    (home / "notes.txt").write_text("blue")
    options = ("--load", str(home / "talk.json"), "--file", str(home / "notes.txt"))
    out, _ = piped(home, "Which?", "/raw", options=(*options, "--model", "other"))
    assert "Ho<|im_end|>" in out
    assert "notes.txt:\n```\nblue\n```\n\nWhich?<|im_end|>" in out


def test_answers_are_forced_into_a_schema(home: Path, smollm2_path: Path) -> None:
    schema = home / "city.json"
    city = {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"]}
    schema.write_text(json.dumps({**city, "additionalProperties": False}))
    options = ("--model", str(smollm2_path), "--max-tokens", "40")
    out, _ = piped(home, f"/schema {schema}", "What is the capital of France?", options=options, environ=ONE_THREAD)
    assert json.loads(out) == {"city": "Paris"}
