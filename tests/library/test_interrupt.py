"""Ctrl-C while a synchronous chat blocks: it is raised where the program waits, and the answer has stopped by then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

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
