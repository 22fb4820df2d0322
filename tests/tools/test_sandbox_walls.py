"""What code in the sandbox can reach at all: every path is walked, opened for writing and searched."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.tools.python import Bubblewrap, Interpreter, SandboxLimits
from kit.sandbox import ended, inside, interpreters, threads
from kit.waiting import wait_until

SERVER = """
import asyncio, sys
from antiphon.tools.python import Bubblewrap, SandboxLimits

async def main() -> None:
    interpreter = await Bubblewrap(SandboxLimits(seconds=280)).start()
    cell = await interpreter.run(sys.stdin.read())
    print(cell.lost or cell.text)
    await interpreter.aclose()

asyncio.run(main())
"""

WALK = """
import json, os, stat

marker = bytes.fromhex(MARKER)[::-1]
devices_limit, chunk = 1 << 20, 8 << 20
open('/tmp/planted', 'wb').write(b'x' * (chunk - 5) + marker)
seen = {'files': 0, 'bytes': 0, 'written': [], 'found': [], 'descriptors': []}

def attempt(path, *functions):
    for function in functions:
        try:
            result = function(path)
        except OSError:
            continue
        if isinstance(result, int):
            os.close(result)
        seen['written'].append(path)
        return

def creates(folder):
    path = folder + '/new'
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.unlink(path)
    return descriptor

def opens(path):
    return os.open(path, os.O_WRONLY | os.O_NONBLOCK)

def opens_both_ways(path):
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)

def changes(path):
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode))

def dates(path):
    os.utime(path)

def search(path):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    before, read = b'', 0
    try:
        while piece := os.read(descriptor, chunk if regular else 65536):
            if marker in before + piece:
                seen['found'].append(path)
                break
            before, read = piece[-len(marker):], read + len(piece)
            if read >= devices_limit and not (regular and os.fstat(descriptor).st_size):
                break
    except OSError:
        pass
    finally:
        os.close(descriptor)
        seen['files'] += 1
        seen['bytes'] += read

for folder, folders, files in os.walk('/'):
    attempt(folder, creates, changes, dates)
    for name in files:
        path = folder.rstrip('/') + '/' + name
        attempt(path, opens, opens_both_ways, changes, dates)
        search(path)
for number in range(3, 256):
    try:
        status = os.fstat(number)
        null = status.st_rdev == os.stat('/dev/null').st_rdev
        seen['descriptors'].append(stat.S_ISFIFO(status.st_mode) or (stat.S_ISCHR(status.st_mode) and null))
    except OSError:
        pass
print(json.dumps(seen))
"""

BUSY = b"""
import threading, time
for _ in range(3): threading.Thread(target=time.sleep, args=(200,)).start()
while True: pass
"""

SINKS = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}


def walk(folder: Path) -> dict[str, Any]:
    """What a walk inside found, with a marker in the server's environment, arguments, home, temp and working folder."""
    marker = secrets.token_hex(16)
    home, temp, work = (folder / name for name in ("home", "temp", "work"))
    for path in (home, temp, work, home / ".config"):
        path.mkdir(parents=True)
        (path / "secret.txt").write_text(marker)
        path.chmod(0o755)
    code = WALK.replace("MARKER", repr(marker.encode()[::-1].hex()))
    environment = os.environ | {"HOME": str(home), "TMPDIR": str(temp), "API_KEY": marker, f"K_{marker}": "name"}
    server = subprocess.run(
        [sys.executable, "-c", SERVER, f"--key={marker}"], input=code, env=environment, cwd=work, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert server.returncode == 0, server.stderr
    found: dict[str, Any] = json.loads(server.stdout)
    return found


@pytest.mark.timeout(600)
def test_nothing_of_the_host_can_be_read_or_written(tmp_path: Path) -> None:
    seen = walk(tmp_path)
    assert seen["files"] > 1000, "the walk went through Python's library and the system's"
    assert seen["found"] == ["/tmp/planted"], "what is there is found, and the server's secrets are not"
    assert set(seen["written"]) - {"/tmp", "/tmp/planted"} <= SINKS
    assert "/tmp" in seen["written"]
    assert seen["descriptors"], "the interpreter's own pipes, and null"
    assert all(seen["descriptors"]), "and nothing else that is open"


@pytest.fixture
def sandbox() -> Bubblewrap:
    return Bubblewrap(SandboxLimits(seconds=60))


async def test_the_code_is_not_root_outside_either(sandbox: Bubblewrap) -> None:
    interpreter = await sandbox.start()
    (process,) = interpreters()
    real, effective, saved = process.uids()
    assert real == effective == saved == (os.geteuid() or 65534)
    assert process.gids().real == (os.getegid() if os.geteuid() else 65534)
    await interpreter.aclose()
    assert inside() == []


async def test_bubblewrap_itself_has_no_environment(sandbox: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_TEST_SECRET", "hunter2")
    interpreter = await sandbox.start()
    for process in inside():
        assert "hunter2" not in process.environ().values()
    assert len(inside()) == 3
    await interpreter.aclose()


async def test_inside_there_are_the_interpreter_and_what_reaps_it(sandbox: Bubblewrap) -> None:
    interpreter: Interpreter = await sandbox.start()
    assert (await interpreter.run("import os; os.getpid(), os.getppid()")).text == "(2, 1)\n"
    await interpreter.aclose()


def test_a_server_that_is_killed_takes_its_sandboxes_with_it() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE) as server:
        assert server.stdin is not None
        server.stdin.write(BUSY)
        server.stdin.close()
        try:
            wait_until(lambda: any(threads(one) > 3 for one in interpreters(server.pid)))
            sandboxed = inside(server.pid)
        finally:
            server.kill()
        assert len(sandboxed) == 3
        wait_until(lambda: all(map(ended, sandboxed)))
