"""What sandboxed code can take of the kernel itself: no locks, no capabilities, and no memory beside its limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.tools.python import Bubblewrap, Interpreter, SandboxLimits
from kit.sandbox import interpreters


@pytest.fixture(scope="module")
def sandbox() -> Bubblewrap:
    return Bubblewrap(SandboxLimits(seconds=60))


async def output(interpreter: Interpreter, body: str) -> str:
    cell = await interpreter.run(body)
    assert cell.ok, cell
    return cell.text


REFUSED = {
    "a lock of a file": "fcntl.flock(opened, fcntl.LOCK_EX)",
    "a lock of a host's file": "fcntl.flock(os.open('/etc/ld.so.cache', 0), fcntl.LOCK_EX | fcntl.LOCK_NB)",
    "a shared lock": "fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "a lock of an open file": "fcntl.fcntl(opened, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', 1, 0, 0, 1, 0))",
    "a lock of an open file, waiting": "fcntl.fcntl(opened, fcntl.F_OFD_SETLKW, struct.pack('hhqqi4x', 1, 0, 0, 1, 0))",
    "a larger pipe": "fcntl.fcntl(os.pipe()[0], 1031, 1 << 20)",
    "memory that is merged with others'": "mmap.mmap(-1, 4096).madvise(12)",
    "memory that is locked": "mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x2000)",
    "the machine's huge pages": "mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)",
    "the machine's cache of a file dropped": "os.posix_fadvise(os.open(os.__file__, 0), 0, 0, 4)",
    "a descriptor under way": "socket.send_fds(socket.socketpair()[0], [b'x'], [0])",
    "a byte out of band": "socket.socketpair()[0].send(b'x', socket.MSG_OOB)",
    "another process's limits": "resource.prlimit(1, resource.RLIMIT_CPU)",
    "a buffer of any size": "socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 26)",
    "an attribute of a file": "os.setxattr('/tmp/x', 'user.a', b'b')",
}


async def test_what_takes_the_kernel_s_memory_or_reaches_others_is_refused(interpreter: Interpreter) -> None:
    for what, code in REFUSED.items():
        cell = await interpreter.run(
            "import errno, fcntl, mmap, os, resource, socket, struct\n"
            "opened = os.open('/tmp/x', os.O_RDWR | os.O_CREAT)\n"
            f"try: {code}\nexcept OSError as error: print(errno.errorcode[error.errno])"
        )
        assert cell.text in ("EPERM\n", "ENOLCK\n"), (what, cell)


async def test_a_process_s_own_record_locks_are_granted_as_they_would_be(interpreter: Interpreter) -> None:
    """They never meet: no other process could have one."""
    body = """
import fcntl, struct
file = open('/tmp/x', 'w')
fcntl.lockf(file, fcntl.LOCK_EX)
fcntl.lockf(open('/tmp/x', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)
free = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0))
print(struct.unpack('hhqqi4x', free)[0] == fcntl.F_UNLCK)"""
    assert await output(interpreter, body) == "True\n"


async def test_sqlite_works_and_still_keeps_its_connections_apart(interpreter: Interpreter) -> None:
    body = """
import sqlite3
for mode in ('delete', 'wal'):
    one, other = (sqlite3.connect(f'/tmp/{mode}', timeout=0, isolation_level=None) for _ in range(2))
    print(*one.execute(f'pragma journal_mode={mode}').fetchone())
    one.execute('create table t (a)')
    one.execute('begin immediate')
    one.execute('insert into t values (1)')
    try: other.execute('begin immediate')
    except sqlite3.OperationalError as error: print(error)
    one.execute('commit')
    print(other.execute('select a from t').fetchall())"""
    each = "{}\ndatabase is locked\n[(1,)]\n"
    assert await output(interpreter, body) == each.format("delete") + each.format("wal")


async def test_the_library_s_own_locks_work(interpreter: Interpreter) -> None:
    body = """
import asyncio, mailbox, multiprocessing.dummy, queue, socket
box = mailbox.mbox('/tmp/box')
box.lock(); box.add('From: a\\n\\nb'); box.flush(); box.unlock()
async def pair():
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here)
    there.send(b'line\\n')
    return await reader.readline()
print(len(box), asyncio.run(pair()), sum(multiprocessing.dummy.Pool(8).map(abs, range(-100, 0))))"""
    assert await output(interpreter, body) == "1 b'line\\n' 5050\n"


async def test_the_code_has_no_capability_in_any_set(interpreter: Interpreter) -> None:
    (process,) = interpreters()
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    sets = dict(line.split() for line in status if line.startswith("Cap"))
    assert {sets[name] for name in ("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:")} == {"0" * 16}


async def test_what_was_given_up_cannot_be_had_again(interpreter: Interpreter) -> None:
    body = """
import ctypes
header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)
one = sets(*[0xC0] * 3)
print(ctypes.CDLL(None).capset(header, one), ctypes.CDLL(None).capget(header, one), list(one))"""
    assert await output(interpreter, body) == "-1 0 [0, 0, 0, 0, 0, 0]\n"


MANY = 250


async def test_a_default_interpreter_has_room_for_the_threads_that_it_may_have(interpreter: Interpreter) -> None:
    body = f"""
import threading
together = threading.Barrier({MANY} + 1)
def work():
    sum(len(bytes(100_000)) for _ in range(20))
    together.wait()
for _ in range({MANY}): threading.Thread(target=work).start()
together.wait()
print('all at once')"""
    assert await output(interpreter, body) == "all at once\n"


async def test_a_thread_has_a_stack_for_deep_calls(interpreter: Interpreter) -> None:
    body = """
import json, threading
def nested(depth):
    return [nested(depth - 1)] if depth else 0
def work():
    print(len(repr(nested(300))), len(json.dumps(nested(300))), eval('(' * 90 + '1' + ')' * 90))
one = threading.Thread(target=work)
one.start(); one.join()"""
    assert await output(interpreter, body) == "601 601 1\n"


MAPS = """
import mmap
held = []
try:
    while True:
        held += mmap.mmap(-1, 8192), mmap.mmap(-1, 4096, prot=mmap.PROT_READ)
except OSError: pass
"""
STACKS = """
import threading, time
for size in (8 << 20, 2 << 20, 1 << 16, 1 << 15):
    threading.stack_size(size)
    try:
        for _ in range(50): threading.Thread(target=time.sleep, args=(999,), daemon=True).start()
    except RuntimeError: pass
"""
MEMORY = """
held, size = [], 1 << 26
while size > 16:
    try:
        while True: held.append(bytes(size))
    except MemoryError: size //= 2
"""
DESCRIPTORS = "import os\ntry:\n    while True: os.dup(0)\nexcept OSError: pass\n"
CLOSED = "import os\nos.closerange(0, 3)\n"
LEFT = {
    "no maps": MAPS, "no maps and no stacks": MAPS + STACKS, "no memory": MEMORY, "neither": MAPS + MEMORY,
    "no descriptors": DESCRIPTORS, "no standard descriptors": CLOSED, "none of either": CLOSED + DESCRIPTORS,
    "nothing of ours": "import os\nos.closerange(0, 128)\n",
}  # fmt: skip


@pytest.mark.parametrize("left", LEFT, ids=lambda name: name.replace(" ", "-"))
async def test_after_a_cell_that_used_all_up_the_next_one_is_answered_at_once(
    interpreter: Interpreter, left: str
) -> None:
    """It runs, or the interpreter is lost and says so; it never waits for its deadline."""
    first = await interpreter.run(LEFT[left])
    assert first.ok or (first.lost is not None and not first.late), first
    if first.lost is None:
        cell = await interpreter.run("print('x' * 70_000)")
        assert not cell.late
        assert cell.lost is not None or cell.text == "x" * 65_536 or cell.text.endswith("MemoryError\n"), cell


async def test_memory_in_more_places_than_it_is_worth_is_over_the_limit() -> None:
    """A page in each gibibyte takes two pages of tables, which no limit of addresses counts."""
    one = await Bubblewrap(SandboxLimits(seconds=60, memory=256 << 20)).start()
    cell = await one.run("""
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 4 + [ctypes.c_int, ctypes.c_size_t]
number = 0
while True:
    number += 1
    if number < 60_000 and libc.mmap(number << 30, 4096, 1, 0x32, -1, 0) == number << 30:
        ctypes.string_at(number << 30, 1)
""")
    await one.aclose()
    assert cell.lost is not None
    assert "bytes of memory, with the kernel's tables of it" in cell.lost


async def test_what_a_thread_writes_in_later_cells_does_not_keep_them_from_ending(interpreter: Interpreter) -> None:
    await interpreter.run("""
import os, threading
copy = os.dup(1)
def work():
    while True: os.write(copy, b'x' * 1000)
threading.Thread(target=work, daemon=True).start()""")
    for _ in range(3):
        assert (await interpreter.run("1")).lost is None
