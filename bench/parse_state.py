"""A reply of 100,000 tokens read part by part through the state of POST /v1/parse: what a token costs at its end.

    python bench/parse_state.py [--tokens 100000] [--part 100]

Each part is a request of its own to an application in process, with the state of the part before, as another replica
would get it. Per shape of reply: microseconds of processor time for a token among the first and the last 10,000, their
ratio, which is that of requests one after the other (medians of five rounds), and the longest state. Whole: the same
tokens in one request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import httpx

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.config import Limits
from antiphon.engines import ScriptedEngine
from antiphon.formats.harmony import Harmony
from antiphon.formats.template import template_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import Model
from antiphon.tokens import ControlScanner, Tokenizer, encode_pieces, o200k_harmony

PROSE = (
    "The reader takes what the model says, one token after the other, and tells reasoning from the answer. It says:\n\n"
    '- "Nothing is lost"; `x < 3` is text, and so is <b>.\n- 東京 and é are text too.\n\n'
)
CODE = 'def f(x):\\n    return \\"a\\" if x < 3 else {\\"b\\": [x, \\u00e9]}\\n\\n'
TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}},
}
LAST, ROUNDS = 10_000, 5


def repeated(text: str, tokenizer: Tokenizer, count: int) -> str:
    return text * (1 + count // len(tokenizer.encode(text)))


SHAPES: dict[str, tuple[str, Callable[[str], str]]] = {
    "an answer": (PROSE, lambda text: text),
    "reasoning": (PROSE, lambda text: f"<think>\n{text}"),
    "a call's string": (CODE, lambda text: f'<tool_call>\n{{"name": "f", "arguments": {{"text": "{text}'),
    "a call's numbers": (
        "[1, -2.5, 3e4], ",
        lambda text: f'<tool_call>\n{{"name": "f", "arguments": {{"text": [{text}',
    ),
}


def models(context: int) -> Iterator[tuple[str, Model]]:
    tokenizer = o200k_harmony()
    engine = ScriptedEngine([], context=context)
    yield (
        "template",
        Model(
            name="template",
            engine=engine,
            tokenizer=tokenizer,
            format=template_format("chatml", tokenizer.controls.keys(), replies=QWEN),
        ),
    )
    yield "harmony", Model(name="harmony", engine=engine, tokenizer=tokenizer, format=Harmony())


def in_harmony(shape: str, text: str) -> str:
    """The same said in Harmony's frames."""
    if shape.startswith("a call"):
        body = '{"text": "' if "string" in shape else '{"text": ['
        return f"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{body}{text}"
    return f"<|channel|>{'analysis' if shape == 'reasoning' else 'final'}<|message|>{text}"


def ids_of(model: Model, shape: str, count: int) -> list[int]:
    text, begun = SHAPES[shape]
    said = repeated(text, model.tokenizer, count)
    scanner = ControlScanner(model.format.controls)
    spelled = in_harmony(shape, said) if model.name == "harmony" else begun(said)
    return list(encode_pieces([*scanner.feed(spelled), *scanner.close()], model.tokenizer))[:count]


async def ask(client: httpx.AsyncClient, **body: Any) -> Any:
    answer = await client.post("/v1/parse", content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def measured(client: httpx.AsyncClient, model: Model, shape: str, tokens: int, part: int) -> str:
    """One line of the table. Parts of the beginning and of the end are asked again in turns: nothing is kept."""
    ids, same = ids_of(model, shape, tokens), {"model": model.name, "tools": [TOOL]}
    state, bodies, longest = "", list[dict[str, Any]](), 0
    for at in range(0, len(ids), part):
        bodies.append({"ids": ids[at : at + part], "state": state, **same})
        state = (await ask(client, **bodies[-1]))["state"]
        longest = max(longest, len(state))
    many = LAST // part
    sides = bodies[1 : 1 + many], bodies[-many:]
    pairs = [
        [await cost(client, body) / part for body in pair] for _ in range(ROUNDS) for pair in zip(*sides, strict=True)
    ]
    begun = time.process_time()
    await ask(client, ids=ids, **same)
    whole = (time.process_time() - begun) / len(ids) * 1e6
    first, last, ratio = map(median, zip(*((a, b, b / a) for a, b in pairs), strict=True))
    return f"{model.name:9} {shape:17} {first:8.1f} {last:8.1f} {ratio:6.2f} {longest:8} {whole:8.1f}"


async def cost(client: httpx.AsyncClient, body: dict[str, Any]) -> float:
    """Microseconds of processor time of a request."""
    begun = time.process_time()
    await ask(client, **body)
    return (time.process_time() - begun) * 1e6


async def main(tokens: int, part: int) -> None:
    made = dict(models(2 * tokens))
    app = create_app(StaticCatalog(made), limits=Limits(max_body=2**26))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://bench") as client:
        print(f"{'':27} first µs  last µs  ratio    state whole µs")
        for model in made.values():
            for shape in SHAPES:
                print(await measured(client, model, shape, tokens, part), flush=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tokens", type=int, default=100_000)
    arguments.add_argument("--part", type=int, default=100)
    given = arguments.parse_args()
    asyncio.run(main(given.tokens, given.part))
