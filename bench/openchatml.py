"""Reading and writing OpenChatML beside json of the same conversation, in one run.

    python bench/openchatml.py

Prints megabytes (10^6 bytes) a second and frames a minute of one core, in processor time, and each as a ratio to
`json.loads` / `json.dumps`.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterator

from antiphon.conversation import Conversation, End, Message, Role
from antiphon.formats.openchatml import iter_write, read, to_json, validate, write

PROSE = "The quick brown fox jumps over the lazy dog; 2 < 3, and é is no ASCII. " * 14 + "\n"


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
    messages: list[Message] = []
    for i in range(5000):
        call_id = f"call_{i}"
        messages += (
            Message(role=Role.USER, text="What is 2 + 2?"),
            Message(role=Role.ASSISTANT, text="{}", recipient="functions.f", channel="commentary", content_type="json",
                    constrained=True, call_id=call_id, end=End.CALL),
            Message(role=Role.TOOL, text='{"ok":true}', name="functions.f", recipient="assistant", channel="commentary",
                    call_id=call_id),
            Message(role=Role.ASSISTANT, text="4.", channel="final", end=End.RETURN),
        )  # fmt: skip
    return Conversation(tuple(messages))


def compare(name: str, conversation: Conversation) -> None:
    text = write(conversation)
    value = to_json(conversation)
    dumped = json.dumps(value, ensure_ascii=False)
    size, frames = len(text.encode()) / 1e6, len(conversation.messages)
    loads, dumps = best(lambda: json.loads(dumped)), best(lambda: json.dumps(value, ensure_ascii=False))
    chunks = [text[i : i + 4096] for i in range(0, len(text), 4096)]
    rows = [
        ("read", best(lambda: read(text)), loads),
        ("read, 4 KiB chunks", best(lambda: read(chunks)), loads),
        ("validate", best(lambda: list(validate(chunks))), loads),
        ("write", best(lambda: write(conversation)), dumps),
    ]
    print(f"\n{name}: {size:.1f} MB, {frames} frames; json.loads {loads * 1e3:.1f} ms, json.dumps {dumps * 1e3:.1f} ms")
    print(f"  {'':20} {'MB/s':>8} {'frames/min':>12} {'x json':>8}")
    for what, seconds, peer in rows:
        print(f"  {what:20} {size / seconds:8.0f} {frames / seconds * 60:12,.0f} {seconds / peer:8.1f}")


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
    memory()
    compare("long bodies", long_bodies())
    compare("short frames", short_frames())
    parts = sum(len(part) for part in iter_write(short_frames()))
    assert parts == len(write(short_frames()))


if __name__ == "__main__":
    main()
