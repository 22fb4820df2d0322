"""Kernel memory before and after hostile cells of the python tool: ``sandbox_kernel.py [--cells 1000] [--together 4]``.

Each cell tries to leave or hold as much of the kernel's memory as one trick gives: locks, maps, tables of pages, pipes,
sockets, descriptors under way, signals, threads, files, names. The table has what the kernel had at rest before, the
most that was seen, and what it has at rest afterwards. The exit code is 1 where that is over 5 % more: of what this
process's memory cgroup is charged, or of the whole machine's where there is none (other programs disturb it then).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path

from antiphon.tools import Router, ToolCall, ToolLimits
from antiphon.tools.python import Bubblewrap, PoolLimits, PythonTool, SandboxLimits

SHARE = 0.05
SETTLE = 60.0
"""Seconds that the kernel has to give back what ended processes had; most of it is freed a little later."""
LIMITS = SandboxLimits(seconds=4.0, cpu=8.0)

BEGIN = """
import ctypes, errno, fcntl, mmap, os, resource, select, signal, socket, struct, threading, time
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 4 + [ctypes.c_int, ctypes.c_size_t]
held = []
def try_all(attempt, times):
    for number in range(times):
        try: held.append(attempt(number))
        except (OSError, RuntimeError, MemoryError, ValueError): break
    print(len(held))
"""

HOSTILE = {
    "locks of open files": """
files = [os.open(f'/tmp/{n}', os.O_RDWR | os.O_CREAT) for n in range(100)]
def attempt(n): fcntl.fcntl(files[n % 100], fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', 1, 0, n * 2, 1, 0))
try_all(attempt, 56_000)""",
    "record locks": """
file = os.open('/tmp/x', os.O_RDWR | os.O_CREAT)
try_all(lambda n: fcntl.lockf(file, fcntl.LOCK_EX, 1, n * 2), 56_000)""",
    "flock": "try_all(lambda n: fcntl.flock(os.open(f'/tmp/{n}', os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX), 100)",
    "a lease": "try_all(lambda n: fcntl.fcntl(os.open('/tmp/x', os.O_CREAT), fcntl.F_SETLEASE, fcntl.F_RDLCK), 100)",
    "full pipes": """
def attempt(n):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    return os.write(writer, bytes(1 << 20))
try_all(attempt, 100)""",
    "larger pipes": "try_all(lambda n: fcntl.fcntl(os.pipe()[1], 1031, 1 << 20), 100)",
    "full sockets": """
def attempt(n):
    pair = socket.socketpair(type=socket.SOCK_DGRAM)
    pair[0].setblocking(False)
    held.append(pair)
    try:
        while True: pair[0].send(b'x')
    except BlockingIOError: pass
try_all(attempt, 100)""",
    "descriptors under way": """
def attempt(n):
    pair = socket.socketpair()
    socket.send_fds(pair[0], [b'x'], [pair[1].fileno()] * 200)
try_all(attempt, 1000)""",
    "watched descriptors": """
polls = [select.epoll() for _ in range(50)]
def attempt(n): polls[n % 50].register(os.dup(0) if n < 50 else 60 + n // 50)
try_all(attempt, 2500)""",
    "event counters": "try_all(lambda n: os.eventfd(0), 200)",
    "maps": "try_all(lambda n: mmap.mmap(-1, 4096 * (1 + n % 2), prot=1 + n % 2), 70_000)",
    "tables of pages": """
def attempt(n):
    if libc.mmap((n + 1) << 30, 4096, 1, 0x32, -1, 0) != (n + 1) << 30: raise OSError
    ctypes.string_at((n + 1) << 30, 1)
try_all(attempt, 60_000)""",
    "named memory": """
def attempt(n):
    place = ctypes.c_size_t(libc.mmap(0, 8192, n % 4, 0x22, -1, 0))
    if libc.prctl(0x53564D41, 0, place, 4096, f'{n:070}'.encode()): raise OSError
try_all(attempt, 60_000)""",
    "locked memory": "try_all(lambda n: libc.mlockall(7) and mmap.mmap(-1, 1 << 20, flags=0x2022), 900)",
    "merged memory": "try_all(lambda n: mmap.mmap(-1, 1 << 20).madvise(12), 900)",
    "threads": "try_all(lambda n: threading.Thread(target=time.sleep, args=(9,), daemon=True).start(), 250)",
    "threads without end": """
threading.stack_size(32768)
try_all(lambda n: threading.Thread(target=time.sleep, args=(9,), daemon=True).start(), 100_000)""",
    "signals": """
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
try_all(lambda n: os.kill(os.getpid(), 34 + n % 30), 100_000)""",
    "timers": "try_all(lambda n: libc.syscall(222, 0, 0, ctypes.byref(ctypes.c_int())) and 1 // 0, 1)",
    "inherited priorities": """
word = ctypes.c_uint32(0)
try_all(lambda n: libc.syscall(202, ctypes.byref(word), 6, 0, 0, 0, 0), 1000)""",
    "empty files": "try_all(lambda n: os.close(os.open(f'/tmp/{n}', os.O_CREAT)), 19_000)",
    "files without end": "try_all(lambda n: os.close(os.open(f'/tmp/{n}', os.O_CREAT)), 1_000_000)",
    "deep folders": "try_all(lambda n: (os.mkdir('d'), os.chdir('d')), 19_000)",
    "symbolic links": "try_all(lambda n: os.symlink('x' * 1000, f'/tmp/{n}'), 19_000)",
    "links": "open('/tmp/x', 'w').close()\ntry_all(lambda n: os.link('/tmp/x', f'/tmp/{n}'), 19_000)",
    "removed files": """
def attempt(n):
    descriptor = os.open(f'/tmp/{n}', os.O_CREAT | os.O_RDWR)
    os.unlink(f'/tmp/{n}')
    os.ftruncate(descriptor, 1 << 24)
try_all(attempt, 100)""",
    "attributes": """
open('/tmp/x', 'w').close()
try_all(lambda n: os.setxattr('/tmp/x', f'user.{n}', bytes(4096)), 10_000)""",
    "memory files": "try_all(lambda n: os.memfd_create(str(n)), 100)",
    "keys": "try_all(lambda n: libc.syscall(248, b'user', str(n).encode(), b'x' * 1000, 1000, -3) < 0 and 1 // 0, 1)",
    "queues": "try_all(lambda n: libc.msgget(0, 0o1600) < 0 and 1 // 0, 1)",
    "segments": "try_all(lambda n: libc.shmget(0, 1 << 20, 0o1600) < 0 and 1 // 0, 1)",
    "names that are not there": "try_all(lambda n: os.path.exists(f'/tmp/none-{n}'), 200_000)",
    "sockets of any kind": "try_all(lambda n: socket.socket((n % 40) + 1, socket.SOCK_RAW), 1)",
}  # fmt: skip
"""A trick → code that prints how often it worked. A trick that the filter refuses ends at its first attempt."""

ON_THE_HOST = {
    "names that are not there on the host": """
try_all(lambda n: os.path.exists(f'/usr/lib/none-{n}-{time.time()}'), 50_000)""",
}
"""What any program may do that may look for a file: the kernel keeps the answers until it needs the memory."""


def lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def at_present() -> dict[str, int]:
    """Bytes of kernel memory by kind: what is in use, and what is cached."""
    info = {line.split()[0].rstrip(":"): int(line.split()[1]) << 10 for line in lines("/proc/meminfo")}
    found = {"held": info["SUnreclaim"] + info["KernelStack"] + info["PageTables"], "cached": info["SReclaimable"]}
    if (size := next(of_this_group(), None)) is not None:
        found["of this group"] = size
    with suppress(PermissionError):
        found |= {f"slab {name}": size for name, size in slabs().items() if name in WATCHED}
    return found


WATCHED = ("file_lock_cache", "vm_area_struct", "filp", "shmem_inode_cache", "dentry", "task_struct", "epitem")


def of_this_group() -> Iterator[int]:
    """What the kernel has for this process's group of processes, caches too, where there is a group that counts it."""
    for line in lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        one = Path(f"/sys/fs/cgroup/memory{path}/memory.kmem.usage_in_bytes")
        two = Path(f"/sys/fs/cgroup{path}/memory.stat")
        if controllers == "memory" and one.is_file():
            yield int(one.read_text())
        elif not controllers and two.is_file():
            yield from (int(entry.split()[1]) for entry in lines(str(two)) if entry.startswith("kernel "))


def slabs() -> dict[str, int]:
    sizes = {}
    for line in lines("/proc/slabinfo")[2:]:
        name, in_use, _, size = line.split()[:4]
        sizes[name] = int(in_use) * int(size)
    return sizes


async def run_all(
    tool: PythonTool, tricks: list[str], count: int, together: int
) -> tuple[Counter[str], dict[str, int]]:
    """Runs so many cells, each in an interpreter of its own; how they ended, and the most of each kind meanwhile."""
    router = Router([tool], ToolLimits(deadline=60.0))
    code = HOSTILE | ON_THE_HOST
    ended: Counter[str] = Counter()
    most: Counter[str] = Counter()
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            call = ToolCall(call_id=f"c{number}", recipient="python", body=BEGIN + code[tricks[number % len(tricks)]])
            result = await router.call(call)
            ended["lost" if result.error else "answered"] += 1
            for kind, size in at_present().items():
                most[kind] = max(most[kind], size)

    await asyncio.gather(*(work() for _ in range(together)))
    return ended, dict(most)


def judged(found: dict[str, int]) -> int:
    return found.get("of this group", found["held"])


async def at_rest(before: dict[str, int] | None) -> dict[str, int]:
    """What there is once nothing ran for a moment; waits until it is as ``before`` or `SETTLE` is over."""
    least = at_present()
    until = time.monotonic() + (SETTLE if before else 3.0)
    while time.monotonic() < until and (before is None or judged(least) > judged(before) * (1 + SHARE / 5)):
        await asyncio.sleep(0.5)
        now = at_present()
        least = now if judged(now) < judged(least) else least
    return least


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--together", type=int, default=4)
    parser.add_argument("--host-names", action="store_true", help="also look for files of the host that are not there")
    options = parser.parse_args()
    tricks = [*HOSTILE, *(ON_THE_HOST if options.host_names else ())]
    async with aclosing(PythonTool(Bubblewrap(LIMITS), PoolLimits(interpreters=options.together))) as tool:
        await run_all(tool, tricks, len(tricks), options.together)  # what the kernel makes once, and keeps
        before = await at_rest(None)
        began = time.monotonic()
        ended, most = await run_all(tool, tricks, options.cells, options.together)
        seconds = time.monotonic() - began
        after = await at_rest(before)
    print(f"{options.cells} cells, {len(tricks)} tricks, {seconds:.0f} s: {dict(ended)}")
    print(f"{'kernel memory, MiB':32}{'before':>10}{'most':>10}{'after':>10}{'change':>10}")
    for kind, size in before.items():
        change = after[kind] / max(size, 1) - 1
        print(f"{kind:32}{size / 2**20:10.2f}{most[kind] / 2**20:10.2f}{after[kind] / 2**20:10.2f}{change:10.1%}")
    return judged(after) > judged(before) * (1 + SHARE)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
