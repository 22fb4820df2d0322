"""What a constrained model may write: every spelling that models were trained on, and nothing that is not requested."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from itertools import cycle, product
from typing import Any

import pytest

from antiphon.conversation import (
    BROWSER,
    Conversation,
    End,
    Incident,
    Message,
    MessageEnded,
    ResponseFormat,
    Role,
    ToolChoice,
    ToolNamespace,
    ToolSpec,
)
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS
from antiphon.grammar import ReplyShape
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, Tokenizer, encode_pieces, o200k_harmony, spell

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = (ToolSpec("locate"), ToolSpec("forecast", parameters=CITY))
BUILTINS = (BROWSER, ToolNamespace("python"))
ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
SHAPES = {
    "auto": ReplyShape(tools=TOOLS, builtins=BUILTINS),
    "required": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("required")),
    "named": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("required", ("forecast",))),
    "none": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("none")),
    "schema": ReplyShape(response_format=ResponseFormat("json_schema", schema=ANSWER, strict=True)),
    "object": ReplyShape(response_format=ResponseFormat("json_object")),
    "compact": ReplyShape(response_format=ResponseFormat("json_object", compact=True)),
    "regex": ReplyShape(response_format=ResponseFormat("regex", pattern="[a-z]{3}")),
    "choice": ReplyShape(response_format=ResponseFormat("choice", choices=("one", "two"))),
    "grammar": ReplyShape(response_format=ResponseFormat("grammar", grammar='root ::= "abc"')),
    "no reasoning": ReplyShape(tools=TOOLS, reasoning="off", preambles=False),
}
PLACES = (" to={to}<|channel|>{channel}{type}<|message|>", "<|channel|>{channel} to={to}{type}<|message|>")
MARKS = ("", " {type}", " <|constrain|>{type}", "<|constrain|>{type}", "<|constrain|> {type}")
"""No type, a bare one, a marked one as the reference renders it, and as the guide writes it, once with a blank."""
ARGUMENTS = '{"city": "Tokyo"}'
PYTHON = "print(6 * 7)"


def headers(to: str, channel: str, type: str) -> list[str]:
    """Every header of a call."""
    types = [mark.format(type=type) for mark in MARKS]
    return [place.format(to=to, channel=channel, type=type) for place, type in product(PLACES, types)]


@cache
def vocabulary() -> Vocabulary:
    tokenizer = o200k_harmony()
    return Vocabulary(tokenizer, [tokenizer.controls[Control(f"<|{end}|>")] for end in ("return", "call")])


@cache
def compiled(shape: str) -> CompiledGrammar:
    return compile_grammar(Harmony().grammar(SHAPES[shape]), vocabulary())


def pieces(text: str) -> list[Piece]:
    scanner = ControlScanner(CONTROLS)
    return [*scanner.feed(text), *scanner.close()]


def ids(text: str, tokenizer: Tokenizer) -> list[int]:
    return encode_pieces(pieces(text), tokenizer)


def admits(grammar: CompiledGrammar, text: str, tokenizer: Tokenizer) -> bool:
    """Whether the grammar takes the reply, and it is whole."""
    matcher = grammar.matcher()
    return matcher.consume(ids(text, tokenizer)) is None and matcher.accepting


def read(text: str, *, strict: bool) -> tuple[list[Message], list[Incident]]:
    parser = Harmony().parser(strict=strict, tools=[*TOOLS, "python", "browser.search"])
    events = [*parser.feed(pieces(text)), *parser.close()]
    ended = [event.message for event in events if isinstance(event, MessageEnded)]
    return ended, [event for event in events if isinstance(event, Incident)]


THOUGHT = "<|channel|>analysis<|message|>They ask for the weather.<|end|><|start|>assistant"
PREAMBLE = "<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant"
FORECAST = f"<|channel|>commentary to=functions.forecast json<|message|>{ARGUMENTS}<|call|>"
LOCATE = "<|channel|>commentary to=functions.locate json<|message|>{}<|call|>"
MARKED = "<|channel|>final <|constrain|>json<|message|>"
PLAIN = "<|channel|>final<|message|>"
REPLIES: dict[str, dict[str, bool]] = {
    # What vLLM's own tests admit and refuse, in the forms that it was taught by renderings of the reference.
    f"{THOUGHT}{PREAMBLE}{FORECAST}": {"auto": True, "required": True, "named": True, "none": False, "schema": False},
    f"{THOUGHT}{LOCATE}": {"auto": True, "required": True, "named": False, "none": False, "object": False},
    f"{THOUGHT}{FORECAST}": {"auto": True, "required": True, "named": True, "none": False, "no reasoning": False},
    f'{THOUGHT}{MARKED}{{"answer": "Tokyo"}}<|return|>': {
        "auto": True, "required": False, "named": False, "none": True, "schema": True, "object": True,
        "compact": False, "regex": False, "choice": False, "grammar": False,
    },
    f'{THOUGHT}{MARKED}{{"city": "Tokyo"}}<|return|>': {"auto": True, "schema": False, "object": True, "regex": False},
    f"{THOUGHT}{PLAIN}any<|return|>": {"auto": True, "required": False, "regex": True, "choice": False},
    f"{THOUGHT}{PLAIN}one<|return|>": {"auto": True, "none": True, "object": False, "choice": True, "grammar": False},
    f"{THOUGHT}{PLAIN}abc<|return|>": {"auto": True, "named": False, "schema": False, "choice": False, "grammar": True},
    # Their neighbours: what guides, chat templates and models write besides.
    f"{THOUGHT}<|channel|>commentary to=functions.forecast<|constrain|>json<|message|>{ARGUMENTS}<|call|>": {
        "auto": True, "required": True, "named": True, "none": False,
    },
    f"{THOUGHT} to=functions.forecast<|channel|>commentary <|constrain|>json<|message|>{ARGUMENTS}<|call|>": {
        "auto": True, "required": True, "named": True, "no reasoning": False,
    },
    f"<|channel|>commentary to=functions.forecast<|message|>{ARGUMENTS}<|call|>": {
        "auto": True, "required": True, "no reasoning": True,
    },
    f"<|channel|>analysis to=functions.forecast code<|message|>{ARGUMENTS}<|call|>": {
        "auto": True, "required": True, "named": True, "none": False, "no reasoning": True,
    },
    f"<|channel|>analysis to=python code<|message|>{PYTHON}<|call|>": {"auto": True, "required": False, "none": False},
    '<|channel|>analysis to=browser.search code<|message|>{"query": "Bern"}<|call|>': {"auto": True, "named": False},
    f'{PLAIN}{{"answer":"Tokyo"}}<|return|>': {"auto": True, "schema": True, "object": True, "compact": True},
    f'{PLAIN}{{"answer": "Tokyo","more":[1, 2,3]}}<|return|>': {"auto": True, "schema": True, "object": True},
    f'{PLAIN}{{"answer":  "Tokyo"}}<|return|>': {"auto": True, "schema": True, "object": True, "compact": False},
    f'{PLAIN}{{"answer" : "Tokyo"}}<|return|>': {"auto": True, "schema": True, "object": True, "compact": False},
    f'{PLAIN}{{ "answer": "Tokyo" }}<|return|>': {"auto": True, "schema": True, "object": True, "compact": False},
    f'{PLAIN}\n{{\n  "answer": "\\u00fc\\/"\n}}\n<|return|>': {"schema": True, "object": True, "compact": False},
    f'{PLAIN}\n\n{{"answer": "Tokyo"}}<|return|>': {"auto": True, "schema": False, "object": False},
    f'{PLAIN}{{"answer":{" " * 99}"Tokyo"}}<|return|>': {"auto": True, "schema": False, "object": False},
    '<|channel|>final json<|message|>{"answer": "Tokyo"}<|return|>': {"auto": True, "schema": True, "choice": False},
    '<|channel|>final<|constrain|> json<|message|>{"answer": "Tokyo"}<|return|>': {"auto": True, "schema": True},
    '<|channel|>commentary to=functions.forecast code<|message|>\n{\n\t"city" : "Bern"\r\n}\n<|call|>': {"auto": True},
    '<|channel|>commentary to=functions.forecast <|constrain|> json<|message|>{"city":"\\u005a"}<|call|>': {
        "auto": True, "required": True, "named": True,
    },
    '<|channel|>commentary to=functions.forecast<|message|>\n\n{"city":"Bern"}<|call|>': {"auto": False},
    '<|channel|>commentary to=functions.forecast<|message|>{"days":1,"city":"Bern"}<|call|>': {"auto": False},
    f"{PLAIN}one<|end|>": {"auto": False, "choice": False},  # Inference would go on behind it.
    f"{THOUGHT}": {"auto": False, "required": False, "schema": False},
    f"{PREAMBLE}": {"auto": False, "required": False, "schema": False},
}  # fmt: skip


@pytest.mark.spec("HAR-84", "HAR-85", "HAR-94", "HAR-98", "HAR-103", "HAR-106", "HAR-107")
@pytest.mark.parametrize(("reply", "shape", "admitted"), [
    (reply, shape, admitted) for reply, shapes in REPLIES.items() for shape, admitted in shapes.items()
])  # fmt: skip
def test_a_constrained_model_may_write_what_it_was_trained_on_and_nothing_else(
    o200k: Tokenizer, reply: str, shape: str, admitted: bool
) -> None:
    assert admits(compiled(shape), reply, o200k) is admitted


CALLS = [
    *((to, type, ARGUMENTS) for to in ("functions.forecast",) for type in ("json", "code")),
    ("browser.search", "json", '{"query": "Bern"}'),
    ("browser.search", "code", '{"query":"Bern","topn":3}'),
    ("python", "code", PYTHON),
]
SPELLED = [
    (header, to, body)
    for to, type, body in CALLS
    for channel in ("commentary", "analysis")
    for header in headers(to, channel, type)
]


@pytest.mark.spec("HAR-17", "HAR-84", "HAR-85")
@pytest.mark.parametrize(("header", "to", "body"), dict.fromkeys(SPELLED))
def test_every_spelling_of_a_call_is_admitted_and_read_as_that_call(
    o200k: Tokenizer, header: str, to: str, body: str
) -> None:
    reply = f"{THOUGHT}{header}{body}<|call|>"
    assert admits(compiled("auto"), reply, o200k)
    for strict in (True, False):
        messages, incidents = read(reply, strict=strict)
        assert incidents == []
        assert [(m.recipient, m.text, m.end) for m in messages[1:]] == [(to, body, End.CALL)]
        assert messages[1].is_call


@pytest.mark.spec("HAR-85", "HAR-90")
@pytest.mark.parametrize("dialect", ["a", "b"])
@pytest.mark.parametrize(
    "reply",
    [
        *dict.fromkeys(f"{header}{body}<|call|>" for header, _, body in SPELLED),
        *(
            f"<|channel|>final{mark}<|message|>{{}}<|end|>"
            for mark in ("", " json", " <|constrain|>json", "<|constrain|>json")
        ),
    ],
)
def test_every_spelling_that_is_admitted_is_written_so_again(reply: str, dialect: Any) -> None:
    for strict in (True, False):
        (message,), _ = read(reply, strict=strict)
        assert spell(tuple(Harmony(dialect=dialect).messages.frame(message))) == f"<|start|>assistant{reply}"


@pytest.mark.parametrize("header", headers("functions.forecast", "commentary", "json"))
def test_no_spelling_lets_a_model_say_what_was_not_offered_or_does_not_fit(o200k: Tokenizer, header: str) -> None:
    wrong = [
        f"{header.replace('forecast', 'other')}{ARGUMENTS}<|call|>",
        f"{header.replace('functions.forecast', 'forecast')}{ARGUMENTS}<|call|>",
        f"{header.replace('commentary', 'final')}{ARGUMENTS}<|call|>",
        f"{header.replace('json', 'text')}x<|call|>",
        f'{header}{{"city": 1}}<|call|>',
        f"{header}{{}}<|call|>",
        f'{header}{{"city": "Bern", "to": 1}}<|call|>',
        f"{header}{ARGUMENTS}.<|call|>",
        f"{header}{ARGUMENTS}<|end|>",
        f"{header}{ARGUMENTS}<|call|>And then?",
        f"{header}{ARGUMENTS}<|call|><|start|>assistant{header}{ARGUMENTS}<|call|>",
        f"{header}{ARGUMENTS}",
    ]
    for reply in wrong:
        assert not admits(compiled("auto"), reply, o200k), reply
    matcher = compiled("required").matcher()
    assert matcher.consume(ids(f"{THOUGHT}{header}{ARGUMENTS}", o200k)) is None
    assert not matcher.accepting


@pytest.mark.parametrize("mark", ["", " json", " <|constrain|>json", "<|constrain|>json", "<|constrain|> json"])
def test_a_type_before_an_answer_is_no_recipient(o200k: Tokenizer, mark: str) -> None:
    reply = f'<|channel|>final{mark}<|message|>{{"answer": "Tokyo"}}<|return|>'
    assert admits(compiled("schema"), reply, o200k)
    for strict in (True, False):
        (answer,), incidents = read(reply, strict=strict)
        assert (answer.recipient, answer.content_type) == (None, "json" if mark else None)
        assert answer.constrained is ("constrain" in mark)
        assert {incident.code for incident in incidents} <= (set() if strict else {"bare-content-type"})


FORECASTS = dict.fromkeys(header for header, to, _ in SPELLED if to == "functions.forecast")


@pytest.mark.parametrize(("header", "literal"), [*zip(FORECASTS, cycle([False, True, True, False]), strict=False)])
def test_a_call_that_is_cut_anywhere_can_be_ended(o200k: Tokenizer, header: str, literal: bool) -> None:
    format = Harmony(literal=literal)
    grammar = ended_grammar(literal)
    reply = f"{header}{ARGUMENTS}<|call|>"
    written = o200k.encode(reply) if literal else ids(reply, o200k)
    for cut in range(0, len(written), 9):
        matcher = grammar.matcher()
        assert matcher.consume(written[:cut]) is None
        ending = grammar.ending(matcher, 64)
        assert ending is not None, reply
        parser = format.parser(strict=True, tools=TOOLS)
        events = [*parser.feed(PieceDecoder(o200k).feed([*written[:cut], *ending])), *parser.close()]
        (call,) = [event.message for event in events if isinstance(event, MessageEnded) and event.message.is_call]
        assert (call.recipient, set(json.loads(call.text)) >= {"city"}) == ("functions.forecast", True)


def test_an_ending_is_found_behind_blanks_and_before_a_name_that_might_be_text(o200k: Tokenizer) -> None:
    fixed = {"const": {"fixed": 1}}
    parameters = {"type": "object", "properties": {"q": fixed, 'q"': fixed}, "required": ["q", 'q"']}
    grammar = compile_grammar(
        Harmony().grammar(ReplyShape(tools=(ToolSpec("f", parameters=parameters),))), vocabulary()
    )
    for begun in ("", " \n\t", "{", '{\n "', '{"q" :\n\t\t', '{"q": {"fixed"\n  '):
        written = ids(f"<|channel|>commentary to=functions.f<|message|>{begun}", o200k)
        matcher = grammar.matcher()
        assert matcher.consume(written) is None
        ending = grammar.ending(matcher, 64)
        assert ending is not None, begun
        parser = Harmony().parser(strict=True)
        (call,) = [e.message for e in [*parser.feed(PieceDecoder(o200k).feed([*written, *ending])), *parser.close()]
                   if isinstance(e, MessageEnded)]  # fmt: skip
        assert json.loads(call.text) == {"q": {"fixed": 1}, 'q"': {"fixed": 1}}


@cache
def ended_grammar(literal: bool) -> CompiledGrammar:
    shape = ReplyShape(tools=TOOLS[1:], tool_choice=ToolChoice("required"), reasoning="off", preambles=False)
    if not literal:
        return compile_grammar(Harmony().grammar(shape), vocabulary())
    return compile_grammar(Harmony(literal=True).grammar(shape), vocabulary())


@pytest.mark.parametrize("header", headers("functions.forecast", "commentary", "json"))
def test_behind_a_thought_that_the_prompt_began_a_call_has_every_spelling(o200k: Tokenizer, header: str) -> None:
    opened = Message(role=Role.ASSISTANT, channel="analysis", text="They ask", end=End.NONE)
    prompt = list(Harmony().render(Conversation((Message(role=Role.USER, text="Rain?"), opened))))
    grammar = compile_grammar(Harmony().grammar(SHAPES["required"], prompt=prompt), vocabulary())
    assert admits(grammar, f" for it.<|end|><|start|>assistant{header}{ARGUMENTS}<|call|>", o200k)
    assert not admits(grammar, f"{header}{ARGUMENTS}<|call|>", o200k)


# -- random replies ---------------------------------------------------------------------------------------------------

WORDS = ("Bern", "Zürich", "雨", "🙂", "a b", 'say "hi"', "back\\slash", "new\nline", "<|end|>", "{}", "", "x" * 40)
SCALARS: tuple[dict[str, Any], ...] = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "null"},
    {"enum": ["c", "f", 3, None, True]},
    {"const": {"fixed": 1}},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"type": ["integer", "string"]},
    {"type": "string", "format": "date"},
)


def schema(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """Some object's schema, nested at most three deep."""
    names = chance.sample(["city", "unit", "days", "tags", "über", 'q"', "list", "nested"], chance.randint(0, 4))
    properties = {name: part(chance, depth + 1) for name in names}
    required = [name for name in names if chance.random() < 0.6]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def part(chance: random.Random, depth: int) -> dict[str, Any]:
    kind = chance.random()
    if depth < 3 and kind < 0.2:
        return schema(chance, depth)
    if depth < 3 and kind < 0.4:
        return {"type": "array", "items": part(chance, depth + 1), "maxItems": 3}
    return chance.choice(SCALARS)


def value(schema: dict[str, Any], chance: random.Random) -> Any:
    """Some value of the schema, its members in the schema's order."""
    if "const" in schema or "enum" in schema:
        return chance.choice(schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return value(chance.choice(schema["anyOf"]), chance)
    given = schema["type"]
    match chance.choice(given) if isinstance(given, list) else given:
        case "object":
            kept = [n for n in schema["properties"] if n in schema["required"] or chance.random() < 0.5]
            return {name: value(schema["properties"][name], chance) for name in kept}
        case "array":
            return [value(schema["items"], chance) for _ in range(chance.randint(0, 3))]
        case "string":
            return "2026-01-02" if "format" in schema else chance.choice(WORDS)
        case "integer":
            return chance.randint(-(10 ** chance.randint(1, 12)), 10**6)
        case "number":
            return chance.choice([0, -1.5, 3, 0.25, 12345.678])
        case "boolean":
            return chance.random() < 0.5
    return None


def written(value: Any, chance: random.Random) -> str:
    """The value as JSON, with a blank behind all, some or none of its commas and colons."""
    often = chance.choice([0, 0.5, 1])

    def blank() -> str:
        return " " if chance.random() < often else ""

    match value:
        case dict():
            members = (f"{json.dumps(k, ensure_ascii=False)}:{blank()}{written(v, chance)}" for k, v in value.items())
            return "{" + "".join(f",{blank()}{one}" for one in members).lstrip(", ") + "}"
        case list():
            return "[" + "".join(f",{blank()}{written(item, chance)}" for item in value).lstrip(", ") + "]"
    return json.dumps(value, ensure_ascii=False)


def random_shape(chance: random.Random) -> ReplyShape:
    tools = tuple(ToolSpec(f"tool_{i}", parameters=schema(chance)) for i in range(chance.randint(1, 6)))
    return ReplyShape(tools=tools, builtins=BUILTINS)


def turn(shape: ReplyShape, chance: random.Random) -> list[Message]:
    """What an assistant says in one turn: thoughts and preambles, then an answer or a call."""
    said = [
        Message(role=Role.ASSISTANT, channel=chance.choice(["analysis", "commentary"]), text=chance.choice(WORDS))
        for _ in range(chance.randint(0, 3))
    ]
    if chance.random() < 0.2:
        marked = chance.random() < 0.5
        return [*said, Message(role=Role.ASSISTANT, channel="final", text=chance.choice(WORDS), end=End.RETURN,
                               content_type="json" if marked else None, constrained=marked)]  # fmt: skip
    return [*said, called(shape, chance)]


def called(shape: ReplyShape, chance: random.Random) -> Message:
    tool = chance.choice(shape.tools)
    code = chance.random() < 0.15
    assert isinstance(tool.parameters, dict)
    type = chance.choice([None, "code"] if code else [None, "json", "code"])
    return Message(
        role=Role.ASSISTANT,
        channel=chance.choice(["commentary", "analysis"]),
        recipient="python" if code else tool.recipient,
        text=chance.choice(WORDS) if code else written(value(tool.parameters, chance), chance),
        content_type=type,
        constrained=type is not None and chance.random() < 0.5,
        end=End.CALL,
    )


def by_hand(message: Message, chance: random.Random) -> list[Piece]:
    """The call with some header that a model may sample."""
    type = message.content_type or ("code" if message.recipient == "python" else "json")
    header = chance.choice(headers(str(message.recipient), str(message.channel), type))
    return [*pieces(header), message.text, Control("<|call|>")]


def reply_of(messages: Sequence[Message], format: Harmony, chance: random.Random) -> list[Piece]:
    """The turn as the renderer writes it behind ``<|start|>assistant``; a call also as a model may."""
    start: list[Piece] = [Control("<|start|>"), "assistant"]
    whole = [[*format.messages.frame(message)][2:] for message in messages]
    if messages[-1].is_call and chance.random() < 0.5:
        whole[-1] = by_hand(messages[-1], chance)
    elif not messages[-1].is_call:
        whole[-1][-1] = Control("<|return|>")
    return [piece for i, frame in enumerate(whole) for piece in ([*start, *frame] if i else frame)]


@pytest.mark.spec("HAR-98")
@pytest.mark.parametrize("dialect", ["a", "b"])
def test_replies_of_the_renderer_and_of_models_are_admitted_and_read_back(o200k: Tokenizer, dialect: Any) -> None:
    format = Harmony(dialect=dialect)
    for seed in range(15):
        chance = random.Random(seed)
        shape = random_shape(chance)
        grammar = compile_grammar(format.grammar(shape), vocabulary())
        for _ in range(10):
            messages = turn(shape, chance)
            reply = reply_of(messages, format, chance)
            matcher = grammar.matcher()
            violation = matcher.consume(encode_pieces(reply, o200k))
            assert violation is None, (seed, violation, reply[-4:], shape.tools)
            assert matcher.accepting
            parser = format.parser(strict=True, tools=shape.tools)
            events = [*parser.feed(reply), *parser.close()]
            said = [event.message for event in events if isinstance(event, MessageEnded)]
            assert [(m.channel, m.recipient, m.text) for m in said] == [
                (m.channel, m.recipient, m.text) for m in messages
            ]
