"""A real model's rate over HTTP beside llama.cpp's, in turns, and what the next turn of a tool loop evaluates.

PYTHONPATH=tests python bench/models.py MODEL.gguf [--tokens 100] [--rounds 5] [--threads 2] [--old COMMIT]

`antiphon serve`, asked over HTTP, and llama.cpp's server core, asked by its own call
(`xllamacpp.Server.handle_chat_completions`), answer the same request. Each has the machine to itself and is loaded anew
for each turn, for where the machine has put a file in its memory makes more of a difference than all that is measured:
of two processes of one kind, loaded one after the other, the second was up to 16 % faster. The middle ratio counts.
The rate is that of the tokens after the first one; the processor time of a token is that of all processes that the side
needs, which depends less on who else is there. ``--old``: what long loops of calls evaluate, beside an Antiphon that is
as it was at that commit; each turn is a call that is sampled at temperature 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from gateways import checkout

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from real_models.rows import body, evaluated, results, user
from real_models.sides import Answer, Json, Machine, Side, ours, peer, piece_of
from real_models.tool_tasks import LOOPS, Loop

ASK = "Count from one to one hundred in words, separated by commas."
WARM = 16
"""Tokens of the request that comes before the one that is measured."""


@dataclass(frozen=True, slots=True)
class Run:
    """One stream: its tokens; seconds from the first of them to the last, and to the first.

    ``processor`` are seconds of processor time of all that the side needs.
    """

    tokens: int
    seconds: float
    first: float
    processor: float

    @property
    def rate(self) -> float:
        return (self.tokens - 1) / self.seconds

    @property
    def each(self) -> float:
        """Seconds of processor time of one token."""
        return self.processor / self.tokens

    def __str__(self) -> str:
        return (
            f"{self.rate:.2f} tokens/s, first after {self.first:.2f} s, {self.each * 1e3:.0f} ms of processor a token"
        )


def processor_seconds(pid: int) -> float:
    """Spent so far by the process, what it started, and this one."""
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (psutil.Process(), process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def asked(tokens: int, round: int) -> Json:
    """A request that no earlier one begins like: nothing of it is found in a cache."""
    return body(user(f"{round}. {ASK}"), tokens, stream=True, stream_options={"include_usage": True})


def note(chunks: Iterable[Json], times: list[float]) -> int:
    """Reads a stream and notes when each piece of text came. Returns the tokens that it counts at its end."""
    tokens = 0
    for chunk in chunks:
        if any(piece_of(chunk)):
            times.append(time.perf_counter())
        if usage := chunk.get("usage"):
            tokens = usage["completion_tokens"]
    return tokens


def our_run(path: Path, machine: Machine, tokens: int) -> Run:
    with ours(path, machine) as side:
        note(side.stream(asked(WARM, 1)), [])
        return timed(side.pid, lambda times: note(side.stream(asked(tokens, 2)), times))


def their_run(path: Path, machine: Machine, tokens: int) -> Run:
    def stream(times: list[float]) -> int:
        began = time.perf_counter()
        given, found = side.timed(asked(tokens, 2))
        times += [began + seconds for seconds in found]
        return given

    with peer(path, machine) as side:
        side.timed(asked(WARM, 1))
        return timed(side.pid, stream)


def timed(pid: int, stream: Callable[[list[float]], int]) -> Run:
    times: list[float] = []
    began, before = time.perf_counter(), processor_seconds(pid)
    tokens = stream(times)
    spent = processor_seconds(pid) - before
    return Run(tokens, times[-1] - times[0], times[0] - began, spent)


def rates(path: Path, machine: Machine, tokens: int, rounds: int) -> None:
    """Prints the rate of each, and the middle ratios."""
    pairs: list[tuple[Run, Run]] = []
    for round in range(rounds):
        order = (our_run, their_run) if round % 2 == 0 else (their_run, our_run)
        runs = {run: run(path, machine, tokens) for run in order}
        pairs.append((runs[our_run], runs[their_run]))
        print(f"round {round}: Antiphon {runs[our_run]}; llama.cpp {runs[their_run]}", flush=True)
    rate = statistics.median(own.rate / other.rate for own, other in pairs)
    processor = statistics.median(own.each / other.each for own, other in pairs)
    print(f"the middle of {rounds}: {rate:.3f} x the rate, {processor:.3f} x the processor time of a token")


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


FORECAST: Json = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "days": {"type": "integer"},
        "exact": {"type": "boolean"},
    },
    "required": ["city", "days", "exact"],
}
FORECASTS: Json = {"type": "function", "function": {"name": "forecast", "parameters": FORECAST}}
COUNT, TURNS = 20, 10


@dataclass(slots=True)
class Evaluated:
    """Tokens of all prompts of some loops; ``new``: those that no prompt or reply before had."""

    prompts: int = 0
    tokens: int = 0
    new: int = 0
    evaluated: int = 0
    refused: int = 0

    def add(self, before: Answer, reply: Answer) -> None:
        self.prompts += 1
        self.tokens += reply.prompt_tokens
        self.new += reply.prompt_tokens - before.prompt_tokens - before.completion_tokens
        self.evaluated += evaluated(reply)

    def __str__(self) -> str:
        return (
            f"{self.prompts} prompts of {self.tokens:,} tokens, {self.new:,} of them new, "
            f"{self.evaluated:,} evaluated; {self.refused} refused"
        )


def long_loops(path: Path, machine: Machine, options: Sequence[str]) -> Evaluated:
    """Loops of calls over a server of its own, the same questions with the same seeds."""
    found = Evaluated()
    with ours(path, machine, options=options) as side:
        for number in range(COUNT):
            messages, before = user(f"{number}. What is the weather like in Oslo, and near it?"), Answer()
            for turn in range(TURNS):
                more = {"tools": [FORECASTS], "tool_choice": "required", "seed": 100 * number + turn}
                reply = side.chat({**body(messages, 120), **more, "temperature": 1, "parallel_tool_calls": False})
                if reply.error is not None:
                    found.refused += 1
                    break
                found.add(before, reply)
                before = reply
                messages.append(reply.message)
                messages += results(reply, '{"celsius": -3}') if reply.calls else user("And tomorrow?")
    return found


def beside_old(path: Path, machine: Machine, commit: str, format: str | None) -> None:
    """Prints what the loops evaluated, here and at ``commit``."""
    options = ["--format", format] if format else []
    with TemporaryDirectory() as folder, checkout(commit, Path(folder)) as old:
        for name, one in (("now", machine), (commit, replace(machine, source=old))):
            print(f"{name}: {long_loops(path, one, options)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=("rate", "loops"))
    parser.add_argument("--old", help="a commit")
    parser.add_argument("--format", help="of the model, beside --old, instead of its own")
    chosen = parser.parse_args()
    machine = Machine(chosen.threads)
    if chosen.old:
        beside_old(chosen.model, machine, chosen.old, chosen.format)
        return
    if chosen.only != "loops":
        rates(chosen.model, machine, chosen.tokens, chosen.rounds)
    if chosen.only != "rate":
        loops(chosen.model, machine)


if __name__ == "__main__":
    main()
