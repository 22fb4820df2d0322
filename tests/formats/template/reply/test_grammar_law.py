"""One description, two uses: what its grammar admits its reader reads as what fits, and what it writes is admitted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from antiphon.conversation import (
    Channel,
    Message,
    MessageEnded,
    ParserEvent,
    ResponseFormat,
    ToolChoice,
    ToolSpec,
)
from antiphon.errors import UnsupportedError
from antiphon.formats.replies import CompiledDescription, DescriptionParser, Region, ReplyDescription
from antiphon.formats.replies.grammar import reply_grammar
from antiphon.formats.replies.source import Alphabet
from antiphon.formats.template.format import QWEN
from antiphon.grammar import ReplyShape
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import ByteTokenizer, Control, PieceDecoder
from kit.masks import allowed
from kit.reply_families import FAMILIES
from kit.reply_writer import Markup, Part, reply

BOUNDED = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 6},
        "unit": {"enum": ["c", "f"]},
        "days": {"type": "integer", "minimum": 0, "maximum": 14},
    },
    "required": ["city"],
    "additionalProperties": False,
}
FILTERS = {
    "type": "object",
    "properties": {"by": {"type": "string"}, "year": {"type": ["integer", "null"]}},
    "required": ["by"],
    "additionalProperties": False,
}
NESTED = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "filters": FILTERS,
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        "limit": {"type": "number", "minimum": -1000, "maximum": 1000},
        "exact": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
    },
    "required": ["query"],
    "additionalProperties": False,
}
TOOLS = (
    ToolSpec("weather", parameters=BOUNDED),
    ToolSpec("search", parameters=NESTED),
    ToolSpec("now"),
)
PERSON = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 130}, "old": {"type": "boolean"}},
    "required": ["age", "old"],
    "additionalProperties": False,
}
SHAPES = {
    "text": ReplyShape(),
    "auto": ReplyShape(tools=TOOLS),
    "none": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("none")),
    "required": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("required")),
    "required, one": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("required"), parallel=False),
    "named": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("required", ("search",))),
    "allowed": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("auto", ("weather", "now"))),
    "reasoning required": ReplyShape(tools=TOOLS, reasoning="required"),
    "reasoning off": ReplyShape(tools=TOOLS, reasoning="off"),
    "schema": ReplyShape(response_format=ResponseFormat("json_schema", schema=PERSON, strict=True)),
    "auto and schema": ReplyShape(tools=TOOLS, response_format=ResponseFormat("json_schema", schema=PERSON)),
    "choice": ReplyShape(response_format=ResponseFormat("choice", choices=("yes", "no", "may be"))),
}
CASES = [
    (name, owned) for name, family in FAMILIES.items() for owned in ([True, False] if family.controls else [False])
]


@cache
def tokenizer(family: str, owned: bool) -> ByteTokenizer:
    return ByteTokenizer(controls(family, owned))


@cache
def vocabulary(family: str, owned: bool) -> Vocabulary:
    vocabulary = tokenizer(family, owned)
    return Vocabulary(vocabulary, [vocabulary.controls[Control(end)] for end in FAMILIES[family].description.ends])


def controls(family: str, owned: bool) -> list[Control]:
    return FAMILIES[family].vocabulary if owned else FAMILIES[family].spelled


@cache
def described(family: str, owned: bool) -> CompiledDescription:
    return CompiledDescription(FAMILIES[family].description, controls(family, owned), ())


@cache
def compiled(family: str, owned: bool, shape: str, prompt: str = "") -> CompiledGrammar:
    description = FAMILIES[family].description
    encoded = described(family, owned).alphabet.encode(prompt)
    begun = described(family, owned).begun(encoded)
    grammar = reply_grammar(SHAPES[shape], description, controls=controls(family, owned), begun=begun)
    return compile_grammar(grammar, vocabulary(family, owned))


def read(
    family: str, owned: bool, ids: Sequence[int], prompt: str = "", response_format: ResponseFormat | None = None
) -> list[ParserEvent]:
    pieces = list(PieceDecoder(tokenizer(family, owned)).feed(ids))
    begun = list(PieceDecoder(tokenizer(family, owned)).feed(encoded([Markup(prompt)], family, owned)))
    reader = DescriptionParser(
        described(family, owned), prompt=begun, tools=TOOLS, response_format=response_format, strict=True
    )
    return [*reader.feed(pieces), *reader.close()]


def encoded(parts: Sequence[Part], family: str, owned: bool) -> list[int]:
    alphabet = Alphabet(controls(family, owned), [part.text for part in parts if isinstance(part, Markup)])
    owned_ids = tokenizer(family, owned).controls
    ids: list[int] = []
    for part in parts:
        for char in alphabet.encode(part.text) if isinstance(part, Markup) else part:
            if isinstance(part, Markup) and char in alphabet.symbols:
                ids.append(owned_ids[Control(alphabet.decode(char))])
            else:
                ids += char.encode()
    return ids


def member(family: str, owned: bool, grammar: CompiledGrammar, chance: random.Random) -> list[int] | None:
    """Some reply that the grammar admits, by chance; None for one that does not come to its end in time.

    Now and then a word of the description, so that replies come near to what they must not spell.
    """
    literals = sorted({*FAMILIES[family].description.literals, *FAMILIES[family].description.ends})
    ends = [encoded([Markup(text)], family, owned) for text in literals]
    ends += [list(word.encode()) for word in ('"', "'", "}", "]", ")")]
    words = [*ends, *(list(word.encode()) for word in ("\n", "</", "{", '", "', "now", "True", "é", "<"))]
    matcher = grammar.matcher()
    ids: list[int] = []
    while not matcher.stopped and len(ids) < 1200:
        if matcher.accepting and chance.random() < 0.5:
            break
        late = len(ids) > 200
        word = chance.choice(ends if late else words)
        if chance.random() < (0.95 if late else 0.5) and matcher.copy().consume(word) is None:
            matcher.consume(word)
            ids += word
            continue
        # What Python alone takes for blanks is nobody's thought.
        left = [id for id in allowed(matcher.mask(), tokenizer(family, owned).size) if id not in range(0x1C, 0x20)]
        assert left, "stuck"
        ids.append(chance.choice(left))
        assert matcher.consume(ids[-1:]) is None
    return ids if matcher.accepting else None


def check(shape: ReplyShape, messages: list[Message], grammar: CompiledGrammar) -> None:
    calls = [message for message in messages if message.is_call]
    answers = [message for message in messages if not message.is_call and message.channel == Channel.FINAL]
    offered = {tool.recipient: tool for tool in shape.callable}
    assert len(calls) <= len(shape.ids)
    assert not shape.must_call or (calls and not answers)
    for call in calls:
        arguments = shape.arguments(offered[str(call.recipient)])
        assert grammar.schemas[arguments.path].fault(call.text) is None, call.text
    for answer in answers:
        if shape.response_format.kind == "json_schema":
            assert grammar.schemas["response_format.json_schema.schema"].fault(answer.text) is None, answer.text
        if shape.response_format.kind == "choice":
            assert answer.text in shape.response_format.choices
    thoughts = [message.text for message in messages if message.channel == Channel.ANALYSIS]
    assert shape.reasoning != "required" or thoughts
    assert shape.reasoning != "off" or not any(thoughts)


# MiniMax's prefix ``]<]minimax[>[`` is a token of every vocabulary that has it, and is read as one only.
@pytest.mark.parametrize(("family", "owned"), [case for case in CASES if case != ("invoke, nested", False)])
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shape=st.sampled_from(list(SHAPES)), seed=st.integers(0, 2**32), prompted=st.booleans())
def test_what_the_grammar_admits_is_read_as_what_was_required(
    family: str, owned: bool, shape: str, seed: int, prompted: bool
) -> None:
    prompt = FAMILIES[family].prompted if prompted else ""
    if refused(FAMILIES[family].description, SHAPES[shape]):
        with pytest.raises(UnsupportedError):
            compiled(family, owned, shape)
        return
    grammar = compiled(family, owned, shape, prompt)
    ids = member(family, owned, grammar, random.Random(seed))
    assume(ids is not None)
    events = read(family, owned, ids or [], prompt, SHAPES[shape].response_format)
    check(SHAPES[shape], [event.message for event in events if isinstance(event, MessageEnded)], grammar)


def test_a_thought_that_is_begun_and_has_no_close_is_refused_where_none_may_be() -> None:
    description = ReplyDescription(reasoning=Region(open="<think>"), ends=("<end>",))
    with pytest.raises(UnsupportedError) as caught:
        reply_grammar(SHAPES["reasoning off"], description, controls=[Control("<end>")], begun="<think>")
    assert caught.value.position is not None
    assert caught.value.position.path == "reasoning"


@pytest.mark.parametrize("begun", ["<tool_call>", '<think>Hm.</think>\n<tool_call>\n{"name"'])
def test_a_call_that_is_begun_is_refused(begun: str) -> None:
    with pytest.raises(UnsupportedError, match="a call that was begun"):
        reply_grammar(ReplyShape(), QWEN, controls=(), begun=begun)
    reply_grammar(ReplyShape(), QWEN, controls=(), begun="<think>Hm.</think>\n")


def refused(description: ReplyDescription, shape: ReplyShape) -> bool:
    return (shape.must_call and not description.calls) or (
        shape.reasoning == "required" and description.reasoning is None
    )


def in_order(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments in the order in which the schema names them."""
    return {name: arguments[name] for name in schema["properties"] if name in arguments}


SIGNS = ["a", "B ", " ", "é", "<", "</", ">", "|", "/", "\n", "{", "}", "[", "]", ",", ":", "=", '"', "\\", "1", "tool"]
TEXT = st.lists(st.sampled_from(SIGNS), max_size=6).map("".join)
LONG = st.integers(-(2**63), 2**63 - 1)
"""A free integer has 64 bits."""
SPOKEN = st.text(st.sampled_from("ab é\n,.:"), min_size=1, max_size=12).map(str.strip).filter(bool)
CALL = st.one_of(
    st.fixed_dictionaries(
        {"city": TEXT.filter(lambda text: len(text) <= 6)},
        optional={"unit": st.sampled_from("cf"), "days": st.integers(0, 14)},
    ).map(lambda arguments: ("weather", in_order(arguments, BOUNDED))),
    st.fixed_dictionaries(
        {"query": TEXT},
        optional={
            "filters": st.fixed_dictionaries(
                {"by": TEXT}, optional={"year": st.none() | st.integers(-(2**63), 2**63 - 1)}
            ).map(lambda filters: in_order(filters, FILTERS)),
            "tags": st.lists(TEXT, min_size=1, max_size=3),
            "limit": st.integers(-999, 999) | st.integers(-999, 999).map(lambda eighths: eighths / 8),
            "exact": st.booleans(),
            "note": st.none() | TEXT,
        },
    ).map(lambda arguments: ("search", in_order(arguments, NESTED))),
    st.just(("now", {})),
)


@pytest.mark.parametrize(("family", "owned"), CASES)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    reasoning=st.none() | SPOKEN,
    content=st.none() | SPOKEN,
    calls=st.lists(CALL, max_size=3),
    python=st.booleans(),
    compact=st.booleans(),
)
def test_what_a_template_writes_is_admitted(
    family: str,
    owned: bool,
    reasoning: str | None,
    content: str | None,
    calls: list[tuple[str, dict[str, Any]]],
    python: bool,
    compact: bool,
) -> None:
    description = FAMILIES[family].description
    calls = calls if description.calls else []
    if description.calls and description.calls[0].bare:
        single = description.calls[0].section is None
        calls, content = calls[:1] if single else calls, None if calls else content
    assume(content is not None or calls)
    parts = reply(description, reasoning=reasoning, content=content, calls=calls, python=python, compact=compact)
    assume(not any(spoils(part, family) for part in parts if not isinstance(part, Markup)))
    matcher = compiled(family, owned, "auto").matcher()
    violation = matcher.consume(encoded(parts, family, owned))
    said = "".join(part.text if isinstance(part, Markup) else part for part in parts)
    assert violation is None, (said, said.encode()[: violation.position])
    assert matcher.accepting, said


def spoils(text: str, family: str) -> bool:
    """Whether a text of a reply spells what cannot stand there: a close, which nothing can escape."""
    description = FAMILIES[family].description
    pairs = description.calls[0].pairs if description.calls else None
    closes = [value.after.partition("{key}")[0].strip() for value in pairs.values] if pairs else []
    return any(close and close in text for close in closes)
