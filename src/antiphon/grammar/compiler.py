"""Grammars → what an engine is given, and the matcher that its output is checked against.

An engine drops, in silence, a grammar that it cannot compile. So every grammar is first compiled here, with the
engine's release of llguidance and the model's own vocabulary, up to its first mask: what fails, fails as a
`RequestError`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, assert_never

import llguidance
import msgspec
from llguidance import LLMatcher, LLTokenizer
from msgspec.structs import replace

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, RequestError
from antiphon.tokens import Control, Tokenizer

from .following import ClosingTokens, Matcher
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
from .schema.exact import subschemas, walk

# Why a grammar does not compile, in our words and with its place; the engine's go along as a note, for the log.

MOST_PROBES = 300
"""How many parts of a schema are compiled by themselves."""
NOTHING_FITS = "NoExtensionBias"
"""llguidance's word for a grammar that has no text."""

_PLACE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?")
_REASONS = (
    (
        re.compile(r"^Unable to determine"),
        "it has patterns, bounds or steps that cannot be decided together",
        "Ask for fewer of them at once, or for simpler ones.",
    ),
    (
        re.compile(r"^(Unsatisfiable schema|NoExtension|Failed to generate regex for)|[Rr]egex is empty"),
        "no value fits it",
        "Look for bounds, types, patterns or required properties that contradict each other.",
    ),
    (
        re.compile(r"(?i)regex|lookaround|unicode|repetition|escape"),
        "it has a pattern that cannot be enforced",
        "Write patterns without look-around, back-references and what only some dialects have.",
    ),
    (
        re.compile(r"(?i)too |exceed|limit|fuel|complex"),
        "it is more than a grammar may be",
        "Ask for less at once: fewer tools, smaller schemas, simpler patterns.",
    ),
    (re.compile(r"circular"), "a reference leads back to itself beside other keywords", "Put the keywords elsewhere."),
)
_STEPS = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])


def first_fault(start: LLMatcher) -> str:
    """The fault of a fresh matcher, in a line of the engine's; some faults show only at the first mask."""
    probe = start
    if not start.is_error():
        probe = start.deep_copy()
        probe.compute_bitmask()
    return _PLACE.sub("", probe.get_error().split("\n")[0])


def refusal(fault: str, path: str | None, code: str = "invalid_schema") -> RequestError:
    """The error for the engine's words, which it has as a note."""
    found = ((text, hint) for pattern, text, hint in _REASONS if pattern.search(fault))
    text, hint = next(found, ("the engine has no means for it", "Ask for something simpler."))
    what = "the reply's grammar" if path is None else "this"
    error = RequestError(f"{what} cannot be enforced: {text}", code=code, position=Position(path=path), hint=hint)
    error.add_note(fault)
    return error


class FaultFinder:
    """Compiles parts of a grammar by themselves. ``shown`` gives what the engine is shown of a schema."""

    def __init__(self, tokens: LLTokenizer, shown: Callable[[Json], JsonSchema]) -> None:
        self._tokens = tokens
        self._shown = shown
        self._left = MOST_PROBES

    def leaf(self, leaf: Json | Regex | NamedRules) -> RequestError | None:
        """The error of a schema, a pattern or rules that do not even compile alone, with its place."""
        fault = self._fault(leaf)
        if not fault:
            return None
        if isinstance(leaf, NamedRules):
            return refusal(fault, leaf.path, "invalid_grammar")
        return refusal(fault, leaf.path if isinstance(leaf, Regex) else leaf.path + self._deepest(leaf))

    def stuck(self, leaf: Json) -> RequestError | None:
        """The error of a step between bounds in which the engine, which takes them together, finds no number."""
        top = self._shown(leaf)
        for schema, where in walk(top):
            if "multipleOf" not in schema or _STEPS.isdisjoint(schema):
                continue
            node = {key: value for key, value in schema.items() if key in {*_STEPS, "type", "multipleOf"}}
            if self._left and self._fault(Json(node)):
                return refusal(NOTHING_FITS, f"{leaf.path}{_known(leaf.schema, where)}.multipleOf")
        return None

    def _fault(self, leaf: Json | Regex | NamedRules) -> str:
        self._left -= 1
        shown = self._shown if isinstance(leaf, Json) and leaf.path else lambda node: node.schema
        text = lark(leaf, controls={}, end_ids=(), engine_schema=shown, finite=False)
        return first_fault(LLMatcher(self._tokens, text, log_level=0))

    def _deepest(self, leaf: Json) -> str:
        """The place of the innermost part at fault, as far as the schema itself has that place."""
        node, where = self._shown(leaf), ""
        while (inner := self._part_at_fault(node, self._shown(leaf))) is not None:
            node, where = inner[0], where + inner[1]
        known = _known(leaf.schema, where)
        if known == where:
            key = _keyword(node, _AT_FAULT)
            return f"{known}.{key}" if key else known
        key = _keyword(node, (*_AT_FAULT, *_TOGETHER))
        return next((f"{place}.{key}" for place, keys in _places(leaf.schema) if key in keys), known)

    def _part_at_fault(self, node: Any, top: JsonSchema) -> tuple[Any, str] | None:
        named = top if isinstance(top, dict) else {}
        definitions: dict[str, Any] = {key: named[key] for key in ("$defs", "definitions") if key in named}
        for part, step in subschemas(node) if isinstance(node, dict) else ():
            if isinstance(part, dict) and self._left > 0 and self._fault(Json({**definitions, **part})):
                return part, step
        return None


_AT_FAULT = ("pattern", "enum", "const", "$ref")
_TOGETHER = ("multipleOf", "format", *sorted(_STEPS), "maxLength", "minLength")
"""Keywords that contradict others beside them."""


def _keyword(node: Any, keywords: Sequence[str]) -> str:
    """The first of the keywords that a part has."""
    return next((key for key in keywords if isinstance(node, dict) and key in node), "")


def _places(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schema and those within it, with their places."""
    todo = [(schema, "")]
    while todo:
        node, place = todo.pop(0)
        if isinstance(node, dict):
            yield place, node
            todo += [(inner, place + step) for inner, step in subschemas(node)]
        elif isinstance(node, list):
            todo += [(item, f"{place}[{i}]") for i, item in enumerate(node)]


def _known(schema: JsonSchema, where: str) -> str:
    """``where`` if the schema has such a place, else nothing: what the engine is shown may be built otherwise."""
    places, todo = set[str](), [(schema, "")]
    while todo and where:
        node, place = todo.pop()
        places.add(place)
        if isinstance(node, dict):
            todo += [(inner, place + step) for inner, step in subschemas(node) if where.startswith(place + step)]
    return where if where in places else ""


class Vocabulary:
    """A tokenizer as llguidance sees it. A quarter of a second to build, so made once a model and shared."""

    def __init__(self, tokenizer: Tokenizer, end_ids: Collection[int]) -> None:
        """``end_ids`` are the model's own end tokens, with which a turn ends."""
        self.controls: Mapping[Control, int] = tokenizer.controls
        self.end_ids: frozenset[int] = frozenset(end_ids)
        self.size: int = tokenizer.size
        tokens = _Tokens(tokenizer)
        self._texts = tokens.tokens[: tokenizer.size]
        self.tokens: LLTokenizer = LLTokenizer(
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

    text, start = _started(
        partial(lark, grammar, controls=vocabulary.controls, end_ids=vocabulary.end_ids, engine_schema=shown),
        vocabulary,
        limits,
    )
    _check(start, leaves(grammar), FaultFinder(vocabulary.tokens, shown), tried=enforced)
    by_path = {schema.path: schema for schema in schemas.values()}
    return CompiledGrammar(text, _digest(text), vocabulary, start, by_path, limits.mask_seconds)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _started(written: Callable[..., str], vocabulary: Vocabulary, limits: Limits) -> tuple[str, LLMatcher]:
    """The grammar whose numbers end; where it does not compile, with JSON left to the engine, which combines more."""
    text = written(finite=True)
    if len(text) <= limits.text:
        start = LLMatcher(vocabulary.tokens, text, log_level=0)
        if not first_fault(start):
            return text, start
    text = written(finite=False)
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
