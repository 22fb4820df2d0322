"""Writes a valid OpenChatML transcript of about so many megabytes (10^6 bytes), for trying commands on long inputs.

    python bench/transcript.py 1000 > big.ocm

Its text spells no control, so every form can say it. The same size gives the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

PROSE = "The quick brown fox jumps over the lazy dog; 2 < 3, and naïve façades don't help anybody. "


def exchange(n: int) -> str:
    """A question, reasoning, a tool call with its reply, and the answer."""
    call = f"call_{n}"
    frames = [
        f"<|start|>user<|message|>Question {n}: {PROSE * (1 + n % 7)}<|end|>",
        f"<|start|>assistant<|channel|>analysis<|message|>{PROSE * (1 + n % 11)}\nIt needs the tool.<|end|>",
        f"<|start|>assistant to=functions.lookup call_id={call}<|channel|>commentary<|constrain|>json<|message|>"
        f'{{"key": {n}}}<|call|>',
        f"<|start|>tool to=assistant call_id={call} name=functions.lookup<|channel|>commentary<|message|>"
        f'{{"ok": true, "content": "{n * 7919}"}}<|end|>',
        f"<|start|>assistant<|channel|>final<|message|>{PROSE * (1 + n % 23)}<|return|>",
    ]
    return "".join(frame + "\n" for frame in frames)


def transcript(size: int) -> Iterator[bytes]:
    """The parts of a transcript of at least ``size`` bytes."""
    header = b'---\nversion: "2.2"\nmodel: none\n---\n'
    yield header
    written, n = len(header), 0
    while written < size:
        part = "".join(map(exchange, range(n, n + 100))).encode()
        written, n = written + len(part), n + 100
        yield part


def main() -> None:
    for part in transcript(int(float(sys.argv[1]) * 1e6)):
        sys.stdout.buffer.write(part)


if __name__ == "__main__":
    main()
