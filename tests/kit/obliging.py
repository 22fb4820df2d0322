"""A model that writes whatever its grammar lets it, and closes what it opened as soon as it may."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import fields
from random import Random
from typing import Any

from llguidance import LLMatcher
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine, Step
from antiphon.engines.engine import SAMPLING
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.grammar.compiler import Vocabulary
from kit.api import CHATML, END, TOKENIZER, ids, token_bytes
from kit.obedient import counting

ENDS = frozenset({TOKENIZER.controls[END]})
CLOSERS = [TOKENIZER.controls[END], *b'"}]0,:']
"""What ends a reply, a text, an object, a list or a number, the first that may come first."""
HELLO = ids("Hello!", END)
EVERY = SAMPLING | {field.name for field in fields(Sampling)}
"""Settings that only one engine honours are honoured here, too."""


class GrammarEngine(ScriptedEngine):
    """Writes what `write` makes of a grammar; it notes each request as a scripted engine does."""

    def write(self, grammar: str | None, prompt: Sequence[int], sampling: Sampling) -> Sequence[int]:
        raise NotImplementedError

    async def generate(
        self, prompt: Sequence[int], sampling: Sampling, *, grammar: str | None = None, **options: Any
    ) -> AsyncGenerator[Step, None]:
        self.requests.append((tuple(prompt), sampling, grammar))
        played = ScriptedEngine(
            lambda prompt, sampling, choice: self.write(grammar, prompt, sampling), context=self.info.context,
            end_ids=self.info.end_ids, chunk=self._chunk, token_bytes=self._token_bytes, honours=self.info.honours,
        )  # fmt: skip
        async with aclosing(played.generate(prompt, sampling, grammar=grammar, **options)) as steps:
            async for step in steps:
                yield step


class ObligingEngine(GrammarEngine):
    """Says a greeting where nothing else is requested; the seed is the prompt's length, so that answers repeat."""

    def __init__(self, honours: frozenset[str] = EVERY) -> None:
        super().__init__(HELLO, end_ids=ENDS, token_bytes=token_bytes, honours=honours)
        self._vocabulary = Vocabulary(TOKENIZER, ENDS)

    def write(self, grammar: str | None, prompt: Sequence[int], sampling: Sampling) -> Sequence[int]:
        return HELLO if grammar is None else self._reply(grammar, Random(len(prompt)), sampling.max_tokens)

    def _reply(self, grammar: str, random: Random, most: int, begin: Sequence[int] = ()) -> list[int]:
        """Up to one id beyond ``most``, so that a reply that comes to it is cut there, and does not end by itself.

        It begins with as much of ``begin`` as the grammar takes.
        """
        matcher = LLMatcher(self._vocabulary.tokens, grammar, log_level=0)
        written = list(begin[: matcher.validate_tokens(list(begin))])
        matcher.consume_tokens(written)
        while not matcher.is_stopped() and len(written) <= min(most, 2000):
            mask = matcher.compute_bitmask()
            closing = next((id for id in CLOSERS if mask[id // 8] >> id % 8 & 1), None)
            if closing is None or random.random() < 0.2:
                allowed = [id for id in range(TOKENIZER.size) if mask[id // 8] >> id % 8 & 1]
                closing = random.choice(allowed)
            matcher.consume_token(closing)
            written.append(closing)
        return written


def constrained(engine: ScriptedEngine, name: str = "small", **fields: Any) -> Model:
    """A model with a compiler of grammars."""
    compiler = ReplyCompiler(CHATML, TOKENIZER, ENDS)
    return Model(name=name, engine=engine, tokenizer=TOKENIZER, format=CHATML, compiler=compiler, **fields)


def chatting_and_embedding() -> Starlette:
    """A server with the names of the default models: ``smollm2`` writes, ``minilm`` embeds. It hides nothing."""
    catalog = StaticCatalog({"smollm2": constrained(ObligingEngine(), "smollm2"), "minilm": counting()})
    return create_app(catalog, expose_reasoning=True)
