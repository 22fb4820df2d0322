"""A server whose model does what its user says: ``obedient.py [PORT]`` prints its URL and serves until it is stopped.

The last order in the prompt decides: ``say: TEXT`` does so, ``call: NAME ARGUMENTS`` calls the tool, and once a result
is there the model says ``it said: RESULT``. ``plan: call NAME ARGUMENTS ;; call NAME ARGUMENTS ;; say TEXT`` takes a
step a result. ``lose: TEXT`` begins to say it, then the engine is lost. Without an order it says ``Hello!``.
Models: ``small`` (ChatML; fills in, too), ``oss`` (Harmony, thinks first) and ``count`` (vectors of two dimensions).
"""

from __future__ import annotations

import ipaddress
import json
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Embeddings, EngineInfo, ScriptedEngine, Step
from antiphon.errors import EngineLostError
from antiphon.formats.raw import FillInMiddle, RawFormat
from antiphon.generation import EmbeddingSpec, Model, RankingSpec
from antiphon.generation.compile import ReplyCompiler
from antiphon.http.server.server import Server
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import ByteTokenizer, Control, Piece, decode
from antiphon.tools.mcp import ClientServers
from kit.api import CALL, CHATML, END, THINK, TOKENIZER, UNCALL, UNTHINK, ids, token_bytes
from kit.api import START as TURN
from kit.responses import CALL as OSS_CALL
from kit.responses import CHANNEL, CONSTRAIN, HARMONY, MESSAGE, RETURN, START, VOCABULARY, harmony_ids
from kit.responses import END as OSS_END

ORDER = re.compile(r"(say|call|lose|plan): ((?:(?!<\|).)*)")
STEP = re.compile(r"(say|call):? (.*)")
RESULT = re.compile(
    r"<tool_response>\n(.*?)\n</tool_response>|to=assistant[^\n]*?<\|message\|>(.*?)<\|end\|>", re.DOTALL
)
"""A tool's result in a ChatML and in a Harmony prompt."""
OWN = re.compile(r"<\|(?:im_)?start\|>assistant.*?<\|(?:im_end|end|call|return)\|>", re.DOTALL)
"""A message of the model's in either."""


def order(prompt: str) -> tuple[str, str]:
    """What the model is to do: the last order is followed, a call until its result is there, which is reported.

    A plan goes on by a step with each result. What a tool or the model itself said is no order.
    """
    results = list(RESULT.finditer(prompt))
    others = [*results, *OWN.finditer(prompt)]
    orders = [
        found
        for found in ORDER.finditer(prompt)
        if not any(other.start() < found.start() < other.end() for other in others)
    ]
    if not orders:
        return ("say", told(results[-1])) if results else ("say", "Hello!")
    last = orders[-1]
    steps = planned(last[2]) if last[1] == "plan" else [(last[1], last[2])]
    done = [result for result in results if result.start() > last.start()]
    if len(done) < len(steps):
        return steps[len(done)]
    return steps[-1] if steps[-1][0] != "call" else ("say", told(done[-1]))


def planned(steps: str) -> list[tuple[str, str]]:
    """A plan's steps, each an order; a text alone is said."""
    return [
        (found[1], found[2]) if (found := STEP.fullmatch(step)) else ("say", step)
        for step in map(str.strip, steps.split(";;"))
    ]


def told(result: re.Match[str]) -> str:
    return f"it said: {result[1] or result[2]}"


def compact(text: str) -> str:
    """JSON as the grammars of replies have it, without blanks; other text as it is."""
    with suppress(ValueError):
        return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    return text


def spaced(arguments: str) -> str:
    """A call's arguments as its template writes them, which is how the grammar has them."""
    return json.dumps(json.loads(arguments), ensure_ascii=False)


def small(prompt: Sequence[int], sampling: object, choice: int) -> Sequence[int]:
    """The reply in ChatML."""
    verb, rest = order(decode(TOKENIZER, prompt))
    if verb != "call":
        return ids(compact(rest), END)
    name, _, arguments = rest.partition(" ")
    return ids(CALL, f'\n{{"name": "{name}", "arguments": {spaced(arguments)}}}\n', UNCALL, END)


def oss(prompt: Sequence[int], sampling: object, choice: int) -> Sequence[int]:
    """The reply in Harmony, with a thought before it."""
    verb, rest = order(decode(VOCABULARY, prompt))
    thought: tuple[Piece, ...] = (CHANNEL, "analysis", MESSAGE, "An order.", OSS_END)
    if verb != "call":
        return harmony_ids(*thought, START, "assistant", CHANNEL, "final", MESSAGE, compact(rest), RETURN)
    name, _, arguments = rest.partition(" ")
    header = (START, f"assistant to=functions.{name}", CHANNEL, "commentary ", CONSTRAIN, "json")
    return harmony_ids(*thought, *header, MESSAGE, compact(arguments), OSS_CALL)


class LosingEngine(ScriptedEngine):
    """Is lost after three steps of an answer to ``lose``."""

    async def generate(self, prompt: Sequence[int], *args: Any, **options: Any) -> AsyncGenerator[Step, None]:
        lost = order(decode(TOKENIZER, prompt))[0] == "lose"
        left = 3
        async with aclosing(super().generate(prompt, *args, **options)) as steps:
            async for step in steps:
                if lost and not left:
                    raise EngineLostError("the engine was lost, as it was asked to be")
                left -= 1
                yield step


class CountingEngine(ScriptedEngine):
    """Embeds a text as how long it is and how many different ids it has."""

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(name="count", context=512, slots=4, honours=frozenset(), embeddings=True)

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        vectors = tuple((float(len(one)), float(len(set(one)))) for one in inputs)
        return Embeddings(vectors, sum(map(len, inputs)))


def counting() -> Model:
    begin, end = Control("<s>"), Control("</s>")
    tokenizer = ByteTokenizer([begin, end])
    format = RawFormat(tokenizer.controls, begin=[begin], end=[end])
    return Model(
        name="count", engine=CountingEngine([]), tokenizer=tokenizer, format=format, embedding=EmbeddingSpec(2)
    )


def words(query: str, document: str) -> float:
    """The share of the query's words that the document has."""
    wanted = query.split()
    return sum(word in document.split() for word in wanted) / len(wanted)


def matching(*, context: int = 64) -> Model:
    """A cross-encoder that counts words; a byte is a token, and three frame a pair."""
    engine = ScriptedEngine([], slots=4, context=context, scoring=words)
    return Model(name="cross", engine=engine, tokenizer=ByteTokenizer(), format=RawFormat(), ranking=RankingSpec(3))


def catalog(context: int = 65536) -> StaticCatalog:
    """The three models; ``context`` is that of those that write, in bytes."""
    chatml_end, harmony_end = TOKENIZER.controls[END], {VOCABULARY.controls[end] for end in (RETURN, OSS_CALL)}
    return StaticCatalog(
        {
            "small": Model(
                name="small",
                engine=LosingEngine(small, end_ids=frozenset({chatml_end}), token_bytes=token_bytes, context=context),
                tokenizer=TOKENIZER,
                format=CHATML,
                infill=FillInMiddle(THINK, TURN, UNTHINK),
                compiler=ReplyCompiler(CHATML, TOKENIZER, {chatml_end}),
            ),
            "oss": Model(
                name="oss",
                engine=ScriptedEngine(oss, end_ids=frozenset(harmony_end), context=context),
                tokenizer=VOCABULARY,
                format=HARMONY,
                compiler=ReplyCompiler(HARMONY, VOCABULARY, harmony_end),
            ),
            "count": counting(),
        }
    )


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    here = ClientServers((ipaddress.ip_network("127.0.0.0/8"),))
    application = create_app(catalog(2**20), client_mcp=here)
    Server(application, port=port, on_ready=lambda url: print(url, flush=True)).run()
