"""The arguments of bubblewrap: what the code sees of the machine, and as whom it runs."""

from __future__ import annotations

import glob
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from .cell import SandboxLimits

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
    environment = [word for pair in _ENVIRONMENT.items() for word in ("--setenv", *pair)]
    return [
        *_ALWAYS, *(_AS_ROOT if as_root else _AS_USER), *folders, *_libraries(), *_python(), *packages, *_devices(),
        *scratch, "--ro-bind", str(_WORKER), INTERPRETER[-1], "--remount-ro", "/dev", "--remount-ro", "/",
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
    for path in (*_library_folders(), *_LOADER):
        yield from ("--ro-bind-try", path, path)
    for path in ("/lib", "/lib64", "/usr/lib64"):
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif path not in _library_folders():
            yield from ("--ro-bind-try", path, path)
    for folder in _library_folders():
        yield from _covered(f"{folder}/python3*")


def _library_folders() -> tuple[str, ...]:
    """Debian's folder for this kind of machine; Fedora's; or the one for all that other systems have."""
    several = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}"
    if os.path.isdir(several):
        return (several,)
    return ("/usr/lib",) if os.path.islink("/usr/lib64") or not os.path.isdir("/usr/lib64") else ("/usr/lib64",)


def _python() -> Iterator[str]:
    """The interpreter (the one that a virtual environment stands on), its library and its shared library."""
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


def _devices() -> Iterator[str]:
    """The devices that take anything and give nothing of the machine; no terminals."""
    yield from ("--size", "4096", "--tmpfs", "/dev")
    for name in _DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
