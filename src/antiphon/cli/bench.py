"""``antiphon bench``: how fast a server answers, with more and more requests at once."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.errors import ConfigError, EngineError, RequestError

from .benching.client import BenchClient, Reply
from .benching.figures import Spread, StepFigures, figures, saturated_at
from .benching.ladder import Load, ladder, warm_up
from .benching.plot import check_plot, write_plot
from .connecting.address import check_variable, local_url, root_of
from .options import ConfigOption, JsonOption, configure, print_json
from .terminal import tell
from .waiting import StatusLine, waiting_for

HEAD = (
    f"{'conc':>5} {'req/s':>8} {'ttft p50/p99 ms':>20} {'inter-token p50/p99 ms':>24} {'out tok/s':>10} {'errors':>7}"
)


def command(
    url: Annotated[str | None, typer.Option(help="The server, of any maker; by default where `serve` listens.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Its model; by default the first it lists.")
    ] = None,
    concurrency: Annotated[str, typer.Option("--concurrency", "-c", help="Requests at once, step by step.")] = "1,4,16",
    requests: Annotated[int, typer.Option("--requests", "-n", min=1, help="Requests of each step.")] = 64,
    prompt: Annotated[int, typer.Option("--in", min=1, max=1_000_000, help="Tokens of a prompt, about.")] = 128,
    output: Annotated[int, typer.Option("--out", min=1, help="Tokens of an answer, at most.")] = 64,
    full: Annotated[
        bool,
        typer.Option("--full", help="Answers have all of --out, where the server knows min_tokens (vLLM, Antiphon)."),
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds that a request may take.")] = 300.0,
    key_variable: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds the API key.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="A picture of it: .svg, .png or .pdf.", dir_okay=False)] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Measure a server: requests and tokens a second, times to the first token and between tokens.

    Exit code 3 where no request is answered.
    """
    steps = concurrencies(concurrency)
    check_variable(key_variable)
    if plot is not None:
        check_plot(plot)
    server = root_of(url or local_url(configure(config).config))
    client = BenchClient(server, key_of(key_variable), timeout)
    report = BenchReport(server, as_json=json)
    asyncio.run(measure(client, Load(model or "", prompt, output, full), steps, requests, report))
    report.finish()
    if plot is not None:
        write_plot(plot, report.steps, f"{report.model} at {server}")
    if not any(step.output_tokens for step in report.steps):
        raise EngineError("no request was answered", hint="; ".join(report.messages.values()))


def concurrencies(words: str) -> list[int]:
    """``1,4,16`` as numbers, in their order. Raises `RequestError`."""
    if not re.fullmatch(r"[1-9]\d{0,4}(,[1-9]\d{0,4})*", words):
        raise RequestError(f"{words!r} is no list of numbers of requests", hint="-c 1,4,16")
    return sorted({int(word) for word in words.split(",")})


def key_of(variable: str | None) -> str:
    if variable is not None and not os.environ.get(variable):
        raise ConfigError(f"the variable {variable} is not set", hint=f"export {variable}=…")
    return os.environ.get(variable, "") if variable else ""


async def measure(client: BenchClient, load: Load, steps: Sequence[int], requests: int, report: BenchReport) -> None:
    """The whole ladder, after one request that is not measured. On a terminal each step says how far it is."""
    status = StatusLine()
    reached = (0, 0)

    def progress(concurrency: int, answered: int) -> None:
        nonlocal reached
        reached = (concurrency, answered)
        if not answered:
            status.begin(lambda: f"{reached[0]} at once: {reached[1]} of {requests} requests")

    async with client:
        load = Load(load.model or await first_model(client), load.prompt_tokens, load.output_tokens, load.full)
        try:
            with waiting_for("the first answer, which is not measured"):
                first = await warm_up(client, load)
            report.begin(load.model, first)
            async with aclosing(ladder(client, load, steps, requests, progress)) as measured:
                async for concurrency, replies, seconds in measured:
                    status.end()
                    report.add(concurrency, replies, seconds)
        finally:
            status.end()


async def first_model(client: BenchClient) -> str:
    """The first model that the server lists. Raises `EngineError` where it lists none."""
    try:
        names = await client.models()
    except (OSError, TimeoutError):
        hint = "antiphon ps lists the servers that run here; antiphon serve starts one."
        raise EngineError(f"nothing answers at {client.url}", code="server_unreachable", hint=hint) from None
    if not names:
        raise EngineError(f"{client.url} does not list its models", hint="--model NAME; --key-variable NAME")
    return names[0]


@dataclass(slots=True)
class BenchReport:
    """What was measured so far; lines for people are printed as they come."""

    url: str
    as_json: bool
    model: str = ""
    tokens_by: str = "chunks"
    steps: list[StepFigures] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)
    """An error's kind → the first of its messages."""

    def begin(self, model: str, warm: Reply) -> None:
        self.model, self.tokens_by = model, "usage" if warm.usage and warm.usage.completion_tokens else "chunks"
        if self.as_json:
            return
        by = "by the server's usage" if self.tokens_by == "usage" else "by chunks: the server reports no usage"
        tell(f"{model} at {self.url}; tokens counted {by}", file=sys.stderr)
        tell(HEAD, flush=True)

    def add(self, concurrency: int, replies: Sequence[Reply], seconds: float) -> None:
        for reply in replies:
            if reply.error is not None:
                self.messages.setdefault(reply.error, reply.message)
        step = figures(concurrency, replies, seconds)
        self.steps.append(step)
        if not self.as_json:
            tell(line(step), flush=True)

    def finish(self) -> None:
        """The verdict, and what errors there were."""
        if self.as_json:
            print_json(self.as_object())
            return
        at = saturated_at(self.steps)
        if len(self.steps) > 1:
            tell(f"saturated at {at}" if at else f"not saturated at {self.steps[-1].concurrency}")
        for kind, message in self.messages.items():
            count = sum(step.errors.get(kind, 0) for step in self.steps)
            tell(f"{kind}, {count} times: {message}", file=sys.stderr)

    def as_object(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "model": self.model,
            "tokens_by": self.tokens_by,
            "steps": self.steps,
            "saturated_at": saturated_at(self.steps),
            "errors": self.messages,
        }


def line(step: StepFigures) -> str:
    """A row of the table."""
    first, between = spread(step.ttft_ms), spread(step.inter_token_ms)
    rates = f"{step.concurrency:>5} {step.requests_per_second:>8.2f}"
    return f"{rates} {first:>20} {between:>24} {step.tokens_per_second:>10.1f} {step.failed:>7}"


def spread(times: Spread | None) -> str:
    return f"{times.p50:.1f} / {times.p99:.1f}" if times else "-"
