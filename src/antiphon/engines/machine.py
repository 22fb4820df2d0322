"""Resources that this machine, or the control group that the process is in, has for a model."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CONTROL_GROUP = Path("/sys/fs/cgroup")
PROCESSORS = Path("/sys/devices/system/cpu")


def usable_cores(group: Path = CONTROL_GROUP) -> int:
    """How many threads can run at once: on the cores of this process, or in the time that its control group has."""
    return min(len(_cores()), _quota(group))


def computing_threads(group: Path = CONTROL_GROUP, processors: Path = PROCESSORS) -> int:
    """How many threads arithmetic is worth: one for each of `usable_cores` that shares no unit with another of them."""
    siblings = set()
    for core in _cores():
        try:
            siblings.add((processors / f"cpu{core}" / "topology" / "thread_siblings_list").read_text())
        except OSError:  # Not Linux, or a sandbox.
            siblings.add(str(core))
    return min(len(siblings), _quota(group))


def _cores() -> set[int]:
    """The numbers of those that this process may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _quota(group: Path) -> int:
    """How many cores the control group has time for, at least 1; very many where it has no limit."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):  # No control group, or one without a limit ("max").
        return sys.maxsize


def free_memory(group: Path = CONTROL_GROUP) -> int | None:
    """Bytes that a new process can have: the machine's, or what is left of the control group's if that is less."""
    found = []
    try:
        line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
        found.append(int(line.split()[1]) * 1024)
    except (OSError, StopIteration, ValueError):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        found.append(limit - used)
    except (OSError, ValueError):  # No control group, or one without a limit ("max").
        pass
    return min(found, default=None)
