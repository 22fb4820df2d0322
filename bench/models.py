"""A real model's rate over HTTP beside llama.cpp's own call, in turns, and what the next turn of a tool loop evaluates.

PYTHONPATH=tests python bench/models.py MODEL.gguf [--tokens 100] [--rounds 5] [--threads 2]

Each side is a process of its own over the same file: `antiphon serve`, asked for a stream over HTTP, and llama.cpp's
server core, asked by `xllamacpp.Server.handle_chat_completions`. They answer the same request one after the other, and
the middle ratio counts. The rate is that of the tokens after the first one; the processor time of a token is that of
all processes that the side needs, which depends less on who else is there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from real_models.rows import body, evaluated, results, user
from real_models.sides import Answer, Json, Machine, Ours, Peer, Side, ours, peer, piece_of
from real_models.tool_tasks import LOOPS, Loop

ASK = "Count from one to one hundred in words, separated by commas."


@dataclass(frozen=True, slots=True)
class Run:
    """One stream: its tokens; seconds from the first of them to the last, and to the first.

    ``processor`` are seconds of processor time of all that the side needs, ``serving`` those of its first process:
    of ours without the engine's.
    """

    tokens: int
    seconds: float
    first: float
    processor: float
    serving: float

    @property
    def rate(self) -> float:
        return (self.tokens - 1) / self.seconds


def processor_seconds(pid: int) -> tuple[float, float]:
    """Spent so far by the process, what it started and this one; and by the process alone."""
    process = psutil.Process(pid)
    others = [psutil.Process(), *process.children(recursive=True)]
    alone = spent_by(process)
    return alone + sum(map(spent_by, others)), alone


def spent_by(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def asked(tokens: int, round: int) -> Json:
    """A request that no earlier one begins like: nothing of it is found in a cache."""
    return body(user(f"{round}. {ASK}"), tokens, stream=True, stream_options={"include_usage": True})


def our_run(side: Ours, request: Json) -> Run:
    return timed(side.pid, lambda times: note(side.stream(request), times))


def note(chunks: Iterable[Json], times: list[float]) -> int:
    """Reads a stream and notes when each piece of text came. Returns the tokens that it counts at its end."""
    tokens = 0
    for chunk in chunks:
        if any(piece_of(chunk)):
            times.append(time.perf_counter())
        if usage := chunk.get("usage"):
            tokens = usage["completion_tokens"]
    return tokens


def their_run(side: Peer, request: Json) -> Run:
    def stream(times: list[float]) -> int:
        began = time.perf_counter()
        tokens, found = side.timed(request)
        times += [began + seconds for seconds in found]
        return tokens

    return timed(side.pid, stream)


def timed(pid: int, stream: Callable[[list[float]], int]) -> Run:
    times: list[float] = []
    began, (all_before, before) = time.perf_counter(), processor_seconds(pid)
    tokens = stream(times)
    all_after, after = processor_seconds(pid)
    return Run(tokens, times[-1] - times[0], times[0] - began, all_after - all_before, after - before)


def rates(path: Path, machine: Machine, tokens: int, rounds: int) -> float:
    """Prints the rates of both. Returns the middle ratio."""
    ratios, dearer = [], []
    with ours(path, machine) as mine, peer(path, machine) as theirs:
        for round in range(rounds + 1):
            request = asked(tokens, round)
            own, other = our_run(mine, request), their_run(theirs, request)
            if round == 0:  # It warms both up.
                continue
            ratios.append(own.rate / other.rate)
            dearer.append((own.processor / own.tokens) / (other.processor / other.tokens))
            print(
                f"round {round}: Antiphon {own.rate:6.2f} tokens/s, first after {own.first:5.2f} s; "
                f"llama.cpp {other.rate:6.2f} tokens/s, first after {other.first:5.2f} s; "
                f"{ratios[-1]:.3f} x the rate, {dearer[-1]:.3f} x the processor time, "
                f"of which our server {own.serving / own.tokens * 1e3:.2f} ms a token",
                flush=True,
            )
    middle = statistics.median(ratios)
    print(f"the middle of {rounds}: {middle:.3f} x the rate, {statistics.median(dearer):.3f} x the processor time")
    return middle


def loops(path: Path, machine: Machine) -> None:
    """Prints what each request of a tool loop evaluated of its prompt."""
    with ours(path, machine) as side:
        for loop in LOOPS:
            for line in evaluated_of(loop, side):
                print(line, flush=True)


def evaluated_of(loop: Loop, side: Side) -> list[str]:
    messages: list[Json] = [{"role": "system", "content": loop.system}] if loop.system else []
    lines, before = [], Answer()
    for turn in loop.turns:
        messages += user(turn.ask)
        for result in (turn.result, None):
            reply = side.chat(body(messages, 120, tools=list(loop.tools)))
            messages.append(reply.message)
            new = reply.prompt_tokens - before.prompt_tokens - before.completion_tokens
            lines.append(
                f"{turn.ask[:34]:<34} {'call' if reply.calls else 'text'}: prompt {reply.prompt_tokens:>5} tokens, "
                f"{max(new, 0):>4} beyond the last reply, {evaluated(reply):>4} evaluated"
            )
            before = reply
            if not reply.calls or result is None:
                break
            messages += results(reply, result)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=("rate", "loops"))
    chosen = parser.parse_args()
    machine = Machine(chosen.threads)
    if chosen.only != "loops":
        rates(chosen.model, machine, chosen.tokens, chosen.rounds)
    if chosen.only != "rate":
        loops(chosen.model, machine)


if __name__ == "__main__":
    main()
