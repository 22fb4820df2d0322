"""The linter: each rule finds its bad example and not its good one, and what it mends is mended for good."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.cli.conformance import load, shipped
from antiphon.errors import ParseError
from antiphon.formats.conformance import Case
from antiphon.formats.openchatml import read, repair, shown, validate
from antiphon.formats.openchatml.finding import RuleName
from antiphon.formats.openchatml.lint import RULES, Diagnostic, Edit, Severity, edited, findings, is_mended, mended
from antiphon.formats.openchatml.lint.lint import MOST_READINGS
from antiphon.formats.openchatml.rules import RULES as READING_RULES
from kit.lint_examples import CALL, EXAMPLES, FINAL, HARMONY, USER, whole
from kit.openchatml import SPELLINGS, transcripts

CASES = load(shipped())
ALL = dict.fromkeys(RULES, Severity.WARNING)


def names(found: list[Diagnostic]) -> set[str]:
    return {diagnostic.rule for diagnostic in found}


def levels_of(name: str) -> dict[str, Severity]:
    """What is off is reported when it is selected."""
    return {name: Severity.WARNING} if RULES[name].level is Severity.OFF else {}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_finds_its_bad_example_and_not_its_good_one(name: str) -> None:
    (bad, good), rule, levels = map(whole, EXAMPLES[name]), RULES[name], levels_of(name)
    found = findings(bad, levels=levels, harmony=name in HARMONY)
    mine = [diagnostic for diagnostic in found if diagnostic.rule == name]
    assert mine, found
    assert {diagnostic.level for diagnostic in mine} == {levels.get(name, rule.level)}
    assert (any(diagnostic.fix for diagnostic in mine)) is is_mended(rule)
    kept = findings(good, levels=levels, harmony=name in HARMONY)
    assert name not in names(kept)
    assert not any(diagnostic.level is Severity.ERROR for diagnostic in kept), kept


@pytest.mark.parametrize("name", [name for name in EXAMPLES if is_mended(RULES[name])])
def test_a_fixable_rule_mends_its_bad_example(name: str) -> None:
    harmony, levels = name in HARMONY, levels_of(name)
    text = mended(whole(EXAMPLES[name][0]), levels=levels, harmony=harmony)
    assert name not in names(findings(text, levels=levels, harmony=harmony))
    read(text, harmony=harmony)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_findings_of_the_suite_have_rules_the_errors_of_validate_and_fixes_that_hold(case: Case) -> None:
    fragment, harmony = "--fragment" in case.flags, "--harmony" in case.flags
    text = case.input.decode("utf-8", "surrogateescape")
    found = findings(text, fragment=fragment, harmony=harmony)
    assert "other" not in names(found)
    assert [(d.code, d.start) for d in found if d.level is Severity.ERROR] == [
        (finding.code, finding.position)
        for finding in validate(case.input, fragment=fragment, harmony=harmony)
        if not finding.warning
    ]
    hold_the_laws(text, harmony=harmony)


def hold_the_laws(text: str, *, harmony: bool = False) -> None:
    before = findings(text, levels=ALL, harmony=harmony)
    for diagnostic in before:
        assert diagnostic.start.offset is not None
        assert diagnostic.end.offset is not None
        assert 0 <= diagnostic.start.offset <= diagnostic.end.offset <= len(text)
    after = mended(text, levels=ALL, harmony=harmony)
    assert mended(after, levels=ALL, harmony=harmony) == after
    was, has = ([message.text for message in shown(repair(one, harmony=harmony)[0].messages)] for one in (text, after))
    assert all(any(text in old for old in was) for text in has)
    if all(finding.warning for finding in validate(text, harmony=harmony)):
        texts = [[message.text for message in read(one, harmony=harmony).messages] for one in (text, after)]
        assert texts[0] == texts[1]


_NOISE = st.sampled_from(
    [
        *SPELLINGS,
        *(f"<{spelling}" for spelling in SPELLINGS),
        "<",
        "\n",
        " ",
        "x",
        "<|retrun|>",
        "\n<|start|>user<|message|>",
        "<|start|>asistant<|channel|>finl<|message|>",
        " name=a",
        " nam=b",
        " call_id=c",
        " to=functions.f",
        "<|channel|>analysis",
        "<|channel|>commentary",
        "<|constrain|>json",
        "functions.f",
        "tool",
        "version: 2.2\n",
        "---\n",
        "model: m\n",
        '{"a": 1}',
        " intent=debug",
        " content_type=json",
        "\udc80",
    ]
)


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    """A valid transcript with a few places cut out, repeated or filled with what the format gives a meaning."""
    text = draw(transcripts())
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 3, 9, 30])))
        text = text[:start] + draw(st.one_of(_NOISE, st.just(""), st.just(text[start:end] * 2))) + text[end:]
    return text


@settings(max_examples=120)
@given(_mutated(), st.sampled_from([False, False, True]))
def test_mending_is_done_at_once_and_shows_nothing_more(text: str, harmony: bool) -> None:
    hold_the_laws(text, harmony=harmony)


def test_a_forgotten_end_is_written_and_a_quoted_control_escaped() -> None:
    text = whole(
        "<|start|>user<|message|>What is <|channel|>?\n\n<|start|>assistant<|channel|>final<|message|>4<|return|>"
    )
    assert [m.text for m in read(mended(text)).messages] == ["What is <|channel|>?", "4"]
    text = whole("<|start|>user<|message|>What is <|start|>user<|message|> for?<|end|>")
    assert [m.text for m in read(mended(text)).messages] == ["What is <|start|>user<|message|> for?"]


@pytest.mark.parametrize(("message", "end"), [(CALL, "<|call|>"), (USER, "<|end|>")])
def test_a_forgotten_end_is_a_calls_behind_a_call_alone(message: str, end: str) -> None:
    found = findings(whole(message.replace(end, "") + FINAL))
    assert [diagnostic.fix.text for diagnostic in found if diagnostic.fix][:1] == [end + "\n"]


def test_ids_that_lack_are_given_once_each() -> None:
    call = "<|start|>assistant to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n"
    taken = call.replace("functions.f", "functions.g call_id=call_1")
    text = mended(whole(call + taken + call + "<|start|>tool name=functions.g<|message|>1<|end|>"))
    assert [m.call_id for m in read(text).messages] == ["call_0", "call_1", "call_2", "call_1"]


@pytest.mark.parametrize(
    "faulty",
    [
        "<|start|>user<|message|>hello\n",
        "<|start|>assistant to=functions.f<|channel|>commentary<|message|>{}<|call|>\n"
        "<|start|>tool name=functions.f<|message|>1<|end|>\n",
    ],
)
def test_any_number_of_faults_of_a_kind_is_mended(faulty: str) -> None:
    text = mended(whole(faulty * (MOST_READINGS + 1000)))
    assert [diagnostic.rule for diagnostic in findings(text) if diagnostic.level is Severity.ERROR][1:] == []


def test_what_would_be_shown_then_is_left_to_people_however_often_it_is_there() -> None:
    text = whole("<|start|>usr<|message|>Hi<|end|>\n" * 1000)
    assert mended(text) == text
    fixes = [found.fix for found in findings(text) if found.rule == "role-unknown"]
    assert len(fixes) == 1000
    assert all(fix is not None and fix.reveals for fix in fixes)


def test_of_many_mends_those_that_may_be_applied_are_where_they_are_few() -> None:
    header = '---\nversion: "2.2"\ncapabilities: {tokens: [<|start|>, <|message|>, <|channel|>, <|return|>]}\n---\n'
    doubtful = "<|start|>user<|message|>Hi<|return|>\n"
    slip = "<|start|>assistant<|channel|>analisis<|message|>x<|return|>\n"
    many = header + doubtful * (MOST_READINGS + 50)
    assert mended(many) == many
    assert mended(header + doubtful * 20 + slip) == header + doubtful * 20 + slip.replace("analisis", "analysis")


def test_what_is_not_certain_is_left_to_people() -> None:
    text = whole("<|start|>user name=a name=b<|message|>Hi<|end|>\n<|start|>moderator<|message|>Hi<|end|>")
    assert mended(text) == text
    assert names(findings(text)) == {"attribute-conflict", "role-unknown"}


def test_levels_are_chosen_by_rule() -> None:
    text = "version: 2.2\n<|start|>user<|message|>Hi<|end|>"
    assert [(d.rule, d.level) for d in findings(text)] == [
        ("header-bare", Severity.INFO),
        ("header-version-bare", Severity.WARNING),
    ]
    chosen = findings(text, levels={"header-bare": Severity.OFF, "header-version-bare": Severity.ERROR})
    assert [(d.rule, d.level) for d in chosen] == [("header-version-bare", Severity.ERROR)]
    assert mended(text, levels={"header-bare": Severity.OFF, "header-version-bare": Severity.OFF}) == text


def test_places_count_characters_from_one_and_a_mark_takes_no_column() -> None:
    text = '\ufeffversion: "2.2"\n<|start|>asistant<|message|>é<|end|>'
    [found] = findings(text, levels={"header-bare": Severity.OFF})
    assert (found.start.line, found.start.column, found.end.line, found.end.column) == (2, 10, 2, 18)
    [found] = findings('\ufeffversion: "2.2"\n<|start|>user<|message|>Hi<|end|>')
    assert (found.start.column, found.end.column) == (1, 9)


def test_edits_that_overlap_are_not_both_made() -> None:
    assert edited("abcdef", [Edit(3, 5, "X"), Edit(1, 4, "Y"), Edit(5, 5, "Z"), Edit(1, 4, "Y")]) == "aYeZf"


def test_the_best_reading_of_what_is_mended_loses_no_text() -> None:
    text = whole(
        "<|start|>asistant<|channel|>finl nam=x<|message|>one<|end|>\n<|start|>user<|message|>two <|start|> x<|end|>"
    )
    messages, _ = repair(mended(text))
    assert [m.text for m in messages.messages] == ["one", "two <|start|> x"]


def test_every_rule_that_a_reader_names_is_listed() -> None:
    assert set(READING_RULES) == set(get_args(RuleName))


def test_words_of_a_text_do_not_move_its_finding_to_another_rule() -> None:
    call = "<|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n"
    reply = "<|start|>tool call_id=c1 name=functions.g:%20<|message|>1<|end|>"
    assert "reply-of-another" in names(findings(whole(call + reply)))


def test_a_text_of_another_form_has_one_finding() -> None:
    assert names(findings('{"messages": []}')) == {"other-form"}
    with pytest.raises(ParseError):
        read('{"messages": []}')


TOKENS = '---\nversion: "2.2"\ncapabilities:\n  tokens: ["<|start|>", "<|message|>", "<|return|>"]\n---\n'
ROLES = '---\nversion: "2.2"\ncapabilities:\n  roles: [functions.*, user]\n---\n'


@pytest.mark.parametrize(
    "text",
    [
        whole("<|start|>assistant<|channel|>finl<|message|>4<|return|>"),
        whole("<|start|>asistant<|channel|>final<|message|>4<|return|>"),
        whole("<|start|>assistant intent=preambel<|channel|>commentary<|message|>Plan.<|end|>"),
        whole("<|start|>assistant<|channel|>analysis<|message|>Hm.\n<|start|>assistant<|message|>4<|return|>"),
        TOKENS + "<|start|>user<|message|>Hi<|return|>",
        ROLES + "<|start|>functions.f to=user call_id=c<|message|>1<|end|>",
    ],
)
def test_a_fix_that_adds_an_error_or_shows_what_was_hidden_is_not_applied(text: str) -> None:
    assert mended(text) == text
    assert any(diagnostic.fix for diagnostic in findings(text)) or text.startswith(ROLES)
