"""The process of which others are forked: one for each piece of work. Run as a file; it has no thread.

Standard input is a socket of the server's. A line of JSON on it starts a piece (``start``, its number) with a socket
that comes along, or ends one (``stop``); without either it has the code of a piece imported, and then the socket is
closed. At the end of input all pieces are ended and this process is too; where the
server is killed, Linux ends both.
"""

import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from typing import Any

_Order = dict[str, Any]
_ORDERS = 64 * 1024
_SOCKETS = 64
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_BEYOND = 1.0
"""Seconds by which the limit that no timer lifts is above the one that is precise."""


def main() -> None:
    parent = os.getppid()
    end_with(parent)
    control = socket.socket(fileno=os.dup(0))
    os.dup2(1, 0)  # The null device, as all three are from now on.
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the server.
    try:
        Forkserver(control, woken, (woken, wake)).serve()
    finally:
        os._exit(0)


def end_with(parent: int) -> None:
    """Has this process killed when its parent is gone, where the system can; and ends it if that is so already."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


class Forkserver:
    def __init__(self, control: socket.socket, woken: int, pipe: tuple[int, int]) -> None:
        self._control = control
        self._woken = woken
        self._pipe = pipe
        self._running: dict[int, int] = {}
        """Pieces that are running, by their number: process ids. One stays here until it is waited for, so that its id
        is nobody else's."""
        self._ready: set[str] = set()

    def serve(self) -> None:
        lines, sockets = b"", list[int]()
        while True:
            readable, _, _ = select.select([self._control.fileno(), self._woken], [], [])
            if self._woken in readable:
                self._reap()
            if self._control.fileno() not in readable:
                continue
            data, more, _, _ = socket.recv_fds(self._control, _ORDERS, _SOCKETS)
            sockets += more
            if not data:
                break
            *whole, lines = (lines + data).split(b"\n")
            for line in whole:
                self._obey(json.loads(line), sockets)
        for pid in self._running.values():
            os.kill(pid, signal.SIGKILL)

    def _obey(self, order: _Order, sockets: list[int]) -> None:
        if "stop" in order:
            pid = self._running.get(order["stop"])
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            return
        end = sockets.pop(0)
        try:
            failed = self._prepare(order)
            if "start" in order:
                self._running[order["start"]] = self._fork(order, end, sockets, failed)
        finally:
            os.close(end)

    def _fork(self, order: _Order, end: int, others: list[int], failed: BaseException | None) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            end_with(parent)
            signal.set_wakeup_fd(-1)
            for descriptor in (self._control.fileno(), *self._pipe, *others):
                os.close(descriptor)
            run(order, socket.socket(fileno=end), failed)
        finally:
            os._exit(0)

    def _prepare(self, order: _Order) -> BaseException | None:
        """Imports what the piece runs, once; the error of that, for the piece to report."""
        from pkgutil import resolve_name

        try:
            resolve_name("antiphon.isolation.task")
            for place in (order["run"], order["prepare"]):
                if place is not None and place not in self._ready:
                    found = resolve_name(place)
                    if place == order["prepare"]:
                        found()
                    self._ready.add(place)
                    gc.collect()
                    gc.freeze()  # Else a collection in a child would copy every page of it.
        except Exception as error:  # noqa: BLE001 - whatever it is, the server must hear it
            return error
        return None

    def _reap(self) -> None:
        try:
            while os.read(self._woken, 512):
                pass
        except BlockingIOError:
            pass
        for number, pid in list(self._running.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._running[number]


def run(order: _Order, end: socket.socket, failed: BaseException | None) -> None:
    """In the new process: reads the piece, works within its limits, and writes the outcome."""
    from pkgutil import resolve_name

    from antiphon.isolation.task import outcome_of

    with end.makefile("rwb") as file:
        piece = file.read(int.from_bytes(file.read(8), "big"))
        if failed is None:
            limit(order["processor"], order["memory"])
        kind, answer = outcome_of(resolve_name(order["run"]), piece) if failed is None else outcome_of(None, failed)
        file.write((len(answer) + 1).to_bytes(8, "big") + kind + answer)


def limit(processor: float, memory: int) -> None:
    """Limits this process by the kernel. At either timer's end it is killed, whatever it is doing."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, processor)
    hard = int(processor + _BEYOND) + 1
    lower(resource.RLIMIT_CPU, hard)
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, 0)
    lower(resource.RLIMIT_NOFILE, 16)
    os.nice(2)  # The server's own answers come first.
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as file:
            here = int(file.read().split()[0]) * resource.getpagesize()
        lower(resource.RLIMIT_AS, here + memory)
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")


def lower(which: int, most: int) -> None:
    """Sets a limit of the kernel's, or leaves the server's own where that is lower: only root may raise it."""
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


if __name__ == "__main__":
    main()
