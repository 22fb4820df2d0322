"""Reading and writing OpenChatML beside json of the same conversation, and beside an older Antiphon.

    python bench/openchatml.py [--old COMMIT] [--rounds 3]

Prints megabytes (10^6 bytes) a second and frames a minute of one core, in processor time: the least of the rounds, each
in a process of its own. Without ``--old`` each as a ratio to `json.loads` / `json.dumps`; with it, to what Antiphon did
at that commit, by turns.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from gateways import checkout

from antiphon.conversation import Conversation, End, Message, Role
from antiphon.formats.openchatml import iter_write, read, to_json, validate, write

PROSE = "The quick brown fox jumps over the lazy dog; 2 < 3, and é is no ASCII. " * 14 + "\n"
ENVELOPES = (
    ('{"city": "Paris"}', '{"ok": true, "content": {"celsius": 21}}'),
    ('{"city": "Atlantis"}', '{"ok": false, "error": {"code": "E-TOOL-FAILED", "message": "no such city"}}'),
    ('{"city": "Rome"}', '{"ok": false, "error": {"code": "E-TOOL-CANCELLED", "message": "stopped"}}'),
    ('{"city": "Oslo", "deadline_ms": 200}', '{"ok": false, "error": {"code": "E-TOOL-TIMEOUT", "message": "late"}}'),
)
"""Arguments of a call and its result: one that went well, an error, a cancel, a deadline."""
Figures = dict[str, dict[str, float]]
"""Seconds of each row, and the size and frames, by the name of a conversation."""


def best(work: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of processor time of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def long_bodies() -> Conversation:
    user, answer = PROSE * 50, PROSE * 450
    pair = (
        Message(role=Role.USER, text=user),
        Message(role=Role.ASSISTANT, text=answer, channel="final", end=End.RETURN),
    )
    return Conversation(pair * 40)


def short_frames() -> Conversation:
    pair = (
        Message(role=Role.USER, text="What is 2 + 2?"),
        Message(role=Role.ASSISTANT, text="4.", channel="final", end=End.RETURN),
    )
    return Conversation(pair * 5000)


def tool_frames() -> Conversation:
    messages: list[Message] = []
    for i in range(5000):
        call_id, (arguments, result) = f"call_{i}", ENVELOPES[i % len(ENVELOPES)]
        messages += (
            Message(role=Role.ASSISTANT, text=arguments, recipient="functions.f", channel="commentary",
                    content_type="json", constrained=True, call_id=call_id, end=End.CALL),
            Message(role=Role.TOOL, text=result, name="functions.f", recipient="assistant", channel="commentary",
                    call_id=call_id),
        )  # fmt: skip
    return Conversation(tuple(messages))


def measured(conversation: Conversation) -> dict[str, float]:
    """Seconds of what is done with the conversation; its megabytes and its frames."""
    text = write(conversation)
    value = to_json(conversation)
    dumped = json.dumps(value, ensure_ascii=False)
    chunks = [text[i : i + 4096] for i in range(0, len(text), 4096)]
    assert sum(map(len, iter_write(conversation))) == len(text)
    return {
        "megabytes": len(text.encode()) / 1e6,
        "frames": len(conversation.messages),
        "json.loads": best(lambda: json.loads(dumped)),
        "json.dumps": best(lambda: json.dumps(value, ensure_ascii=False)),
        "read": best(lambda: read(text)),
        "read, 4 KiB chunks": best(lambda: read(chunks)),
        "validate": best(lambda: list(validate(chunks))),
        "write": best(lambda: write(conversation)),
    }


CONVERSATIONS = {"long bodies": long_bodies, "short frames": short_frames, "tool frames": tool_frames}


def alone(source: Path) -> Figures:
    """All that is measured, in a process of its own."""
    environ = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run([sys.executable, __file__, "--alone"], env=environ, check=True, capture_output=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def least(rounds: list[Figures]) -> Figures:
    return {name: {row: min(one[name][row] for one in rounds) for row in rows} for name, rows in rounds[0].items()}


def table(now: Figures, old: Figures | None) -> None:
    for name, rows in now.items():
        size, frames = rows.pop("megabytes"), int(rows.pop("frames"))
        loads, dumps = rows.pop("json.loads"), rows.pop("json.dumps")
        print(f"\n{name}: {size:.1f} MB, {frames} frames; json.loads {loads * 1e3:.1f} ms, dumps {dumps * 1e3:.1f} ms")
        print(f"  {'':20} {'MB/s':>8} {'frames/min':>12} {'x old' if old else 'x json':>8}")
        for what, seconds in rows.items():
            ratio = old[name][what] / seconds if old else seconds / (dumps if what == "write" else loads)
            print(f"  {what:20} {size / seconds:8.0f} {frames / seconds * 60:12,.0f} {ratio:8.2f}")


def stream(megabytes: int) -> Iterator[bytes]:
    """A transcript of any length that was never whole in memory."""
    frame = f"<|start|>user<|message|>{PROSE}<|end|>\n<|start|>assistant<|channel|>final<|message|>{PROSE}<|return|>\n"
    block = frame.encode() * max(1, 65536 // len(frame))
    yield b'version: "2.2"\n'
    for _ in range(megabytes * 1_000_000 // len(block)):
        yield block


def memory() -> None:
    print("\nvalidate a stream: peak resident memory of this process")
    for megabytes in (10, 1000):
        start = time.process_time()
        errors = sum(1 for _ in validate(stream(megabytes)))
        seconds = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"  {megabytes:5} MB  {seconds:6.1f} s  {megabytes / seconds:6.0f} MB/s  {peak:6.0f} MiB  {errors} errors"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", help="a commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.alone:
        print(json.dumps({name: measured(make()) for name, make in CONVERSATIONS.items()}))
        return
    with ExitStack() as stack:
        sources = [Path(__file__).parents[1] / "src"]
        if chosen.old:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            sources.append(stack.enter_context(checkout(chosen.old, folder)))
        rounds = [[alone(source) for source in sources] for _ in range(chosen.rounds)]
    now, *old = map(least, map(list, zip(*rounds, strict=True)))
    table(now, old[0] if old else None)
    if not chosen.old:
        memory()


if __name__ == "__main__":
    main()
