"""Models of families of replies: they say what their own templates write for a message, or what a grammar admits."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from llguidance import LLMatcher
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.formats.template import JinjaFormat, jinja_format
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.grammar.compiler import Vocabulary
from antiphon.tokens import ByteTokenizer, Control, ControlScanner, decode
from kit.family_templates import FAMILIES, OTHERS
from kit.obliging import GrammarEngine
from kit.plain_jinja import plain_prompt
from kit.reply_templates import TEMPLATES

SOURCES = {
    **FAMILIES,
    **{name: TEMPLATES[name] for name in ("arguments in tags", "the way Python calls", "regions that are messages")},
}
"""The second part: markers that no model has."""
EVERY = {**SOURCES, **OTHERS, **TEMPLATES}
CONTROL = re.compile(
    r"<\|[^|<>\n']+\|>|<\|\w+>|<\w+\|>|</s>|<\|\"\|>|<｜[^｜<>]+｜>|\[[A-Z_]+\]|</?(?:think|tool_call)>"
)
Message = Mapping[str, Any]
ASK: list[dict[str, Any]] = [{"role": "user", "content": "And tomorrow?"}]


@dataclass(frozen=True)
class Family:
    name: str
    source: str
    format: JinjaFormat
    tokenizer: ByteTokenizer

    @property
    def end_ids(self) -> frozenset[int]:
        stops = (stop for stop in self.format.stops if isinstance(stop, Control))
        return frozenset(self.tokenizer.controls[stop] for stop in stops)

    def prompt(self, messages: Sequence[Message], tools: Sequence[Message] = (), **more: Any) -> str:
        """What the template itself makes of messages of the chat API."""
        return plain_prompt(self.source, messages, list(tools) or None, **more)

    def says(self, message: Message, tools: Sequence[Message] = ()) -> str:
        """The reply that the template writes for this message, up to the end; the prompt may have begun to reason."""
        begun = self.prompt(ASK, tools)
        whole = self.prompt([*ASK, message], tools, add_generation_prompt=False)
        assert whole.startswith(begun), "the template opens a reply otherwise than it writes one"
        return whole[len(begun) :].rstrip("\n")

    def ids(self, text: str) -> list[int]:
        """The ids of a text of the model's own: what spells a control is that."""
        scanner = ControlScanner(list(self.tokenizer.controls))
        sampled: list[int] = []
        for piece in (*scanner.feed(text), *scanner.close()):
            sampled += [self.tokenizer.controls[piece]] if isinstance(piece, Control) else self.tokenizer.encode(piece)
        return sampled

    def spelled(self, ids: Sequence[int]) -> str:
        return decode(self.tokenizer, ids)

    def model(self, name: str, engine: ScriptedEngine, *, grammar: bool = True) -> Model:
        compiler = ReplyCompiler(self.format, self.tokenizer, self.end_ids, seconds=60) if grammar else None
        return Model(name=name, engine=engine, tokenizer=self.tokenizer, format=self.format, compiler=compiler)

    def engine(self, reply: str, *, chunk: int = 1) -> ScriptedEngine:
        return ScriptedEngine(self.ids(reply), end_ids=self.end_ids, chunk=chunk)

    def plays(self, turns: Callable[[int], str], *, chunk: int = 1) -> ScriptedEngine:
        """An engine with a reply for each request, by its number."""
        numbers = itertools.count()

        def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
            return self.ids(turns(next(numbers)))

        return ScriptedEngine(script, end_ids=self.end_ids, chunk=chunk)

    def app(self, reply: str, *, chunk: int = 1, grammar: bool = True, **options: Any) -> Starlette:
        """A server whose only model, ``small``, says this."""
        engine = self.engine(reply, chunk=chunk)
        return create_app(StaticCatalog({"small": self.model("small", engine, grammar=grammar)}), **options)


@cache
def family(name: str) -> Family:
    source = EVERY[name]
    controls = [Control(spelling) for spelling in sorted(set(CONTROL.findall(source)))]
    return Family(name, source, jinja_format(source, controls), ByteTokenizer(controls))


class FreeEngine(GrammarEngine):
    """Writes whatever the grammar admits, and now and then a literal of the family's; its seed is the request's."""

    def __init__(self, family: Family) -> None:
        super().__init__([], end_ids=family.end_ids, chunk=5)
        self._family = family
        self._vocabulary = Vocabulary(family.tokenizer, family.end_ids)
        literals = sorted({*family.format.replies.literals, *map(str, family.format.stops)})
        self._closers = [family.ids(text) for text in (*literals, '"', "'", "}", "]", ")")]
        self._words = [*self._closers, *(family.ids(text) for text in ("\n", "{", '", "', "weather", "true", "é", "<"))]
        self._ids = [id for id in range(family.tokenizer.size) if not 0x1C <= id < 0x20]

    def write(self, grammar: str | None, prompt: Sequence[int], sampling: Sampling) -> Sequence[int]:
        assert grammar is not None
        return self._reply(grammar, sampling.seed or 0)

    def _reply(self, grammar: str, seed: int) -> list[int]:
        """The first of the replies by this seed that comes to its end."""
        start, chance = LLMatcher(self._vocabulary.tokens, grammar, log_level=0), random.Random(seed)
        while True:
            reply = admitted(start.deep_copy(), self._ids, self._words, self._closers, chance)
            if reply is not None:
                return reply


MOST = 1200
LATE = 200
"""After so many ids nearly nothing but what closes something."""


def admitted(
    matcher: LLMatcher,
    ids: Collection[int],
    words: Sequence[list[int]],
    closers: Sequence[list[int]],
    chance: random.Random,
) -> list[int] | None:
    """Ids by chance, one at a time or a word; None for a reply that does not come to its end in time."""
    written: list[int] = []
    while not matcher.is_stopped() and len(written) < MOST:
        if matcher.is_accepting() and chance.random() < 0.5:
            break
        late = len(written) > LATE
        word = chance.choice(closers if late else words)
        if chance.random() < (0.95 if late else 0.5) and matcher.deep_copy().try_consume_tokens(word) == len(word):
            matcher.try_consume_tokens(word)
            written += word
            continue
        mask = matcher.compute_bitmask()
        allowed = [id for id in ids if mask[id // 8] >> id % 8 & 1]
        if not allowed:
            return None
        written.append(chance.choice(allowed))
        matcher.consume_token(written[-1])
    return written if matcher.is_accepting() or matcher.is_stopped() else None
