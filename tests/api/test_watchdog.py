"""A server whose loop or threads are stuck for real: the log says where, and it can be stopped all the same."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest

from antiphon.http.exchange import FAULTS
from antiphon.http.server.server import GRACE
from antiphon.http.server.watchdog import LAST, PULSE, Watchdog, children, standing
from antiphon.workers.supervisor import _END_SECONDS
from kit.sandbox import ended
from kit.waiting import PATIENCE


class Records(logging.Handler):
    """What is logged, by whichever thread."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: queue.Queue[str] = queue.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.put(record.getMessage())


@pytest.fixture
def records() -> Iterator[Records]:
    handler = Records()
    FAULTS.addHandler(handler)
    yield handler
    FAULTS.removeHandler(handler)


def stand_still(until: threading.Event) -> None:
    assert until.wait(PATIENCE)


async def test_a_silent_loop_is_told_once_with_where_it_stands_and_again_when_it_goes_on(records: Records) -> None:
    watchdog = Watchdog(asyncio.get_running_loop(), silence=0.1, pulse=0.01)
    watchdog.begin()
    for _ in range(2):
        go_on, told = threading.Event(), list[str]()

        def read(go_on: threading.Event = go_on, told: list[str] = told) -> None:
            told.append(records.texts.get(timeout=PATIENCE))
            with contextlib.suppress(queue.Empty):
                told.append(records.texts.get(timeout=0.3))  # as long again as it took: nothing more comes
            go_on.set()

        reader = threading.Thread(target=read, name="the reader")
        reader.start()
        stand_still(go_on)
        reader.join()
        assert len(told) == 1
        first, loop, *places = told[0].splitlines()
        assert first.startswith("the server answers nothing: its event loop has been silent for ")
        assert (loop, "the reader" in told[0]) == ("  MainThread", True)
        assert any("test_watchdog.py" in place and place.endswith(" in stand_still") for place in places[:5])
        goes_on = await asyncio.to_thread(records.texts.get, timeout=PATIENCE)
        assert goes_on.startswith("the event loop goes on, after ")
    watchdog.end()


async def test_a_loop_that_answers_is_not_told_of_and_the_thread_ends_with_it(records: Records) -> None:
    watchdog = Watchdog(asyncio.get_running_loop(), silence=30, pulse=0.001)
    before = threading.active_count()
    watchdog.begin()
    for _ in range(1000):
        await asyncio.sleep(0)
    watchdog.end()
    assert threading.active_count() == before
    assert records.texts.empty()


def test_where_threads_stand_is_bounded() -> None:
    go_on = threading.Event()

    def deep(depth: int) -> None:
        deep(depth - 1) if depth else stand_still(go_on)

    threads = [threading.Thread(target=deep, args=(200,)) for _ in range(100)]
    for one in threads:
        one.start()
    lines = list(standing(first=threading.get_ident(), but=-1))
    go_on.set()
    for one in threads:
        one.join()
    assert len(lines) <= 64 * 25 + 1
    assert lines[-1].startswith("  and ")
    assert max(map(len, lines)) < 1000


def test_children_are_those_that_this_process_started() -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        assert child.pid in children()
        child.kill()
    assert child.pid not in children()


SERVER = """
import asyncio, ctypes, subprocess, sys, threading, time
from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.http.server.server import serve, serving, on_loop
from kit.api import model

def stuck_in_c(libc=ctypes.CDLL(None)):
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2): libc.pthread_mutex_lock(mutex)

def stuck_in_python():
    while True: time.sleep(1000)

def stuck_with_the_interpreter(): stuck_in_c(ctypes.PyDLL(None))

class Stuck(ScriptedEngine):
    async def generate(self, prompt, sampling, **options):
        subprocess.Popen(["sleep", "1000"])
        print("stuck", flush=True)
        if "thread" in sys.argv[1]:
            while True:
                try: await asyncio.to_thread(stuck_in_c)
                except asyncio.CancelledError: pass
        globals()[sys.argv[1]]()
        yield

app = create_app(StaticCatalog({"small": model(Stuck([]))}))
ready = lambda url: print(url, flush=True)
on_loop(serving(app, port=0, drain=0, own_process=True, on_ready=ready))
"""
PATHS = os.pathsep.join(path for path in sys.path if path)
STUCK = ("stuck_in_c", "stuck_in_python", "a_thread", "stuck_with_the_interpreter")


@contextlib.contextmanager
def servers_with_one_stuck_request() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """A server for each way; its request started a process of its own before it was stuck."""
    with contextlib.ExitStack() as stack:
        servers = {how: stack.enter_context(started(how)) for how in STUCK}
        for server in servers.values():
            assert server.stdout is not None
            at = urlsplit(server.stdout.readline().strip())
            client = http.client.HTTPConnection(at.hostname or "", at.port, timeout=PATIENCE)
            stack.callback(client.close)
            body = json.dumps({"model": "small", "messages": [{"role": "user", "content": "Hi"}]})
            client.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        for server in servers.values():
            assert server.stdout is not None
            assert server.stdout.readline() == "stuck\n"
        yield servers


@contextlib.contextmanager
def started(how: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, how],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": PATHS},
    ) as server:  # fmt: skip
        try:
            yield server
        finally:
            server.kill()


def test_a_process_ends_within_five_seconds_of_its_drain() -> None:
    assert GRACE + LAST + PULSE <= 5
    assert GRACE + _END_SECONDS <= 5


def test_a_server_that_is_stuck_ends_when_it_is_told_to_and_takes_its_processes_along() -> None:
    """All at once, since each takes the seconds that a server has: in a call of C on its loop, in Python there, and in
    a thread that ignores that it is cancelled. Where a call holds the interpreter's lock nothing of Python hears the
    signal, but standard error has where it stands."""
    with servers_with_one_stuck_request() as servers:
        children_of = {how: psutil.Process(server.pid).children() for how, server in servers.items()}
        for server in servers.values():
            server.send_signal(signal.SIGTERM)
        locked = servers.pop("stuck_with_the_interpreter")
        assert locked.stderr is not None
        assert locked.stderr.readline().startswith("Timeout (")
        for how, server in servers.items():
            output, errors = server.communicate(timeout=PATIENCE)
            assert server.returncode == 1, (how, output, errors)
            assert "the server was told to stop and could not; it is ended as it is. Its threads:" in errors, how
            assert f"in {'stuck_in_c' if 'thread' in how else how}" in errors, errors
            assert all(map(ended, children_of[how]))
        for child in children_of["stuck_with_the_interpreter"]:
            child.kill()


def test_only_a_second_signal_shortens_the_time_to_end_though_the_loop_hears_of_the_first_before_the_thread() -> None:
    ours, loops_own = socket.socketpair()
    loop = asyncio.new_event_loop()
    watchdog = Watchdog(loop, grace=60.0)
    heard = signal.signal(signal.SIGTERM, lambda number, frame: watchdog.stopping())
    loops_own.setblocking(False)
    before = signal.set_wakeup_fd(loops_own.fileno())
    ours.settimeout(PATIENCE)
    try:
        watchdog.hear_signals()
        left = []
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
            watchdog._wait()  # What the thread does, only now.
            assert ours.recv(1) == bytes([signal.SIGTERM])
            assert watchdog._deadline is not None
            left.append(watchdog._deadline - time.monotonic())
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGTERM, heard)
        loop.close()
        for one in (ours, loops_own, watchdog._ours, watchdog._theirs):
            one.close()
    assert left[1] <= LAST < 50 < left[0]


LOCKED = """
import asyncio, ctypes, io, sys, threading
from antiphon.http.server.watchdog import Watchdog

class Loop(asyncio.SelectorEventLoop):
    def call_soon_threadsafe(self, *_): ctypes.PyDLL(None).sleep(1000)

sys.stderr = io.StringIO()
watchdog = Watchdog(Loop(), pulse=0.05, grace=0.5)
watchdog.stopping()
watchdog.begin()
threading.Event().wait()
"""


def test_where_a_call_holds_the_interpreter_s_lock_a_process_that_was_told_to_stop_ends_all_the_same() -> None:
    """In a program too that has put something without a descriptor in the place of its standard error."""
    ended = subprocess.run(
        [sys.executable, "-c", LOCKED],
        stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": PATHS}, timeout=PATIENCE,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr[:9]) == (1, "Timeout (")
    assert "in call_soon_threadsafe" in ended.stderr
