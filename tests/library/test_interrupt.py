"""Ctrl-C while a synchronous chat blocks: it is raised where the program waits, and the answer has stopped by then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from antiphon.library.opening import finished, iterate
from kit.waiting import PATIENCE

CHILD = """
import asyncio, signal
import antiphon
from antiphon.engines import ScriptedEngine, Step
from kit.api import model, token_bytes

class Endless(ScriptedEngine):
    async def generate(self, prompt, sampling, **options):
        self.running += 1
        try:
            yield Step(tuple(b"la "))
            print("begun", flush=True)
            await asyncio.Event().wait()
        finally:
            self.running -= 1

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored
engine = Endless([], token_bytes=token_bytes)
with antiphon.open_model(model(engine)) as small:
    try:
        small.chat("Sing")
    except KeyboardInterrupt:
        print("running", engine.running, flush=True)
    engine.__class__ = ScriptedEngine
    engine._script = lambda prompt, sampling, choice: list(b"la")
    print("again", small.chat("Again", max_tokens=2).text, flush=True)
"""


def test_an_interrupted_chat_has_stopped_and_the_model_goes_on() -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "begun\n"
            child.send_signal(signal.SIGINT)
            rest, _ = child.communicate(timeout=PATIENCE)
        finally:
            child.kill()
    assert rest.splitlines() == ["running 0", "again la"]


class Interrupted:
    """A portal with a Ctrl-C while a task is handed over: before its start, or when it runs and nobody has it yet."""

    def __init__(self, portal: Any, begun: threading.Event | None) -> None:
        self.portal, self.begun = portal, begun

    def start_task_soon(self, task: Any) -> None:
        if self.begun is not None:
            self.portal.start_task_soon(task)
            assert self.begun.wait(PATIENCE)
        raise KeyboardInterrupt


@pytest.mark.parametrize("streamed", [False, True], ids=["a whole answer", "a stream"])
@pytest.mark.parametrize("started", [False, True], ids=["before it starts", "when it runs"])
def test_an_interrupt_while_a_task_is_handed_over_stops_it(started: bool, streamed: bool) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def endless_stream() -> Any:
        await endless()
        yield

    with start_blocking_portal() as portal:
        interrupted: Any = Interrupted(portal, begun if started else None)
        with pytest.raises(KeyboardInterrupt):
            next(iterate(interrupted, endless_stream)) if streamed else finished(interrupted, endless)
        assert begun.is_set() == ended.is_set() == started
