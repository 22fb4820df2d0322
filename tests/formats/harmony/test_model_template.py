"""gpt-oss's own chat templates and this renderer: the same ids, but for the differences that docs/harmony.md lists.

A conversation is read as the chat API reads it and rendered here; the template gets it as `apply_chat_template` hands
it over. What the template writes otherwise is a rule that turns our prompt into the template's; nothing else may
differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import jinja2
import pytest

from antiphon import read_chat
from antiphon.catalog.files.text import ModelText
from antiphon.catalog.format_choice import choose_format
from antiphon.catalog.known_formats import known_formats
from antiphon.config import O200K, ModelEntry
from antiphon.conversation import Conversation, End, Message, MessageEnded, Role, ToolNamespace, visible_to_user
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS
from antiphon.tokens import Control, ControlScanner, Piece, Tokenizer, encode_pieces, spell
from kit.gpt_oss_templates import ORIGINS, Origin, gpt_oss_template
from kit.plain_jinja import TODAY, plain_jinja

BOTH = pytest.mark.parametrize("origin", ORIGINS)
CASES = 100
TEXTS = (
    *(
        "Rain in Bern?",
        "x",
        "Zwei Wörter",
        "日本の天気は?",
        "a\n\nb",
        " lead",
        "trail \n",
        'He said "no".',
        "🗼🗼",
        "'s",
    ),
    *('{"a": [1, 2]}', "```py\nprint(1)\n```", "1234567", "\\n \\u00e9", "Tool: f(x) -> {}", "to=functions.f", "don't"),
)
NAMES = ("get_weather", "f", "search-web", "F2", "read_file", "a_")
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {"city": "Bern"},
    {"n": 1, "deep": {"list": [1.5, None, True]}},
    {"ü": "天気\n"},
    {"q": 'a "b"'},
)

PLAIN_TYPES: tuple[Any, ...] = (
    {"type": "string"},
    {"type": "number"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "string", "enum": ["c", "f"]},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
    {"type": "array", "items": {"type": "boolean"}, "nullable": True},
    {"type": ["string", "null"]},
    {"type": ["number", "string"]},
    {"type": "string", "nullable": True},
    {"type": "string", "format": "date"},
    {"type": "integer", "minimum": 1, "maximum": 9},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"$ref": "#/$defs/x"},
    {"const": 1},
    {"enum": [1, 2]},
    {"type": "integer", "enum": [1, 2]},
    {"type": ["string"]},
    {"type": "null"},
    {},
)
"""Types that the templates print as the reference does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One conversation twice: the chat API's body, and what the template is given."""

    body: dict[str, Any]
    given: dict[str, Any]
    builtins: tuple[str, ...] = ()

    def conversation(self) -> Conversation:
        """As the server reads it, today."""
        read = read_chat(self.body)
        settings = replace(read.settings, current_date=TODAY)
        return replace(read, settings=settings, builtins=tuple(map(ToolNamespace, self.builtins)))


class Cases:
    """Random conversations of users, answers, reasoning, calls and results."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def case(self) -> Case:
        often, pick = self._often, self._random.choice
        head = [{"role": pick(("system", "developer")), "content": self._text()}] if often(0.6) else []
        tools = (
            [self._tool(name) for name in self._random.sample(NAMES, self._random.randint(1, 3))] if often(0.6) else []
        )
        messages, theirs = list(head), deepcopy(head)
        turns = self._random.randint(1, 4)
        for turn in range(turns):
            self._turn(messages, theirs, names=[tool["function"]["name"] for tool in tools], answered=turn < turns - 1)
        body: dict[str, Any] = {"model": "gpt-oss", "messages": messages}
        given: dict[str, Any] = {"messages": theirs, "tools": tools or None, "add_generation_prompt": True}
        if tools:
            body["tools"] = tools
        if often(0.5):
            body["reasoning_effort"] = given["reasoning_effort"] = pick(("low", "medium", "high"))
        builtins = tuple(name for name in ("browser", "python") if often(0.2))
        if builtins:
            given["builtin_tools"] = list(reversed(builtins))
        return Case(body=body, given=given, builtins=builtins)

    def _turn(self, messages: list[Any], theirs: list[Any], *, names: Sequence[str], answered: bool) -> None:
        user = {"role": "user", "content": self._text()}
        messages.append(user)
        theirs.append(user)
        for step in range(self._random.randint(0, 3) if names else 0):
            self._step(messages, theirs, names, f"c{len(messages)}-{step}")
        if answered:
            answer = {"role": "assistant", "content": self._text()}
            messages.append(answer | ({"reasoning_content": self._text()} if self._often(0.5) else {}))
            theirs.append(answer)

    def _step(self, messages: list[Any], theirs: list[Any], names: Sequence[str], id: str) -> None:
        """One or several calls with their results; each is a message of its own for the template."""
        reasoning = self._text() if self._often(0.5) else None
        preamble = self._text() if reasoning is None and self._often(0.3) else None
        count = self._random.choice((1, 1, 2))
        calls = [call(f"{id}-{i}", self._random.choice(names), self._arguments()) for i in range(count)]
        results = [result(made["id"], self._text()) for made in calls]
        message: dict[str, Any] = {"role": "assistant", "content": preamble, "tool_calls": calls}
        messages += [message | ({"reasoning_content": reasoning} if reasoning else {}), *results]
        for i, (made, answer) in enumerate(zip(calls, results, strict=True)):
            one = calling(with_object(made), **({"content": preamble} if preamble and i == 0 else {}))
            theirs += [one | ({"thinking": reasoning} if reasoning and i == 0 else {}), answer]

    def _tool(self, name: str) -> dict[str, Any]:
        function: dict[str, Any] = {"name": name, "description": self._line()}
        if self._often(0.8):
            properties = {f"p{i}": self._parameter() for i in range(self._random.randint(1, 4))}
            required = [key for key in properties if self._often(0.5)]
            function["parameters"] = {"type": "object", "properties": properties, "required": required}
        return {"type": "function", "function": function}

    def _parameter(self) -> dict[str, Any]:
        schema = dict(self._random.choice(PLAIN_TYPES))
        if self._often(0.4):
            schema["description"] = self._text()
        if self._often(0.3):
            text = "enum" in schema or "string" in str(schema.get("type"))
            schema["default"] = "c" if text else self._random.choice((1, -1.5, True, None))
        return schema

    def _arguments(self) -> str:
        separators = (",", ":") if self._often(0.3) else None
        return json.dumps(self._random.choice(ARGUMENTS), ensure_ascii=self._often(0.3), separators=separators)

    def _text(self) -> str:
        return self._random.choice(TEXTS)

    def _line(self) -> str:
        return self._random.choice([text for text in TEXTS if "\n" not in text])

    def _often(self, chance: float) -> bool:
        return self._random.random() < chance


@dataclass(frozen=True, slots=True)
class Frame:
    """A message of a prompt as text."""

    header: str
    text: str
    end: str

    def __str__(self) -> str:
        return f"<|start|>{self.header}<|message|>{self.text}{self.end}"


def frames_of(prompt: str) -> list[Frame]:
    """The messages of a prompt; the start of the reply is none."""
    pattern = r"<\|start\|>(.*?)<\|message\|>(.*?)(<\|end\|>|<\|call\|>)"
    found = [Frame(*map(str, match.groups())) for match in re.finditer(pattern, prompt, re.DOTALL)]
    assert "".join(map(str, found)) + "<|start|>assistant" == prompt
    return found


def instructions_alone(frames: list[Frame]) -> list[Frame]:
    return [
        replace(f, text=f.text + "\n\n") if f.header == "developer" and "# Tools\n\n## functions\n" not in f.text else f
        for f in frames
    ]


def comma_after_default(frames: list[Frame]) -> list[Frame]:
    line = re.compile(r"^(p\d\?{0,1}: .*, // default: .*)$", re.MULTILINE)
    return [replace(f, text=line.sub(r"\1,", f.text)) if f.header == "developer" else f for f in frames]


def unmarked_type(frames: list[Frame]) -> list[Frame]:
    return [replace(f, header=f.header.replace("<|constrain|>", "")) for f in frames]


def results_as_json(frames: list[Frame]) -> list[Frame]:
    result = re.compile(r"functions\..* to=assistant<\|channel\|>commentary")
    return [replace(f, text=as_json(f.text)) if result.fullmatch(f.header) else f for f in frames]


def arguments_anew(frames: list[Frame]) -> list[Frame]:
    return [replace(f, text=as_json(json.loads(f.text))) if f.end == "<|call|>" else f for f in frames]


def preamble_as_analysis(frames: list[Frame]) -> list[Frame]:
    """What is said before a call is written on analysis, and dropped like it."""
    answered = max((i for i, f in enumerate(frames) if f.header == "assistant<|channel|>final"), default=-1)
    preamble, analysis = (f"assistant<|channel|>{channel}" for channel in ("commentary", "analysis"))
    shown = [f for i, f in enumerate(frames) if i > answered or f.header != preamble]
    return [replace(f, header=analysis) if f.header == preamble else f for f in shown]


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


Rule = Callable[[list[Frame]], list[Frame]]
EVERYWHERE: tuple[Rule, ...] = (unmarked_type, comma_after_default, arguments_anew, preamble_as_analysis)
RULES: dict[Origin, tuple[Rule, ...]] = {
    "openai": (*EVERYWHERE, instructions_alone, results_as_json),
    "unsloth": EVERYWHERE,
}


def ours(case: Case, o200k: Tokenizer) -> tuple[list[int], str]:
    """Our ids, and the same prompt as text."""
    pieces = list(Harmony().render(case.conversation()))
    return encode_pieces(pieces, o200k), spell(pieces)


def ids(text: str, o200k: Tokenizer) -> list[int]:
    """As a tokenizer of Hugging Face's encodes a prompt: controls by their spelling."""
    scanner = ControlScanner(CONTROLS)
    return encode_pieces([*scanner.feed(text), *scanner.close()], o200k)


@BOTH
def test_generated_conversations_have_the_same_ids_but_for_the_listed_differences(
    origin: Origin, o200k: Tokenizer
) -> None:
    used: set[str] = set()
    same = 0
    for seed in range(CASES):
        case = Cases(seed).case()
        written, text = ours(case, o200k)
        assert written == ids(text, o200k)
        frames = frames_of(text)
        for rule in RULES[origin]:
            changed = rule(frames)
            used |= {rule.__name__} if changed != frames else set()
            frames = changed
        expected = "".join(map(str, frames)) + "<|start|>assistant"
        theirs = plain_jinja(gpt_oss_template(origin), deepcopy(case.given))
        assert theirs == expected, f"seed {seed}"
        assert (written == ids(theirs, o200k)) == (theirs == text)
        same += theirs == text
    assert used == {rule.__name__ for rule in RULES[origin]}, "each rule is needed"
    assert same > CASES / 10, "and there are conversations that need none"


USER = {"role": "user", "content": "Q"}
SYSTEM = {"role": "system", "content": "S"}
FINAL = "<|start|>assistant<|channel|>final<|message|>"
ANALYSIS = "<|start|>assistant<|channel|>analysis<|message|>"
PREAMBLE = "<|start|>assistant<|channel|>commentary<|message|>"


def call(id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def with_object(made: dict[str, Any]) -> dict[str, Any]:
    """The call with its arguments as an object."""
    function = made["function"]
    return {**made, "function": {**function, "arguments": json.loads(function["arguments"])}}


def result(id: str, content: str = "R") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def calling(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", **fields, "tool_calls": list(calls)}


def tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "description": "D", **function}}


def here(messages: Sequence[Any], **body: Any) -> str:
    """Our prompt of a chat request."""
    conversation = Case(body={"model": "m", "messages": list(messages), **body}, given={}).conversation()
    return spell(list(Harmony().render(conversation)))


def there(origin: Origin, messages: Sequence[Any], tools: Sequence[Any] | None = None, **given: Any) -> str:
    """The template's prompt of the same messages, arguments as objects, reasoning as its own field."""
    passed = deepcopy(list(messages))
    for message in passed:
        if "tool_calls" in message:
            message["tool_calls"] = [with_object(made) for made in message["tool_calls"]]
        if "reasoning_content" in message:
            message["thinking"] = message.pop("reasoning_content")
    variables = {"messages": passed, "tools": tools, "add_generation_prompt": True, **given}
    return plain_jinja(gpt_oss_template(origin), variables)


def parameters(text: str) -> str:
    """Those of the one tool of a prompt."""
    return text.partition("(_: {\n")[2].partition("}) => any;")[0]


OTHER_TYPES: dict[str, tuple[dict[str, Any], str, str]] = {
    "an object": (
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "required": ["a"]},
        "p: {\n    a: string,\n    b?: number,\n    },\n",
        "p: {\na: \n                string, b?: \n                number},\n",
    ),
    "an object without properties": (
        {"type": "object"},
        "p: {\n    },\n",
        "p: object,\n",
    ),
    "an array of objects": (
        {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "p: {\n    a?: string,\n    }[],\n",
        "p: {\na?: \n                string}[],\n",
    ),
    "an array of anything": (
        {"type": "array"},
        "p: Array<any>,\n",
        "p: any[],\n",
    ),
    "an array of choices": (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        'p: "a" | "b"[],\n',
        "p: string[],\n",
    ),
    "a list of types": (
        {"type": ["integer", "null"]},
        "p: number | null,\n",
        "p: integer | null,\n",
    ),
    "a number or null": (
        {"type": "number", "nullable": True},
        "p: number | null,\n",
        "p: number,\n",
    ),
    "a choice or null": (
        {"type": "string", "enum": ["a"], "nullable": True},
        'p: "a" | null,\n',
        'p: "a",\n',
    ),
    "a default that is a list": (
        {"type": "array", "items": {"type": "integer"}, "default": [1, 2]},
        "p: number[], // default: [1,2]\n",
        "p: number[], // default: [1, 2],\n",
    ),
    "an array of large objects": (
        {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        },
        "p: {\n    a?: string,\n    b?: string,\n    }[],\n",
        "p: any[],\n",
    ),
    "variants": (
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "p:\n | string\n | number\n,\n",
        "p: string | \nnumber,\n",
    ),
    "variants of objects": (
        {"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "number"}]},
        "p:\n | {\n   a?: string,\n   }\n | number\n,\n",
        "p: {\na?: \n                string} | \nnumber,\n",
    ),
    "a title": (
        {"type": "string", "title": "T"},
        "// T\n//\np: string,\n",
        "p: string,\n",
    ),
    "an empty description": (
        {"type": "string", "description": ""},
        "// \np: string,\n",
        "p: string,\n",
    ),
    "a default with quotation marks": (
        {"type": "string", "default": 'a "b"'},
        'p: string, // default: "a "b""\n',
        'p: string, // default: "a \\"b\\"",\n',
    ),
    "a default that is very small": (
        {"type": "number", "default": 1e-07},
        "p: number, // default: 1e-7\n",
        "p: number, // default: 1e-07,\n",
    ),
    "choices that are no text": (
        {"type": "string", "enum": ["a", 1]},
        'p: "a",\n',
        'p: "a" | "1",\n',
    ),
    "examples": (
        {"type": "string", "examples": ["E"]},
        '// Examples:\n// - "E"\np: string,\n',
        "p: string,\n",
    ),
}


@BOTH
@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_these_types_are_printed_otherwise(origin: Origin, kind: str) -> None:
    schema, harmony, template = OTHER_TYPES[kind]
    tools = [tool(parameters={"type": "object", "properties": {"p": schema}, "required": ["p"]})]
    assert parameters(here([USER], tools=tools)) == harmony
    assert parameters(there(origin, [USER], tools)) == template


@BOTH
def test_a_function_is_described_otherwise(origin: Origin) -> None:
    empty = [tool(parameters={"type": "object", "properties": {}})]
    assert "type f = (_: {\n}) => any;" in here([USER], tools=empty)
    assert "type f = () => any;" in there(origin, [USER], empty)
    described = [tool(parameters={"type": "object", "description": "TOP", "properties": {"p": {"type": "string"}}})]
    assert "type f = (_: // TOP\n{\np?: string,\n}) => any;" in here([USER], tools=described)
    assert "type f = (_: {\np?: string,\n}) => any;" in there(origin, [USER], described)
    unsaid = [tool(description="")]
    assert "{\n\ntype f" in here([USER], tools=unsaid)
    assert "{\n\n// \ntype f" in there(origin, [USER], unsaid)
    lines = [tool(description="One.\nTwo.")]
    assert "// One.\n// Two.\ntype f" in here([USER], tools=lines)
    assert "// One.\nTwo.\ntype f" in there(origin, [USER], lines)


@BOTH
def test_only_the_first_call_of_a_message_is_written_and_all_results_have_its_name(origin: Origin) -> None:
    messages = [USER, calling(call("1", "f"), call("2", "g")), result("1", "A"), result("2", "B")]
    first, second = (f"functions.{name} to=assistant<|channel|>commentary" for name in "fg")
    written = [frame.header for frame in frames_of(here(messages))][-4:]
    assert (written[1], written[3], "functions.g" in written[2]) == (first, second, True)
    assert [frame.header for frame in frames_of(there(origin, messages))][-2:] == [first, first]
    assert "functions.g" not in there(origin, messages)


@BOTH
def test_a_later_system_message_is_not_written(origin: Origin) -> None:
    later = {"role": "system", "content": "LATER"}
    for messages in ([SYSTEM, later, USER], [SYSTEM, USER, later], [USER, later]):
        assert "LATER" in here(messages)
        assert "LATER" not in there(origin, messages)


@BOTH
def test_a_response_format_is_not_written(origin: Origin) -> None:
    assert "# Response Formats" in here([USER], response_format={"type": "json_object"})
    assert "json" not in there(origin, [USER], response_format={"type": "json_object"}).lower()


@BOTH
def test_every_call_is_of_a_function(origin: Origin) -> None:
    made = Message(role=Role.ASSISTANT, recipient="python", content_type="code", text="1", end=End.CALL)
    conversation = Conversation((Message(role=Role.USER, text="Q"), made))
    assert "<|start|>assistant to=python<|channel|>analysis code<|message|>1<|call|>" in spell(
        list(Harmony().render(conversation))
    )
    assert "to=functions.python" in there(origin, [USER, calling(call("1", "python"))])


@BOTH
def test_an_effort_is_the_word_as_it_is(origin: Origin) -> None:
    assert "Reasoning: low\n" in here([USER], reasoning_effort="minimal")
    assert "Reasoning: minimal\n" in there(origin, [USER], reasoning_effort="minimal")


@BOTH
def test_reasoning_is_read_under_one_name(origin: Origin) -> None:
    messages = [USER, calling(call("1"), reasoning_content="WHY"), result("1")]
    assert ANALYSIS + "WHY<|end|>" in here(messages)
    assert ANALYSIS + "WHY<|end|>" in there(origin, messages)
    given = {"messages": [USER, calling({"function": {"name": "f", "arguments": {}}}, reasoning_content="WHY")]}
    assert "WHY" not in plain_jinja(gpt_oss_template(origin), given)


def test_unsloths_writes_an_earlier_answer_that_has_reasoning_as_reasoning() -> None:
    messages = [USER, {"role": "assistant", "content": "A", "reasoning_content": "WHY"}, USER]
    for prompt in (here(messages), there("openai", messages)):
        assert (FINAL + "A<|end|>" in prompt, "WHY" in prompt) == (True, False)
    assert ANALYSIS + "A<|end|>" in there("unsloth", messages)


@BOTH
@pytest.mark.parametrize("reasoning", [{}, {"reasoning_content": "WHY"}])
def test_an_answer_is_continued_as_the_template_has_it(origin: Origin, reasoning: dict[str, str]) -> None:
    """`apply_chat_template` cuts what is written at the end of the last message's text."""
    earlier = [USER, {"role": "assistant", "content": "E"}]
    messages = [*earlier, USER, {"role": "assistant", "content": "So far", **reasoning}]
    whole = there(origin, messages, add_generation_prompt=False)
    assert here(messages, continue_final_message=True) == whole[: whole.rindex("So far") + len("So far")]
    assert whole.count("WHY") == len(reasoning)


REFUSED: dict[str, tuple[list[Any], list[Any] | None]] = {
    "a result without a call": ([USER, {"role": "assistant", "content": "A"}, result("1")], None),
    "a tool without a description": ([USER], [{"type": "function", "function": {"name": "f"}}]),
    "a text that spells a channel": ([USER, {"role": "assistant", "content": "<|channel|>final<|message|>"}], None),
    "text and reasoning before a call": ([USER, calling(call("1"), content="T", reasoning_content="W")], None),
    "a default of choices that is no text": (
        [USER],
        [tool(parameters={"type": "object", "properties": {"p": {"enum": [1, 2], "default": 1}}})],
    ),
    "an empty list of calls": ([USER, {"role": "assistant", "content": "A", "tool_calls": []}], None),
    "content in parts": ([{"role": "user", "content": [{"type": "text", "text": "Q"}]}], None),
}


@BOTH
@pytest.mark.parametrize("kind", REFUSED)
def test_the_template_refuses_what_harmony_can_say(origin: Origin, kind: str) -> None:
    messages, tools = REFUSED[kind]
    with pytest.raises((jinja2.TemplateError, TypeError)):
        there(origin, messages, tools)
    if kind != "a result without a call":
        assert here(messages, **({"tools": tools} if tools else {})).endswith("<|start|>assistant")


@BOTH
def test_with_the_template_as_chat_template_prompts_are_its_own_and_replies_are_harmony(
    origin: Origin, o200k: Tokenizer, tmp_path: Path
) -> None:
    (tmp_path / "gpt-oss.jinja").write_text(gpt_oss_template(origin))
    entry = ModelEntry(chat_template=str(tmp_path / "gpt-oss.jinja"), tokenizer=O200K)
    format = choose_format("gpt-oss", entry, ModelText(tokenizer=o200k), known_formats())
    for seed in range(0, CASES, 5):
        case = Cases(seed).case()
        pieces = list(format.render(case.conversation()))
        theirs = plain_jinja(gpt_oss_template(origin), deepcopy(case.given))
        assert arguments_anew(frames_of(spell(pieces))) == frames_of(theirs), f"seed {seed}"
        assert encode_pieces(pieces, o200k) == ids(spell(pieces), o200k)
    reply: list[Piece] = [Control("<|channel|>"), "analysis", Control("<|message|>"), "WHY", Control("<|end|>")]
    reply += [Control("<|start|>"), "assistant", Control("<|channel|>"), "final", Control("<|message|>"), "A"]
    parser = format.parser()
    ended = [e.message for e in [*parser.feed(reply), *parser.close()] if isinstance(e, MessageEnded)]
    assert [(message.text, visible_to_user(message)) for message in ended] == [("WHY", False), ("A", True)]
