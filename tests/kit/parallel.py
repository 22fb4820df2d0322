"""Tests in several processes, which are forked once all tests are collected.

Imports and collection take as long as thousands of cheap tests: here they are done once, not in each process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from multiprocessing.sharedctypes import Synchronized
from tempfile import TemporaryFile
from typing import Any

import pytest

PIECE = 32
"""How many tests a process takes at a time: neighbours in one file, which share its fixtures."""
SILENT = 600
"""Seconds in which a process ends no test, behind which it is ended itself: it is stuck where no timeout reaches, as in
what a failed test tears down. Where its threads were is in what it prints."""
QUICK = 0.005
"""Seconds; pytest's own list of what takes long has nothing that is shorter."""
_FORKED = multiprocessing.get_context("fork")
_REPORT, _WARNING = "pytest_runtest_logreport", "pytest_warning_recorded"
Pieces = Sequence[Sequence[pytest.Item]]


class Reporter:
    """Sends what the hooks of a forked process are told of a test to the process that prints it, once it is over.

    What was quick and well before and behind a test says nothing, and is not sent.
    """

    def __init__(self, config: pytest.Config, sent: Connection) -> None:
        self._config, self._sent = config, sent
        self._told: list[tuple[str, dict[str, object]]] = []

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self._told.append(("pytest_runtest_logstart", {"nodeid": nodeid, "location": location}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed or report.sections or report.duration > QUICK:
            plain = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
            self._told.append((_REPORT, {"report": plain}))

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        self._sent.send([*self._told, ("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location})])
        self._told.clear()

    def pytest_warning_recorded(self, warning_message: object, when: str, nodeid: str, location: object) -> None:
        told = {"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location}
        self._told.append((_WARNING, told))


class Several:
    """Runs the collected tests in so many processes. A test without a result, as its process ended, has failed."""

    def __init__(self, processes: int, *, whole_files: bool, silent: float = SILENT) -> None:
        self._processes, self._whole_files, self._silent = processes, whole_files, silent
        self._taken: Synchronized[int] = _FORKED.Value("i", 0)
        self._running: dict[Connection, ForkProcess] = {}
        self._heard: dict[Connection, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None
        pieces, left = _longest_early(self._pieces(session.items)), {item.nodeid: item for item in session.items}
        _temporary(session.config).getbasetemp()
        session.config.get_terminal_writer().flush()
        try:
            for number in range(min(self._processes, len(pieces))):
                self._start(session, pieces, number)
            while self._running:
                for connection in wait([*self._running], self._silent / 10):
                    self._hear(connection, session, left)
                self._end_stuck()
                if session.shouldfail:
                    self._taken.value = len(pieces)
        finally:
            for process in self._running.values():
                process.terminate()
                process.join()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        for item in left.values():
            lost = pytest.TestReport(
                item.nodeid, item.location, {}, "failed", "its process ended before it did", "call"
            )
            session.config.hook.pytest_runtest_logreport(report=lost)
        return True

    def _pieces(self, items: Sequence[pytest.Item]) -> Iterator[Sequence[pytest.Item]]:
        for _, group in groupby(items, lambda item: item.path):
            file = list(group)
            step = len(file) if self._whole_files else PIECE
            yield from (file[at : at + step] for at in range(0, len(file), step))

    def _start(self, session: pytest.Session, pieces: Pieces, number: int) -> None:
        here, there = _FORKED.Pipe(duplex=False)
        process = _FORKED.Process(target=_run, args=(session, self._items(pieces), there, str(number)))
        process.start()
        there.close()
        self._running[here] = process
        self._heard[here] = time.monotonic()

    def _end_stuck(self) -> None:
        for connection, process in self._running.items():
            if time.monotonic() - self._heard[connection] > self._silent and process.pid is not None:
                os.kill(process.pid, signal.SIGABRT)
                self._heard[connection] = time.monotonic()

    def _items(self, pieces: Pieces) -> Iterator[pytest.Item]:
        while True:
            with self._taken.get_lock():
                at, self._taken.value = self._taken.value, self._taken.value + 1
            if at >= len(pieces):
                return
            yield from pieces[at]

    def _hear(self, connection: Any, session: pytest.Session, left: dict[str, pytest.Item]) -> None:
        self._heard[connection] = time.monotonic()
        try:
            told = connection.recv()
        except EOFError:
            self._running.pop(connection).join()
            return
        for name, values in told:
            self._tell(session, name, values)
            if name == "pytest_runtest_logfinish":
                left.pop(values["nodeid"], None)

    def _tell(self, session: pytest.Session, name: str, values: dict[str, Any]) -> None:
        config, hook = session.config, getattr(session.config.hook, name)
        if name == _REPORT:
            report = config.hook.pytest_report_from_serializable(config=config, data=values["report"])
            values = {"report": report}
            if report.failed:
                config.pluginmanager.getplugin("terminalreporter").write_line(f"\nFAILED {report.nodeid}")
        if name == _WARNING:
            hook.call_historic(kwargs=values)
        else:
            hook(**values)


def _longest_early(pieces: Iterable[Sequence[pytest.Item]]) -> Pieces:
    """Those that start processes and wait for them, by turns with what works meanwhile, so that none is last."""
    waiting, quick = list[Sequence[pytest.Item]](), list[Sequence[pytest.Item]]()
    for piece in pieces:
        (waiting if piece[0].get_closest_marker("process") else quick).append(piece)
    return [piece for two in zip_longest(waiting, quick) for piece in two if piece]


def _run(session: pytest.Session, items: Iterator[pytest.Item], sent: Connection, name: str) -> None:
    config, plugins = session.config, session.config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(Reporter(config, sent))
    if config.option.capture == "fd":
        _capture_apart(plugins.getplugin("capturemanager"))
    temporary = _temporary(config)
    temporary._basetemp = temporary.mktemp(name, numbered=False)  # Nothing public says it after the start.
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following


def _capture_apart(capture: Any) -> None:
    """Puts files of this process below the streams that capture what is printed: forked processes share the position.

    The streams stay, as modules may have kept them.
    """
    capture.resume_global_capture()
    streams = (sys.stdout, sys.stderr)
    capture.suspend_global_capture()
    for stream in streams:
        with TemporaryFile(buffering=0) as own:
            os.dup2(own.fileno(), stream.fileno(), inheritable=False)


def _temporary(config: pytest.Config) -> Any:
    return getattr(config, "_tmp_path_factory")  # noqa: B009 - it has no public name
