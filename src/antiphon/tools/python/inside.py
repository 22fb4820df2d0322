"""The processes inside the sandbox, seen from the server: what they use, and signals to them and to no other."""

from __future__ import annotations

import contextlib
import os
import signal

import msgspec

from .cell import SandboxLimits

_MEMORY = (b"VmRSS:", b"VmSwap:", b"VmPTE:")


class Usage(msgspec.Struct, frozen=True):
    """``cpu`` in seconds since the start, of all threads; ``threads``, ``files``, ``memory`` (bytes) as of now."""

    cpu: float
    threads: int
    files: int
    memory: int

    def over(self, limits: SandboxLimits) -> str | None:
        """Which limit is passed, for people; None when none is."""
        if self.cpu > limits.cpu:
            return f"the code used {limits.cpu:g} s of processor time, which is all that an interpreter has"
        if self.files > limits.files:
            return f"the code made more than {limits.files:,} files"
        if self.memory > limits.memory:
            return f"the code used more than {limits.memory:,} bytes of memory, with the kernel's tables of it"
        return f"the code started more than {limits.threads:,} threads" if self.threads > limits.threads else None


class Inside:
    """The two processes inside: bubblewrap, which is the first of its namespace, and the interpreter, its only child.

    ``first`` is bubblewrap's number outside the sandbox. Raises OSError or ValueError when they are not there.
    """

    def __init__(self, first: int) -> None:
        with open(f"/proc/{first}/task/{first}/children", "rb") as file:
            self._pid = int(file.read())
        # A number may come back, a descriptor stands for one process.
        self._first, self._interpreter = os.pidfd_open(first), os.pidfd_open(self._pid)

    def stop(self) -> None:
        """Stops the interpreter with all its threads where they are; nothing inside can undo it."""
        self._send(self._interpreter, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets the interpreter go on."""
        self._send(self._interpreter, signal.SIGCONT)

    def kill(self) -> None:
        """Ends everything inside: the kernel ends a namespace with its first process."""
        self._send(self._first, signal.SIGKILL)

    def usage(self) -> Usage:
        """What the interpreter uses. Raises OSError when it is gone.

        Files are counted because empty ones cost memory of the kernel's that no limit on size sees; tables of pages,
        because memory in many places has larger ones than it is itself.
        """
        with open(f"/proc/{self._pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        user, system, threads = int(fields[11]), int(fields[12]), int(fields[17])
        scratch = os.statvfs(f"/proc/{self._pid}/root/tmp")
        files = scratch.f_files - scratch.f_ffree
        return Usage((user + system) / os.sysconf("SC_CLK_TCK"), threads, files, self._memory())

    def _memory(self) -> int:
        with open(f"/proc/{self._pid}/status", "rb") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith(_MEMORY))

    def close(self) -> None:
        """Gives the descriptors back; idempotent."""
        for descriptor in (self._first, self._interpreter):
            if descriptor >= 0:
                os.close(descriptor)
        self._first = self._interpreter = -1

    def _send(self, descriptor: int, number: signal.Signals) -> None:
        if descriptor >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
