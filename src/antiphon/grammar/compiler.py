"""Grammars → what an engine is given, and the matcher that its output is checked against.

An engine drops, in silence, a grammar that it cannot compile. So every grammar is first compiled here, with the
engine's release of llguidance and the model's own vocabulary, up to its first mask: what fails, fails as a
`RequestError`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import assert_never

import llguidance
import msgspec
from llguidance import LLMatcher, LLTokenizer
from msgspec.structs import replace

from antiphon.conversation import JsonSchema
from antiphon.errors import RequestError
from antiphon.tokens import Control, Tokenizer

from .faults import FaultFinder, first_fault, refusal
from .following import Matcher
from .grammar import (
    AnyText,
    Chain,
    Choice,
    ControlToken,
    EndOfTurn,
    Grammar,
    Json,
    KeyValues,
    Lexeme,
    Literal,
    NamedRules,
    Reference,
    Regex,
    Repeat,
    Shared,
)
from .lark_text import lark
from .limits import LIMITS, Limits, check_pattern
from .schema import CompiledSchema, Enforced, compile_schema, exclude_controls, refuse_markers
from .schema.controls import SPELLING

# The shortest way from where a reply stands to its end, as far as a bounded search finds it.
#
# A reply is closed by few tokens: its ends, quotes and brackets. Where none of them may come, the grammar leaves
# little choice (a name, a word), or any token will do. So few tokens are tried at each place, several ways beside each
# other.

WAYS = 2
"""How many ways are followed beside each other."""
FIRST_WAYS = 4
"""How many at first, where a reply may have to leave a thought, or choose between a call and an answer."""
FIRST = 64
"""So many tokens of an ending are at first."""
TRIED = 3
"""How many tokens are tried at each place of a way."""
FEW = 64
"""So many allowed tokens are all looked at; of more, those that close something."""
LONGEST = 512
"""Tokens of an ending that is looked for: some hundredths of a second for a hundred of them."""
_BRACKETS = re.compile(rb"[}\]]+\n?")
_QUOTES = re.compile(rb"[\"'][}\]]*\n?")
_MARKS = (b"</", b"<", b"[", b"\n")
_VALUES = (b",", b":", b"0", b"1", b"null", b"true", b"[]", b"{}", b'""', b'"', b"(", b"[", b"{", b"-", b" ")
_LETTERS = (b"aaaa", b"aa", b"a", b"A", b"x")
_BITS = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))
_SOME = re.compile(rb"[^\0]")


class ClosingTokens:
    """The tokens of a vocabulary by which replies are closed. Made once a vocabulary.

    ``texts`` are the bytes of each id; of the ids in ``controls`` none is text, and those in ``ends`` end a reply.
    """

    def __init__(self, texts: Sequence[bytes], controls: Collection[int], ends: Collection[int]) -> None:
        self._texts = texts
        self._ends = tuple(sorted(ends))
        self._controls = tuple(sorted({*controls} - {*ends}))
        apart = {*controls, *ends}
        places = {text: id for id, text in reversed([*enumerate(texts)]) if id not in apart}
        self._brackets, self._quotes = (
            sorted(
                (id for text, id in places.items() if kind.fullmatch(text)),
                key=lambda id: (texts[id][:1] == b"'", -len(texts[id])),
            )
            for kind in (_BRACKETS, _QUOTES)
        )
        self._marks, self._values, self._letters = (
            [places[text] for text in texts_of if text in places] for texts_of in (_MARKS, _VALUES, _LETTERS)
        )
        self._text = places.get(b"q", -1)

    def ending(self, matcher: Matcher, most: int) -> tuple[int, ...] | None:
        """The ids of an ending of at most ``most``; None where the search finds none. The matcher stays where it is."""
        if matcher.accepting:
            return ()
        ways: list[tuple[tuple[int, ...], Matcher]] = [((), matcher)]
        for step in range(min(most, LONGEST)):
            longer = list(self._longer(ways))
            done = next((ids for ids, after in longer if after.accepting), None)
            if done is not None or not longer:
                return done
            ways = longer[: FIRST_WAYS if step < FIRST else WAYS]
        return None

    def _longer(self, ways: Sequence[tuple[tuple[int, ...], Matcher]]) -> Iterator[tuple[tuple[int, ...], Matcher]]:
        """The ways by one token more: first the best of each, then the second."""
        tried = [self._tried(matcher.mask()) for _, matcher in ways]
        for place in range(TRIED):
            for (ids, matcher), candidates in zip(ways, tried, strict=True):
                if place < len(candidates):
                    after = matcher.copy()
                    if after.consume([candidates[place]]) is None:
                        yield (*ids, candidates[place]), after

    def _tried(self, mask: bytes) -> list[int]:
        """The allowed tokens that are likeliest to lead to an end, the best first."""

        def allowed(ids: Sequence[int], most: int = TRIED) -> list[int]:
            return [id for id, _ in zip((id for id in ids if mask[id // 8] >> id % 8 & 1), range(most), strict=False)]

        if not mask:
            return []
        ends = allowed(self._ends, 1)
        if self._text >= 0 and allowed([self._text]):
            if closers := [*ends, *allowed(self._controls, 2)]:
                return closers  # What would close a string closes nothing here.
            return [*allowed(self._quotes, 2), *allowed(self._marks, 1), *allowed(self._letters, 1)][:TRIED]
        if int.from_bytes(mask).bit_count() <= FEW:
            few = (found.start() * 8 + bit for found in _SOME.finditer(mask) for bit in _BITS[found[0][0]])
            return self._different(sorted(few, key=self._rank))
        ways = (ends, allowed(self._controls, 1), allowed(self._brackets, 1), allowed(self._values, 1))
        return [id for way in (*ways, allowed(self._quotes, 1)) for id in way][:TRIED] or self._any(mask)

    def _different(self, ids: Sequence[int]) -> list[int]:
        """The first of them, without those that only begin another: they would be the same way in more steps."""
        chosen: list[int] = []
        for id in ids:
            text = self._texts[id] if id < len(self._texts) else b""
            if not any(self._texts[other].startswith(text) for other in chosen if other < len(self._texts)):
                chosen.append(id)
            if len(chosen) == TRIED:
                break
        return chosen

    def _rank(self, id: int) -> tuple[int, int]:
        """Sorts ends first, then closings, then long spellings, and openings last."""
        if id in self._ends or id >= len(self._texts):
            return -100, 0
        text = self._texts[id]
        opened, closed = (sum(map(text.count, signs)) for signs in ((b"{", b"["), (b"}", b"]")))
        signed = 3 * text.count(b"-")
        return 10 * opened - 5 * closed + signed - len(text), self._values.index(id) if id in self._values else len(
            self._values
        )

    def _any(self, mask: bytes) -> list[int]:
        found = (match.start() * 8 + bit for match in _SOME.finditer(mask) for bit in _BITS[match[0][0]])
        return [id for id, _ in zip(found, range(TRIED), strict=False)]


class Vocabulary:
    """A tokenizer as llguidance sees it. A quarter of a second to build, so made once a model and shared."""

    def __init__(self, tokenizer: Tokenizer, end_ids: Collection[int]) -> None:
        """``end_ids`` are the model's own end tokens, with which a turn ends."""
        self.controls: Mapping[Control, int] = tokenizer.controls
        self.end_ids: frozenset[int] = frozenset(end_ids)
        self.size: int = tokenizer.size
        tokens = _Tokens(tokenizer)
        self._texts = tokens.tokens[: tokenizer.size]
        self.tokens = LLTokenizer(
            llguidance.TokenizerWrapper(tokens),
            n_vocab=tokenizer.size + 1,
            eos_token=tokenizer.size,
        )

    @cached_property
    def closing(self) -> ClosingTokens:
        """The tokens by which replies are closed; made when it is first read, in a tenth of a second."""
        return ClosingTokens(self._texts, self.controls.values(), self.end_ids)


class _Tokens:
    """A tokenizer as llguidance requires it.

    It would let its one end token stand wherever a grammar may end. That is an id of nobody's here, so that a turn ends
    with what the grammar names, and with nothing else.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces = [tokenizer.piece(id) for id in range(tokenizer.size)]
        self.tokens = [p.spelling.encode() if isinstance(p, Control) else p for p in pieces] + [b"<|no token|>"]
        self.special_token_ids = [id for id, p in enumerate(pieces) if isinstance(p, Control)] + [len(pieces)]
        self.eos_token_id = len(pieces)
        self.bos_token_id = None
        self._encode = tokenizer.encode

    def __call__(self, text: bytes) -> list[int]:
        return self._encode(text.decode("utf-8", "replace"))


class CompiledGrammar(msgspec.Struct, frozen=True, eq=False):
    """A grammar that is known to compile: ``lark`` is for the engine, `matcher` for what the engine says.

    ``digest`` is the same for equal texts. ``schemas`` are those within it, by their path in the request: with them
    finished values are checked. ``mask_seconds`` is what a mask may cost. One value serves many requests.
    """

    lark: str
    digest: str
    vocabulary: Vocabulary
    start: LLMatcher
    schemas: Mapping[str, CompiledSchema]
    mask_seconds: float = LIMITS.mask_seconds

    def matcher(self) -> Matcher:
        """A new matcher at the beginning of a reply; one for each choice.

        All of them share the states that they have come to, and llguidance's limits count these for all together: where
        one has reached a limit, the others are at it too.
        """
        return Matcher(self.start.deep_copy())

    def alone(self) -> Matcher:
        """A new matcher that shares nothing, as an engine has one. It is compiled anew, which takes milliseconds."""
        return Matcher(LLMatcher(self.vocabulary.tokens, self.lark, log_level=0))

    def renamed(self, ids: Mapping[str, str]) -> CompiledGrammar:
        """The same grammar with other texts for some that no schema of it holds; takes a few milliseconds."""
        text = re.sub("|".join(map(re.escape, ids)), lambda found: ids[found[0]], self.lark)
        start = LLMatcher(self.vocabulary.tokens, text, log_level=0)
        first_fault(start)  # Its first mask is computed here, not at the first id.
        return replace(self, lark=text, digest=_digest(text), start=start)

    def ending(self, matcher: Matcher, most: int) -> tuple[int, ...] | None:
        """The ids that end the reply that ``matcher`` follows: as few as a search finds, ``most`` at most."""
        return self.vocabulary.closing.ending(matcher, most)

    @property
    def spent(self) -> bool:
        """Whether a reply has come to a limit of the grammar, so that no other can be followed by it."""
        matcher = self.matcher()
        matcher.mask()
        return matcher.failed


def compile_grammar(
    grammar: Grammar,
    vocabulary: Vocabulary,
    limits: Limits = LIMITS,
    enforced: Mapping[str, Enforced] = MappingProxyType({}),
) -> CompiledGrammar:
    """Compiles the grammar and computes its first mask; takes milliseconds, up to a second for a hostile pattern.

    ``enforced`` has what another process found of schemas, by their path; these were tried there.
    Errors: `RequestError`, whose ``position.path`` is that of the schema or pattern at fault.
    """
    schemas: dict[int, CompiledSchema] = {}
    for leaf in leaves(grammar):
        match leaf:
            case Regex(pattern, path):
                check_pattern(pattern, path, limits)
            case NamedRules():
                pass  # Its limits were those of its reader.
            case Json(schema, path, strict):
                schemas[id(schema)] = compile_schema(
                    schema, path, strict=strict, limits=limits, enforced=enforced.get(path)
                )
            case _:
                assert_never(leaf)

    def shown(node: Json) -> JsonSchema:
        engine = schemas[id(node.schema)].engine
        spelled = {str(c) for c in node.avoid if isinstance(c, str) or c not in vocabulary.controls}
        refuse_markers(node.schema, spelled, node.path)
        return exclude_controls(engine, node.path) if any(map(SPELLING.match, spelled)) else engine

    text, start = _started(lambda finite: _text(grammar, vocabulary, shown, finite=finite), vocabulary, limits)
    _check(start, leaves(grammar), FaultFinder(vocabulary.tokens, shown), tried=enforced)
    by_path = {schema.path: schema for schema in schemas.values()}
    return CompiledGrammar(text, _digest(text), vocabulary, start, by_path, limits.mask_seconds)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text(grammar: Grammar, vocabulary: Vocabulary, shown: Callable[[Json], JsonSchema], *, finite: bool) -> str:
    return lark(
        grammar,
        controls=vocabulary.controls,
        end_ids=vocabulary.end_ids,
        engine_schema=shown,
        finite=finite,
    )


def _started(written: Callable[[bool], str], vocabulary: Vocabulary, limits: Limits) -> tuple[str, LLMatcher]:
    """The grammar whose numbers end; where it does not compile, with JSON left to the engine, which combines more."""
    text = written(True)
    if len(text) <= limits.text:
        start = LLMatcher(vocabulary.tokens, text, log_level=0)
        if not first_fault(start):
            return text, start
    text = written(False)
    if len(text) > limits.text:
        raise RequestError(f"tools and response format together make a grammar of more than {limits.text} characters")
    return text, LLMatcher(vocabulary.tokens, text, log_level=0)


def _check(
    start: LLMatcher, parts: Sequence[Json | Regex | NamedRules], finder: FaultFinder, *, tried: Collection[str]
) -> None:
    """Raises `RequestError`, with the place of the part that does not even compile alone.

    ``tried`` are the paths of parts that do so without the controls that they may not spell.
    """
    fault = first_fault(start)
    for part in parts:
        error = finder.leaf(part) if fault else None
        if error is None and isinstance(part, Json) and part.path not in tried:
            error = finder.stuck(part)
        if error is not None:
            raise error
    if fault:
        raise refusal(fault, None, "invalid_grammar")


def leaves(grammar: Grammar) -> list[Json | Regex | NamedRules]:
    """The schemas, patterns and rules of a grammar, each once (a schema that is in several places is one object)."""
    found: dict[int, Json | Regex | NamedRules] = {}
    todo: list[Grammar] = [grammar]
    while todo:
        match todo.pop():
            case Json(schema) as leaf:
                found.setdefault(id(schema), leaf)
            case Regex(pattern) as leaf:
                found.setdefault(id(pattern), leaf)
            case NamedRules(rules) as leaf:
                found.setdefault(id(rules), leaf)
                todo += [body for _, body in rules]
            case Choice(items) | Chain(items):
                todo += items
            case Repeat(item) | KeyValues(item) | Shared(item):
                todo.append(item)
            case Literal() | ControlToken() | AnyText() | EndOfTurn() | Lexeme() | Reference():
                pass
            case rest:
                assert_never(rest)
    return list(found.values())
