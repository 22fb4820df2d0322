"""Loops of tools with SmolLM2 at temperature 1: each prompt begins with the ids before it and all that was sampled.

``make loops`` runs this file: loops under eight templates, half of them over HTTP and half in the library, half of each
without a grammar, so that calls come out broken. A line a template; the exit code is 1 where a prompt loses the ids of
the turn before for any other reason than its template's own, or a request is refused.

PYTHONPATH=tests python tests/real_models/loops.py --count 200 --threads 1 --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Conversation, Event, Settings
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.errors import AntiphonError
from antiphon.formats import Format
from antiphon.formats.harmony import harmony
from antiphon.formats.openchatml import openchatml
from antiphon.formats.template import jinja_format
from antiphon.generation import Model, prepare_turn, reply_of
from antiphon.generation.compile import ReplyCompiler
from antiphon.generation.sequences import common
from antiphon.generation.turn import steps
from antiphon.library.options import offer_of, request_of
from antiphon.tokens import Control, gguf_tokenizer
from bridge.talk import MEANT
from kit.api import request as http_request
from kit.api import serving
from kit.family_templates import FAMILIES
from real_models.weights import shipped_file

MARKS = {
    "<|s|>": "<|im_start|>system\n",
    "<|u|>": "<|im_start|>user\n",
    "<|r|>": "<|im_start|>tool\n",
    "<|a|>": "<|im_start|>assistant",
    "<|e|>": "<|im_end|>",
}
"""The frames of families' templates, as controls that SmolLM2 has. All other marks of templates are text to it."""
JINJA = Path(__file__).parent.parent / "formats" / "template" / "jinja"
OF_MODELS = ("qwen2", "llama3", "mistral", "deepseek")
OF_FAMILIES = ("xml parameter", "gemma")
TEMPLATES = (*OF_MODELS, *OF_FAMILIES, "harmony", "openchatml")
"""Those of models, and of families (Qwen3-Coder, Gemma); the last two spell their controls out as text."""
TURNS = 4
LIMITS = (12, 60, 60)
"""Tokens of a reply: some are cut in a call."""
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "exact": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            },
            "required": ["city"],
        },
    },
}
CITIES = ("Bern", "Zürich", "Genf", "São Paulo", "東京", "Malmö")


def format_named(name: str, controls: Collection[Control]) -> Format:
    if name in ("harmony", "openchatml"):
        return harmony(controls) if name == "harmony" else openchatml(controls)
    source = FAMILIES[name] if name in OF_FAMILIES else (JINJA / f"{name}.jinja").read_text("utf-8")
    for mark, control in MARKS.items():
        source = source.replace(mark, control)
    return jinja_format(source, controls, {"bos_token": "", "eos_token": "<|im_end|>"})


@dataclass(slots=True)
class Turn:
    """One turn: the ids of its prompt and what was sampled to it, and what the report says of the prompt."""

    prompt: list[int]
    sampled: list[int]
    finish: str
    messages: list[Any]
    """What the loop goes on with, as its side has messages."""
    calls: list[str]
    """Their ids."""
    cause: str | None


class Refused(Exception):
    """An answer with another status than 200, or an error of the library."""


class OverHttp:
    """A client that keeps the messages it got."""

    def __init__(self, port: int, model: str) -> None:
        self._base, self._model = f"http://127.0.0.1:{port}", model
        self._messages: list[Any] = []

    async def turn(self, new: Sequence[Any], choice: str, seed: int, most: int) -> Turn:
        self._messages += new
        body = {
            "model": self._model, "messages": self._messages, "tools": [TOOL], "tool_choice": choice, "seed": seed,
            "temperature": 1, "max_tokens": most, "return_token_ids": True, "explain_prefix": True,
        }  # fmt: skip
        text = json.dumps(body).encode()
        path = "/v1/chat/completions"
        got = await asyncio.to_thread(http_request, self._base, "POST", path, text, content_type="application/json")
        if got.status != 200:
            raise Refused(f"{got.status} {got.body.decode()[:500]}")
        answer = got.json
        (chosen,) = answer["choices"]
        said = {name: value for name, value in chosen["message"].items() if value is not None or name == "content"}
        self._messages.append(said)
        lost = answer["antiphon"]["prefix"]["lost"]
        calls = [call["id"] for call in said.get("tool_calls", ())]
        cause = lost and lost["cause"]
        return Turn(answer["prompt_token_ids"], chosen["token_ids"], chosen["finish_reason"], [said], calls, cause)


class InLibrary:
    """A program that keeps the conversation."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._history: Conversation | None = None

    async def turn(self, new: Sequence[Any], choice: str, seed: int, most: int) -> Turn:
        tools = [] if self._history else [TOOL]
        options: Any = {"history": self._history, "tool_choice": choice, "temperature": 1.0}
        options |= {"max_tokens": most, "seed": seed}
        try:
            requested = request_of(list(new), options, offer_of(tools), None)
            dated = replace(requested.conversation, settings=Settings(current_date=date(2026, 11, 27)))
            noted = replace(requested, conversation=dated, return_token_ids=True, explain_prefix=True)
            plan = await prepare_turn(self._model, noted)
        except AntiphonError as error:
            raise Refused(f"{error.code}: {error.message}") from error
        sampled: list[int] = []
        events: list[Event] = []
        async with aclosing(steps(plan)) as turn:
            async for step in turn:
                sampled += step.ids
                events += step.events
        reply = reply_of(events)
        self._history = dated.add(*reply.messages)
        calls = [f"{message.call_id}" for message in reply.messages if message.is_call]
        lost = plan.prefix.lost if plan.prefix else None
        cause = lost.cause if lost else None
        return Turn([*plan.prompt_ids], sampled, reply.reason.value, [*reply.messages], calls, cause)


@dataclass(slots=True)
class Row:
    """A template's loops. ``named``: prompts that follow their template, by the cause that the report names."""

    prompts: int = 0
    calls: int = 0
    kept: int = 0
    named: Counter[str] = field(default_factory=Counter)
    details: list[Any] = field(default_factory=list)
    breaks: list[Any] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        causes = ", ".join(f"{cause} {count}" for cause, count in sorted(self.named.items())) or "-"
        return f"{self.prompts:>8}{self.calls:>8}{self.kept:>8}{len(self.breaks):>8}{len(self.refused):>9}  {causes}"


HEAD = f"{'template':<16}{'prompts':>8}{'calls':>8}{'kept':>8}{'lost':>8}{'refused':>9}  the template's own"


def question(random: Random) -> dict[str, Any]:
    return {"role": "user", "content": f"The weather in {random.choice(CITIES)} for {random.randrange(9)} days?"}


def opening(random: Random, *, shown: bool) -> list[Any]:
    """The first messages. ``shown``: with calls and results, for a model that nothing else makes call."""
    messages: list[Any] = []
    for number in range(3 if shown else 0):
        arguments = {"city": random.choice(CITIES), "days": random.randrange(9), "exact": random.random() < 0.5}
        function = {"name": "weather", "arguments": json.dumps(arguments)}
        call = {"id": f"call0000{number}", "type": "function", "function": function}
        messages += [
            {"role": "user", "content": f"The weather in {arguments['city']} for {arguments['days']} days?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "Rain."},
            {"role": "assistant", "content": "Rain."},
        ]
    return [*messages, question(random)]


async def loop(side: OverHttp | InLibrary, random: Random, row: Row, *, free: bool) -> None:
    """A loop of turns; each prompt is compared with the turn before."""
    new = opening(random, shown=free)
    before: Turn | None = None
    for _ in range(TURNS):
        choice = "auto" if free else random.choice(("auto", "required", "required"))
        turn = await side.turn(new, choice, random.randrange(2**31), random.choice(LIMITS))
        row.prompts += before is not None
        row.calls += len(turn.calls)
        if before is not None:
            compare(before, turn, row)
        results = [
            {"role": "tool", "tool_call_id": id, "content": random.choice(("Sun.", "−3 °C", "{}"))} for id in turn.calls
        ]
        new = results or [question(random)]
        before = turn if turn.messages else before  # What said nothing is in no conversation.


def compare(before: Turn, turn: Turn, row: Row) -> None:
    whole = before.prompt + before.sampled
    if turn.prompt[: len(whole)] == whole:
        row.kept += 1
    elif turn.cause in (*MEANT, "cut"):
        row.named[f"{turn.cause} ({before.finish})"] += 1
        row.details.append(around(before, turn))
    else:
        row.breaks.append(around(before, turn))


def around(before: Turn, turn: Turn) -> dict[str, Any]:
    """The ids where the prompt leaves the turn before."""
    whole = before.prompt + before.sampled
    at = common(whole, turn.prompt)
    return {
        "cause": turn.cause, "finish": before.finish, "at": at - len(before.prompt),
        "sampled": before.sampled, "instead": turn.prompt[at : at + 40], "said": [str(one) for one in before.messages],
    }  # fmt: skip


async def run(path: Path, count: int, threads: int) -> AsyncGenerator[dict[str, Row], None]:
    """All loops, one after the other, over one engine; the rows so far after each."""
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    engine = await LlamaCppEngine.start(LlamaCppSettings(model=path, context=4096, slots=1, threads=threads))
    models: dict[str, Model] = {}
    for name in TEMPLATES:
        format = format_named(name, tokenizer.controls)
        compiler = ReplyCompiler(format, tokenizer, engine.info.end_ids)
        model = Model(name=name, engine=engine, tokenizer=tokenizer, format=format, compiler=compiler)
        models |= {name: model, f"{name}, free": replace(model, name=f"{name}, free", compiler=None)}
    rows = {name: Row() for name in TEMPLATES}
    try:
        async with serving(create_app(StaticCatalog(models), expose_reasoning=True)) as port:
            for number in range(count):
                name = TEMPLATES[number * len(TEMPLATES) // count]  # one after the other: each begins as the last
                served, free = divmod(number, 2)
                model = models[f"{name}, free" if free else name]
                side = OverHttp(port, model.name) if served % 2 == 0 else InLibrary(model)
                row = rows[name]
                try:
                    await loop(side, Random(number), row, free=bool(free))
                except Refused as error:
                    row.refused.append(f"{type(side).__name__}, {model.name}, loop {number}: {error}")
                print(f"{number + 1} of {count} loops: {name} {row}", file=sys.stderr, flush=True)
                yield rows
    finally:
        await engine.aclose()


async def judged(path: Path, count: int, threads: int, file: Path | None = None) -> dict[str, Row]:
    """The rows at the end. What left the turn before is written to the file as it comes."""
    rows: dict[str, Row] = {}
    async with aclosing(run(path, count, threads)) as rounds:
        async for rows in rounds:
            if file is not None:
                file.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="loops in all (default: 200)")
    parser.add_argument("--threads", type=int, default=0, help="of the engine (default: one for each core)")
    parser.add_argument("--json", type=Path, help="where each prompt that left the turn before is written")
    given = parser.parse_args()
    began = time.perf_counter()
    rows = asyncio.run(judged(shipped_file("smollm2"), given.count, given.threads, given.json))
    print(HEAD)
    for name, row in rows.items():
        print(f"{name:<16}{row}")
        for what in (*row.refused, *(json.dumps(one, ensure_ascii=False) for one in row.breaks)):
            print(f"  {what}")
    print(f"{given.count} loops in {time.perf_counter() - began:.0f} s")
    return 1 if any(row.breaks or row.refused for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
