"""Sessions of a real server: what it acknowledged is there after it was killed at any moment."""

from __future__ import annotations

import contextlib
import json
import stat
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from kit.program import serving
from kit.waiting import PATIENCE

CONFIG = """
model = "demo"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "A long answer, so that there is time."
delay = 0.01
"""


def turn(url: str, **fields: Any) -> Any:
    body = json.dumps({"session_id": "s", "interactive_mode": True, **fields}).encode()
    request = Request(f"{url}/v1/chat/interactive", body, {"content-type": "application/json"})
    return urlopen(request, timeout=PATIENCE)


@pytest.mark.spec("LMD-27")
def test_a_server_that_is_killed_in_mid_turn_has_every_acknowledged_turn_when_it_is_back(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    acknowledged = 0
    for _ in range(2):
        with serving(tmp_path) as (server, url):
            with turn(url, prompt="One more.") as response:
                answer = json.load(response)
            assert answer["history_tokens"] == acknowledged
            acknowledged += answer["input_tokens"] + answer["tokens"] + len("\n")
            with contextlib.suppress(OSError, HTTPException), turn(url, prompt="Lost.", stream=True) as response:
                assert json.loads(response.readline())["text"]
                server.kill()
                response.read()
    with serving(tmp_path) as (_, url), turn(url, prompt="And now?") as response:
        assert json.load(response)["history_tokens"] == acknowledged


def test_the_file_is_its_owner_s_alone_and_memory_makes_none(tmp_path: Path) -> None:
    persistent, forgotten = tmp_path / "kept", tmp_path / "forgotten"
    for home, more in ((persistent, ""), (forgotten, '[sessions]\nstore = "memory"\n')):
        home.mkdir()
        (home / "config.toml").write_text(CONFIG + more)
        with serving(home) as (_, url), turn(url, prompt="One.") as response:
            assert json.load(response)["history_tokens"] == 0
    assert stat.S_IMODE((persistent / "sessions.db").stat().st_mode) == 0o600
    assert not (forgotten / "sessions.db").exists()
