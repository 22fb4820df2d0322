"""Text of others never moves the cursor of a terminal, whichever command prints it; programs get it as it is."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from antiphon import cli
from antiphon.cli.options import as_json
from antiphon.cli.terminal import safe
from kit.program import PROGRAM, environment, in_process, on_screen
from kit.terminal import typed

HARM = "\x1b]0;PWN\x07\x1b[31mred\x9b2J\x08\x0d\x7f\u202egnp\u2066x\x85"
"""A title, colours, an erased screen by a C1 control, what goes back on the line, and what turns the direction."""
TOOLS = f'''
def evil(text: str = "") -> str:
    """Evil {HARM!r}."""
    return {HARM!r}

evil.__doc__ = {"Evil " + HARM!r}

def breaks() -> str:
    """Breaks."""
    raise ValueError({HARM!r})
'''
MCP = f"""
import json, sys
HARM = {HARM!r}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request: continue
    result = None
    if request["method"] == "initialize":
        result = {{"protocolVersion": request["params"]["protocolVersion"], "capabilities": {{"tools": {{}}}},
                  "serverInfo": {{"name": HARM, "version": HARM}}, "instructions": HARM}}
    elif request["method"] == "tools/list":
        result = {{"tools": [{{"name": "evil", "title": HARM, "description": "Evil " + HARM,
                  "inputSchema": {{"type": "object", "properties": {{"text": {{"title": HARM}}}}}}}}]}}
    elif request["method"] == "tools/call":
        fails = request["params"].get("arguments") != {{}}
        result = {{"content": [{{"type": "text", "text": HARM}}], "isError": fails}}
    answer = {{"result": result}} if result else {{"error": {{"code": -32601, "message": HARM}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": request["id"]}} | answer), flush=True)
"""
CONFIG = f"""
model = "evil"
[models.evil]
engine = "scripted"
format = "chatml"
reply = {json.dumps("Answer " + HARM)}
context = 10000
"""
HEAD = '---\nversion: "2.2"\n---\n'
TRANSCRIPT = f"{HEAD}<|start|>user<|message|>{HARM.replace(chr(13), '')}<|end|>\n"
FAULTY = f'{HEAD}<|start|>user name="{HARM}" {HARM}<|message|>x<|end|>\n'
REQUEST = json.dumps({"messages": [{"role": "user", "text": HARM}]})
REPLY = f"<|channel|>final<|message|>{HARM}<|return|>"
OWN, SERVER = ("--tools", "tools.py"), ("--mcp", "mcp.json")
COMMANDS = {
    "tools list": ("tools", "list", *OWN),
    "tools show": ("tools", "show", "evil", *OWN),
    "tools call": ("tools", "call", "evil", "{}", *OWN),
    "a call that fails": ("tools", "call", "breaks", "{}", *OWN),
    "tools list as JSON": ("tools", "list", *OWN, "--json"),
    "tools call as JSON": ("tools", "call", "evil", "{}", *OWN, "--json"),
    "an MCP server's list": ("tools", "list", *SERVER),
    "an MCP server's answer": ("tools", "call", "evil__evil", "{}", *SERVER),
    "a tool that is not there": ("tools", "show", HARM, *OWN),
    "a file that is not there": ("parse", f"/tmp/{HARM}", "--from", "harmony"),
    "one question": ("chat", "Hi"),
    "one question as JSON": ("chat", "Hi", "--json"),
    "render": ("render", "request.json", "--to", "harmony"),
    "render as pieces": ("render", "request.json", "--to", "harmony", "--pretty"),
    "render as a mask": ("render", "request.json", "--to", "harmony", "--mask"),
    "parse": ("parse", "reply.harmony", "--from", "harmony"),
    "parse as JSON": ("parse", "reply.harmony", "--from", "harmony", "--json"),
    "convert": ("convert", "chat.ocm", "--to", "harmony"),
    "convert a faulty one": ("convert", "faulty.ocm", "--to", "harmony", "--report"),
    "convert a faulty one leniently": ("convert", "faulty.ocm", "--to", "chat", "--lenient", "--report"),
    "validate": ("validate", "faulty.ocm"),
    "lint": ("lint", "faulty.ocm", "chat.ocm"),
    "an option": ("parse", "reply.harmony", "--from", HARM),
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    server = {"mcpServers": {"evil": {"command": sys.executable, "args": [str(tmp_path / "mcp.py")]}}}
    files = {
        "config.toml": CONFIG, "tools.py": TOOLS, "mcp.py": MCP, "mcp.json": json.dumps(server),
        "request.json": REQUEST, "reply.harmony": REPLY, "chat.ocm": TRANSCRIPT, "faulty.ocm": FAULTY,
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def in_home(home: Path, arguments: tuple[str, ...]) -> list[str]:
    """The arguments with the paths of files in the home."""
    return [str(home / word) if (home / word).is_file() else word for word in arguments]


@pytest.mark.parametrize("what", COMMANDS, ids=lambda name: name.replace(" ", "-"))
def test_no_command_shows_a_terminal_what_moves_its_cursor(home: Path, what: str) -> None:
    arguments = in_home(home, COMMANDS[what])
    if "--mcp" in arguments:  # whose process gets our own standard error, which must then be a file
        shown = typed([*PROGRAM, *arguments], environment(home, NO_COLOR="1", TERM="dumb")).screen
    else:
        done = on_screen(*arguments, home=home, NO_COLOR="1", TERM="dumb")
        shown = done.stdout + done.stderr
    shown = shown.replace("\r\x1b[K", "")  # our own line of what is waited for
    assert "PWN" in shown, "else there is nothing to see"
    assert [character for character in shown if safe(character) != character] == []


def test_a_real_terminal_gets_no_more(home: Path) -> None:
    ended = typed([*PROGRAM, *in_home(home, COMMANDS["tools call"])], environment(home, NO_COLOR="1"))
    assert ended.screen == safe(HARM) + "\n"


def test_programs_get_what_a_tool_gave(home: Path) -> None:
    done = in_process(*in_home(home, COMMANDS["tools call"]), home=home)
    assert done.stdout == HARM + "\n"
    as_object = in_process(*in_home(home, COMMANDS["tools call as JSON"]), home=home)
    assert json.loads(as_object.stdout)["content"] == HARM


def test_json_has_controls_as_escapes_which_change_no_value() -> None:
    for indent in (True, False):
        text = as_json({HARM: [HARM, "é\n\t"]}, indent=indent)
        assert safe(text) == text
        assert json.loads(text) == {HARM: [HARM, "é\n\t"]}


PRINTS = {"terminal.py": 2, "talking/screen.py": 3, "options.py": 1, "render.py": 1,
          "talking/converse.py": 1, "talking/session.py": 1, "__init__.py": 1}  # fmt: skip
"""Where ``print`` itself is called: by `tell`, of what was made safe before it got our own colours, of `as_json`."""


def test_what_the_commands_print_goes_through_one_function() -> None:
    root = Path(cli.__file__).parent
    found: dict[str, int] = {}
    for file in root.rglob("*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "print(" in text else ():
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if name == "print":
                found[str(file.relative_to(root))] = found.get(str(file.relative_to(root)), 0) + 1
    assert found == PRINTS
