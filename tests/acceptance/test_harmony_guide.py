"""The Harmony guide, example by example. Its texts are another's, so they are not in the repository."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

import pytest

from antiphon.conversation import (
    Conversation,
    End,
    Message,
    ReasoningEffort,
    ResponseFormat,
    Role,
    Settings,
    ToolNamespace,
    ToolSpec,
)
from antiphon.formats import HistoryPolicy
from antiphon.formats.harmony import Dialect, Harmony, HarmonyParser, parse_completion
from antiphon.formats.harmony.controls import CONTROLS
from antiphon.grammar import ReplyShape
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.tokens import Control, ControlScanner, Piece, Tokenizer, encode_pieces, spell
from kit.corpora import corpus_file
from kit.harmony_corpora import codes, ended

pytestmark = pytest.mark.corpus
Guide = dict[int, Any]
"""The examples by number: texts, and the ids of number 1."""

SETTINGS = Settings(reasoning_effort=ReasoningEffort.HIGH, current_date=date(2025, 6, 28))


@pytest.fixture(scope="module")
def guide() -> Guide:
    examples = json.loads(corpus_file("harmony/guide_examples.json").read_text("utf-8"))
    return {f["n"]: f["text"] for f in examples["fences"]} | {1: examples["fence_1_tokens"]}


def prompt(conversation: Conversation) -> str:
    return spell(tuple(Harmony().render(conversation)))


def pieces(text: str) -> list[Piece]:
    scanner = ControlScanner(CONTROLS)
    return [*scanner.feed(text), *scanner.close()]


def read(text: str, reply_as: Role | None = Role.ASSISTANT) -> list[Message]:
    parser = HarmonyParser(reply_as)
    parsed = [*parser.feed(pieces(text)), *parser.close()]
    assert set(codes(parsed)) <= {"stray-whitespace"}  # the guide breaks its lines between messages
    return ended(parsed)


def joined(text: str) -> str:
    """The guide's text without its line breaks (and one vertical tab) between messages."""
    return re.sub(r"(?<=\|>)\s(?=<\|start\|>)", "", text).rstrip("\n")


def user(text: str) -> Message:
    return Message(role=Role.USER, text=text)


def weather_tools() -> tuple[ToolSpec, ...]:
    form = {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}
    location = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
    locations = {
        "type": "array",
        "items": {"type": "string"},
        "description": 'List of city and state, e.g. ["San Francisco, CA", "New York, NY"]',
    }

    def taking(name: str, schema: Any) -> dict[str, Any]:
        return {"type": "object", "properties": {name: schema, "format": form}, "required": [name]}

    return (
        ToolSpec("get_location", "Gets the location of the user."),
        ToolSpec(
            "get_current_weather", "Gets the current weather in the provided location.", taking("location", location)
        ),
        ToolSpec(
            "get_multiple_weathers",
            "Gets the current weather in the provided list of locations.",
            taking("locations", locations),
        ),
    )


WEATHER = Conversation(
    (Message(role=Role.SYSTEM, text="Use a friendly tone."), user("What is the weather like in SF?")),
    tools=weather_tools(),
    settings=SETTINGS,
)


@pytest.mark.spec("HAR-24", "HAR-40", "HAR-41", "HAR-42")
def test_the_token_list_of_the_guide_gives_reasoning_and_answer(guide: Guide, o200k: Tokenizer) -> None:
    completion = parse_completion(guide[1], o200k)
    assert [(m.channel, m.end) for m in completion.messages] == [("analysis", End.END), ("final", End.RETURN)]
    assert completion.messages[1].text == "2 + 2 = 4."
    assert completion.incidents == ()


@pytest.mark.spec("HAR-39")
def test_the_most_basic_prompt_is_a_user_message_and_an_open_assistant(guide: Guide) -> None:
    verbatim = Conversation((user("What is 2 + 2?"),), verbatim=True)
    assert prompt(verbatim) == joined(guide[3])


@pytest.mark.spec("HAR-43", "HAR-44", "HAR-65", "HAR-66")
@pytest.mark.parametrize("fence", [4, 9])
def test_reasoning_and_answer_are_distinguished(guide: Guide, fence: int) -> None:
    analysis, final = read(guide[fence])
    assert (analysis.channel, analysis.text) == (
        "analysis",
        'User asks: "What is 2 + 2?" Simple arithmetic. Provide answer.',
    )
    assert (final.channel, final.text, final.end) == ("final", "2 + 2 = 4.", End.RETURN)


@pytest.mark.spec("HAR-50", "HAR-51", "HAR-52", "HAR-53", "HAR-57", "HAR-64")
def test_the_system_message_is_that_of_the_guide(guide: Guide) -> None:
    assert prompt(Conversation(settings=SETTINGS)) == guide[5] + "<|start|>assistant"


@pytest.mark.spec("HAR-55", "HAR-58", "HAR-71", "HAR-72", "HAR-74", "HAR-81")
def test_functions_are_offered_as_in_the_guide(guide: Guide) -> None:
    assert prompt(WEATHER) == guide[15]
    assert prompt(WEATHER).startswith(guide[6])


@pytest.mark.spec("HAR-60", "HAR-61")
def test_instructions_stand_in_the_developer_message(guide: Guide) -> None:
    conversation = Conversation((Message(role=Role.SYSTEM, text="{instructions}"),), settings=SETTINGS)
    assert guide[7] in prompt(conversation)


@pytest.mark.spec("HAR-45", "HAR-46", "HAR-48", "HAR-68", "HAR-69")
def test_a_finished_turn_goes_on_without_its_reasoning_and_ends_with_end(guide: Guide) -> None:
    turn = Conversation((user("What is 2 + 2?"), *read(guide[13]), user("What about 9 / 2?")), verbatim=True)
    assert turn.messages[2].end is End.RETURN
    assert prompt(turn) == joined(guide[14])


@pytest.mark.spec("HAR-82", "HAR-83", "HAR-84", "HAR-85", "HAR-86")
def test_a_call_is_read_with_its_recipient_and_its_type(guide: Guide) -> None:
    analysis, call = read(guide[16])
    assert analysis.text == "Need to use function get_current_weather."
    assert (call.recipient, call.channel) == ("functions.get_current_weather", "commentary")
    assert (call.content_type, call.constrained, call.end) == ("json", True, End.CALL)
    assert json.loads(call.text) == {"location": "San Francisco"}
    assert call.is_call


@pytest.mark.spec("HAR-11", "HAR-87", "HAR-88", "HAR-89")
def test_a_result_is_a_message_under_the_name_of_its_tool(guide: Guide) -> None:
    (result,) = read(guide[18], reply_as=None)
    assert (result.role, result.name, result.recipient) == (Role.TOOL, "functions.get_current_weather", "assistant")
    assert guide[18].startswith(guide[17].split("{toolname}")[0] + "functions.get_current_weather to=assistant")


@pytest.mark.spec("HAR-70", "HAR-90", "HAR-91")
@pytest.mark.parametrize("dialect", ["a", "b"])
def test_the_reasoning_that_led_to_a_call_is_passed_on_with_its_result(guide: Guide, dialect: Dialect) -> None:
    conversation = WEATHER.add(*read(guide[16]), *read(guide[18], reply_as=None))
    assert spell(tuple(Harmony(dialect=dialect).render(conversation))) == joined(guide[19])


@pytest.mark.spec("HAR-88", "HAR-90")
def test_a_result_that_nobody_wrote_yet_is_written_as_in_the_guide(guide: Guide) -> None:
    output = Message(role=Role.TOOL, name="functions.get_current_weather", text='{"sunny": true, "temperature": 20}')
    assert prompt(WEATHER.add(*read(guide[16]), output)) == joined(guide[19])


@pytest.mark.spec("HAR-25", "HAR-84", "HAR-90")
@pytest.mark.parametrize("dialect", ["a", "b"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("fence", [3, 4, 5, 6, 7, 9, 12, 13, 14, 15, 16, 18, 19, 20, 22, 23, 24])
def test_each_example_that_is_read_is_written_as_it_was(
    guide: Guide, fence: int, strict: bool, dialect: Dialect
) -> None:
    """Each header, text and end; a prompt's open assistant is the renderer's."""
    text, open_reply = joined(guide[fence]), "<|start|>assistant"
    whole = text if text.startswith("<|start|>") else open_reply + text
    harmony = Harmony(dialect=dialect)
    parser = harmony.parser(reply_as=None, strict=strict)
    parsed = [*parser.feed(pieces(whole.removesuffix(open_reply))), *parser.close()]
    assert codes(parsed) == []
    conversation = Conversation(tuple(ended(parsed)), verbatim=True)
    if whole.endswith(open_reply):
        written = harmony.render(conversation, history=HistoryPolicy.KEEP_ALL)
    else:
        written = harmony.render_for_training(conversation, history=HistoryPolicy.KEEP_ALL)
    assert spell(tuple(written)) == whole


@pytest.mark.spec("HAR-18", "HAR-92", "HAR-93", "HAR-94")
def test_a_preamble_is_commentary_to_nobody_and_may_be_shown(guide: Guide) -> None:
    analysis, preamble, call = read(guide[20])
    assert (preamble.is_preamble, analysis.is_preamble, call.is_preamble) == (True, False, False)
    assert (preamble.end, call.end) == (End.END, End.CALL)


@pytest.mark.spec("HAR-85", "HAR-86", "HAR-94", "HAR-98")
@pytest.mark.parametrize("number", [16, 20])
def test_the_replies_of_the_guide_are_admitted_where_a_model_is_constrained(
    guide: Guide, o200k: Tokenizer, number: int
) -> None:
    reply = joined(guide[number]).removeprefix("<|start|>assistant")
    names = sorted({name for _, name in re.findall(r"to=(functions\.([\w]+))", reply)})
    shape = ReplyShape(tools=tuple(ToolSpec(name, parameters={"type": "object"}) for name in names))
    grammar = compile_grammar(Harmony().grammar(shape), Vocabulary(o200k, [o200k.controls[Control("<|call|>")]]))
    matcher = grammar.matcher()
    assert matcher.consume(encode_pieces(pieces(reply), o200k)) is None
    assert matcher.accepting


@pytest.mark.spec("HAR-62", "HAR-95", "HAR-96", "HAR-97")
def test_the_form_of_the_answer_stands_at_the_end_of_the_developer_message(guide: Guide) -> None:
    items = {"type": "array", "description": "entries on the shopping list", "items": {"type": "string"}}
    form = ResponseFormat("json_schema", "shopping_list", schema={"properties": {"items": items}, "type": "object"})
    conversation = Conversation(
        (
            Message(role=Role.SYSTEM, text="You are a helpful shopping assistant"),
            user("I need to buy coffee, soda and eggs"),
        ),
        response_format=form,
        settings=SETTINGS,
    )
    assert prompt(conversation).endswith(joined(guide[22]))


@pytest.mark.spec("HAR-100", "HAR-101", "HAR-102", "HAR-105")
@pytest.mark.parametrize(("name", "fence"), [("browser", 23), ("python", 24)])
def test_a_built_in_tool_is_described_in_the_system_message(guide: Guide, name: str, fence: int) -> None:
    conversation = Conversation(builtins=(ToolNamespace(name),), settings=SETTINGS)
    assert prompt(conversation) == guide[fence] + "<|start|>assistant"
