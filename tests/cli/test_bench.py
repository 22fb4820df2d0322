"""`antiphon bench` against real servers: its figures are those of the engine."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.benching.figures import StepFigures, saturated_at
from kit.program import in_process, serving

TOKENS = 40
DELAY = 0.01
CONFIG = f"""
model = "demo"
[models.demo]
format = "chatml"
[models.demo.engine]
kind = "scripted"
reply = "{"a" * TOKENS}"
delay = {DELAY}
"""
Bench = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of ours whose model writes a token each 10 ms."""
    home = tmp_path_factory.mktemp("home")
    (home / "config.toml").write_text(CONFIG)
    with serving(home) as (_, url):
        yield url


def bench(home: Path, *words: str, **environ: str) -> tuple[int, dict[str, Any]]:
    done = in_process("bench", "--json", *words, home=home, **environ)
    return done.returncode, json.loads(done.stdout or done.stderr)


def test_the_figures_are_those_of_the_engine(url: str, tmp_path: Path) -> None:
    code, report = bench(tmp_path, "--url", f"{url}/v1", "-c", "1,2", "-n", "4", "--model", "demo")
    assert (code, report["tokens_by"], report["model"]) == (0, "usage", "demo")
    one, two = report["steps"]
    assert (one["concurrency"], two["concurrency"], one["requests"], one.get("errors")) == (1, 2, 4, None)
    assert one["output_tokens"] == 4 * (TOKENS + 1)  # with the one that ends the answer
    assert DELAY * 1000 * 0.8 <= one["inter_token_ms"]["p50"] <= DELAY * 1000 * 8
    assert one["seconds"] >= 4 * TOKENS * DELAY
    assert one["ttft_ms"]["p50"] <= one["ttft_ms"]["p99"]
    assert one["tokens_per_second"] == pytest.approx(one["output_tokens"] / one["seconds"], rel=0.01)
    assert one["requests_per_second"] == pytest.approx(4 / one["seconds"], rel=0.01)
    assert one["tokens_per_second"] <= 1 / DELAY * 1.2
    assert two["seconds"] >= 2 * TOKENS * DELAY


def test_the_table_has_a_row_a_step_and_the_verdict(url: str, tmp_path: Path) -> None:
    done = in_process("bench", "--url", url, "-c", "2,1", "-n", "2", "--model", "demo", home=tmp_path)
    assert done.returncode == 0
    head, *rows, verdict = done.stdout.splitlines()
    assert head.split()[0] == "conc"
    assert [row.split()[0] for row in rows] == ["1", "2"]
    assert "saturated at" in verdict
    assert "by the server's usage" in done.stderr


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture_is_written(suffix: str, url: str, tmp_path: Path) -> None:
    file = tmp_path / f"plot.{suffix}"
    code, _ = bench(tmp_path, "--url", url, "-c", "1", "-n", "1", "--model", "demo", "--plot", str(file))
    assert code == 0
    assert file.read_bytes().startswith(b"<?xml" if suffix == "svg" else b"\x89PNG")


def test_nobody_there_is_said_in_words(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for words in (("--model", "demo"), ()):
        code, report = bench(tmp_path, "--url", f"http://127.0.0.1:{port}", *words)
        assert (code, report["error"]["code"]) == (3, "server_unreachable")
        assert report["error"]["message"] == f"nothing answers at http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-c", "0"), "no list of numbers"),
        (("-c", "1,x"), "no list of numbers"),
        (("--plot", "p.txt"), "no picture"),
        (("--key-variable", "NOT_THERE"), "not set"),
        (("--url", "nowhere"), "no address"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = in_process("bench", *words, home=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


def test_an_unknown_model_is_the_servers_own_word(url: str, tmp_path: Path) -> None:
    code, report = bench(tmp_path, "--url", url, "--model", "nope")
    assert code == 2
    assert "the model 'nope' does not exist" in report["error"]["message"]


class Odd(BaseHTTPRequestHandler):
    """Another maker's server: no usage, and after the first answer what ``replies`` says, in turns."""

    replies: tuple[int, ...] = (200,)
    count = 0
    lock = threading.Lock()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert self.headers.get("authorization") == "Bearer ak-1"
        with Odd.lock:
            status = Odd.replies[(Odd.count - 1) % len(Odd.replies)] if Odd.count else 200
            Odd.count += 1
        if status == 0:
            return  # hangs up
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
        if status == 429:
            self.send_header("retry-after", "7")
        self.end_headers()
        if status != 200:
            self.wfile.write(b'{"error": {"message": "too many"}}')
            return
        for text in ("", *("ab" * (body["max_tokens"] // 2))):
            chunk = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def odd() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    Odd.count = 0
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_without_usage_chunks_are_counted_and_that_is_said(odd: str, tmp_path: Path) -> None:
    Odd.replies = (200,)
    words = ("--url", odd, "--model", "m", "-c", "1", "-n", "3", "--out", "10", "--key-variable", "KEY")
    code, report = bench(tmp_path, *words, KEY="ak-1")
    assert (code, report["tokens_by"]) == (0, "chunks")
    assert report["steps"][0]["output_tokens"] == 30
    assert "by chunks" in in_process("bench", *words, home=tmp_path, KEY="ak-1").stderr


def test_errors_are_counted_by_kind_with_the_servers_words(odd: str, tmp_path: Path) -> None:
    Odd.replies = (429, 500, 0, 200)
    words = ("--url", odd, "--model", "m", "-c", "1", "-n", "8", "--out", "4", "--key-variable", "KEY")
    code, report = bench(tmp_path, *words, KEY="ak-1")
    (step,) = report["steps"]
    assert (code, step["errors"]) == (0, {"429": 2, "500": 2, "connection lost": 2})
    assert report["errors"]["429"] == "too many (Retry-After: 7)"
    assert step["output_tokens"] == 8
    Odd.count = 0
    shown = in_process("bench", *words, home=tmp_path, KEY="ak-1")
    assert "429, 2 times: too many (Retry-After: 7)" in shown.stderr


def test_when_nothing_is_answered_it_fails(odd: str, tmp_path: Path) -> None:
    Odd.replies = (429,)
    words = ("--url", odd, "--model", "m", "-c", "2", "-n", "4", "--key-variable", "KEY")
    done = in_process("bench", *words, home=tmp_path, KEY="ak-1")
    assert done.returncode == 3
    assert "too many" in done.stderr


def rates(*pairs: tuple[int, float]) -> list[StepFigures]:
    return [
        StepFigures(concurrency=at, requests=1, seconds=1, requests_per_second=1, tokens_per_second=rate)
        for at, rate in pairs
    ]


@pytest.mark.parametrize(
    ("steps", "at"),
    [
        (((1, 45.4), (4, 91.0), (16, 96.6)), 4),
        (((1, 10), (4, 40), (16, 160)), None),
        (((1, 10), (2, 10.5), (4, 30)), None),
        (((1, 50), (2, 40)), 1),
        (((1, 50),), None),
    ],
)
def test_a_ladder_saturates_where_no_later_step_gains(steps: tuple[tuple[int, float], ...], at: int | None) -> None:
    assert saturated_at(rates(*steps)) == at
