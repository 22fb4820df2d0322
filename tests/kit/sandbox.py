"""Sandboxes seen from outside."""

from __future__ import annotations

import contextlib

import psutil

_INTERPRETER = "/python/bin/python"


def inside(server: int | None = None) -> list[psutil.Process]:
    """Bubblewraps that a process (this one) started, and what runs in them; other tests may have children too."""
    return [process for process, name in _children(server) if name == _INTERPRETER or name.endswith("bwrap")]


def interpreters(server: int | None = None) -> list[psutil.Process]:
    """The interpreters in the sandboxes of a process (this one)."""
    return [process for process, name in _children(server) if name == _INTERPRETER]


def threads(process: psutil.Process) -> int:
    """How many threads a process has, none when it is gone."""
    try:
        return process.num_threads()
    except psutil.NoSuchProcess:
        return 0


def ended(process: psutil.Process) -> bool:
    """Whether a process is over; its parent may still have to take note of it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _children(server: int | None) -> list[tuple[psutil.Process, str]]:
    found = []
    for child in psutil.Process(server).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found += [(child, name) for name in child.cmdline()[:1]]
    return found
