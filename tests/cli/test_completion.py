"""Shell completion: by a real bash, and as zsh and fish put their question."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.cli.clients import CLIENTS
from kit.program import environment, in_process

CONFIG = 'model = "mine"\n[models.mine]\nengine = "scripted"\naliases = ["own", "claude-*"]\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a model and a key, and the program `antiphon` in a folder of its own."""
    (tmp_path / "config.toml").write_text(CONFIG)
    in_process("keys", "add", "alice", home=tmp_path)
    program = tmp_path / "bin" / "antiphon"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom antiphon.cli import main\nmain()\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def completed_by_bash(home: Path, *lines: str) -> list[set[str]]:
    """What bash offers for the last word of each line."""
    script = 'eval "$(antiphon completion bash)"\n'
    for words in (line.split(" ") for line in lines):
        script += f"""
COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words) - 1}
$(complete -p antiphon | sed 's/.* -F \\([^ ]*\\) .*/\\1/') antiphon
echo "${{COMPREPLY[@]}}"
"""
    bash = shutil.which("bash") or "/bin/bash"
    environ = environment(home, PATH=f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, env=environ, check=True)
    assert done.stderr == ""
    return [set(offered.split()) for offered in done.stdout.splitlines()]


OFFERED = {
    "antiphon conn": {"connect"},
    "antiphon keys ": {"add", "list", "set", "rm"},
    "antiphon keys rm a": {"alice"},
    "antiphon models show ": {"mine", "own", "smollm2"},
    "antiphon render x --to openc": {"openchatml"},
    "antiphon connect ": set(CLIENTS),
    "antiphon keys add bob --requests-per": {"--requests-per-minute"},
}


def test_bash_completes(home: Path) -> None:
    for (line, offered), found in zip(OFFERED.items(), completed_by_bash(home, *OFFERED), strict=True):
        assert offered <= found, line
        assert line.endswith(" ") or found == offered, line


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_words(shell: str, home: Path) -> None:
    asked = {
        "_ANTIPHON_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "antiphon serve --model m",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = in_process(home=home, **asked)
    assert "mine" in done.stdout
    assert "own" not in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(shell: str, home: Path) -> None:
    done = in_process("completion", shell, home=home)
    assert done.returncode == 0
    assert "_ANTIPHON_COMPLETE" in done.stdout
    described = json.loads(in_process("completion", shell, "--json", home=home).stdout)
    assert described["script"] == done.stdout.rstrip("\n")
    assert shell in described["use"]


def test_a_configuration_that_cannot_be_read_completes_nothing(home: Path) -> None:
    (home / "config.toml").write_text("[server]\nprot = 1\n")
    asked = {"_ANTIPHON_COMPLETE": "complete_bash", "COMP_WORDS": "antiphon models show ", "COMP_CWORD": "3"}
    done = in_process(home=home, **asked)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_an_unknown_shell_is_refused(home: Path) -> None:
    assert in_process("completion", "tcsh", home=home).returncode == 2
