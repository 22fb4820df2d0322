"""The program as a user has it: a real process in a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest

from antiphon.cli.app import run
from kit.log import log_of_its_own
from kit.several import SEVERAL
from kit.waiting import PATIENCE

ONE_THREAD = {"ANTIPHON_ENGINE_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
"""Several engines run beside each other in tests: threads that wait for one another would wait for cores. Where a test
needs more than one, they sleep while they wait: those that spin take the core from whom they wait for."""
CONFIG = """
model = "demo"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "Paris."
"""
PROGRAM = (sys.executable, "-c", "from antiphon.cli import main; main()")


def environment(home: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    return {**clean, "ANTIPHON_HOME": str(home), **ONE_THREAD, **SEVERAL, **more}


def antiphon(*arguments: str, home: Path, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """One run of the program, whose output goes to pipes."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin, capture_output=True, text=True, timeout=120, check=False, env=environment(home, **environ),
    )  # fmt: skip


IN_TURN = """
import sys
from antiphon.cli.app import run
for given in zip(sys.argv[1::2], sys.argv[2::2]):
    print(run(("serve", "--port", "0", *given)), file=sys.stderr)
"""


def refused_in_turn(home: Path, *options: tuple[str, str]) -> list[tuple[int, str]]:
    """What servers with these options say as they end at once, one after the other in one process; none prints."""
    command = [sys.executable, "-c", IN_TURN, *(word for given in options for word in given)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(home), check=True)
    assert done.stdout == ""
    *told, _ = re.split(r"^(\d+)\n", done.stderr, flags=re.MULTILINE)
    return [(int(code), text) for text, code in zip(told[::2], told[1::2], strict=True)]


class Screen(TextIOWrapper):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def in_process(*arguments: str, home: Path, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """The same run within this process: for what is read and printed, where a second of starting anew tests nothing."""
    return _run(TextIOWrapper, arguments, home, stdin, environ)


def on_screen(*arguments: str, home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The same, which prints as it does for people."""
    return _run(Screen, arguments, home, "", environ)


def _run(
    kind: type[TextIOWrapper], arguments: tuple[str, ...], home: Path, stdin: str, environ: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    streams = {name: kind(BytesIO(), "utf-8", newline="") for name in ("stdout", "stderr")}
    with log_of_its_own(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin.encode()), "utf-8"))
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        for name in [name for name in os.environ if name.startswith("ANTIPHON_")]:
            patch.delenv(name)
        for name, value in {"ANTIPHON_HOME": str(home), **environ}.items():
            patch.setenv(name, value)
        code = run(arguments)
        printed = {name: _printed(stream) for name, stream in streams.items()}
    return subprocess.CompletedProcess(arguments, code, **printed)


def _printed(stream: TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def started(
    home: Path, *words: str, program: tuple[str, ...] = PROGRAM, stderr: int | None = None, **environ: str
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A server and what it prints, line by line; it is killed at the end, not asked to stop."""
    with subprocess.Popen(
        [*program, "serve", "--port", "0", *words],
        stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment(home, **environ),
    ) as server:  # fmt: skip
        assert server.stdout is not None
        try:
            yield server, server.stdout
        finally:
            server.kill()


@contextlib.contextmanager
def serving(home: Path, *words: str, **environ: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server and its URL."""
    with started(home, "--json", *words, **environ) as (server, lines):
        output = ""
        while "}" not in output:
            output += next(lines)
        yield server, json.loads(output)["url"]


def engines_of(pid: int) -> list[psutil.Process]:
    """The engine processes of a server, with one worker or several."""
    return descendants(pid, "llama_cpp")


@contextlib.contextmanager
def no_more_files(pid: int) -> Iterator[None]:
    """The process keeps the files that it has open, and gets no further one."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def descendants(pid: int, word: str) -> list[psutil.Process]:
    """The processes under one that have the word in their command; none that are ending."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [child] if any(word in part for part in child.cmdline()) else []
    return found


def answer_to(request: Request) -> IO[bytes]:
    """The answer, whatever its status."""
    try:
        answer: IO[bytes] = urlopen(request, timeout=PATIENCE)
    except HTTPError as refused:
        return refused
    return answer


MEASURED = """
import atexit, re, sys
def report():
    print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
atexit.register(report)
from antiphon.cli import main
main()
"""
"""The program, which prints at its end how many kilobytes it had at most (a child's rusage counts its parent's too)."""


def peak_memory(home: Path, *arguments: str) -> int:
    """Bytes of memory that one run of the program had at most; its output goes nowhere."""
    command = [sys.executable, "-c", MEASURED, *arguments]
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True, env=environment(home)
    )
    return int(done.stderr.split()[-1]) * 1024
