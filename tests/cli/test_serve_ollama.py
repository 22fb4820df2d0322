"""`antiphon serve --ollama`: a second address, where Ollama's clients look."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request

from kit.api import request
from kit.program import CONFIG, answer_to, antiphon, started
from kit.waiting import PATIENCE


@contextmanager
def serving(home: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server, and what it prints first."""
    (home / "config.toml").write_text(CONFIG)
    with started(home, "--ollama", *flags, ANTIPHON_SERVER_OLLAMA_PORT="0") as (server, printed):
        output = ""
        while ("}" if flags else "Ollama") not in output:
            output += next(printed)
        yield server, output


def test_both_addresses_are_the_same_server_and_end_together(tmp_path: Path) -> None:
    with serving(tmp_path, "--json") as (server, output):
        told = json.loads(output)
        assert told.keys() > {"url", "model", "ollama"}
        assert told["ollama"] != told["url"]
        body = json.dumps({"model": "demo", "prompt": "Where?", "stream": False}).encode()
        for url in (told["ollama"], told["url"]):
            assert json.load(answer_to(Request(f"{url}/api/generate", body)))["response"] == "Paris."
            assert request(url, "GET", "/health").status == 200
        assert told["ollama"].startswith("http://127.0.0.1:")
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0


def test_the_address_is_printed_for_people(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, output):
        address = output.rpartition("http://")[2].partition(",")[0].strip()
        assert request(f"http://{address}", "GET", "/").body == b"Ollama is running"


def test_a_port_that_is_taken_is_a_clear_error_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = antiphon("serve", "--port", "0", "--ollama", home=tmp_path, ANTIPHON_SERVER_OLLAMA_PORT=str(port))
    assert done.returncode == 2
    assert f"cannot listen at 127.0.0.1:{port}" in done.stderr
    assert "server.ollama_port" in done.stderr
    assert done.stdout == ""
