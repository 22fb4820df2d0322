"""`antiphon serve` on a real socket."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

from cli.program import PROGRAM, antiphon, environment

CONFIG = """
model = "demo"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "Paris."
"""


def test_the_server_answers_the_line_that_it_prints_and_ends_when_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    server = subprocess.Popen(
        [*PROGRAM, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment(tmp_path)
    )
    try:
        assert server.stdout is not None
        lines = [next(server.stdout) for _ in range(5)]
        assert "serves demo at http://127.0.0.1:" in lines[0]
        _, url, _, header, _, body = shlex.split("".join(lines[3:]).replace("\\\n", ""))
        name, _, value = header.partition(": ")
        with urlopen(Request(url, body.encode(), {name: value}), timeout=30) as response:
            answer = json.load(response)
        assert answer["choices"][0]["message"]["content"] == "Paris."
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.communicate()


def test_a_server_that_cannot_be_set_up_says_why_and_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    done = antiphon("serve", "--port", "0", "--model", "demon", home=tmp_path)
    assert done.returncode == 2
    assert "Did you mean demo" in done.stderr
