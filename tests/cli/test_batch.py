"""``antiphon batch run``: the lines of a file, answered in this process, and gone on with where a run was killed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kit.batches import jsonl, line
from kit.program import PROGRAM, environment, in_process
from kit.waiting import wait_until

CONFIG = """
model = "demo"

[engine]
slots = 3

[models.demo]
engine = "scripted"
reply = "Hello there."
delay = {delay}
"""
LINES = 256
"""Four rounds of those that the scripted engine answers at once; a kill comes in each of the first two."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG.format(delay=0.0))
    (tmp_path / "in.jsonl").write_bytes(jsonl([request("a"), request("b"), request("c", temperature=9)]))
    return tmp_path


def request(custom_id: str, **body: Any) -> dict[str, Any]:
    return line(custom_id, model="demo", **body)


def run(home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return in_process("batch", "run", str(home / "in.jsonl"), "-o", str(home / "out.jsonl"), *options, home=home)


def written(home: Path) -> dict[str, int]:
    """The status of each line of the output, each of which is there once."""
    lines = [json.loads(one) for one in (home / "out.jsonl").read_bytes().splitlines()]
    statuses = {one["custom_id"]: one["response"]["status_code"] for one in lines}
    assert len(statuses) == len(lines)
    return statuses


@pytest.mark.parametrize("order", [(), ("--in-file-order",)])
def test_a_file_of_requests_is_answered(home: Path, order: tuple[str, ...]) -> None:
    done = run(home, "--json", *order)
    assert done.returncode == 1, done.stderr  # one of them failed
    tally = json.loads(done.stdout)
    assert {key: tally[key] for key in ("total", "earlier", "completed", "failed")} == {
        "total": 3, "earlier": 0, "completed": 2, "failed": 1,
    }  # fmt: skip
    assert tally["prompt_tokens"] > 0
    assert written(home) == {"a": 200, "b": 200, "c": 400}


def test_what_the_output_has_is_not_run_again(home: Path) -> None:
    assert run(home).returncode == 1
    before = (home / "out.jsonl").read_bytes()
    done = run(home, "--json")
    assert (done.returncode, json.loads(done.stdout)["earlier"]) == (0, 3)
    assert (home / "out.jsonl").read_bytes() == before
    half = before.splitlines(keepends=True)[0] + before.splitlines()[1][:20]
    (home / "out.jsonl").write_bytes(half)
    assert json.loads(run(home, "--json").stdout)["earlier"] == 1
    assert written(home) == {"a": 200, "b": 200, "c": 400}


def test_all_endpoints_may_be_in_one_file(home: Path) -> None:
    bodies = {"/v1/completions": {"prompt": "Hi"}, "/v1/responses": {"input": "Hi", "store": False}}
    lines = [{"custom_id": url, "method": "POST", "url": url, "body": body} for url, body in bodies.items()]
    (home / "in.jsonl").write_bytes(jsonl([*lines, request("a")]))
    assert run(home).returncode == 0
    assert set(written(home).values()) == {200}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no lines"), (b"hello\n", "no JSON object"), (jsonl([request("a")]) + b"hello\n", "at 2:1"),
        (jsonl([request("a"), request("a")]), "Another line"),
        (jsonl([request("a", stream=True)]), "stream"), (jsonl([line("a", model="none", url="/v1/x")]), "url"),
        (jsonl([request("a") | {"more": 1}]), "more"), (jsonl([line("a", model="nobody")]), "nobody"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_batch_is_refused_and_nothing_is_run(home: Path, data: bytes, why: str) -> None:
    (home / "in.jsonl").write_bytes(data)
    done = run(home)
    assert done.returncode in (1, 2)
    assert why in done.stderr
    code = "model_not_found" if why == "nobody" else "bad_batch"
    assert json.loads(run(home, "--json").stderr)["error"]["code"] == code
    assert not (home / "out.jsonl").exists()


def test_a_line_may_have_as_large_a_body_as_a_request(home: Path) -> None:
    most = 8192
    (home / "config.toml").write_text(CONFIG.format(delay=0.0) + f"[limits]\nmax_body = {most}\n")
    rest = len(json.dumps(request("a", user="")["body"]))
    (home / "in.jsonl").write_bytes(jsonl([request("a", user="x" * (most - rest))]))
    assert run(home).returncode == 0
    assert written(home) == {"a": 200}


def test_an_output_of_another_kind_is_left_as_it_is(home: Path) -> None:
    (home / "out.jsonl").write_text("My notes.\n")
    done = run(home, "--json")
    assert (done.returncode, json.loads(done.stderr)["error"]["code"]) == (2, "bad_batch")
    assert "no answer of a batch" in done.stderr
    assert (home / "out.jsonl").read_text() == "My notes.\n"


def test_a_run_that_is_killed_goes_on_with_each_line_once(home: Path) -> None:
    (home / "config.toml").write_text(CONFIG.format(delay=0.1))
    (home / "in.jsonl").write_bytes(jsonl(request(str(i)) for i in range(LINES)))
    out = home / "out.jsonl"
    command = [*PROGRAM, "batch", "run", str(home / "in.jsonl"), "-o", str(out)]
    for killed in range(2):
        process = subprocess.Popen(command, env=environment(home), stdout=subprocess.DEVNULL)
        wait_until(lambda least=(killed + 1) * 40: out.exists() and out.read_bytes().count(b"\n") >= least)  # type: ignore[misc]
        process.kill()
        process.wait()
    assert len(out.read_bytes().splitlines()) < LINES
    (home / "config.toml").write_text(CONFIG.format(delay=0.0))
    assert run(home).returncode == 0
    assert set(written(home)) == {str(i) for i in range(LINES)}


def test_the_input_is_no_output_and_every_line_that_cannot_be_run_is_named(home: Path) -> None:
    lines = [{"custom_id": f"q{i}", "method": "POST", "url": "/v1/chat/completions", "body": {}} for i in range(4)]
    source = home / "in.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = source.read_bytes()
    done = in_process("batch", "run", str(source), "-o", str(source), home=home)
    assert (done.returncode, source.read_bytes()) == (2, before)
    assert "is no answer of a batch" in done.stderr
    chats = home / "chats.jsonl"
    chats.write_text('{"messages": []}\n' * 3)
    done = in_process("batch", "run", str(chats), "-o", str(home / "out.jsonl"), home=home)
    assert (done.returncode, (home / "out.jsonl").exists()) == (2, False)
    assert all(words in done.stderr for words in ("at 1:1", '"custom_id": …', "cannot be run: 2, 3."))
