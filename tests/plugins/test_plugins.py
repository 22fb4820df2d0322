"""Packages of others, installed beside this one, work without a changed line in it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from kit.program import PROGRAM, environment
from kit.waiting import PATIENCE

HERE = Path(__file__).parent
TESTS = HERE.parent
SOURCE = TESTS.parent / "src" / "antiphon"
PACKAGES = ("engine", "store", "format")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages installed; no index is queried."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--disable-pip-version-check", "--target", str(folder), *(str(HERE / name) for name in PACKAGES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def run(home: Path, installed: Path | None, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The program, where the packages are installed, or not."""
    more = {"PYTHONPATH": str(installed)} if installed else {}
    return subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin, capture_output=True, text=True, timeout=120, check=False, env=environment(home, **more),
    )  # fmt: skip


@contextmanager
def serving(home: Path, installed: Path) -> Iterator[str]:
    """The URL of a server; it is killed at the end, not asked to stop."""
    command = [*PROGRAM, "serve", "--port", "0", "--json"]
    env = environment(home, PYTHONPATH=str(installed))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdout is not None
        ready = ""
        try:
            while "}" not in ready:
                ready += next(server.stdout)
            yield json.loads(ready)["url"]
        finally:
            server.kill()


def post(url: str, body: object) -> dict[str, object]:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(request, timeout=PATIENCE) as response:
        answer: dict[str, object] = json.load(response)
        return answer


def contract(kinds: Sequence[str], installed: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The tests of the contracts of these kinds, run in ``folder`` over what is installed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += ["-c", str(TESTS.parent / "pyproject.toml"), "--rootdir", str(TESTS.parent)]
    command += [*options, *(str(HERE / "checks" / f"check_{kind}.py") for kind in kinds)]
    return subprocess.run(
        command,
        capture_output=True, text=True, check=False, cwd=folder, env=environment(folder, PYTHONPATH=str(installed)),
    )  # fmt: skip


def test_the_contracts_of_their_kinds_hold_packages(installed: Path, tmp_path: Path) -> None:
    done = contract(PACKAGES, installed, tmp_path, "-rA")
    assert done.returncode == 0, done.stdout
    assert [kind for kind in PACKAGES if not re.search(rf"^PASSED .*check_{kind}\.py", done.stdout, re.M)] == []
    assert "skipped" not in done.stdout


ENGINE = """
model = "bird"
[models.bird]
format = "chatml"
[models.bird.engine]
kind = "parrot"
says = "Who is a pretty bird?"
"""


def test_an_engine_by_its_kind_answers_a_chat(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(ENGINE)
    with serving(tmp_path, installed) as url:
        answer = post(f"{url}/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello!"}]})
    choices = answer["choices"]
    assert isinstance(choices, list)
    assert choices[0]["message"]["content"] == "Who is a pretty bird?"
    assert choices[0]["finish_reason"] == "stop"


def test_its_file_alone_makes_it_a_built_in_engine(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "antiphon", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "engine" / "antiphon_parrot.py", tmp_path / "antiphon" / "engines" / "parrot.py")
    (tmp_path / "config.toml").write_text(ENGINE)
    with serving(tmp_path, tmp_path) as url:
        answer = post(f"{url}/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello!"}]})
    assert "Who is a pretty bird?" in json.dumps(answer["choices"])
    checked = contract(["engine"], tmp_path, tmp_path, "-o", f"pythonpath={tmp_path} {TESTS}")
    assert checked.returncode == 0, checked.stdout
    assert "passed" in checked.stdout


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ('kind = "parot"', ["models.bird.engine.kind", "unknown engine 'parot'", "Did you mean parrot?", "vllm"]),
        ('kind = "parrot"\nsay = "x"', ["models.bird.engine.say", "the engine parrot", "says"]),
        ('kind = "parrot"\nsays = 5', ["models.bird.engine.says", "Expected `str`"]),
    ],
)
def test_its_settings_are_checked_as_built_in_ones_are(
    installed: Path, tmp_path: Path, wrong: str, words: list[str]
) -> None:
    (tmp_path / "config.toml").write_text(f'model = "bird"\n[models.bird.engine]\n{wrong}')
    done = run(tmp_path, installed, "config")
    assert done.returncode != 0
    assert [word for word in words if word not in done.stderr] == []


def test_without_the_package_its_engine_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(ENGINE)
    done = run(tmp_path, None, "config")
    assert done.returncode != 0
    assert "unknown engine 'parrot'" in done.stderr


def test_a_store_by_its_address_keeps_a_session_over_a_restart(installed: Path, tmp_path: Path) -> None:
    store = f'[sessions]\nstore = "journal:{tmp_path / "journal"}"\n'
    (tmp_path / "config.toml").write_text('model = "bird"\n' + store + ENGINE.partition('"bird"\n')[2])
    history = []
    for _ in range(2):
        with serving(tmp_path, installed) as url:
            turn = post(f"{url}/v1/chat/interactive", {"session_id": "s", "interactive_mode": True, "prompt": "Hi"})
        history.append(turn["history_tokens"])
    assert history[0] == 0
    assert isinstance(history[1], int)
    assert history[1] > 0


def test_a_format_by_its_name_renders_and_parses(installed: Path, tmp_path: Path) -> None:
    assert "screenplay" in run(tmp_path, installed, "formats").stdout
    conversation = json.dumps({"messages": [{"role": "user", "content": "Hi!"}]})
    rendered = run(tmp_path, installed, "render", "-", "--format", "screenplay", stdin=conversation)
    assert rendered.stdout == "USER: Hi!<|im_end|>\nASSISTANT: ", rendered.stderr
    parsed = run(tmp_path, installed, "parse", "-", "--format", "screenplay", "--json", stdin="Hello.<|im_end|>")
    assert '"Hello."' in parsed.stdout, parsed.stderr
