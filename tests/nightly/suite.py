"""A neutral suite of recorded outputs, replayed over the chat API: the model's template, and no flag.

`canitoolcall` has 469 outputs of tests of vLLM, SGLang, llama.cpp and Ollama, of bug reports and of models' own
templates, with their token ids and what a client is to get. Its own checks judge what our server answers, whole and
streamed. The vocabularies are bytes and the controls of the model.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS as HARMONY
from antiphon.formats.template import jinja_format, program_format
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Control, ControlScanner, Piece
from kit.api import Got, in_process, sampled
from kit.family_templates import FAMILIES
from nightly.deepseek import CONTROLS as DEEPSEEK
from nightly.packages import LINTED, TRL

from canitoolcall.checks import case_status, run_checks  # isort: skip
from canitoolcall.fixtures import Fixture, load_families, load_fixtures  # isort: skip
from canitoolcall.results import Observation, ParsedToolCall, ParseResult, StreamAccumulator  # isort: skip

PROGRAMS = {
    "deepseek-ai/DeepSeek-V3.2": "deepseek-v3.2",
    "deepseek-ai/DeepSeek-V4-Flash": "deepseek-v4",
    "deepseek-ai/DeepSeek-V4.1-Flash": "deepseek-v4.1",
}
"""Models without a template, and our formats for them."""
TEMPLATES = {
    "Qwen/Qwen3-0.6B": LINTED / "Qwen-Qwen3-0.6B@a55ee1.jinja",
    "Qwen/Qwen3-4B-Instruct-2507": LINTED / "Qwen-Qwen3-4B-Instruct-2507.jinja",
    "Qwen/Qwen3-4B-Thinking-2507": LINTED / "Qwen-Qwen3-4B-Thinking-2507.jinja",
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": LINTED / "Qwen-Qwen3-Coder-30B-A3B-Instruct.jinja",
    "Qwen/Qwen3-Coder-Next": LINTED / "Qwen-Qwen3-Coder-Next.jinja",
    "Qwen/Qwen3.5-9B": LINTED / "Qwen3.5-4B.jinja",
    "Qwen/Qwen3.8-27B": TRL / "qwen3_8.jinja",
    "deepseek-ai/DeepSeek-V3-0324": LINTED / "LukeBailey181Pub-dspv2_guide.jinja",
    "deepseek-ai/DeepSeek-V3.1": LINTED / "tencent-DeepSeek-V3.1-Terminus-W4AFP8.jinja",
    "google/gemma-4-31B-it": LINTED / "google-gemma-4-26B-A4B-it.jinja",
    "meta-llama/Llama-3.3-70B-Instruct": LINTED / "meta-llama-Llama-3.1-8B-Instruct.jinja",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": LINTED / "trl-internal-testing-tiny-Llama4ForCausalLM.jinja",
    "mistralai/Devstral-Small-2507": LINTED / "unsloth-mistral-Devstral-Small-2507.jinja",
    "mistralai/Magistral-Small-2506": LINTED / "Mistral-Small-3.2-24B-Instruct-2506.jinja",
    "mistralai/Magistral-Small-2509": LINTED / "mistralai-Ministral-3-14B-Reasoning-2512.jinja",
    "mistralai/Ministral-3-14B-Instruct-2512": LINTED / "mistralai-Ministral-3-14B-Instruct-2512.jinja",
    "mistralai/Ministral-3-14B-Reasoning-2512": LINTED / "mistralai-Ministral-3-14B-Reasoning-2512.jinja",
    "mistralai/Mistral-7B-Instruct-v0.3": LINTED / "mistralai-Mistral-7B-Instruct-v0.3.jinja",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": LINTED / "Mistral-Small-3.2-24B-Instruct-2506.jinja",
    "moonshotai/Kimi-K2-Instruct-0905": LINTED / "moonshotai-Kimi-K2-Instruct-0905.jinja",
    "moonshotai/Kimi-K2.6": LINTED / "moonshotai-Kimi-K2.6.jinja",
    "zai-org/GLM-4.5": LINTED / "zai-org-GLM-4.5-Air.jinja",
    "zai-org/GLM-4.7": LINTED / "GLM-4.7-Flash.jinja",
    "zai-org/GLM-5.3": LINTED / "zai-org-GLM-5.2.jinja",
}
"""The template of each model, byte for byte where the suite names the hash of one at hand; else the nearest model's."""
KIMI_K3 = (
    FAMILIES["kimi k3"]
    + "{%- if add_generation_prompt %}{{ '<|open|>' + ('response' if thinking is false else 'think') + '<|sep|>' }}"
    + "{%- endif %}"
)
"""Our family's and the last words of a prompt: the model has a program instead, which is in no package."""

CONTROL = re.compile(
    r"<\|\"\|>|<\|[^|<>\n'\"{} ]+\|>|<\|\w+>|<\w+\|>|</?s>|<｜[^｜<>\n]+｜>|\[/?[A-Z_]{3,}\]"
    r"|</?(?:think|tool_call|tool_response|arg_key|arg_value)>|<(?:start|end)_of_\w+>"
)
NO_THINK = {"meta-llama", "mistralai", "google"}
"""Whose vocabularies have no ``<think>``."""
ENDS = ("<|im_end|>", "<｜end▁of▁sentence｜>", "<turn|>", "<|eot_id|>", "<|eot|>", "</s>", "<|end_of_msg|>", "<|user|>")
BEGINS = ("<｜begin▁of▁sentence｜>", "<|begin_of_text|>", "<s>", "<bos>")


@dataclass(frozen=True)
class Served:
    """A model of the suite as it is served."""

    format: Format
    tokenizer: ByteTokenizer

    @property
    def stops(self) -> list[int]:
        return [self.tokenizer.controls[stop] for stop in self.format.stops if isinstance(stop, Control)]

    def pieces(self, text: str) -> list[Piece]:
        scanner = ControlScanner(list(self.tokenizer.controls))
        return [*scanner.feed(text), *scanner.close()]


@cache
def served(model: str) -> Served:
    if model == "openai/gpt-oss-20b":
        return Served(Harmony(), ByteTokenizer(HARMONY))
    if model in PROGRAMS:
        texts = {"｜DSML｜", "" if model.endswith("V4.1-Flash") else "<｜System｜>"}  # as the vocabularies have them
        known = [one for one in DEEPSEEK if one.spelling not in texts]
        return Served(program_format(PROGRAMS[model], known), ByteTokenizer(known))
    source = KIMI_K3 if model == "moonshotai/Kimi-K3" else TEMPLATES[model].read_text("utf-8")
    families = (family for family in load_families().values() if model in {one.repo for one in family.reference_models})
    found = {*CONTROL.findall(source), *(mark for one in families for mark in one.markers if CONTROL.fullmatch(mark))}
    if model.partition("/")[0] in NO_THINK:
        found -= {"<think>", "</think>"}
    controls = [Control(spelling) for spelling in sorted(found)]
    special = {
        name: next((one for one in known if one in found), "")
        for name, known in (("bos_token", BEGINS), ("eos_token", ENDS))
    }
    return Served(jinja_format(source, controls, special), ByteTokenizer(controls))


# Recorded ids tell which spellings are controls: a model can write one as text.

TEKKEN = {9: "[TOOL_CALLS]", 32: "[ARGS]", 33: "[CALL_ID]", 34: "[THINK]", 35: "[/THINK]"}
GPT_OSS = {
    200002: "<|return|>",
    200003: "<|constrain|>",
    200005: "<|channel|>",
    200006: "<|start|>",
    200007: "<|end|>",
    200008: "<|message|>",
    200012: "<|call|>",
}


def reply_of(fixture: Fixture, model: Served) -> list[Piece]:
    """The recorded output as pieces."""
    pieces = model.pieces(fixture.raw_output)
    spelled = GPT_OSS if fixture.family == "gpt-oss" else TEKKEN if "Small" in fixture.reference_model else {}
    return as_recorded(pieces, fixture.output_token_ids or (), spelled) if spelled else pieces


def as_recorded(pieces: list[Piece], ids: Sequence[int], spelled: Mapping[int, str]) -> list[Piece]:
    """The pieces, where a spelling that no recorded id stands for is text: of several, the one that is farther off."""
    places = [at for at, id in enumerate(ids) if id in spelled]
    wanted = [spelled[ids[at]] for at in places]
    found = [i for i, piece in enumerate(pieces) if isinstance(piece, Control) and str(piece) in spelled.values()]
    starts = list(itertools.accumulate((len(str(piece)) for piece in pieces), initial=0))

    def away(kept: Sequence[int]) -> float:
        return sum(abs(starts[i] / starts[-1] - at / len(ids)) for i, at in zip(kept, places, strict=True))

    fitting = (kept for kept in itertools.combinations(found, len(wanted)) if [str(pieces[i]) for i in kept] == wanted)
    kept = min(fitting, key=away)
    return [str(piece) if i in found and i not in kept else piece for i, piece in enumerate(pieces)]


# The replay.


@dataclass(frozen=True)
class Case:
    """A row of the suite and how it went: pass, soft_pass (other blanks round a text) or fail."""

    id: str
    family: str
    status: str
    detail: str = ""


async def replayed(only: str = "") -> list[Case]:
    """Every row whose id has these letters."""
    families = load_families()
    return [await _case(fixture, families[fixture.family]) for fixture in load_fixtures() if only in fixture.id]


async def _case(fixture: Fixture, family: Any) -> Case:
    rows = run_checks(fixture, family, await observed(fixture))
    status = case_status(rows).value
    detail = next((row.detail or "" for row in rows if row.status.value == status), "")
    return Case(fixture.id, fixture.family, status, detail)


async def observed(fixture: Fixture) -> Observation:
    """What a client gets: whole, streamed at once, by the token, and in groups."""
    model = served(fixture.reference_model)
    reply = sampled(model.tokenizer, reply_of(fixture, model))
    ids = [*reply, *([32] if fixture.truncated else model.stops[:1])]  # what a limit cut would have gone on
    chunks = {"one": len(ids), "token": 1, "rand:1:8": random.Random(fixture.id).randint(2, 8)}

    async def answer(chunk: int, *, stream: bool) -> Got:
        engine = ScriptedEngine(ids, end_ids=frozenset(model.stops), chunk=chunk, context=1_000_000)
        spoken = Model(name="small", engine=engine, tokenizer=model.tokenizer, format=model.format)
        app = create_app(StaticCatalog({"small": spoken}), expose_reasoning=True)
        limit = len(reply) if fixture.truncated else len(ids) + 1
        return await in_process(app, model="small", stream=stream, max_tokens=limit, **dict(_fields(fixture, model)))

    return Observation(
        nonstream=whole(await answer(1, stream=False)),
        streams={name: streamed(await answer(chunk, stream=True)) for name, chunk in chunks.items()},
    )


def _fields(fixture: Fixture, model: Served) -> Iterator[tuple[str, Any]]:
    if fixture.tools:
        yield "tools", [dict(tool) for tool in fixture.tools]
    switches = [name for name in ("enable_thinking", "thinking") if name in model.format.arguments]
    if fixture.thinking is not None and switches:
        yield "chat_template_kwargs", dict.fromkeys(switches, fixture.thinking)


def whole(got: Got) -> ParseResult:
    if got.status != 200:
        return ParseResult(exception=f"HTTP{got.status}: {got.body[:300]!r}")
    message = got.json["choices"][0]["message"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return ParseResult(
        content=message.get("content"),
        reasoning_content=message.get("reasoning"),
        tool_calls=tuple(ParsedToolCall(call["name"], call["arguments"]) for call in calls),
    )


def streamed(got: Got) -> ParseResult:
    if got.status != 200:
        return ParseResult(exception=f"HTTP{got.status}: {got.body[:300]!r}")
    collected = StreamAccumulator()
    for event in got.events[:-1]:
        if "error" in event:
            return collected.result(exception=f"error: {event['error']}")
        for choice in event["choices"]:
            collected.add_openai_delta({**choice["delta"], "reasoning_content": choice["delta"].get("reasoning")})
    return collected.result()
