"""`antiphon ps` and `antiphon stop` over real servers and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import pytest

from antiphon.cli.ps import duration
from antiphon.cli.running import RunningServer, run_folder, running_servers, started
from kit.certificates import signed
from kit.program import antiphon, in_process, serving
from kit.waiting import PATIENCE, wait_until

CONFIG = """
model = "demo"
[models.demo]
format = "chatml"
[models.demo.engine]
kind = "scripted"
reply = "It is Paris, the city of light."
"""
QUESTION = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "stream": True}).encode()


def listed(home: Path, *words: str) -> list[dict[str, Any]]:
    servers: list[dict[str, Any]] = json.loads(in_process("ps", "--json", *words, home=home).stdout)["servers"]
    return servers


def test_a_server_is_listed_with_what_it_does_and_stopped_when_its_answers_are_whole(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG + "delay = 0.1\n")
    with serving(tmp_path) as (server, url):
        (idle,) = listed(tmp_path)
        assert (idle["pid"], idle["url"], idle["running"], idle["models"]) == (
            server.pid, url, 0, [{"name": "demo", "slots": 64, "busy": 0}],
        )  # fmt: skip
        assert idle["memory"] > 10_000_000
        request = Request(f"{url}/v1/chat/completions", QUESTION, {"content-type": "application/json"})
        with urlopen(request, timeout=PATIENCE) as answer:
            first = answer.readline()
            (busy,) = listed(tmp_path)
            assert (busy["models"][0]["busy"], busy["running"]) == (1, 1)
            stopped = in_process("stop", "--no-wait", home=tmp_path)
            assert (stopped.returncode, stopped.stdout) == (0, f"{url} ends\n")
            whole = first + answer.read()
        assert whole.endswith(b"data: [DONE]\n\n")
        assert server.wait(PATIENCE) == 0
        assert listed(tmp_path) == []
        assert list(run_folder({"ANTIPHON_HOME": str(tmp_path)}).iterdir()) == []


def test_a_server_that_was_killed_is_not_listed_and_its_file_goes(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    with serving(tmp_path) as (server, _):
        file = tmp_path / "run" / f"{server.pid}.json"
        assert file.stat().st_mode & 0o077 == 0
        server.kill()
        server.wait(PATIENCE)
        assert in_process("ps", home=tmp_path).stdout.startswith("no server runs here")
        assert not file.exists()


def test_a_server_with_keys_and_a_certificate_answers_a_key_of_scope_admin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, private = signed(tmp_path, host="antiphon.example")
    (tmp_path / "config.toml").write_text(CONFIG + f'[server]\ntls_cert = "{certificate}"\ntls_key = "{private}"\n')
    secret = in_process("keys", "add", "ops", "--scope", "admin", home=tmp_path).stdout.strip()
    with serving(tmp_path):
        (refused,) = listed(tmp_path)
        assert ("--key-variable" in refused["note"], "models" in refused) == (True, False)
        monkeypatch.setenv("OPS_KEY", secret)
        (seen,) = listed(tmp_path, "--key-variable", "OPS_KEY")
        assert ("note" in seen, seen["models"]) == (False, [{"name": "demo", "slots": 64, "busy": 0}])


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes that do nothing until they are ended."""
    with ExitStack() as stack:
        started_here = []
        for _ in range(2):
            process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            started_here.append(process)
        yield started_here


def register(home: Path, server: RunningServer) -> None:
    (home / "run").mkdir(exist_ok=True)
    (home / "run" / f"{server.pid}.json").write_bytes(msgspec.json.encode(server))


def record(pid: int, port: int, began: str | None = None) -> RunningServer:
    began = began or started(pid) or ""
    return RunningServer(pid=pid, started=began, url=f"http://127.0.0.1:{port}", model="demo", since=time.time())


def test_of_several_the_named_one_is_stopped(tmp_path: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    one, two = processes
    register(tmp_path, record(one.pid, 1))
    register(tmp_path, record(two.pid, 2))
    several = in_process("stop", home=tmp_path)
    assert (several.returncode, f"1 (pid {one.pid})" in several.stderr) == (2, True)
    assert in_process("stop", "3", home=tmp_path).returncode == 2
    assert in_process("stop", "2", "--no-wait", home=tmp_path).returncode == 0
    assert two.wait(PATIENCE) == -15
    assert in_process("stop", str(one.pid), "--no-wait", home=tmp_path).returncode == 0
    assert one.wait(PATIENCE) == -15


def test_a_process_that_only_has_the_id_of_a_server_is_left_alone(tmp_path: Path) -> None:
    register(tmp_path, record(os.getpid(), 1, began="another boot 1"))
    assert in_process("stop", "1", home=tmp_path).returncode == 2
    assert running_servers(tmp_path / "run") == []


def test_a_file_that_is_no_record_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "1.json").write_text("{")
    assert listed(tmp_path) == []


def test_a_server_that_does_not_answer_is_listed_with_the_reason(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    register(tmp_path, record(processes[0].pid, 1))
    (silent,) = listed(tmp_path)
    assert "does not answer" in silent["note"]
    assert "does not answer" in in_process("ps", home=tmp_path).stdout


def test_stop_waits_until_the_server_has_ended(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    with serving(tmp_path) as (server, url):
        assert antiphon("stop", home=tmp_path).stdout == f"{url} has ended\n"
        wait_until(lambda: server.poll() == 0)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.5, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h"), (90_061, "1 d 1 h")]
)
def test_times_are_said_in_their_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words
