"""A reply's form is known by what the template writes, by what it tells the model, and by what the vocabulary has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from antiphon.conversation import Conversation, Incident, Message, MessageEnded, ParserEvent, Role, ToolSpec
from antiphon.formats.template import JinjaFormat, jinja_format
from antiphon.formats.template.check import check_template
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


@cache
def format_of(source: str, controls: tuple[str, ...] = ()) -> JinjaFormat:
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


def test_the_form_that_proves_most_is_taken_where_that_of_the_history_is_not_what_models_say() -> None:
    """Apriel's template writes ids in the calls of earlier turns alone; its family's form has none."""
    called = '{{ \'{"name": "\' + f.name + \'", "arguments": \' }}' + ARGUMENTS
    id = '{%- if not last %}{{ \', "id": "\' + c.id }}{%- endif %}'
    calls = "{%- set last = loop.last %}{{ '<tool_calls>[' }}" + each(called + id + "{{ '}' }}", ", ")
    format = format_of("{#- [BEGIN FINAL RESPONSE] #}" + template(reply=calls + "{{ ']</tool_calls>' }}"))
    assert (format.found.origin, format.found.families, format.found.proof.failed) == ("family", ("Apriel",), ())
    reply = '<tool_calls>[{"name": "weather", "arguments": {"city": "Rome"}}]</tool_calls>'
    assert read(format, reply) == [CALLED]


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


HERMES_SHOWN = '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
BARE_SHOWN = '{"name": function name, "parameters": dictionary of arguments}'
LIST_SHOWN = "[first(key=value, other=value), second(...)]"
XML_SHOWN = "<function=example>\n<parameter=key>\nvalue\n</parameter>\n</function>"


def showing(example: str, source: str) -> str:
    """The template, telling its model of the example where tools are offered."""
    return "{%- if tools %}{{ " + repr(f"Call so:\n{example}\n") + " }}{%- endif %}" + source


@pytest.mark.parametrize(
    ("example", "name"),
    [(HERMES_SHOWN, "hermes"), (BARE_SHOWN.replace("parameters", "arguments"), "hermes"), (XML_SHOWN, "xml parameter")],
)
def test_an_example_that_is_of_the_form_that_the_template_writes_changes_nothing(example: str, name: str) -> None:
    alone, shown = format_of(FAMILIES[name]), format_of(showing(example, FAMILIES[name]))
    assert shown.replies.calls == alone.replies.calls
    assert shown.found.warnings == ()
    assert shown.found.evidence.instructions.startswith(example[:9])


@pytest.mark.parametrize("name", ["dsml", "xml parameter", "mistral named"])
@pytest.mark.parametrize(
    ("example", "reply"),
    [
        (BARE_SHOWN, CALL),
        (LIST_SHOWN, "[weather(city='Rome')]"),
        (f"<do>{BARE_SHOWN}</do>", f"<do>{CALL}</do>"),
        (f"<do>\n[{BARE_SHOWN}, …]\n</do>", f"<do>[{CALL}]</do>"),
        (f"<do>{LIST_SHOWN}</do>", "<do>[weather(city='Rome')]</do>"),
    ],
)
def test_where_a_template_shows_another_form_than_it_writes_both_are_read(name: str, example: str, reply: str) -> None:
    format = format_of(showing(example, FAMILIES[name]))
    assert format.replies.calls[0] == format_of(FAMILIES[name]).replies.calls[0]
    assert format.found.proof.failed == ()
    assert read(format, reply) == [CALLED]
    assert [warning for warning in format.found.warnings if "both are read" in warning]


@pytest.mark.parametrize(
    ("example", "name", "reply"),
    [
        (f"[{BARE_SHOWN}]", "hermes", f"[{CALL}]"),
        (
            XML_SHOWN,
            "hermes",
            "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>",
        ),
        ('<invoke name="f"><parameter name="k">v</parameter></invoke>', "xml parameter", None),
    ],
)
def test_a_template_that_shows_calls_in_other_tags_or_a_list_loses_them_where_they_are_not_read(
    example: str, name: str, reply: str | None
) -> None:
    source = showing(example, "{# <parameter= #}" + FAMILIES[name])
    told, lost = format_of(source).found.warnings[-1], check_template(format_of(source)).lost
    if reply is not None:
        assert read(format_of(source), reply) == [CALLED]
    assert told.endswith("both are read" if reply is not None else "the latter alone is read")
    assert lost == (() if reply is not None else ("calls as the template shows them to the model are not read",))


@pytest.mark.parametrize("example", [BARE_SHOWN, f"<do>{BARE_SHOWN}</do>"])
def test_calls_that_a_template_shows_and_does_not_write_are_read_and_said_to_be_unproven(example: str) -> None:
    format = format_of(showing(example, template(reply="")))
    assert read(format, example.replace(BARE_SHOWN, CALL)) == [CALLED]
    assert format.found.warnings == (
        "calls are known by an example that the template shows and not proven: the template writes none",
    )


@pytest.mark.parametrize(
    "text",
    ['{"name": "look", "description": "Looks."}', '{"name": "look", "type": "function"}', "[1](a=b", "f(a=1)", ""],
)
def test_a_tools_definition_is_no_example_of_a_call(text: str) -> None:
    assert format_of(showing(text, FAMILIES["hermes"])).found.evidence.instructions == ""


NO_TOOLS = (
    "{%- for m in messages %}{{ '<|u|>' + m.content + '<|e|>' if m.role == 'user' else '<|a|>' + m.content + '<|e|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|a|>' }}{%- endif %}"
)


@pytest.mark.parametrize(
    ("controls", "reply"),
    [
        (MISTRAL, '[TOOL_CALLS]weather[ARGS]{"city": "Rome"}'),
        (MISTRAL, '[TOOL_CALLS]weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Rome"}'),
        (("[TOOL_CALLS]",), '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome"}}]'),
        (("<|tool_call_start|>", "<|tool_call_end|>"), '<|tool_call_start|>[weather(city="Rome")]<|tool_call_end|>'),
        (PYTHON, "<|python_start|>[weather(city='Rome')]<|python_end|>"),
        (("<tool_call>", "</tool_call>"), f"<tool_call>\n{CALL.replace('parameters', 'arguments')}\n</tool_call>"),
    ],
)
def test_what_a_vocabulary_has_for_calls_is_read_where_the_template_knows_no_tools(
    controls: tuple[str, ...], reply: str
) -> None:
    format = format_of(NO_TOOLS, controls)
    assert format.found.taught
    assert format.found.evidence.vocabulary
    assert read(format, reply) == [CALLED]
    assert read(format, f"<tool_call>\n{CALL}\n</tool_call>") == [CALLED]


def test_a_vocabulary_without_such_controls_adds_nothing() -> None:
    format = format_of(NO_TOOLS, ("<|u|>", "<|a|>"))
    assert (len(format.replies.calls), format.found.evidence.vocabulary) == (1, ())
    assert read(format, "[TOOL_CALLS]weather") == [("final", "[TOOL_CALLS]weather")]
