"""Compiles the grammars of replies beside the event loop, and caches them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import msgspec

from antiphon.errors import RequestError
from antiphon.formats import Format
from antiphon.formats.raw import RawFormat
from antiphon.grammar import LIMITS, Grammar, Json, Limits, Regex, ReplyShape
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar, leaves
from antiphon.grammar.schema import Enforced
from antiphon.grammar.trial import dear, piece_of, rules_piece, tried_of
from antiphon.isolation import Isolation, Task
from antiphon.tokens import Piece, Tokenizer, spell

log = logging.getLogger("antiphon.generation")

MOST_LOGGED = 500
"""Characters of what the engine's compiler says of a schema that go into a line of the log."""
MOST_TEXT = 32 * 2**10
"""Characters of all grammars that are remembered together: compiled, one takes some two hundred times its text."""
MOST_TAKEN = 6 * 2**20
"""Bytes of all those whose programs were tried first, which can take far more than their text says."""
USES = 256
"""Replies that are followed by one grammar before it is compiled anew: what they have come to takes room."""
TAIL = 256
"""How many characters of a prompt's end decide where a reply begins."""

TRY = Task(
    "antiphon.grammar.trial:work", "compiling tools and response format", prepare="antiphon.grammar.trial:prepare",
    processor=0.5,  # It is compiled twice more: here, and by the engine.
)  # fmt: skip
NOTHING_TRIED: Mapping[str, Enforced] = MappingProxyType({})

Made = TypeVar("Made")
_Key = tuple[str, str | None, bytes]


@dataclass(slots=True)
class _Known:
    """``ids`` are those of the calls of the reply it was compiled for; some formats have them in their grammar."""

    grammar: CompiledGrammar
    ids: Sequence[str]
    taken: int = 0
    """Bytes that it took to try what is of the client in it."""
    uses: int = 0

    @property
    def text(self) -> int:
        """Characters of its grammar."""
        return len(self.grammar.lark)

    @property
    def is_used_up(self) -> bool:
        return self.uses >= USES or self.grammar.spent


class ReplyCompiler:
    """Grammars of one model's replies, by the shape that they have; least recently used out first.

    A compilation takes milliseconds and at most ``seconds``; those of hostile schemas are bounded by ``limits`` and run
    at most two at a time, so that other requests go on. ``end_ids`` are the model's own end tokens.
    """

    def __init__(
        self,
        format: Format,
        tokenizer: Tokenizer,
        end_ids: Collection[int],
        *,
        limits: Limits = LIMITS,
        seconds: float = 5.0,
        capacity: int = 64,
    ) -> None:
        self._format = format
        self._tokenizer = tokenizer
        self._end_ids = frozenset(end_ids)
        self._limits = limits
        self._seconds = seconds
        self._capacity = capacity
        self._known: dict[_Key, _Known] = {}
        self._vocabulary: Vocabulary | None = None
        self._isolation: Isolation | None = None
        self._settle: Callable[[], None] | None = None
        self._threads = ThreadPoolExecutor(2, "compile")
        self._building = asyncio.Lock()

    def try_in(self, isolation: Isolation, settle: Callable[[], None] | None = None) -> None:
        """From now on programs of clients that may be dear are compiled in a process of their own first.

        ``settle`` is called after such a one was compiled here: the memory that it took is given back then.
        """
        self._isolation, self._settle = isolation, settle

    async def compile(
        self,
        shape: ReplyShape,
        prompt: Sequence[Piece] = (),
        *,
        continues: bool = False,
        domain: str = "",
        raw: RawFormat | None = None,
    ) -> CompiledGrammar:
        """The grammar of a reply to ``prompt``; ``continues``: the prompt left a message open; ``raw`` stands
        in place of the model's format.

        What was compiled is found again by the same ``domain`` only: nobody learns from the time what others asked for.

        Errors: `RequestError` for a schema, a pattern or a choice of tools that no grammar can enforce, with its place.
        """
        format, tail = (self._format, spell(tuple(prompt[-4:]))[-TAIL:]) if raw is None else (raw, None)
        alike = replace(shape, call_ids=("",) * len(shape.call_ids))
        key = (domain, tail, msgspec.json.encode(alike))
        if continues:
            return (await self._compile(format, shape, prompt, domain)).grammar
        known = self._known.pop(key, None)
        if known is None or known.is_used_up:
            known = await self._compile(format, shape, prompt, domain)
        known.uses += 1
        self._known.pop(key, None)  # Another request may have been as fast.
        self._known[key] = known
        self._forget()
        others = {old: new for old, new in zip(known.ids, shape.call_ids, strict=True) if old != new}
        if not any(id in known.grammar.lark for id in others):
            return known.grammar
        if any(id.encode() in key[2] for id in others):
            known = await self._compile(format, shape, prompt, domain)  # A schema or a tool spells one of them.
            return known.grammar
        return await self._in_time(lambda: known.grammar.renamed(others))

    def _forget(self) -> None:
        """Forgets those that were not used for longest, until the others are few and small enough.

        The last stays whatever its text is, unless it took too much to try: then it is for one reply.
        """
        text = sum(known.text for known in self._known.values())
        taken = sum(known.taken for known in self._known.values())
        last = next(reversed(self._known))
        for key, known in list(self._known.items()):
            much = key != last and (len(self._known) > self._capacity or text > MOST_TEXT)
            if much or (taken > MOST_TAKEN and known.taken):
                del self._known[key]
                text, taken = text - known.text, taken - known.taken

    async def _compile(self, format: Format, shape: ReplyShape, prompt: Sequence[Piece], domain: str) -> _Known:
        vocabulary, isolated = await self.vocabulary(), self._isolation
        if isolated is None:
            grammar = await self._in_time(lambda: self._compiled(format, shape, tuple(prompt), vocabulary))
            return _Known(grammar, shape.call_ids)
        until = asyncio.get_running_loop().time() + isolated.seconds
        form, taken = shape.response_format, 0
        if form.kind == "grammar":
            path = f"{shape.format_param}.grammar"
            piece = rules_piece(form.grammar or "", path)
            until += await isolated.ready(TRY)
            taken = tried_of(await isolated.run(replace(TRY, path=path), piece, owner=domain, until=until)).taken
        found = await self._in_time(lambda: self._plainly(format, shape, tuple(prompt), vocabulary), until)
        if isinstance(found, CompiledGrammar):
            return self._settled(_Known(found, shape.call_ids, taken))
        draft, programs = found
        task = replace(TRY, path=programs[0].path)
        until += await isolated.ready(TRY)
        tried = tried_of(await isolated.run(task, piece_of(programs), owner=domain, until=until), programs)
        grammar = await self._in_time(lambda: self._finished(draft, vocabulary, tried.enforced), until)
        return self._settled(_Known(grammar, shape.call_ids, taken + tried.taken))

    def _settled(self, known: _Known) -> _Known:
        if known.taken and self._settle is not None:
            self._settle()
        return known

    def _plainly(
        self, format: Format, shape: ReplyShape, prompt: Sequence[Piece], vocabulary: Vocabulary
    ) -> CompiledGrammar | tuple[Grammar, list[Json | Regex]]:
        """The grammar compiled where that takes a moment; else as it is, with what is to be tried elsewhere."""
        grammar = format.grammar(shape, prompt=prompt)
        programs = dear(leaves(grammar))
        return (grammar, programs) if programs else self._finished(grammar, vocabulary)

    async def _in_time(self, compiled: Callable[[], Made], until: float | None = None) -> Made:
        """Runs ``compiled`` beside the loop, until then or, where nobody says when, for at most ``seconds``."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(loop.time() + self._seconds if until is None else until):
                return await loop.run_in_executor(self._threads, compiled)
        except RecursionError:
            raise RequestError(
                "tools and response format lead on too deeply, from definition to definition",
                code="invalid_schema",
                hint="Define less by way of other definitions.",
            ) from None
        except TimeoutError:
            if until is not None and self._isolation is not None:
                raise self._isolation.late() from None
            raise RequestError(
                f"tools and response format take more than {self._seconds} seconds to compile",
                code="invalid_grammar",
                hint="Ask for less at once: fewer tools, smaller schemas, simpler patterns.",
            ) from None

    async def vocabulary(self) -> Vocabulary:
        """The model's vocabulary as llguidance sees it, built once; await it early to have it warm."""
        async with self._building:
            if self._vocabulary is None:
                self._vocabulary = await asyncio.get_running_loop().run_in_executor(
                    self._threads, Vocabulary, self._tokenizer, self._end_ids
                )
        return self._vocabulary

    def close(self) -> None:
        """Lets its threads go; what they still compile is nobody's."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _compiled(
        self, format: Format, shape: ReplyShape, prompt: Sequence[Piece], vocabulary: Vocabulary
    ) -> CompiledGrammar:
        return self._finished(format.grammar(shape, prompt=prompt), vocabulary)

    def _finished(
        self, grammar: Grammar, vocabulary: Vocabulary, enforced: Mapping[str, Enforced] = NOTHING_TRIED
    ) -> CompiledGrammar:
        try:
            return compile_grammar(grammar, vocabulary, self._limits, enforced)
        except RequestError as error:
            for note in getattr(error, "__notes__", ()):
                log.debug("%s: %s", error.param, note[:MOST_LOGGED])
            raise
