"""One description, three uses: what a format's grammar accepts its strict parser reads, and its renderer writes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from antiphon.conversation import (
    BROWSER,
    Channel,
    Conversation,
    End,
    Incident,
    Message,
    MessageEnded,
    ParserEvent,
    ResponseFormat,
    Role,
    ToolChoice,
    ToolNamespace,
    ToolSpec,
)
from antiphon.errors import UnsupportedError
from antiphon.formats import Parser
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS as HARMONY_CONTROLS
from antiphon.formats.openchatml import OpenChatML, openchatml
from antiphon.formats.openchatml.spelling import CONTROLS as OPENCHATML_CONTROLS
from antiphon.formats.replies import PLAIN, CompiledDescription, DescriptionParser, ReplyDescription, reply_grammar
from antiphon.formats.replies.describe import family_named
from antiphon.formats.template.format import QWEN, REPLIES
from antiphon.grammar import Grammar, ReplyShape
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import ByteTokenizer, Control, Piece, PieceDecoder
from kit.masks import allowed

EOS = Control("<|im_end|>")


@dataclass(frozen=True)
class Case:
    """A format as the law sees it: its vocabulary, its grammar of a shape, its strict parser."""

    controls: Sequence[Control]
    grammar: Callable[[ReplyShape], Grammar]
    parser: Callable[[], Parser]
    reasons: bool = True
    ends: bool = False

    def compile(self, shape: ReplyShape) -> CompiledGrammar:
        return compile_grammar(self.grammar(shape), self.vocabulary)

    @cached_property
    def tokenizer(self) -> ByteTokenizer:
        return ByteTokenizer([EOS, *self.controls])

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.tokenizer, [self.tokenizer.controls[EOS]])

    def read(self, ids: Sequence[int]) -> list[ParserEvent]:
        """As generation reads: an end token of the model's is shown to a format that has it among its stops."""
        pieces = [piece for piece in PieceDecoder(self.tokenizer).feed(ids) if piece != EOS or self.ends]
        parser = self.parser()
        return [*parser.feed(pieces), *parser.close()]


def of(format: Harmony | OpenChatML, controls: Sequence[Control] = ()) -> Case:
    return Case(controls, format.grammar, lambda: format.parser(strict=True), ends=EOS in format.stops)


def described(replies: ReplyDescription, controls: Sequence[str] = (), *, thinking: bool = False) -> Case:
    owned = [Control(spelling) for spelling in controls]
    compiled = CompiledDescription(replies, owned, ())
    prompt = ["<|im_start|>assistant\n", *([] if not thinking else ["<think>\n"])]
    return Case(
        owned,
        lambda shape: reply_grammar(shape, replies, controls=owned, begun=compiled.begun_by(prompt)),
        lambda: DescriptionParser(compiled, prompt=prompt, tools=TOOLS, strict=True),
        replies.reasoning is not None,
    )


HERMES = msgspec.structs.replace(QWEN, anchor="<|im_start|>assistant\n")
DEEPSEEK = ReplyDescription(reasoning=QWEN.reasoning, calls=family_named("DeepSeek V3").calls)
DEEPSEEK_CONTROLS = [f"<｜tool▁{name}｜>" for name in ("calls▁begin", "calls▁end", "call▁begin", "call▁end", "sep")]
MISTRAL = ReplyDescription(calls=family_named("Mistral").calls)
LLAMA = REPLIES["llama3_1"]
CASES = {
    "harmony": of(Harmony(), HARMONY_CONTROLS),
    "harmony b": of(Harmony(dialect="b"), HARMONY_CONTROLS),
    "harmony, spelled": of(Harmony(literal=True)),
    "harmony b, spelled": of(Harmony(dialect="b", literal=True)),
    "openchatml": of(OpenChatML(controls=OPENCHATML_CONTROLS), OPENCHATML_CONTROLS),
    "openchatml, spelled": of(openchatml([EOS])),
    "hermes, spelled": described(HERMES),
    "hermes": described(HERMES, ["<tool_call>", "</tool_call>", "<think>", "</think>"]),
    "hermes, thinking": described(HERMES, thinking=True),
    "mistral": described(MISTRAL, ["[TOOL_CALLS]"]),
    "mistral, spelled": described(MISTRAL),
    "deepseek": described(DEEPSEEK, DEEPSEEK_CONTROLS),
    "llama": described(LLAMA, ["<|python_tag|>"]),
    "llama, bare": described(ReplyDescription(calls=LLAMA.calls[2:])),
    "llama, named": described(ReplyDescription(calls=LLAMA.calls[:1])),
    "internlm": described(REPLIES["internlm2"], ["<|action_start|>", "<|plugin|>", "<|action_end|>"]),
}

ARGUMENTS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 6}, "unit": {"enum": ["c", "f"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = (ToolSpec("weather", parameters=ARGUMENTS), ToolSpec("now", parameters={"type": "object", "maxProperties": 0}))
BUILTINS = (BROWSER, ToolNamespace("python"))
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
SHAPES = {
    "text": ReplyShape(),
    "auto": ReplyShape(tools=TOOLS),
    "built-ins": ReplyShape(builtins=BUILTINS),
    "built-ins, a call is required": ReplyShape(tools=TOOLS, builtins=BUILTINS, tool_choice=ToolChoice("required")),
    "built-ins, no other call": ReplyShape(tools=TOOLS, builtins=BUILTINS, tool_choice=ToolChoice("none")),
    "named, not a built-in": ReplyShape(
        tools=TOOLS, builtins=BUILTINS, tool_choice=ToolChoice("required", ("weather",))
    ),
    "none": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("none")),
    "required": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("required")),
    "required, one": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("required"), parallel=False, preambles=False),
    "named": ReplyShape(tools=TOOLS, tool_choice=ToolChoice("required", ("weather",))),
    "reasoning required": ReplyShape(reasoning="required"),
    "reasoning off": ReplyShape(reasoning="off", tools=TOOLS),
    "schema": ReplyShape(response_format=ResponseFormat("json_schema", schema=PERSON, strict=True)),
    "reasoning, then schema": ReplyShape(
        reasoning="required", response_format=ResponseFormat("json_schema", schema=PERSON)
    ),
    "auto and schema": ReplyShape(tools=TOOLS, response_format=ResponseFormat("json_schema", schema=PERSON)),
    "regex": ReplyShape(response_format=ResponseFormat("regex", pattern="[A-Z]{3}-[0-9]{4}")),
    "choice": ReplyShape(response_format=ResponseFormat("choice", choices=("yes", "no", "may be"))),
}
COMPILED: dict[tuple[str, str], CompiledGrammar] = {}


def compiled(case: str, shape: str) -> CompiledGrammar:
    if (case, shape) not in COMPILED:
        bounded = {**_fields(SHAPES[shape]), "max_text": 12, "max_reasoning": 8}
        COMPILED[case, shape] = CASES[case].compile(ReplyShape(**bounded))
    return COMPILED[case, shape]


def _fields(shape: ReplyShape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in ReplyShape.__dataclass_fields__}


def member(grammar: CompiledGrammar, size: int, chance: random.Random) -> list[int]:
    """Some reply that the grammar accepts: wherever several ids may come, one of them by chance."""
    matcher = grammar.matcher()
    ids: list[int] = []
    while not matcher.stopped and len(ids) < 3000:
        left = allowed(matcher.mask(), size)
        if not left or (matcher.accepting and chance.random() < 0.5):
            break
        # Markup now and then, so that texts come near to what they must not spell.
        markup = [id for id in left if id >= 256 or id in b'<|>[]{}"\\end']
        ids.append(chance.choice(markup if markup and chance.random() < 0.6 else left))
        assert matcher.consume(ids[-1:]) is None
    assert matcher.accepting
    return ids


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_what_the_grammar_accepts_the_strict_parser_reads_without_incident(case: str, seed: int) -> None:
    for name, shape in SHAPES.items():
        note(name)
        if shape.reasoning == "required" and not CASES[case].reasons:
            with pytest.raises(UnsupportedError):
                CASES[case].grammar(shape)
            continue
        grammar = compiled(case, name)
        ids = member(grammar, CASES[case].tokenizer.size, random.Random(seed))
        events = CASES[case].read(ids)
        assert [event for event in events if isinstance(event, Incident)] == []
        check(shape, [event.message for event in events if isinstance(event, MessageEnded)], grammar)


def check(shape: ReplyShape, messages: list[Message], grammar: CompiledGrammar) -> None:
    """The messages are what the shape requires."""
    calls = [message for message in messages if message.is_call]
    answers = [m for m in messages if not m.is_call and m.effective_channel == Channel.FINAL]
    offered = {tool.recipient: tool for tool in shape.callable}
    own = dict(shape.builtin_calls())
    assert all((call.recipient in offered) is not (call.recipient in own) for call in calls)
    assert len(calls) <= len(shape.ids)
    assert not shape.must_call or (calls and not answers)
    for call in calls:
        to = str(call.recipient)
        arguments = shape.arguments(offered[to]) if to in offered else own[to]
        assert arguments is None or grammar.schemas[arguments.path].fault(call.text) is None
    form = shape.response_format
    for answer in answers:
        match form.kind:
            case "json_schema":
                assert grammar.schemas["response_format.json_schema.schema"].fault(answer.text) is None
            case "choice":
                assert answer.text in form.choices
            case "regex":
                assert len(answer.text) == 8
    assert messages
    assert answers or calls or form.kind == "text"


FORMATS: dict[str, Harmony | OpenChatML] = {
    "harmony": Harmony(),
    "harmony b": Harmony(dialect="b"),
    "harmony, spelled": Harmony(literal=True),
    "harmony b, spelled": Harmony(dialect="b", literal=True),
    "openchatml": OpenChatML(controls=OPENCHATML_CONTROLS, header=False),
    "openchatml, spelled": OpenChatML(header=False),
}
# A text that ends with ``<`` before a spelled-out control takes a literal block, which no reply needs.
TEXTS = st.text(st.sampled_from("ab é\n<|>end/think"), min_size=1, max_size=12).map(
    lambda text: text.strip("< \n") or "a"
)


def built_in(to: str, code: str) -> Message:
    """A call of one of the server's own tools, as each format's grammar writes it."""
    asks = to.startswith("browser")
    code = code if asks else code.strip("< ")
    return Message(
        role=Role.ASSISTANT, channel="analysis", recipient=to, call_id="call_0", end=End.CALL,
        text=json.dumps({"query": code}, separators=(",", ":")) if asks else code,
    )  # fmt: skip


def turn(
    thought: str | None, preamble: str | None, answer: str | None, city: str, to: str = "functions.weather"
) -> list[Message]:
    written = []
    if thought is not None:
        written.append(Message(role=Role.ASSISTANT, channel="analysis", text=thought))
    if preamble is not None and answer is None:
        written.append(Message(role=Role.ASSISTANT, channel="commentary", text=preamble, intent="preamble"))
    if answer is not None:
        written.append(Message(role=Role.ASSISTANT, channel="final", text=answer, end=End.RETURN))
    elif to != "functions.weather":
        written.append(built_in(to, city))
    else:
        arguments = json.dumps({"city": city}, separators=(",", ":"))
        written.append(
            Message(
                role=Role.ASSISTANT,
                channel="commentary",
                recipient="functions.weather",
                content_type="json",
                constrained=True,
                text=arguments,
                call_id="call_0",
                end=End.CALL,
            )
        )
    return written


@pytest.mark.parametrize("case", FORMATS)
@settings(max_examples=40, deadline=None)
@given(
    thought=st.none() | TEXTS,
    preamble=st.none() | TEXTS,
    answer=st.none() | TEXTS,
    city=st.text(st.sampled_from("ab <>|"), max_size=6),
    to=st.sampled_from(["functions.weather", "browser.search", "python"]),
)
def test_what_the_renderer_writes_for_an_assistants_turn_the_grammar_accepts(
    case: str, thought: str | None, preamble: str | None, answer: str | None, city: str, to: str
) -> None:
    # Where controls are spelled out, no string of a call contains the beginning of one (docs/structured-output.md).
    assume("<|" not in city or "spelled" not in case)
    format = FORMATS[case]
    before = Conversation((Message(role=Role.USER, text="hi"),))
    written = turn(thought, preamble, answer, city, to)
    if "openchatml" in case and to == "browser.search" and answer is None:
        written[-1] = replace(written[-1], content_type="json", constrained=True)
    after = before.add(*written)
    if isinstance(format, Harmony):
        whole = list(format.render_for_training(after))
    else:
        whole = list(format.render(after, reply_as=None))
    reply = continuation(list(format.render(before)), whole, bool(CASES[case].controls))
    tokenizer = CASES[case].tokenizer
    ids = [
        id
        for piece in reply
        for id in ([tokenizer.controls[piece]] if isinstance(piece, Control) else tokenizer.encode(piece))
    ]
    key = (case, "all that a turn may say")
    if key not in COMPILED:
        COMPILED[key] = CASES[case].compile(ReplyShape(tools=TOOLS, builtins=BUILTINS))
    matcher = COMPILED[key].matcher()
    assert matcher.consume(ids) is None, reply
    assert matcher.accepting


def continuation(prompt: list[Piece], whole: list[Piece], owned: bool) -> list[Piece]:
    """What comes after the prompt. A history ends an answer like any message, a reply ends with ``<|return|>``."""
    if owned:
        assert whole[: len(prompt) - 1] == prompt[:-1]
        first = whole[len(prompt) - 1]
        assert isinstance(first, str)
        rest: list[Piece] = [first.removeprefix("assistant"), *whole[len(prompt) :]]
        return [*rest[:-1], Control("<|return|>")] if rest[-1] == Control("<|end|>") else rest
    begun, text = "".join(map(str, prompt)), "".join(map(str, whole))
    assert text.startswith(begun)
    rest_text = text.removeprefix(begun).rstrip("\n")
    return [rest_text.removesuffix("<|end|>") + "<|return|>" if rest_text.endswith("<|end|>") else rest_text]


def test_a_prompt_that_opened_an_answer_is_continued_and_constrained_to_nothing_more() -> None:
    format = Harmony()
    opened = Message(role=Role.ASSISTANT, channel="final", text="The answer", end=End.NONE)
    prompt = list(format.render(Conversation((Message(role=Role.USER, text="hi"), opened))))
    case = CASES["harmony"]
    grammar = compile_grammar(format.grammar(ReplyShape(), prompt=prompt), case.vocabulary)
    matcher = grammar.matcher()
    assert matcher.consume([*b" is 42.", case.tokenizer.controls[Control("<|return|>")]]) is None
    assert matcher.accepting
    with pytest.raises(UnsupportedError):
        format.grammar(SHAPES["schema"], prompt=prompt)


@pytest.mark.parametrize("format", [OpenChatML(opening="final")])
def test_a_format_that_cannot_call_refuses_to_be_made_to(format: OpenChatML) -> None:
    with pytest.raises(UnsupportedError) as refused:
        format.grammar(SHAPES["required"])
    assert refused.value.param == "tool_choice"
    with pytest.raises(UnsupportedError):
        reply_grammar(SHAPES["required"], PLAIN, controls=())


@pytest.mark.parametrize(("case", "answer"), [("harmony, spelled", "<|channel|>final"), ("hermes, spelled", "Well")])
def test_where_reasoning_is_required_no_reply_begins_with_the_answer(case: str, answer: str) -> None:
    assert compiled(case, "text").matcher().consume(list(answer.encode())) is None
    assert compiled(case, "reasoning required").matcher().consume(list(answer.encode())) is not None


@pytest.mark.parametrize("end", ["<|return|>", "<|end|>", ""])
@pytest.mark.parametrize("case", ["harmony, spelled", "harmony b, spelled", "openchatml, spelled"])
def test_an_answer_spelled_out_ends_with_a_spelled_control_and_whatever_end_token_the_engine_adds(
    case: str, end: str
) -> None:
    of_model = CASES[case].tokenizer.controls[EOS]
    matcher = CASES[case].compile(ReplyShape()).matcher()
    answer = [*f"<|channel|>final<|message|>Yes.{end}".encode(), of_model]
    assert matcher.consume(answer) is None
    assert matcher.accepting
    events = CASES[case].read(answer)
    assert [event for event in events if isinstance(event, Incident)] == []
    assert [event.message.text for event in events if isinstance(event, MessageEnded)] == ["Yes."]


@pytest.mark.parametrize("case", ["hermes", "hermes, spelled", "hermes, thinking"])
def test_where_reasoning_is_required_blanks_are_no_thought(case: str) -> None:
    thinks, tokenizer = compiled(case, "reasoning required"), CASES[case].tokenizer
    opened = [] if case == "hermes, thinking" else ids_of("<think>", tokenizer)
    closed = [*ids_of("</think>", tokenizer), *b"42", tokenizer.controls[EOS]]
    for blank in (b"", b"\n", b"\n\n", b" "):
        assert thinks.matcher().consume([*opened, *blank, *closed]) is not None
    for thought in (b"Hm", b"\nHm.\n"):
        assert thinks.matcher().consume([*opened, *thought, *closed]) is None


def ids_of(spelling: str, tokenizer: ByteTokenizer) -> list[int]:
    owned = tokenizer.controls.get(Control(spelling))
    return list(spelling.encode()) if owned is None else [owned]
