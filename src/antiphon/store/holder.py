"""Names of the processes that hold leases, by which others of the same machine see whether one is still there."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

_PROCESSES = Path("/proc")
_DEAD = frozenset({"Z", "X"})
"""States of a process that has ended, as the system writes them, although its parent has not asked how."""


def process_name() -> str:
    """A name that no other process has; on Linux it says which process of which namespace this is."""
    token = secrets.token_hex(8)
    begun, space = _begun(os.getpid()), _namespace()
    return token if begun is None or not space else f"{os.getpid()}/{begun}/{space}/{token}"


def is_gone(holder: str) -> bool:
    """Whether that process has ended; False where that cannot be seen from here, as of another container's."""
    match holder.split("/"):
        case [pid, begun, space, _] if space == _namespace() and pid.isdecimal():
            return not _may_be_there(int(pid)) or _begun(int(pid)) not in (begun, None)
    return False


def _namespace() -> str:
    """Which processes are seen here; "" where the system does not say."""
    try:
        return os.readlink("/proc/self/ns/pid") if sys.platform == "linux" else ""
    except OSError:
        return ""


def _may_be_there(pid: int) -> bool:
    """False where the system says that there is no such process; another user's may be hidden otherwise."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _begun(pid: int) -> str | None:
    """When a process began, by the system's ticks, "" for one that has ended; None where that cannot be read."""
    try:
        fields = (_PROCESSES / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in _DEAD else fields[19]
