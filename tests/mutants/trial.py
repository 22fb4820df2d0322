"""Runs tests in processes that are forked from one with the libraries of others, whose imports take longer than many
tests; of our own modules that process has none."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil

LIBRARIES = (
    "pytest", "pytest_asyncio.plugin", "pytest_timeout", "hypothesis.strategies", "anyio", "asyncio",
    "msgspec", "starlette.applications", "starlette.routing", "uvicorn", "jinja2", "jsonschema_rs", "docstring_parser",
    "httpx", "httpx2", "sqlite3", "psutil", "llguidance", "numpy", "tokenizers", "openai", "mcp", "regex",
)  # fmt: skip
_PASSED = 100
"""What `_run` adds to pytest's code: a process that ends otherwise, as that of a stuck server does, passed nothing."""
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([*LIBRARIES, __name__])


def started(copy: Path, tests: Iterable[str], entered: Path | None = None) -> ForkServerProcess:
    """A process, of a session of its own, that runs ``tests`` in a copy of the repository; see `passed`.

    With ``entered`` all of them, and what they enter is written there.
    """
    process = _CONTEXT.Process(target=_run, args=(str(copy), tuple(tests), entered))
    process.start()
    return process


def passed(process: ForkServerProcess) -> bool | None:
    """Whether the tests passed; None while they run."""
    return None if process.exitcode is None else process.exitcode == _PASSED


def ended(process: ForkServerProcess) -> None:
    """Ends the process, with all that its tests started."""
    assert process.pid is not None, "started"
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):  # Sandboxes have sessions of their own.
            with suppress(psutil.NoSuchProcess):
                child.kill()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _run(copy: str, tests: tuple[str, ...], entered: Path | None) -> None:
    os.setsid()
    os.chdir(copy)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    own = [f"{copy}/src", f"{copy}/tests"]
    sys.path[:0] = own
    os.environ["PYTHONPATH"] = os.pathsep.join(own)
    import pytest  # the one of the process that this one is forked from

    from mutants.entered import Recorder

    plain = ("-q", "-p", "no:randomly", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    if entered is not None:
        os._exit(_PASSED + pytest.main([*plain, *tests], [Recorder(Path(copy), entered)]))
    os._exit(_PASSED + pytest.main([*plain, "-x", *tests]))
