"""Grammars: how long they take to compile and to follow, beside plain llguidance and, where installed, xgrammar.

python bench/grammar.py MODEL.gguf              # times, with the model's vocabulary
python bench/grammar.py --harmony               # times of Harmony's, by the number of tools
python bench/grammar.py MODEL.gguf --decode     # tokens a second with a grammar and without, in the embedded engine
python bench/grammar.py --coverage SCHEMAS.jsonl   # which schemas and instances are taken; --refusals: why not
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from llguidance import LLMatcher

from antiphon.conversation import ResponseFormat, ToolSpec
from antiphon.engines import Sampling
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.errors import RequestError
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import openchatml
from antiphon.formats.openchatml.openchatml import OWN_ENDS
from antiphon.formats.template import template_format
from antiphon.generation.compile import ReplyCompiler
from antiphon.grammar import EndOfTurn, Json, ReplyShape, chain
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import ByteTokenizer, Control, Tokenizer, gguf_tokenizer, o200k_harmony

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from kit.own_order import OwnOrder  # The tests' measure of what a grammar should accept.

BYTES = ByteTokenizer(["<eos>"])
END = 256
HARMONY_STOPS = (Control("<|return|>"), Control("<|call|>"))
PATIENCE = 10.0
"""Seconds that a peer has for one schema."""


def tools(count: int) -> tuple[ToolSpec, ...]:
    parameters = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city and its country."},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    return tuple(ToolSpec(f"tool_{i}", f"Tool {i}.", {**parameters, "title": str(i)}) for i in range(count))


def large_schema() -> dict[str, Any]:
    """72 KB of nested objects."""
    field = {
        "type": "object",
        "description": "A field of the record, with its name, its kind and its number.",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "kind": {"enum": ["a", "b", "c"]},
            "number": {"type": "integer", "minimum": 0, "maximum": 100},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    fields = {f"field_{i}": field for i in range(225)}
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def best(work: Callable[[], object], repeat: int = 15) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def speed(tokenizer: Tokenizer, end_ids: list[int]) -> None:
    start = time.perf_counter()
    vocabulary = Vocabulary(tokenizer, end_ids)
    print(f"vocabulary of {tokenizer.size} ids, once a model: {time.perf_counter() - start:.2f} s\n")
    spelled, schema = openchatml(tokenizer.controls), large_schema()
    plain = template_format("chatml", tokenizer.controls)
    with_schema = ReplyShape(response_format=ResponseFormat("json_schema", schema=schema))
    size = len(json.dumps(schema)) // 1000
    rows: dict[str, tuple[Format, ReplyShape]] = {
        "a turn, no tools": (spelled, ReplyShape()),
        "a turn, 50 tools": (spelled, ReplyShape(tools=tools(50))),
        "a turn, 50 tools, ChatML": (plain, ReplyShape(tools=tools(50))),
        f"a schema of {size} KB": (plain, with_schema),
        f"a schema of {size} KB, controls spelled out": (spelled, with_schema),
    }
    print(f"{'':<42}{'compile':>12}{'plain llguidance':>20}{'ratio':>8}{'again':>12}")
    for name, (format, shape) in rows.items():
        grammar = format.grammar(shape)
        compiled = compile_grammar(grammar, vocabulary)
        own = best(partial(compile_grammar, grammar, vocabulary))
        peer = best(partial(first_mask, vocabulary, compiled.lark))
        again = asyncio.run(cached(ReplyCompiler(format, tokenizer, end_ids), shape))
        print(f"{name:<42}{own * 1e3:>9.2f} ms{peer * 1e3:>17.2f} ms{peer / own:>8.2f}{again * 1e6:>9.0f} us")
    followed = shadow(compile_grammar(spelled.grammar(ReplyShape()), vocabulary), tokenizer)
    print(f"\nfollowing a reply: {followed:.2f} us an id")


def harmony_speed() -> None:
    """What another tool costs, where a call has many spellings."""
    tokenizer = o200k_harmony()
    vocabulary = Vocabulary(tokenizer, [tokenizer.controls[stop] for stop in HARMONY_STOPS])
    print(f"{'Harmony':<42}{'compile':>12}{'text':>20}")
    for count in (1, 10, 50, 200):
        grammar = Harmony().grammar(ReplyShape(tools=tools(count)))
        text = compile_grammar(grammar, vocabulary).lark
        own = best(partial(compile_grammar, grammar, vocabulary))
        print(f"{f'a turn, tools: {count}':<42}{own * 1e3:>9.2f} ms{len(text):>9} characters")


def first_mask(vocabulary: Vocabulary, lark: str) -> None:
    matcher = LLMatcher(vocabulary.tokens, lark, log_level=0)
    matcher.compute_bitmask()


async def cached(replies: ReplyCompiler, shape: ReplyShape) -> float:
    """The next reply of the shape, whose calls have ids of their own."""
    await replies.compile(shape)
    times = []
    for count in range(200):
        other = replace(shape, call_ids=tuple(f"call_{count:015}{place}" for place in range(len(shape.call_ids))))
        start = time.perf_counter()
        await replies.compile(other)
        times.append(time.perf_counter() - start)
    return min(times)


def shadow(grammar: CompiledGrammar, tokenizer: Tokenizer) -> float:
    """Microseconds an id, fed one by one as they stream."""
    ids = tokenizer.encode("<|channel|>final<|message|>" + "The quick brown fox jumps over the lazy dog. " * 100)

    def follow() -> None:
        matcher = grammar.matcher()
        for id in ids:
            assert matcher.consume((id,)) is None

    return best(follow) / len(ids) * 1e6


def vocabulary_of(path: Path) -> tuple[Tokenizer, list[int]]:
    """The model's vocabulary, and its own end tokens."""
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    ends = [id for control in map(Control, OWN_ENDS) if (id := tokenizer.control_id(control)) is not None]
    return tokenizer, ends


# -- decoding --------------------------------------------------------------------------------------------------------

TOKENS = 96
ROUNDS = 7


async def decode(path: Path, tokenizer: Tokenizer, end_ids: list[int]) -> None:
    """The same request under each grammar, a round of all of them at a time; medians, and each beside the first."""
    spelled = openchatml(tokenizer.controls)
    item = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "maximum": 130}}}
    people = {"type": "array", "items": {**item, "required": ["name", "age"]}, "minItems": 20}
    vocabulary = Vocabulary(tokenizer, end_ids)
    shapes = {
        "a turn": ReplyShape(tools=tools(2)),
        "a schema": ReplyShape(response_format=ResponseFormat("json_schema", schema=people)),
    }
    grammars = {name: compile_grammar(spelled.grammar(shape), vocabulary).lark for name, shape in shapes.items()}
    engine = await LlamaCppEngine.start(LlamaCppSettings(model=path, context=512, slots=1, threads=1, cache_mib=0))
    prompt = tokenizer.encode("A list of all people in the house, with their names and ages, follows here:")
    paces: dict[str, list[tuple[float, float]]] = {name: [] for name in ("no grammar", *grammars)}
    for seed in range(ROUNDS):
        for name, times in paces.items():
            times.append(await pace(engine, prompt, grammars.get(name), seed))
    await engine.aclose()
    print(f"\n{ROUNDS} rounds of {TOKENS} tokens{'':<22}{'tokens/s':>12}{'ratio':>8}{'cpu ms/token':>16}{'ratio':>8}")
    speeds = {
        name: (median(rate for rate, _ in times), median(cpu for _, cpu in times)) for name, times in paces.items()
    }
    free, free_cpu = speeds["no grammar"]
    for name, (rate, cpu) in speeds.items():
        print(f"{name:<42}{rate:>12.1f}{rate / free:>8.2f}{cpu * 1e3:>16.2f}{free_cpu / cpu:>8.2f}")


async def pace(engine: LlamaCppEngine, prompt: list[int], grammar: str | None, seed: int) -> tuple[float, float]:
    """Tokens a second after the first, and seconds of processor time that the engine's process took for each."""
    # Without an end: a reply that stops early would be measured on other tokens.
    sampling = Sampling(max_tokens=TOKENS, temperature=1.0, seed=seed, ignore_eos=grammar is None)
    count, started, spent = 0, 0.0, 0.0
    async with aclosing(engine.generate(prompt, sampling, grammar=grammar)) as steps:
        async for step in steps:
            if not count:
                started, spent = time.perf_counter(), children_time()
            count += len(step.ids)
    tokens = max(1, count - 1)
    return tokens / (time.perf_counter() - started), (children_time() - spent) / tokens


def children_time() -> float:
    """Seconds of processor time of this process's living children: the engine is the only one."""
    ticks = 0
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


# -- coverage ---------------------------------------------------------------------------------------------------------

Judge = Callable[[bytes], bool]
Verdict = tuple[dict[str, Any], list[bool] | str]


def antiphon_judge(schema: Any, *, strict: bool, final: bool) -> Judge:
    grammar = compile_grammar(chain(Json(schema, "s", strict=strict), EndOfTurn()), Vocabulary(BYTES, [END]))

    def judge(text: bytes) -> bool:
        matcher = grammar.matcher()
        fits = matcher.consume([*text, END]) is None and matcher.accepting
        return fits and (not final or grammar.schemas["s"].fault(text.decode("utf-8", "replace")) is None)

    return judge


def llguidance_judge(schema: Any) -> Judge:
    lark = f"%llguidance {{}}\nstart: %json {json.dumps(schema)} <[{END}]>\n"
    matcher = LLMatcher(Vocabulary(BYTES, [END]).tokens, lark, log_level=0)
    matcher.deep_copy().compute_bitmask()
    if matcher.get_error():
        raise ValueError(matcher.get_error())

    def judge(text: bytes) -> bool:
        follower = matcher.deep_copy()
        return follower.try_consume_tokens([*text, END]) == len(text) + 1

    return judge


def xgrammar_judge(schema: Any) -> Judge:
    import xgrammar

    words = [bytes([byte]) for byte in range(256)]
    info = xgrammar.TokenizerInfo([*words, b"<eos>"], xgrammar.VocabType.RAW, vocab_size=257, stop_token_ids=[END])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)
    grammar = compiler.compile_json_schema(
        json.dumps(schema), any_whitespace=False, separators=(",", ":"), strict_mode=False
    )

    def judge(text: bytes) -> bool:
        matcher = xgrammar.GrammarMatcher(grammar)
        return bool(matcher.accept_string(text) and matcher.accept_token(END))

    return judge


SIDES: dict[str, Callable[[Any], Judge]] = {
    "antiphon": lambda schema: antiphon_judge(schema, strict=False, final=True),
    "antiphon, strict": lambda schema: antiphon_judge(schema, strict=True, final=True),
    "antiphon, strict, no final check": lambda schema: antiphon_judge(schema, strict=True, final=False),
    "llguidance 1.0.1": llguidance_judge,
    **({"xgrammar": xgrammar_judge} if find_spec("xgrammar") else {}),
}


def verdicts(side: Callable[[Any], Judge], row: dict[str, Any], replies: Connection) -> None:
    """In a process of its own: a peer may run on, or die."""
    try:
        judge = side(row["schema"])
        order = OwnOrder(row["schema"])
        replies.send([taken(judge, test, order) for test in row["tests"]])
    except (RequestError, ValueError, RuntimeError) as error:
        replies.send(str(error))


def taken(judge: Judge, test: dict[str, Any], order: OwnOrder) -> bool:
    """Whether an instance is accepted: a valid one in the order of its schema's objects, another in any of two."""
    own = judge(compact(order.write(test["data"])))
    return own or (not test["valid"] and judge(compact(test["data"])))


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def coverage(path: Path, refusals: bool) -> None:
    """A table for each source of schemas in the file."""
    with path.open() as lines:
        rows = [json.loads(line) for line in lines]
    for source in sorted({row["source"] for row in rows}):
        of_source = [row for row in rows if row["source"] == source]
        print(f"\n{len(of_source)} schemas of {source}\n")
        print(f"{'':<34}{'refused':>9}{'valid accepted':>26}{'invalid accepted':>20}")
        for name, side in SIDES.items():
            tell(name, list(judged(side, of_source)), refusals)


def tell(name: str, verdicts: list[Verdict], refusals: bool) -> None:
    seen: Counter[tuple[bool, bool]] = Counter()
    for row, found in verdicts:
        if isinstance(found, list):
            seen.update((test["valid"], accepted) for test, accepted in zip(row["tests"], found, strict=True))
    refused = [(row["id"], found) for row, found in verdicts if not isinstance(found, list)]
    of = {valid: f"{seen[valid, True]} of {seen[valid, True] + seen[valid, False]}" for valid in (True, False)}
    share = seen[True, True] / max(1, seen[True, True] + seen[True, False])
    print(f"{name:<34}{len(refused):>9}{of[True]:>17} ({share:6.2%}){of[False]:>20}", flush=True)
    for id, reason in refused if refusals and name.startswith("antiphon") else ():
        print(f"    {id}: {reason}")


def judged(side: Callable[[Any], Judge], rows: list[dict[str, Any]]) -> Iterator[Verdict]:
    context = multiprocessing.get_context("fork")
    for row in rows:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=verdicts, args=(side, row, there))
        process.start()
        there.close()
        try:
            found = here.recv() if here.poll(PATIENCE) else "it takes too long"
        except EOFError:
            found = "the engine died"
        process.kill()
        process.join()
        yield row, found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model", nargs="?", type=Path)
    arguments.add_argument("--coverage", type=Path)
    arguments.add_argument("--refusals", action="store_true", help="with --coverage: why each schema is refused")
    arguments.add_argument("--decode", action="store_true")
    arguments.add_argument("--harmony", action="store_true")
    given = arguments.parse_args()
    if given.coverage:
        coverage(given.coverage, given.refusals)
    if given.harmony:
        harmony_speed()
    if given.model and given.decode:
        asyncio.run(decode(given.model, *vocabulary_of(given.model)))
    elif given.model:
        speed(*vocabulary_of(given.model))


if __name__ == "__main__":
    main()
