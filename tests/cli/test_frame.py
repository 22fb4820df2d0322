"""The program as a program: a real process, its exit codes, its two streams."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from antiphon import __version__
from antiphon.cli.app import COMMANDS
from kit.program import PROGRAM, antiphon, environment, in_process


def loaded_modules(arguments: Sequence[str]) -> set[str]:
    """What one run of the program has imported when it ends."""
    code = (
        "import sys; from antiphon.cli.app import run; code = run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    )
    if list(arguments) == ["--version"]:
        code = "import sys; from antiphon.cli import main; main(); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_version_is_printed_and_nothing_heavy_is_imported() -> None:
    modules = loaded_modules(["--version"])
    heavy = {"typer", "rich", "msgspec", "starlette", "asyncio", "jinja2", "aiohttp", "tiktoken", "json"}
    assert not modules & heavy


def test_the_help_imports_no_command() -> None:
    modules = loaded_modules(["--help"])
    assert not modules & {f"antiphon.cli.{name}" for name in COMMANDS}
    assert not modules & {"starlette", "aiohttp", "tiktoken", "jinja2"}


def test_the_version_command_answers(tmp_path: Path) -> None:
    done = antiphon("--version", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"antiphon {__version__}\n")


def test_python_m_antiphon_is_the_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "antiphon", "--version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == f"antiphon {__version__}\n"


def test_the_help_lists_every_command(tmp_path: Path) -> None:
    done = in_process("--help", home=tmp_path)
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("╭")] == [
        "Options", "Run", "Talk", "Transcripts", "Manage",
    ]  # fmt: skip


def test_an_action_may_stand_behind_its_options_and_some_are_understood(tmp_path: Path) -> None:
    listed = json.loads(in_process("models", "--json", home=tmp_path).stdout)
    assert listed == json.loads(in_process("models", "list", "--json", home=tmp_path).stdout)
    assert in_process("keys", "add", "alice", home=tmp_path).returncode == 0
    (key,) = json.loads(in_process("keys", "--json", "list", home=tmp_path).stdout)
    assert key["name"] == "alice"


def test_the_help_of_an_action_has_its_own_options_alone(tmp_path: Path) -> None:
    assert "--merge" in in_process("store", "import", "--help", home=tmp_path).stdout
    assert "--merge" not in in_process("store", "export", "--help", home=tmp_path).stdout
    assert "NAME" not in in_process("keys", "list", "--help", home=tmp_path).stdout


def test_an_error_under_json_is_json(tmp_path: Path) -> None:
    done = in_process("pull", "smolm2", "--json", home=tmp_path)
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "model_not_found"
    assert "smollm2" in error["hint"]


def test_a_model_is_pulled_listed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF tiny")
    pulled = in_process("pull", str(file), "--json", home=tmp_path)
    assert json.loads(pulled.stdout)["name"] == "tiny"
    listed = json.loads(in_process("models", "--json", home=tmp_path).stdout)
    assert listed["default"] == "smollm2"
    tiny = next(model for model in listed["models"] if model["name"] == "tiny")
    assert (tiny["state"], tiny["size"]) == ("here", 9)
    assert in_process("rm", "tiny", home=tmp_path).stdout == "removed tiny\n"
    again = in_process("rm", "tiny", home=tmp_path)
    assert (again.returncode, "not in the store" in again.stderr or "unknown" in again.stderr) == (2, True)


def test_the_configuration_is_shown_with_origins_and_without_colour_when_piped(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[limits]\nmax_queue = 7\n")
    done = in_process("config", home=tmp_path, ANTIPHON_SERVER_PORT="81")
    rows = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    assert rows["limits.max_queue"] == f"7\t{tmp_path / 'config.toml'}"
    assert rows["server.port"] == "81\tenvironment ANTIPHON_SERVER_PORT"
    assert "\x1b" not in done.stdout
    settings = json.loads(in_process("config", "--json", home=tmp_path).stdout)["settings"]
    assert {"key": "limits.max_queue", "value": 7, "origin": str(tmp_path / "config.toml")} in settings


def test_a_configuration_that_cannot_be_used_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[server]\nprot = 1\n")
    done = in_process("models", home=tmp_path)
    assert done.returncode == 2
    assert "server.port" in done.stderr


USAGE = {
    "serve --port abc --json": "not a valid int",
    "keys --json": "add, list, set, rm",
    "keys add --json": "Missing argument 'NAME'",
    "models list --nope --json": "No such option: --nope",
    "nope --json": "No such command 'nope'",
}


@pytest.mark.parametrize("line", USAGE)
def test_wrong_usage_is_one_json_object_where_a_program_reads(line: str, tmp_path: Path) -> None:
    done = in_process(*line.split(), home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    error = json.loads(done.stderr)["error"]
    assert USAGE[line] in f"{error['message']} {error['hint']}"


def test_help_and_exit_codes_are_the_same_with_json(tmp_path: Path) -> None:
    shown = in_process("keys", "list", "--json", "--help", home=tmp_path)
    assert (shown.returncode, "Usage" in shown.stdout) == (0, True)
    (tmp_path / "bad.ocm").write_text("no transcript")
    assert in_process("validate", str(tmp_path / "bad.ocm"), "--json", home=tmp_path).returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_disk_that_is_full_is_said_in_words(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "formats"], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env=environment(tmp_path),
        )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device" in done.stderr


def test_a_reader_that_leaves_ends_the_program_without_a_word(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, "formats", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 1)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nobody may make another")
def test_a_home_that_cannot_be_made_is_said_in_words() -> None:
    done = in_process("keys", "add", "bob", home=Path("/proc/antiphon"))
    assert done.returncode == 2
    assert "unwritable_output" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_read_leaves_no_half_of_a_json_value(tmp_path: Path) -> None:
    (tmp_path / "good.ocm").write_text("")
    for files in (["gone.ocm"], ["good.ocm", "gone.ocm"]):
        done = in_process("validate", *(str(tmp_path / name) for name in files), "--json", home=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert json.loads(done.stderr)["error"]["code"] == "unreadable_input"
