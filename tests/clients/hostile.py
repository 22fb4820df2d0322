"""Programs that no client means well, against a server of its own, four at a time: is it there for all others?

Templates by ``/v1/templates/try`` and ``/check``, schemas, patterns and grammars by chats and ``/v1/schemas/check``,
and long texts to convert: all twice, for the first time imports and fills caches, which are bounded. Meanwhile
``/health`` is asked all the time. Prints, for each kind: requests, the slowest answers, /health's 50th and 99th
percentile, the server's memory before and after, and its own processor time; at the end how long SIGTERM took. The
model is a script (``--real``: smollm2), which leaves a grammar: a 502 is its own. The exit code tells whether the
second time all were answered, and whether the limits of `HEALTHY` and below hold.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from kit.api import Got, request  # noqa: E402
from kit.hostile_programs import hostile_grammars, hostile_patterns, hostile_schemas  # noqa: E402
from kit.hostile_templates import hostile_templates  # noqa: E402
from kit.program import PROGRAM, environment  # noqa: E402

AT_ONCE = 4
MESSAGES = [{"role": "user", "content": "x"}]
HEALTHY, PROMPT, STOPPED, GROWN = 0.1, 2.0, 5.0, 1.1
"""Seconds of /health's 99th percentile, of the slowest answer and of SIGTERM; memory afterwards, of what it was."""


@dataclass(frozen=True)
class Sent:
    what: str
    path: str
    body: dict[str, Any]


def templates(generated: int) -> Iterator[Sent]:
    for name, template in hostile_templates(generated):
        yield Sent(name, "/v1/templates/try", {"template": template, "messages": MESSAGES, "reply": "a"})


def checks(generated: int) -> Iterator[Sent]:
    for name, template in hostile_templates(generated):
        yield Sent(name, "/v1/templates/check", {"template": template})


def schemas(generated: int) -> Iterator[Sent]:
    for i, (name, schema) in enumerate(hostile_schemas(generated // 10)):
        tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": bool(i % 2)}}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        asked = {"tools": [tool], "tool_choice": "required"} if i % 3 else {"response_format": form}
        yield Sent(name, "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2, **asked})


def schema_checks(generated: int) -> Iterator[Sent]:
    for name, schema in hostile_schemas(generated // 10):
        yield Sent(name, "/v1/schemas/check", {"schema": schema, "text": '{"x": "' + "ab" * 2000})


def patterns(generated: int) -> Iterator[Sent]:
    for name, pattern in hostile_patterns(generated):
        yield Sent(name, "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2, "guided_regex": pattern})


def grammars(generated: int) -> Iterator[Sent]:
    for name, grammar in hostile_grammars(generated):
        yield Sent(name, "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2, "guided_grammar": grammar})


def conversions(generated: int) -> Iterator[Sent]:
    whole = 2 * 2**20
    texts = [
        "<|start|>" * (whole // 9),
        "[" * whole,
        '{"a":' * (whole // 5),
        "<|im_start|>user\n" * (whole // 17),
        "a" * whole,
    ]
    for text in texts:
        for to in ("harmony", "openchatml", "json", "chat"):
            yield Sent(f"{text[:12]!r} to {to}", "/v1/convert", {"input": text, "to": to})


KINDS = {kind.__name__: kind for kind in (templates, checks, schemas, schema_checks, patterns, grammars, conversions)}


@dataclass
class Health:
    """Asks /health without a pause, in a thread."""

    base: str
    took: list[float] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        while not self.over.wait(0.02):
            begun = time.perf_counter()
            request(self.base, "GET", "/health")
            self.took.append(time.perf_counter() - begun)

    def percentile(self, part: float) -> float:
        return sorted(self.took)[min(len(self.took) - 1, int(part * len(self.took)))] if self.took else 0.0


def answered(base: str, sent: Sent) -> tuple[Sent, Got | None, float]:
    begun = time.perf_counter()
    try:
        got = request(base, "POST", sent.path, json.dumps(sent.body).encode(), content_type="application/json")
    except OSError:
        got = None
    return sent, got, time.perf_counter() - begun


def tried(base: str, server: psutil.Process, kind: str, every: list[Sent]) -> list[str]:
    """Sends all, prints what came of it, and gives what did not hold."""
    health = Health(base)
    asking = threading.Thread(target=health.ask)
    before, spent = server.memory_info().rss, sum(server.cpu_times()[:2])
    asking.start()
    begun = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = list(threads.map(lambda sent: answered(base, sent), every))
    wall = time.perf_counter() - begun
    health.over.set()
    asking.join()
    time.sleep(1)  # What is freed after a large request is so half a second later.
    after, spent = server.memory_info().rss, sum(server.cpu_times()[:2]) - spent
    statuses = Counter(got.status if got else 0 for _, got, _ in answers)
    codes = Counter(got.json["error"]["code"] for _, got, _ in answers if got and got.status >= 400)
    slow = sorted(answers, key=lambda answer: -answer[2])[:3]
    print(
        f"{kind}: {len(answers)} in {wall:.1f} s; {dict(statuses)}; {dict(codes.most_common(6))}\n"
        f"  slowest {', '.join(f'{took:.2f} s ({sent.what})' for sent, _, took in slow)}\n"
        f"  /health {len(health.took)}: p50 {health.percentile(0.5) * 1000:.0f} ms, "
        f"p99 {health.percentile(0.99) * 1000:.0f} ms, worst {max(health.took, default=0) * 1000:.0f} ms\n"
        f"  memory {before / 2**20:.0f} -> {after / 2**20:.0f} MiB; the server's own processor time {spent:.1f} s",
        flush=True,
    )
    failed = [f"{kind}: {sent.what}: {got.status if got else 'no answer'}" for sent, got, _ in answers
              if got is None or (got.status >= 500 and got.status != 502)]  # fmt: skip
    if health.percentile(0.99) > HEALTHY:
        failed.append(f"{kind}: /health's 99th percentile is {health.percentile(0.99) * 1000:.0f} ms")
    if slow and slow[0][2] > PROMPT:
        late = sum(took > PROMPT for _, _, took in answers)
        failed.append(f"{kind}: {late} answers took more than {PROMPT:g} s, {slow[0][2]:.1f} s at most")
    if after > GROWN * before:
        failed.append(f"{kind}: memory grew from {before / 2**20:.0f} to {after / 2**20:.0f} MiB")
    return failed


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--only", default=",".join(KINDS))
    options.add_argument("--generated", type=int, default=300)
    options.add_argument("--first", type=int, default=None, help="so many of each kind")
    options.add_argument("--real", action="store_true")
    chosen = options.parse_args()
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as home:
        real = [*PROGRAM, "serve", "--model", "smollm2", "--port", "0"]
        command = real if chosen.real else [sys.executable, str(ROOT / "tests" / "kit" / "obedient.py")]
        path = f"{ROOT / 'src'}:{ROOT / 'tests'}"
        more = {"ANTIPHON_LOG_ACCESS": "false", "PYTHONPATH": path}
        started = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(Path(home), **more)
        )
        try:
            assert started.stdout is not None
            output = ""
            while "http://" not in output:
                output += next(started.stdout)
            base, server = output[output.index("http://") :].split()[0].rstrip("/"), psutil.Process(started.pid)
            every = {kind: list(islice(KINDS[kind](chosen.generated), chosen.first)) for kind in chosen.only.split(",")}
            print("The first time, which is not judged:")
            for kind, some in every.items():
                tried(base, server, kind, some)
            print("\nThe second time:")
            for kind, some in every.items():
                failed += tried(base, server, kind, some)
            hard = islice(templates(0), 12)
            pending = [threading.Thread(target=answered, args=(base, sent), daemon=True) for sent in hard]
            for thread in pending:
                thread.start()
            time.sleep(0.2)
            begun = time.perf_counter()
            started.send_signal(signal.SIGTERM)
            code = started.wait(120)
            took = time.perf_counter() - begun
            print(f"SIGTERM with {len(pending)} templates at work: {took:.2f} s, status {code}")
            failed += [f"SIGTERM took {took:.1f} s"] if took > STOPPED else []
        finally:
            started.kill()
    print("\n".join(failed) or "all of it holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
