"""`antiphon mcp`, and what MCP servers ask of who sits at a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.cli.mcp_host import CANCEL, DECLINE, elicit
from antiphon.tools.mcp import Elicitation, ElicitationAnswer
from kit import mcp_asking, mcp_oauth
from kit.mcp_oauth import WRITE, SignIns
from kit.program import PROGRAM, environment, in_process
from kit.terminal import typed

TESTS = str(Path(mcp_asking.__file__).parents[1])
BROWSER = f"{sys.executable} -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1]).read()' %s"
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Who \x1b[2Jare you?", "default": "John"},
        "age": {"type": "integer", "minimum": 18},
        "sure": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mo", "tu"]}},
    },
    "required": ["age"],
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    asking = {"command": sys.executable, "args": ["-m", "kit.mcp_asking"], "cwd": TESTS}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"asking": asking}}))
    (tmp_path / "config.toml").write_text('tools.mcp = "mcp.json"\n')
    return tmp_path


def test_a_form_is_filled_in_field_by_field(home: Path) -> None:
    body = json.dumps({"method": "elicitation/create", "params": {"message": "Sign up", "requestedSchema": FORM}})
    command = [*PROGRAM, "tools", "call", "asking__ask", body]
    ended = typed(command, environment(home), "y\nAnn\n12\nforty\n40\nyes\nblue\nmo, tu\n")
    content = {"name": "Ann", "age": 40, "sure": True, "colour": "blue", "days": ["mo", "tu"]}
    assert json.loads(ended.screen.rstrip().splitlines()[-1]) == {"result": {"action": "accept", "content": content}}
    assert "The MCP server 'asking' asks" in ended.screen
    assert "\x1b[2J" not in ended.screen, "a server's text does not move the cursor"


SIGN_UP = Elicitation("asking", "Sign up", FORM)
PAGE = Elicitation("asking", "Pay", url="https://pay.test/1")


@pytest.mark.parametrize(
    ("elicitation", "lines", "answer"),
    [
        (SIGN_UP, "\n\n30\n\n\n\n", ElicitationAnswer("accept", {"name": "John", "age": 30})),
        (SIGN_UP, "n\n", DECLINE),
        (SIGN_UP, "y\n\n" + "old\n" * 5, CANCEL),
        (PAGE, "\n", DECLINE),
    ],
    ids=["defaults, and nothing that is not needed", "no", "never fits", "an address is opened for who agrees"],
)
async def test_what_is_typed_is_the_answer_to_a_question(
    elicitation: Elicitation, lines: str, answer: ElicitationAnswer,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    ours, theirs = pty.openpty()
    os.write(ours, lines.encode())
    with open(ours, "rb"), open(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        assert await elicit(elicitation) == answer
    assert f"Open {elicitation.url} ?" in capsys.readouterr().err or elicitation.url is None


def test_in_a_pipe_nobody_is_asked(home: Path) -> None:
    body = json.dumps({"method": "elicitation/create", "params": {"message": "Sign up", "requestedSchema": FORM}})
    done = in_process("tools", "call", "asking__ask", body, home=home, stdin="y\n")
    assert "error" in json.loads(done.stdout)


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[SignIns]:
    """A server that wants to be signed in to, named by the configuration."""
    sign_ins = SignIns()
    async with mcp_oauth.serving(sign_ins) as url:
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"files": {"url": url}}}))
        (tmp_path / "config.toml").write_text('tools.mcp = "mcp.json"\n')
        yield sign_ins


async def ran(home: Path, *arguments: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(in_process, *arguments, home=home, BROWSER=BROWSER)
    return done.returncode, done.stdout, done.stderr


async def test_login_signs_in_with_the_browser_and_logout_forgets_it(files: SignIns, tmp_path: Path) -> None:
    code, _, error = await ran(tmp_path, "tools", "list")
    assert (code, "antiphon mcp login files" in error) == (2, True)
    code, out, error = await ran(tmp_path, "mcp", "login", "files")
    assert (code, "signed in" in out, "2 tools" in out) == (0, True, True), error
    assert "/authorize?" in error, "for who has no browser here"
    assert (await ran(tmp_path, "tools", "call", "files__read"))[1].strip().endswith('"the file"}')
    code, _, error = await ran(tmp_path, "tools", "call", "files__write")
    assert code == 1
    assert (await ran(tmp_path, "mcp", "login", "files", "--scope", WRITE))[0] == 0
    assert (await ran(tmp_path, "tools", "call", "files__write"))[0] == 0
    code, out, _ = await ran(tmp_path, "mcp", "logout", "files", "--json")
    assert json.loads(out)["outcome"] == "signed_out"
    assert (await ran(tmp_path, "tools", "list"))[0] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["login"], "NAME"),
        (["login", "askin"], "asking"),
        (["login", "asking"], "nothing to sign in to"),
        (["logout", "asking"], "nothing to sign in to"),
        (["dance"], "dance"),
    ],
)
def test_a_mistake_of_usage_says_what_is_wrong(home: Path, arguments: list[str], says: str) -> None:
    done = in_process("mcp", *arguments, home=home)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_scope_is_one(home: Path) -> None:
    servers = {"mcpServers": {"far": {"url": "https://far.test/mcp"}}}
    (home / "mcp.json").write_text(json.dumps(servers))
    done = in_process("mcp", "login", "far", "--scope", 'a "b', home=home)
    assert done.returncode == 2
    assert "--scope" in done.stderr
