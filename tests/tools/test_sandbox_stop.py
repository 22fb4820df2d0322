"""Between cells nothing runs in the sandbox, and all cells together have so much processor time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psutil
import pytest

from antiphon.tools import Router, ToolCall
from antiphon.tools.python import Bubblewrap, Interpreter, PythonTool, SandboxLimits
from kit.sandbox import ended, inside, interpreters
from kit.waiting import turns, until

BURN = """
import time
end = time.process_time() + 0.4
while time.process_time() < end: pass
"""


@pytest.fixture
async def interpreter() -> AsyncIterator[Interpreter]:
    fresh = await Bubblewrap(SandboxLimits(seconds=60)).start()
    yield fresh
    await fresh.aclose()


@pytest.mark.parametrize("then", ["wait", "exit 9"])
async def test_what_bubblewrap_began_ends_with_it_though_it_does_not_know_it_yet(then: str) -> None:
    """As when a call is given up while the sandbox comes up: the child has the pipe of the replies."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", f"sleep 1000 & echo $!; {then}", stdin=-1, stdout=-1, start_new_session=True
    )
    assert process.stdout is not None
    child = psutil.Process(int(await process.stdout.readline()))
    if then != "wait":
        await until(lambda: process.returncode is not None)
    async with asyncio.timeout(60):
        await Interpreter(process, SandboxLimits()).aclose()
    await until(lambda: ended(child))


@pytest.mark.parametrize("at", range(6))
async def test_a_start_that_is_given_up_leaves_nothing(at: int) -> None:
    start = asyncio.create_task(Bubblewrap(SandboxLimits(seconds=60)).start())
    await turns(at)
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)
    assert inside() == []


WAYS_ON = {
    "a thread": "pass",
    "a thread that continues the process": "os.kill(os.getpid(), signal.SIGCONT)",
    "a thread that continues itself": "signal.pthread_kill(threading.get_ident(), signal.SIGCONT)",
    "a timer": "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)",
    "a thread that ignores the stop": "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    "a thread that handles the stop": "ctypes.CDLL(None).signal(signal.SIGSTOP, 1)",
}


def stopped(process: psutil.Process) -> bool:
    """Whether each of its threads is: on a busy machine some are a moment after the first."""
    return all(psutil.Process(one.id).status() == psutil.STATUS_STOPPED for one in process.threads())


@pytest.mark.parametrize("way", WAYS_ON, ids=lambda name: name.replace(" ", "-"))
async def test_work_left_behind_stands_still_until_the_next_cell(interpreter: Interpreter, way: str) -> None:
    started = await interpreter.run(f"""
import ctypes, os, signal, threading
signal.signal(signal.SIGALRM, lambda *_: None)
count, going = 0, threading.Event()
def work():
    global count
    while True:
        count += 1
        going.set()
        try: {WAYS_ON[way]}
        except OSError: pass
for _ in range(4): threading.Thread(target=work, daemon=True).start()
going.wait()
""")
    assert started.ok, started
    (process,) = interpreters()
    await until(lambda: stopped(process))
    before = process.cpu_times()
    elapsed = psutil.Process().cpu_times().user + 0.1
    while psutil.Process().cpu_times().user < elapsed:
        assert stopped(process)
        await asyncio.sleep(0)
    assert process.cpu_times() == before, "not a tick while this process used ten"
    counted = await interpreter.run("before = count\nwhile count == before: pass\nprint('it goes on')")
    assert counted.text == "it goes on\n"


async def test_an_interpreter_that_waits_for_its_first_cell_is_stopped_too(interpreter: Interpreter) -> None:
    (process,) = interpreters()
    await until(lambda: process.status() == psutil.STATUS_STOPPED)
    assert (await interpreter.run("1")).text == "1\n"


@pytest.mark.parametrize(
    "body",
    [BURN, f"import threading\nburn = threading.Thread(target=exec, args=({BURN!r},))\nburn.start(); burn.join()"],
)
async def test_all_cells_together_have_so_much_processor_time(body: str) -> None:
    tool = PythonTool(Bubblewrap(SandboxLimits(seconds=60, cpu=1)))
    router = Router([tool])
    try:
        for number in range(30):
            result = await router.call(ToolCall(call_id=f"c{number}", recipient="python", body=body, session="s"))
            if result.error is not None:
                break
        assert number > 0, "one cell of them is within the limit"
        assert result.error is not None
        assert "used 1 s of processor time" in result.error.message
        assert "variables are lost" in result.error.message
        after = await router.call(ToolCall(call_id="after", recipient="python", body="1", session="s"))
        assert after.text(envelope=False) == "1\n"
    finally:
        await tool.aclose()
    assert inside() == []
