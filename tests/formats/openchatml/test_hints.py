"""What is wrong is said in words that one can act on: slips of the pen, YAML's own words, texts of other forms."""

from __future__ import annotations

import pytest
import yaml

from antiphon.formats.openchatml import Finding, validate
from antiphon.formats.openchatml.finding import nearest
from antiphon.formats.openchatml.yaml_header import yaml_problem

HEAD = 'version: "2.2"\n'


def first(transcript: str) -> Finding:
    return next(iter(validate(transcript)))


@pytest.mark.parametrize(
    ("frame", "meant"),
    [
        ("<|start|>asistant<|message|>a<|end|>", "assistant"),
        ("<|start|>User<|message|>a<|end|>", "user"),
        ("<|start|>assistant<|channel|>finl<|message|>a<|end|>", "final"),
        ("<|start|>assistant<|channel|>commentry<|message|>a<|end|>", "commentary"),
        ("<|start|>assistant intent=preambel<|channel|>commentary<|message|>a<|end|>", "preamble"),
        ("<|start|>user nam=bob<|message|>a<|end|>", "name"),
        ("<|start|>assistant to=function.f call_id=c<|channel|>commentary<|message|>{}<|call|>", "functions"),
        ("<|start|>assistant to=search call_id=c<|channel|>commentary<|message|>{}<|call|>", "functions.search"),
    ],
)
def test_a_slip_of_the_pen_is_asked_about(frame: str, meant: str) -> None:
    assert (first(HEAD + frame).hint or "").startswith(f"Did you mean {meant}? ")


@pytest.mark.parametrize("word", ["moderator", "user", "", "x" * 1000])
def test_a_word_that_is_far_from_all_or_known_is_not(word: str) -> None:
    assert nearest(word, ("system", "user", "assistant")) is None


HEADERS = [
    'version: "2.2"\nmodel: [a, b\n',
    'version: "2.2"\nmodel: {a: b\n',
    'version: "2.2"\nmodel\n',
    'version: "2.2"\nmodel: a: b\n',
    'version: "2.2"\n\tmodel: a\n',
    'version: "2.2"\nmodel: @a\n',
    'version: "2.2"\nmodel: "a\n',
    'version: "2.2"\nmodel: "a\\q"\n',
    'version: "2.2"\n model: a\n',
    'version: "2.2"\nmodel: - a\n',
    'version: "2.2"\nmodel: "a\\x4"\n',
    'version: "2.2"\nmodel:\n  - a\n b: c\n',
    'version: "2.2"\nmodel: &\n',
    '%YAML\nversion: "2.2"\n',
    "version: [2, 2]\n",
    '"version": "2.2"\n}\n',
]
RAW = ("did not find", "could not find", "found character", "while ", "token", "mapping values", "ScalarNode", "node(")


@pytest.mark.parametrize("fence", ["", "---\n"])
@pytest.mark.parametrize("header", HEADERS)
def test_a_broken_header_is_reported_in_our_words_at_a_place_inside_it(header: str, fence: str) -> None:
    closing = "---\n" if fence else ""
    finding = first(f"{fence}{header}{closing}<|start|>user<|message|>a<|end|>\n")
    assert not any(raw in finding.message for raw in RAW), finding.message
    first_line, last_line = (2, 1 + header.count("\n")) if fence else (1, header.count("\n"))
    assert first_line <= (finding.position.line or 0) <= last_line
    line = header.split("\n")[(finding.position.line or 0) - first_line]
    assert (finding.position.column or 0) <= len(line) + 1


@pytest.mark.parametrize(("text", "line", "column"), [("a: b\n  \n", 0, 0), ("a:\n  b\n", 1, 2), (" \n", 0, 0)])
def test_words_of_the_library_that_are_not_known_stay_as_they_are(text: str, line: int, column: int) -> None:
    wrong = yaml_problem(yaml.MarkedYAMLError(problem="something new"), text)
    assert (wrong.message, wrong.line, wrong.column) == ("something new", line, column)


@pytest.mark.parametrize(
    ("text", "message", "form"),
    [
        ('{"messages": [{"role": "user", "content": "x"}]}', "this is chat JSON, not a transcript", "chat"),
        ('[{"role": "user", "content": "x"}]\n', "this is chat JSON, not a transcript", "chat"),
        ('{"messages": [' + '{"role": "user", "content": "x"},' * 9000, "this is chat JSON, not a transcript", "chat"),
    ],
    ids=["chat", "a list", "long"],
)
def test_a_text_of_another_form_is_recognised(text: str, message: str, form: str) -> None:
    finding = first(text)
    assert (finding.message, str(finding.position), finding.code) == (message, "1:1", "E-PARSE-HEADER")
    assert f"--from {form}" in (finding.hint or "")


def test_json_that_is_no_chat_is_called_json() -> None:
    assert first('[["a"]]').message == "this is JSON, not a transcript"


def test_prose_behind_a_frame_may_be_the_rest_of_it() -> None:
    finding = first(f"{HEAD}<|start|>user<|message|>It ends with <|end|> and goes on.<|end|>")
    assert finding.message == "text stands outside any frame"
    assert "If the <|end|> before it is text, write <<|end|> there" in (finding.hint or "")
    finding = first(f"---\n{HEAD}---\nprose<|start|>user<|message|>a<|end|>")
    assert finding.hint == "A frame is <|start|>ROLE<|message|>TEXT<|end|>."


def test_a_second_type_is_no_second_channel() -> None:
    finding = first(f"{HEAD}<|start|>user<|constrain|>json<|constrain|>json<|message|>1<|end|>")
    assert (finding.message, finding.hint) == ("<|constrain|> stands twice in one head", "A body has one type.")


@pytest.mark.parametrize(
    ("frame", "hint"),
    [
        ("<|start|>user<|mesage|>Hi<|end|>", "Did you mean <|message|> by <|mesage|>?"),
        ("<|start|>user<|message>Hi<|end|>", "Did you mean <|message|> by <|message>?"),
        ("<|start|>user<|Message|>Hi", "Did you mean <|message|> by <|Message|>?"),
        ("<|start|>user<|im_sep|>Hi<|end|>", None),
    ],
)
def test_a_control_that_is_misspelled_in_a_head_is_asked_about(frame: str, hint: str | None) -> None:
    assert first(HEAD + frame).hint == hint
