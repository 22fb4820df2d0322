"""Held replies of a real model at temperature 1: whatever it wants to say, a reply that ends is what was asked for.

`make check-structured` runs this file: a table of 30 seeds for each configuration, and exit 1 for any fault.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema_rs

from antiphon.catalog.config import load_config
from antiphon.catalog.entries import builtin_catalogue
from antiphon.catalog.store import ModelStore
from antiphon.conversation import (
    Conversation,
    FinishReason,
    Message,
    MessageEnded,
    ResponseFormat,
    Role,
    ToolChoice,
    ToolSpec,
    visible_to_user,
)
from antiphon.engines import Embeddings, Engine, EngineInfo, Sampling, Step
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.errors import AntiphonError
from antiphon.formats import Format
from antiphon.formats.harmony import harmony
from antiphon.formats.openchatml import openchatml
from antiphon.formats.template import ReplyTags, tags, template_format
from antiphon.generation import Model, Plan, Reply, TurnRequest, collect, plan_turn, run_turn
from antiphon.generation.compile import ReplyCompiler
from antiphon.generation.held import shape_of
from antiphon.tokens import Control, PieceDecoder, Tokenizer, gguf_tokenizer

SLOTS = 8
MOST = 128
"""Tokens of a reply."""
THINKING = 80
"""Characters of a thought: a small model thinks up to any limit."""

ADD = ToolSpec(
    "add",
    "Adds two numbers.",
    {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 0, "maximum": 999},
            "b": {"type": "integer", "minimum": 0, "maximum": 999},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
WEATHER = ToolSpec(
    "get_weather",
    "The weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 24}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
TOOLS = (WEATHER, ADD)
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 24},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["new", "old", "odd"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
HELD_PERSON = ResponseFormat("json_schema", schema=PERSON, strict=True)
ASK = Message(role=Role.USER, text="What is the weather in Paris, and what is 17 + 25? Who asked? Answer briefly.")


@dataclass(frozen=True)
class Configuration:
    """What is asked of a reply; ``shape`` are the fields of its `ReplyShape` that no request has."""

    tools: tuple[ToolSpec, ...] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    parallel: bool = True
    answer: ResponseFormat = field(default_factory=ResponseFormat)
    shape: Mapping[str, Any] = field(default_factory=dict)

    def request(self, seed: int) -> TurnRequest:
        return TurnRequest(
            conversation=Conversation((ASK,), tools=self.tools, response_format=self.answer),
            tool_choice=self.choice,
            parallel_tool_calls=self.parallel,
            temperature=1.0,
            max_tokens=MOST,
            seed=seed,
        )

    def faults(self, reply: Reply) -> list[str]:
        """What a finished reply lacks."""
        calls = [message for message in reply.messages if message.is_call]
        answers = [m for m in reply.messages if not m.is_call and visible_to_user(m) and not m.is_preamble]
        most = 0 if self.choice.mode == "none" or not self.tools else 4 if self.parallel else 1
        may_be_empty = self.answer.kind == "text"
        asked = {
            "a call or an answer": bool(calls) is not bool(answers) or (may_be_empty and not calls),
            "the call that is required": bool(calls) or self.choice.mode != "required",
            "as many calls as may be": len(calls) <= most,
            "an id for each call": len({call.call_id for call in calls}) == len(calls),
            "the finish reason": reply.reason is (FinishReason.TOOL_CALL if calls else FinishReason.STOP_EOS),
            "reasoning": any(m.channel == "analysis" for m in reply.messages) or not self.shape.get("reasoning"),
            "the arguments": all(map(self._may_call, calls)),
            "the form": all(self._has_form(answer.text) for answer in answers),
        }
        return [what for what, there in asked.items() if not there]

    def _may_call(self, call: Message) -> bool:
        offered = {tool.recipient: tool for tool in self.tools if tool.name in (self.choice.names or (tool.name,))}
        tool = offered.get(str(call.recipient))
        return tool is not None and jsonschema_rs.is_valid(tool.parameters or {}, json.loads(call.text))

    def _has_form(self, text: str) -> bool:
        match self.answer.kind:
            case "text":
                return True
            case "json_object":
                return isinstance(json.loads(text), dict)
            case "json_schema":
                return jsonschema_rs.is_valid(self.answer.schema or {}, json.loads(text))
            case "regex":
                return re.fullmatch(str(self.answer.pattern), text) is not None
            case "choice":
                return text in self.answer.choices


REQUIRED = ToolChoice("required")
THINK_FIRST = {"reasoning": "required"}
CONFIGURATIONS = {
    "auto": Configuration(TOOLS),
    "auto, thinks first": Configuration(TOOLS, shape=THINK_FIRST),
    "none": Configuration(TOOLS, ToolChoice("none")),
    "required": Configuration(TOOLS, REQUIRED),
    "required, one call, no preamble": Configuration(TOOLS, REQUIRED, parallel=False, shape={"preambles": False}),
    "named": Configuration(TOOLS, ToolChoice("required", ("add",))),
    "an answer": Configuration(),
    "a schema": Configuration(answer=HELD_PERSON),
    "thinks, then a schema": Configuration(answer=HELD_PERSON, shape=THINK_FIRST),
    "auto, or a schema": Configuration(TOOLS, answer=HELD_PERSON),
    "a pattern": Configuration(answer=ResponseFormat("regex", pattern="[A-Z]{3}-[0-9]{4}")),
    "a choice": Configuration(answer=ResponseFormat("choice", choices=("yes", "no", "maybe"))),
    "any object": Configuration(answer=ResponseFormat("json_object")),
}
ENDS = {"finished", "cut"}
"""How a reply may end."""
FORMATS = ("harmony", "openchatml", "chatml")


def format_named(name: str, controls: Collection[Control]) -> Format:
    """Harmony and OpenChatML spell their controls out for this vocabulary; the template has two tags."""
    match name:
        case "harmony":
            return harmony(controls)
        case "openchatml":
            return openchatml(controls)
        case _:
            return template_format(name, controls, tags=ReplyTags(reasoning=tags.THINK, calls=(tags.HERMES_CALL,)))


class Heard:
    """An engine whose words are noted: what was sampled is read again, strictly."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.ids: list[int] = []

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        affinity: str | None = None,
    ) -> AsyncGenerator[Step, None]:
        async with aclosing(self._engine.generate(prompt, sampling, n=n, grammar=grammar, affinity=affinity)) as steps:
            async for step in steps:
                self.ids += step.ids
                yield step

    async def embed(self, inputs: Sequence[Sequence[int]]) -> Embeddings:
        return await self._engine.embed(inputs)

    async def aclose(self) -> None:
        """The engine is not ours."""


@dataclass
class Check:
    """One model in one format, asked in every way."""

    engine: Engine
    tokenizer: Tokenizer
    format: Format
    compiler: ReplyCompiler = field(init=False)

    def __post_init__(self) -> None:
        self.compiler = ReplyCompiler(self.format, self.tokenizer, self.engine.info.end_ids)

    async def reply(self, asked: Configuration, seed: int) -> str:
        """``finished``, ``cut``, or what is wrong."""
        heard = Heard(self.engine)
        model = Model(
            name="m",
            engine=heard,
            tokenizer=self.tokenizer,
            format=self.format,
            compiler=self.compiler,
            thinking_budget=THINKING,
        )
        plan = plan_turn(model, asked.request(seed))
        shape = replace(shape_of(plan), **asked.shape)
        plan = replace(plan, held=await self.compiler.compile(shape, plan.prompt))
        try:
            (reply,) = await collect(run_turn(plan))
        except AntiphonError as error:
            return f"{error.code}: {error.message}"
        if reply.reason is FinishReason.LENGTH_OUTPUT:
            return "cut" if reply.usage.completion_tokens == MOST else f"cut after {reply.usage.completion_tokens}"
        faults = [*asked.faults(reply), *(incident.code for incident in reply.incidents)]
        return ", ".join([*faults, *self._strictly(plan, heard.ids, reply)]) or "finished"

    def _strictly(self, plan: Plan, ids: Sequence[int], reply: Reply) -> list[str]:
        """What the strict parser says of the same ids; the model's end token is for formats that have it for a stop."""
        parser = self.format.parser(prompt=plan.prompt, strict=True)
        ends = {self.tokenizer.piece(id) for id in self.engine.info.end_ids} - set(self.format.stops)
        try:
            pieces = [piece for piece in PieceDecoder(self.tokenizer).feed(ids) if piece not in ends]
            events = [*parser.feed(pieces), *parser.close()]
        except AntiphonError as error:
            return [f"strictly: {error.message}"]
        read = [event.message.text for event in events if isinstance(event, MessageEnded)]
        said = [str(message.text) for message in reply.messages]
        return [] if read == said else [f"strictly read as {read}, told as {said}"]

    async def run(self, asked: Configuration, seeds: Sequence[int]) -> Counter[str]:
        """How the replies of these seeds ended; as many at a time as the engine has slots."""
        room = asyncio.Semaphore(self.engine.info.slots)

        async def one(seed: int) -> str:
            async with room:
                return await self.reply(asked, seed)

        return Counter(await asyncio.gather(*map(one, seeds)))


def _told(ended: Counter[str]) -> str:
    wrong = sum(ended[what] for what in ended.keys() - ENDS)
    return f"{ended['finished']} finished, {ended['cut']} cut" + (f", {wrong} WRONG" if wrong else "")


async def main(path: Path, seeds: int) -> int:
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    settings = LlamaCppSettings(model=path, context=768, slots=SLOTS, threads=1, cache_mib=64)
    engine = await LlamaCppEngine.start(settings)
    wrong: Counter[str] = Counter()
    print(f"{seeds} seeds, temperature 1, {MOST} tokens at most\n")
    print(f"{'':<36}" + "".join(f"{name:>24}" for name in FORMATS))
    checks = [Check(engine, tokenizer, format_named(name, tokenizer.controls)) for name in FORMATS]
    for name, asked in CONFIGURATIONS.items():
        row = await asyncio.gather(*(check.run(asked, range(seeds)) for check in checks))
        print(f"{name:<36}" + "".join(f"{_told(ended):>24}" for ended in row), flush=True)
        for check, ended in zip(checks, row, strict=True):
            wrong += Counter({f"{check.format.name}, {name}: {what}": ended[what] for what in ended.keys() - ENDS})
    await engine.aclose()
    for what, count in wrong.items():
        print(f"{count} x {what}")
    return 1 if wrong else 0


def model_path() -> Path:
    """The file that ANTIPHON_TEST_MODEL names, else the store's."""
    named = os.environ.get("ANTIPHON_TEST_MODEL")
    store = ModelStore(Path(load_config(os.environ).config.store.folder))
    path = Path(named) if named else store.path("smollm2", builtin_catalogue()["smollm2"])
    assert path is not None, "the default model is not here: antiphon pull smollm2"
    return path


if __name__ == "__main__":
    sys.exit(asyncio.run(main(model_path(), int(os.environ.get("STRUCTURED_SEEDS", "30")))))
