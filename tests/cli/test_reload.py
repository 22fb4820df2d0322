"""SIGHUP at `antiphon serve`, a real process: what changes at once, what does not, and what is refused."""

from __future__ import annotations

import http.client
import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from antiphon.http.gate.keys import KeyFile, new_key
from kit.program import PROGRAM, environment
from kit.waiting import PATIENCE, wait_until

FIRST = """
model = "demo"
[models.demo]
engine = "scripted"
reply = "The first reply, word by word, for as long as it takes."
delay = 0.04
[limits]
max_prompts = 5
[log]
file = "log"
"""
SECOND = """
model = "other"
[models.demo]
engine = "scripted"
reply = "The second."
[models.other]
engine = "scripted"
aliases = ["another"]
reply = "Other."
[server]
port = 9
[limits]
requests_per_minute = 100
[log]
file = "log"
form = "json"
"""


class Serving:
    """A server in a home of its own; its log is in the file that its configuration names."""

    def __init__(self, home: Path, *, stdin: int = subprocess.DEVNULL) -> None:
        self.home = home
        self.key = ""
        self.configure(FIRST)
        self.process = subprocess.Popen(
            [*PROGRAM, "serve", "--port", "0", "--json"],
            stdin=stdin, stdout=subprocess.PIPE, text=True, env=environment(home),
        )  # fmt: skip
        assert self.process.stdout is not None
        announced = ""
        while not announced.endswith("}\n"):
            announced += next(self.process.stdout)
        self.base = urlsplit(json.loads(announced)["url"])

    def configure(self, text: str) -> None:
        (self.home / "config.toml").write_text(text)

    def hang_up(self) -> str:
        """SIGHUP; the lines of the log that it gave."""
        before = len(self.log)
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("the configuration" in line for line in self.log[before:]), why=lambda: self.log)
        return "\n".join(self.log[before:])

    @property
    def log(self) -> list[str]:
        file = self.home / "log"
        return file.read_text().splitlines() if file.exists() else []

    def send(self, **fields: Any) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.base.hostname or "", self.base.port, timeout=PATIENCE)
        body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], **fields})
        headers = {"content-type": "application/json", **({"x-api-key": self.key} if self.key else {})}
        connection.request("POST", "/v1/chat/completions", body, {**headers, "connection": "close"})
        return connection.getresponse()

    @property
    def keys(self) -> KeyFile:
        return KeyFile(self.home / "keys.json")

    def add_key(self, name: str) -> None:
        """A new key, which is sent from now on."""
        self.key, key = new_key(name)
        self.keys.add(key)

    def ask(self, **fields: Any) -> Any:
        with self.send(**fields) as response:
            answer = json.loads(response.read())
        return answer["error"]["code"] if "error" in answer else answer["choices"][0]["message"]["content"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    try:
        yield serving
    finally:
        serving.process.kill()
        serving.process.communicate()


def test_what_can_change_does_and_streams_that_run_are_not_disturbed(server: Serving) -> None:
    with server.send(stream=True) as stream:
        stream.readline()
        server.configure(SECOND)
        server.add_key("alice")
        log = server.hang_up()
        assert server.ask(model="demo") == "The second."
        assert server.ask() == server.ask(model="another") == "Other."
        *events, last = stream.read().decode().removesuffix("\n\n").split("\n\n")
    assert last == "data: [DONE]"
    deltas = [json.loads(event.strip().removeprefix("data: "))["choices"][0]["delta"] for event in events if event]
    assert "".join(delta.get("content", "") for delta in deltas).endswith("as long as it takes.")
    assert "limits.requests_per_minute" in log
    assert "models.other.engine.reply" in log
    assert "keys: 1" in log
    assert "only a restart" not in log  # a flag says the port
    server.key = ""
    assert server.ask() == "invalid_api_key"
    assert {json.loads(line)["level"] for line in server.log[-3:]} == {"info"}


def test_what_only_a_restart_changes_is_named_each_time(server: Serving) -> None:
    server.configure(FIRST + '[server]\nhost = "127.0.0.2"\ndrain = 1\n')
    assert "only a restart changes server.drain, server.host" in server.hang_up()
    assert "only a restart changes server.drain, server.host" in server.hang_up()
    server.configure(FIRST)
    log = server.hang_up()
    assert "nothing changed" in log
    assert "restart" not in log


UNUSABLE = {
    "[limits": "is not TOML",
    FIRST + "max_queue = -1\n": "unknown key 'log.max_queue'",
    FIRST.replace("max_prompts = 5", "max_queue = -1"): "limits.max_queue",
    FIRST.replace('model = "demo"', 'model = "nothing"'): "unknown model",
    FIRST.replace('file = "log"', 'file = "no/folder/log"'): "cannot write the log",
}


def test_a_file_that_cannot_be_used_changes_nothing_and_the_log_says_why(server: Serving) -> None:
    for text, why in UNUSABLE.items():
        server.configure(text)
        log = server.hang_up()
        assert "the configuration stays as it was" in log
        assert why in log
        assert server.ask(max_tokens=3) == "The"
    server.configure(SECOND)
    assert "read again" in server.hang_up()
    assert server.ask() == "Other."


def test_a_removed_key_is_out_and_a_file_of_keys_that_is_gone_or_broken_opens_no_door(server: Serving) -> None:
    server.add_key("bob")
    removed = server.key
    server.add_key("alice")
    assert "keys: 2" in server.hang_up()
    server.keys.remove("bob")
    assert "keys: 1" in server.hang_up()
    (server.home / "keys.json").rename(server.home / "away.json")
    assert "stays as it was" in server.hang_up()
    (server.home / "keys.json").write_text("[")
    assert "stays as it was" in server.hang_up()
    assert server.ask(max_tokens=3) == "The"
    for server.key in ("", removed):
        assert server.ask() == "invalid_api_key"


def test_when_its_terminal_is_closed_the_server_stops(tmp_path: Path) -> None:
    master, its = pty.openpty()
    serving = Serving(tmp_path, stdin=its)
    os.close(its)
    os.close(master)
    serving.process.send_signal(signal.SIGHUP)
    assert serving.process.wait(PATIENCE) == 0
    serving.process.communicate()
