"""Packages of others, installed beside this one, work without a changed line in it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from kit.api import post
from kit.program import antiphon, environment, serving

HERE = Path(__file__).parent
TESTS = HERE.parent
SOURCE = TESTS.parent / "src" / "antiphon"
PACKAGES = ("engine", "store", "format")


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


HELLO = [{"role": "user", "content": "Hello!"}]
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
    with serving(tmp_path, PYTHONPATH=str(installed)) as (_, url):
        answer = post(url, "/v1/chat/completions", messages=HELLO)
    (choice,) = answer.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Who is a pretty bird?", "stop")


def test_its_file_alone_makes_it_a_built_in_engine(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "antiphon", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "engine" / "antiphon_parrot.py", tmp_path / "antiphon" / "engines" / "parrot.py")
    (tmp_path / "config.toml").write_text(ENGINE)
    with serving(tmp_path, PYTHONPATH=str(tmp_path)) as (_, url):
        answer = post(url, "/v1/chat/completions", messages=HELLO)
    assert b"Who is a pretty bird?" in answer.body
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
    done = antiphon("config", home=tmp_path, PYTHONPATH=str(installed))
    assert done.returncode != 0
    assert [word for word in words if word not in done.stderr] == []


def test_without_the_package_its_engine_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(ENGINE)
    done = antiphon("config", home=tmp_path)
    assert done.returncode != 0
    assert "unknown engine 'parrot'" in done.stderr


def test_a_store_by_its_address_keeps_a_session_over_a_restart(installed: Path, tmp_path: Path) -> None:
    store = f'[sessions]\nstore = "journal:{tmp_path / "journal"}"\n'
    (tmp_path / "config.toml").write_text('model = "bird"\n' + store + ENGINE.partition('"bird"\n')[2])
    history = []
    for _ in range(2):
        with serving(tmp_path, PYTHONPATH=str(installed)) as (_, url):
            turn = post(url, "/v1/chat/interactive", session_id="s", interactive_mode=True, prompt="Hi")
        history.append(turn.json["history_tokens"])
    assert history[0] == 0 < history[1]


def test_a_format_by_its_name_renders_and_parses(installed: Path, tmp_path: Path) -> None:
    run = partial(antiphon, home=tmp_path, PYTHONPATH=str(installed))
    assert "screenplay" in run("formats").stdout
    conversation = json.dumps({"messages": [{"role": "user", "content": "Hi!"}]})
    rendered = run("render", "-", "--format", "screenplay", stdin=conversation)
    assert rendered.stdout == "USER: Hi!<|im_end|>\nASSISTANT: ", rendered.stderr
    parsed = run("parse", "-", "--format", "screenplay", "--json", stdin="Hello.<|im_end|>")
    assert '"Hello."' in parsed.stdout, parsed.stderr
