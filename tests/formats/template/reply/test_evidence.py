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
@pytest.mark.parametrize(
    "source", [FAMILIES["mistral list"], NAMED, WITHOUT_ID], ids=["list", "named", "without an id"]
)
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
