"""Models that write what their grammar lets them, as the embedded engine masks them: one for each format.

The engine tokenizes what a grammar forces with its controls read as controls, and goes on without a grammar that comes
to nothing. So does `MaskedEngine`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling
from antiphon.formats import Format
from antiphon.formats.harmony import harmony
from antiphon.formats.openchatml import openchatml
from antiphon.formats.template import template_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import ByteTokenizer, Control
from kit.api import CHATML, END, TOKENIZER
from kit.obliging import GrammarEngine
from kit.responses import HARMONY, VOCABULARY

FORMATS: dict[str, tuple[Format, ByteTokenizer, Control]] = {
    "chatml": (CHATML, TOKENIZER, END),
    "harmony": (HARMONY, VOCABULARY, Control("<|return|>")),
    "openchatml": (openchatml(HARMONY.controls), VOCABULARY, Control("<|return|>")),
}


def _spelled_out() -> None:
    """Vocabularies that have only an end: all other controls of these formats are spelled out."""
    alone = ByteTokenizer([END])
    FORMATS["harmony, spelled out"] = (harmony(alone.controls), alone, END)
    FORMATS["openchatml, spelled out"] = (openchatml(alone.controls), alone, END)
    FORMATS["chatml, spelled out"] = (
        template_format("chatml", alone.controls, replies=QWEN),
        alone,
        END,
    )


_spelled_out()
HURRY = 40
"""After so many ids a model closes what it can."""


class EngineTokens:
    """The vocabulary as llama.cpp shows it to llguidance: a control that is spelled in forced text is that control."""

    def __init__(self, tokenizer: ByteTokenizer, end_id: int) -> None:
        pieces = [tokenizer.piece(id) for id in range(tokenizer.size)]
        self.tokens = [p.spelling.encode() if isinstance(p, Control) else p for p in pieces]
        self.special_token_ids = sorted(tokenizer.controls.values())
        self.eos_token_id = end_id
        self.bos_token_id = None
        self._controls: Mapping[str, int] = {str(control): id for control, id in tokenizer.controls.items()}
        self._spelled = re.compile(f"({'|'.join(map(re.escape, self._controls))})")
        self._encode = tokenizer.encode

    def __call__(self, text: bytes) -> list[int]:
        ids: list[int] = []
        for part in self._spelled.split(text.decode("utf-8", "replace")):
            ids += [self._controls[part]] if part in self._controls else self._encode(part)
        return ids


class MaskedEngine(GrammarEngine):
    """Samples at random below its mask, and after `HURRY` ids what closes; its seed is the prompt's length."""

    def __init__(self, tokenizer: ByteTokenizer, end: Control) -> None:
        self._end = tokenizer.controls[end]
        super().__init__([self._end], end_ids=frozenset({self._end}), chunk=8, context=65536)
        self._vocabulary = tokenizer
        self._tokens = LLTokenizer(TokenizerWrapper(EngineTokens(tokenizer, self._end)))
        closers = [*sorted(tokenizer.controls.values()), *b'"}]0e1-aA2,:.']
        self._closers: Sequence[int] = closers

    def write(self, grammar: str | None, prompt: Sequence[int], sampling: Sampling) -> Sequence[int]:
        return [self._end] if grammar is None else self.reply(grammar, Random(len(prompt)), sampling.max_tokens)

    def reply(self, grammar: str, random: Random, most: int) -> list[int]:
        """Ids below the grammar's masks, up to the end that ends it."""
        matcher = LLMatcher(self._tokens, grammar, log_level=0)
        said: list[int] = []
        while not matcher.is_stopped() and len(said) < min(most, 600):
            id = self._sampled(allowed(matcher.compute_bitmask(), self._vocabulary.size), random, len(said))
            if id is None or not matcher.consume_token(id):
                return [*said, *self._unconstrained(random, most - len(said))]
            said.append(id)
        return said if said and said[-1] == self._end else [*said, self._end]

    def _unconstrained(self, random: Random, most: int) -> list[int]:
        """What follows where nothing can follow, or where the grammar broke: llama.cpp goes on without it."""
        return [*random.choices(b"abc", k=min(most, random.randrange(200))), *b'"}', self._end]

    def _sampled(self, ids: Sequence[int], random: Random, place: int) -> int | None:
        if not ids:
            return None
        closing = next((id for id in self._closers if id in ids), None) if place > HURRY else None
        return random.choice(ids) if closing is None or random.random() < 0.1 else closing


def allowed(mask: bytes, size: int) -> list[int]:
    """The ids of a mask, in order."""
    bits = np.unpackbits(np.frombuffer(mask, np.uint8), count=size, bitorder="little")
    ids: list[int] = np.flatnonzero(bits).tolist()
    return ids


def masked(name: str) -> Model:
    """A model of this format, with a compiler."""
    format, tokenizer, end = FORMATS[name]
    compiler = ReplyCompiler(format, tokenizer, {tokenizer.controls[end]}, seconds=60)
    return Model(
        name=name, engine=MaskedEngine(tokenizer, end), tokenizer=tokenizer, format=format,
        compiler=compiler, thinking_budget=20,
    )  # fmt: skip


def masked_app() -> Starlette:
    """A server with a model for each format."""
    return create_app(StaticCatalog({name: masked(name) for name in FORMATS}))
