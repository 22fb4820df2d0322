"""One interpreter in its sandbox: cells go in, replies come out, and between cells nothing runs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import os
import secrets
import signal
import struct
from dataclasses import dataclass
from pathlib import Path

import msgspec

# Limits of sandboxed code, and the result of running a cell of it.


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Resources that an interpreter may use before it is ended.

    ``seconds`` a cell (wall clock), ``cpu`` seconds of processor time in all cells together; ``memory``, ``scratch``
    and ``output`` in bytes; ``files`` in the scratch folder; ``threads`` at once. ``packages``: a folder of installed
    packages that the code may import, read only (numpy, matplotlib …).
    """

    seconds: float = 120.0
    cpu: float = 600.0
    memory: int = 1 << 30
    scratch: int = 32 << 20
    files: int = 20_000
    threads: int = 256
    output: int = 64 << 10
    packages: Path | None = None


class Cell(msgspec.Struct, frozen=True):
    """Result of running a cell; ``images`` are PNG in base64, ``bytes`` is how much it printed.

    ``lost`` says why the interpreter is gone, with all its variables, when it is; ``late`` that the deadline was why.
    """

    ok: bool
    text: str
    bytes: int
    images: tuple[str, ...] = ()
    lost: str | None = None
    late: bool = False


# The one form of an interpreter's reply: a header of fixed size, then as many bytes as it says.
#
# The code runs in the process that writes replies, so anything may stand in that pipe. A reply therefore has no
# nesting, its size is bounded before it is read, and it begins with the nonce of its cell: what was written for
# another cell, or by somebody else, does not fit.

NONCE = 16
IMAGES = 8
IMAGE_BYTES = 2_000_000
HEADER = struct.Struct(f"!{NONCE}s?QI{IMAGES}I")
"""Nonce; whether the code raised nothing; bytes printed; bytes of the text that follows, and of each image after it."""


class UnexpectedReply(Exception):
    """Error of a pipe that has something else than the reply to this cell."""


async def read_reply(stream: asyncio.StreamReader, nonce: bytes, output: int) -> Cell:
    """The reply to the cell of ``nonce``, with at most ``output`` bytes of text.

    Raises `UnexpectedReply` for anything else, and EOFError where the pipe ends.
    """
    found, ok, printed, text_size, *image_sizes = HEADER.unpack(await stream.readexactly(HEADER.size))
    if found != nonce or text_size > output or max(image_sizes) > IMAGE_BYTES:
        raise UnexpectedReply
    text = await stream.readexactly(text_size)
    images = [await stream.readexactly(size) for size in image_sizes if size]
    return Cell(ok, text.decode("utf-8", "replace"), printed, tuple(base64.b64encode(one).decode() for one in images))


# The processes inside the sandbox, seen from the server: what they use, and signals to them and to no other.

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
        """Measures what the interpreter uses. Raises OSError when it is gone.

        Files are counted because empty ones cost memory of the kernel's that no limit on size sees; tables of pages,
        because memory in many places has larger ones than it is itself.
        """
        with open(f"/proc/{self._pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        user, system, threads = int(fields[11]), int(fields[12]), int(fields[17])
        scratch = os.statvfs(f"/proc/{self._pid}/root/tmp")
        files = scratch.f_files - scratch.f_ffree
        with open(f"/proc/{self._pid}/status", "rb") as file:
            memory = sum(int(line.split()[1]) << 10 for line in file if line.startswith(_MEMORY))
        return Usage((user + system) / os.sysconf("SC_CLK_TCK"), threads, files, memory)

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


_POLL = 0.05
_CPU_MARGIN = 5
_SIGNALS = 256
_NOBODYS_SHARE = 16
"""How many interpreters' threads the user of all of them may have: a bound for the time between two looks at one."""
_ENDED = "the interpreter ended (too much memory, or its own doing)"
_UNEXPECTED = "the interpreter was ended because its code wrote to the descriptor of its replies"


class Interpreter:
    """Its variables last until it is closed or lost. One cell at a time.

    ``process`` is bubblewrap, first of a session, with pipes for input and output; the interpreter runs below it.
    """

    def __init__(self, process: asyncio.subprocess.Process, limits: SandboxLimits) -> None:
        assert process.stdin is not None, "started with pipes"
        assert process.stdout is not None, "started with pipes"
        self._process = process
        self._requests = process.stdin
        self._replies = process.stdout
        self._limits = limits
        self._inside: Inside | None = None
        self._fault: str | None = None
        self.alive = True

    async def begin(self, user: int | None) -> None:
        """Gives the worker its settings and waits until it stands behind all protections.

        Raises OSError, EOFError or `UnexpectedReply` when it does not come up.
        """
        nonce = secrets.token_bytes(NONCE)
        self._requests.write(worker_settings(self._limits, user, nonce))
        await self._requests.drain()
        await read_reply(self._replies, nonce, 0)

    def attach(self, pid: int) -> None:
        """The interpreter, below the process ``pid``, is stopped between cells from here on.

        Raises OSError or ValueError when it is gone.
        """
        self._inside = Inside(pid)
        self._inside.stop()

    async def run(self, code: str) -> Cell:
        """Runs one cell. Never raises for what the code does; a cell over a limit costs the interpreter."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._exchange(code)
        except TimeoutError:
            return await self._lose(f"no result within {self._limits.seconds:g} s", late=True)
        except UnexpectedReply:
            return await self._lose(_UNEXPECTED)
        except (OSError, EOFError):
            return await self._lose(self._fault or _ENDED)
        except asyncio.CancelledError:
            await self.aclose()
            raise

    async def _exchange(self, code: str) -> Cell:
        assert self._inside is not None, "attached"
        nonce = secrets.token_bytes(NONCE)
        watch = asyncio.create_task(self._watch(self._inside))
        try:
            self._requests.write(json.dumps({"code": code, "nonce": nonce.hex()}).encode() + b"\n")
            self._inside.resume()  # it finds the cell there and need not be woken a second time
            await self._requests.drain()
            return await read_reply(self._replies, nonce, self._limits.output)
        finally:
            self._inside.stop()
            self._check(self._inside)
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _watch(self, inside: Inside) -> None:
        while self._fault is None:
            await asyncio.sleep(_POLL)
            self._check(inside)

    def _check(self, inside: Inside) -> None:
        """Ends the interpreter when it is over a limit that the kernel does not watch for us."""
        if self._fault is not None:
            return
        try:
            self._fault = inside.usage().over(self._limits)
        except OSError:  # it is gone, or cannot be watched
            self._fault = _ENDED
        if self._fault is not None:
            self._kill()

    async def _lose(self, why: str, *, late: bool = False) -> Cell:
        await self.aclose()
        return Cell(False, "", 0, lost=why, late=late)

    def _kill(self) -> None:
        """All inside end, and bubblewrap outside after them."""
        if self._inside is not None:
            self._inside.kill()
        elif self._process.returncode is None or not self._replies.at_eof():  # else nobody has the pipe any more
            with contextlib.suppress(ProcessLookupError):
                # All of its session: its child waits for it for ever until it has learned to end with it.
                os.killpg(self._process.pid, signal.SIGKILL)

    async def aclose(self) -> None:
        """Kills everything inside and waits for it; idempotent."""
        self.alive = False
        self._kill()
        self._requests.close()
        with contextlib.suppress(RuntimeError, OSError):  # a cell that runs reads too, and will see the end
            while await self._replies.read(1 << 16):
                pass  # what is left in the pipe must be read before its end is seen
        await self._process.wait()
        if self._inside is not None:
            self._inside.close()


def worker_settings(limits: SandboxLimits, user: int | None, nonce: bytes) -> bytes:
    """The worker's first line of input; ``user``: whom it is to become, None when it is somebody already."""
    settings = {
        "nonce": nonce.hex(),
        "user": user,
        "header": HEADER.format,
        "images": IMAGES,
        "image_bytes": IMAGE_BYTES,
        "output": limits.output,
        "packages": ["/packages"] if limits.packages is not None else [],
        "rlimits": {
            "RLIMIT_AS": limits.memory,
            "RLIMIT_CPU": math.ceil(limits.cpu) + _CPU_MARGIN,
            "RLIMIT_FSIZE": limits.scratch,
            "RLIMIT_NOFILE": 128,
            "RLIMIT_CORE": 0,
            "RLIMIT_MEMLOCK": 0,
            "RLIMIT_SIGPENDING": _SIGNALS,
            "RLIMIT_NPROC": limits.threads * _NOBODYS_SHARE,
        },
    }
    return json.dumps(settings).encode() + b"\n"
