"""`antiphon serve` on a real socket."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from pathlib import Path
from urllib.request import Request, urlopen

from kit.program import CONFIG, PROGRAM, answer_to, serving, started
from kit.waiting import PATIENCE


def test_the_server_answers_the_line_that_it_prints_and_ends_when_stopped(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    with started(tmp_path) as (server, printed):
        lines = [next(printed) for _ in range(5)]
        assert "serves demo at http://127.0.0.1:" in lines[0]
        _, url, _, header, _, body = shlex.split("".join(lines[3:]).replace("\\\n", ""))
        name, _, value = header.partition(": ")
        with urlopen(Request(url, body.encode(), {name: value}), timeout=PATIENCE) as response:
            answer = json.load(response)
        assert answer["choices"][0]["message"]["content"] == "Paris."
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0


def test_a_server_speaks_the_dialect_that_is_configured_and_strictly(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG + "[dialect]\nmax_iter_times = 3\nmax_seq_len = 100\n")
    cases: list[tuple[dict[str, int], str]] = [
        ({}, "length"), ({"temperature": 0}, "stop_sequence"), ({"max_tokens": 4}, "stop_sequence"),
    ]  # fmt: skip
    with serving(tmp_path, "--dialect", "mindie", "--strict-seed") as (_, url):
        plain = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
        for fields, word in cases:
            body, headers = json.dumps({**plain, **fields}).encode(), {"content-type": "application/json"}
            request = Request(f"{url}/v1/chat/completions", body, headers)
            answer = json.load(answer_to(request))
            assert answer["choices"][0]["finish_reason"] == word


def test_the_server_allows_itself_as_many_open_files_as_it_takes_connections(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    few = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (300, r.getrlimit(r.RLIMIT_NOFILE)[1]))"
    program = (sys.executable, "-c", f"{few}; {PROGRAM[-1]}")
    with started(tmp_path, "--json", program=program, ANTIPHON_LIMITS_MAX_CONNECTIONS="5000") as (server, printed):
        assert '"url"' in "".join(next(printed) for _ in range(2))
        limits = Path(f"/proc/{server.pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert int(line.split()[3]) == 5000 + 256
