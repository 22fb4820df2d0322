"""A reply's form is known by what the template writes, by what it tells the model, and by what the vocabulary has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from antiphon.conversation import Conversation, Incident, Message, MessageEnded, ParserEvent, Role, ToolSpec
from antiphon.formats.template import JinjaFormat, jinja_format
from antiphon.tokens import Control, ControlScanner, Piece
from kit.family_templates import FAMILIES
from kit.reply_templates import ARGUMENTS, each, template

MISTRAL = ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]")
WEATHER = ToolSpec("weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})
ASKED = Conversation((Message(role=Role.USER, text="Rome?"),), tools=(WEATHER,))
NAMED = FAMILIES["mistral named"]
WITHOUT_ID = NAMED.replace("[CALL_ID]' + c.id + '", "")
CALL = '{"name": "weather", "parameters": {"city": "Rome"}}'
CALLED = ("functions.weather", '{"city": "Rome"}')
Said = list[tuple[str, str]]


def format_of(source: str, controls: Collection[str] = ()) -> JinjaFormat:
    return jinja_format(source, [Control(spelling) for spelling in ("<|e|>", *controls)])


def events(format: JinjaFormat, reply: str, *, by_character: bool = False) -> list[ParserEvent]:
    scanner = ControlScanner(format.vocabulary)
    pieces: list[Piece] = [*scanner.feed(reply), *scanner.close()]
    if by_character:
        pieces = [part for piece in pieces for part in ([piece] if isinstance(piece, Control) else piece)]
    parser = format.parser(prompt=list(format.render(ASKED)), tools=[WEATHER])
    found = [event for piece in pieces for event in parser.feed([piece])]
    return [*found, *parser.close()]


def read(format: JinjaFormat, reply: str) -> Said:
    """The recipient (or the channel) and the text of each message, which are the same however the reply is cut."""
    whole, cut = (list(_said(events(format, reply, by_character=each))) for each in (False, True))
    assert whole == cut
    return whole


def _said(found: list[ParserEvent]) -> Iterator[tuple[str, str]]:
    for event in found:
        if isinstance(event, MessageEnded):
            yield event.message.recipient or event.message.channel or "", event.message.text


@pytest.mark.parametrize("controls", [MISTRAL, ()], ids=["controls", "text"])
@pytest.mark.parametrize("source", [FAMILIES["mistral list"], NAMED, WITHOUT_ID], ids=["list", "named", "no id"])
@pytest.mark.parametrize("head", ["[CALL_ID]a1b2c3d4e[ARGS]", "[ARGS]"])
def test_an_id_between_a_name_and_its_arguments_is_no_part_of_these(
    source: str, controls: tuple[str, ...], head: str
) -> None:
    assert read(format_of(source, controls), f'[TOOL_CALLS]weather{head}{{"city": "Rome"}}') == [CALLED]


@pytest.mark.parametrize("behind", ["", "7f", " weather"])
def test_a_control_that_no_form_has_ends_a_name_and_what_stands_behind_it_is_told(behind: str) -> None:
    source = template(reply=each("{{ '<|do|>' + f.name + '<|with|>' }}" + ARGUMENTS + "{{ '<|done|>' }}"))
    format = format_of(source, ("<|do|>", "<|with|>", "<|done|>", "<|other|>"))
    reply = f'<|do|>weather<|other|>{behind}<|with|>{{"city": "Rome"}}<|done|>'
    assert read(format, reply) == [CALLED]
    told = [event.text for event in events(format, reply) if isinstance(event, Incident)]
    assert told == ["<|other|>", *([behind.strip()] if behind else [])]


EMPTY_PAIR = template(
    header="<|a|>\n",
    text="{{ '' if m.tool_calls else m.content }}",
    reply="{{ '<|run|>' + m.content + '<|/run|>' }}"
    + each('{"name": {{ f.name | tojson }}, "parameters": ' + ARGUMENTS + "}"),
)
LLAMA_4 = (
    EMPTY_PAIR.replace("<|run|>", "<|python_start|>")
    .replace("<|/run|>", "<|python_end|>")
    .replace("<|a|>", "<|header_start|>assistant<|header_end|>\n")
)
PYTHON = ("<|python_start|>", "<|python_end|>", "<|header_start|>", "<|header_end|>", "<|eom|>")


@pytest.mark.parametrize("controls", [("<|run|>", "<|/run|>"), ()], ids=["controls", "text"])
def test_marks_with_nothing_between_them_are_no_section_of_calls(controls: tuple[str, ...]) -> None:
    format = format_of(EMPTY_PAIR, controls)
    assert format.replies.calls[0].section is None
    assert "two_calls" in format.found.proof.proven
    for reply in ("{call}", "<|run|><|/run|>{call}"):
        assert read(format, reply.replace("{call}", CALL)) == [CALLED]


@pytest.mark.parametrize("controls", [PYTHON, ()], ids=["controls", "text"])
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("[weather(city='Rome')]", [CALLED]),
        ("[weather(city='Rome'), weather(city='Rome')]", [CALLED, CALLED]),
        (CALL, [CALLED]),
        ("<|python_start|>[weather(city='Rome')]<|python_end|><|eom|>", [CALLED]),
        (f"<|python_start|>{CALL}<|python_end|>", [CALLED]),
        (f"<|python_start|>Look.<|python_end|>{CALL}", [("final", "Look."), CALLED]),
        ("[1] says so.", [("final", "[1] says so.")]),
        ("<|python_start|>print(1)<|python_end|>", [("final", "print(1)")]),
    ],
)
def test_llama_4_calls_as_its_prompt_says_as_it_was_trained_and_between_marks(
    reply: str, said: Said, controls: tuple[str, ...]
) -> None:
    format = format_of(LLAMA_4, controls)
    assert format.found.proof.failed == ()
    assert read(format, reply) == said
