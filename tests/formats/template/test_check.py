"""A template tried before it is trusted: what is lost, what changes from turn to turn, and what is refused."""

from __future__ import annotations

from functools import cache

import pytest

from antiphon.conversation import Conversation, Role
from antiphon.errors import TemplateError
from antiphon.formats.replies.proof import MOST_READ, pieces_of
from antiphon.formats.template import PromptChange, TemplateCheck, check_template, jinja_format, origin_words
from antiphon.formats.template.check import UnsafeConstruct, unsafe_constructs
from antiphon.formats.template.stability import prompt_changes
from antiphon.tokens import ByteTokenizer, Control, Piece, encode_pieces
from kit.family_templates import FAMILIES
from kit.reply_templates import ARGUMENTS, each, template

TURNS = (
    "answered",
    "answered, tools offered",
    "reasoning of the turn before",
    "a call's result",
    "after a call was answered",
)
_LAST = (
    "{%- set last = namespace(at=0) %}{%- for m in messages %}{%- if m.role == 'user' %}"
    "{%- set last.at = loop.index0 %}{%- endif %}{%- endfor %}"
)
_EACH = """{%- for m in messages %}{{ '<|' + m.role + '|>' }}
{%- if m.reasoning_content and loop.index0 > last.at %}{{ '<think>' + m.reasoning_content + '</think>' }}{%- endif %}
{{- m.content }}{%- for c in m.tool_calls or [] %}{{ '<tool_call>' + ({'name': c.function.name, 'arguments':
c.function.arguments} | tojson) + '</tool_call>' }}{%- endfor %}{{ '<|e|>' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}"""
DROPS_REASONING = _LAST + _EACH
WITH_THE_DATE = "{{ 'Today is ' + strftime_now('%d %B %Y') + '.' }}" + DROPS_REASONING
TOOLS_AT_THE_END = DROPS_REASONING.replace(
    "{{ '<|' + m.role", "{%- if tools and loop.index0 == last.at %}{{ tools | tojson }}{%- endif %}{{ '<|' + m.role"
)


@cache
def check(source: str) -> TemplateCheck:
    return check_template(jinja_format(source, ()), cuts="many")


def changes(source: str) -> dict[str, PromptChange]:
    format = jinja_format(source, ())

    def render(conversation: Conversation, opens_reply: bool) -> list[Piece]:
        return list(format.render(conversation, reply_as=Role.ASSISTANT if opens_reply else None))

    return {each.turn: each for each in prompt_changes(render, format.replies, sorted(format.arguments))}


def test_replies_to_a_template_of_harmony_are_harmony_unless_their_form_is_configured() -> None:
    source = "{#- <|start|><|channel|><|message|> #}" + template(reply=each(ARGUMENTS))
    configured = jinja_format(source, (), replies=jinja_format(FAMILIES["hermes"], ()).replies)
    assert [check(source).found.origin, check_template(configured, cuts="many").found.origin] == [
        "harmony",
        "configured",
    ]


@pytest.mark.parametrize("family", ["hermes"])
def test_a_check_at_many_cuts_finds_what_one_at_every_cut_does(family: str) -> None:
    """It is what a server does for anybody who asks, within a second of its processor."""
    format = jinja_format(FAMILIES[family], ())
    many, every = check_template(format, cuts="many"), check_template(format)
    assert many == every
    assert len(many.found.proof.proven) >= 10


def test_many_cuts_of_a_reply_are_no_more_work_for_a_longer_one() -> None:
    for size in (100, 1_000, 30_000):
        read = sum(len(str(piece)) for parts in pieces_of(["x" * size], "many") for part in parts for piece in part)
        assert read <= MOST_READ["many"] + 3 * size, "whole, by the character, and in two parts"


def test_a_template_that_is_understood_loses_nothing() -> None:
    found = check(FAMILIES["hermes"])
    assert found.lost == ()
    assert (found.found.origin, found.found.proof.failures) == ("derived", ())
    assert {"call", "two_calls", "reasoning_answer"} <= set(found.found.proof.proven)
    assert found.variables == ("add_generation_prompt", "messages", "tools")
    assert found.prompts["question"] == "<|u|>What is the weather in Rome?<|e|>\n<|a|>\n"
    assert "zqweather" in found.prompts["tools"]


def test_calls_that_are_not_read_back_are_lost_and_named() -> None:
    found = check(template(reply=each("{{ f.name + ' with ' + (f.arguments | tojson | replace('\"', '')) }}")))
    assert "call is not read back as it is written" in found.lost
    assert found.found.proof.failed[0].reply


def test_what_a_template_refuses_is_reported_in_its_words() -> None:
    found = check("{%- if messages[0].role == 'user' %}{{ raise_exception('no questions') }}{%- endif %}")
    assert "no questions" in found.refused["question"]
    assert any("a question alone is refused" in line for line in found.lost)


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        (DROPS_REASONING, {"reasoning of the turn before": "reasoning", "after a call was answered": "reasoning"}),
        (TOOLS_AT_THE_END, {"answered, tools offered": "tools"}),
        (FAMILIES["hermes"], {}),
    ],
)
def test_the_first_change_from_turn_to_turn_has_its_cause(source: str, changed: dict[str, str]) -> None:
    found = changes(source)
    causes = {turn: found[turn].cause for turn in TURNS if not found[turn].stable}
    assert changed.items() <= causes.items()
    assert bool(causes) is bool(changed)


def test_a_change_says_where_it_is_and_how_the_prompts_go_on() -> None:
    change = changes(DROPS_REASONING)["reasoning of the turn before"]
    assert change.at == len("<|user|>What is the weather in Rome?<|e|><|assistant|>")
    assert change.former.startswith("<think>")
    assert change.next.startswith("It is sunny.")


def test_the_day_changes_a_prompt_that_has_the_date() -> None:
    assert changes(DROPS_REASONING)["another day"].stable
    change = changes(WITH_THE_DATE)["another day"]
    assert (change.cause, change.at) == ("date", len("Today is 0"))


@pytest.mark.parametrize("years", [range(2020, 2025), range(2026, 2033)])
def test_a_template_that_knows_the_years_of_a_table_is_tried_in_one_of_them(years: range) -> None:
    unknown = f"{{%- if strftime_now('%Y') | int not in {list(years)} %}}"
    knows = unknown + "{{ raise_exception('no such year') }}{%- endif %}"
    found = check(knows + FAMILIES["hermes"])
    assert found.lost == ()
    assert (found.found.origin, found.prompts.keys()) == ("derived", check(FAMILIES["hermes"]).prompts.keys())


def test_a_template_argument_that_changes_the_prompt_is_named() -> None:
    found = changes(DROPS_REASONING + "{%- if not brief %}{{ 'Say all.' }}{%- endif %}{%- if unused %}{%- endif %}")
    assert found["brief true or false"].cause == "argument"
    assert found["unused true or false"].stable


def test_a_vocabulary_says_at_which_token_a_prompt_changes() -> None:
    tokenizer = ByteTokenizer([Control("<|user|>"), Control("<|assistant|>"), Control("<|e|>")])
    format = jinja_format(DROPS_REASONING, tokenizer.controls)
    change = next(c for c in check_template(format, tokenizer).changes if c.turn == "reasoning of the turn before")
    begun: list[Piece] = [
        Control("<|user|>"),
        "What is the weather in Rome?",
        Control("<|e|>"),
        Control("<|assistant|>"),
    ]
    assert change.token == len(encode_pieces(begun, tokenizer))


def test_constructs_that_the_sandbox_refuses_are_found_with_their_lines() -> None:
    source = "{{ messages }}\n{{ ''.__class__.mro() }}\n{{ messages['__len__'] }}\n{%- include 'other' %}"
    assert unsafe_constructs(source) == (
        UnsafeConstruct(2, "the attribute '__class__'"),
        UnsafeConstruct(3, "the attribute '__len__'"),
        UnsafeConstruct(4, "include of another template"),
    )
    assert unsafe_constructs(FAMILIES["hermes"]) == ()
    assert "line 2 has the attribute '__class__', which is refused" in check("\n".join(source.splitlines()[:2])).lost


def test_a_template_that_is_none_has_its_line() -> None:
    with pytest.raises(TemplateError) as caught:
        check("{{ messages }}\n{% if %}")
    assert caught.value.position is not None
    assert caught.value.position.line == 2


def test_the_origin_is_told_in_words() -> None:
    assert origin_words(check(FAMILIES["hermes"]).found) == "the chat template, from which it was derived"
