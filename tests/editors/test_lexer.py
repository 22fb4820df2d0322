"""The Pygments lexer: found by its entry point; no text is lost, and only malformed transcripts have Error tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Comment, Error, Keyword, Name, String, Token

from antiphon.integrations.editors.lexer import OpenChatMLLexer
from kit.openchatml import TRICKY, transcripts
from kit.openchatml_suite import VALID, Sample

LEXER = OpenChatMLLexer(stripnl=False, ensurenl=False)


def tokens(text: str) -> list[tuple[object, str]]:
    return list(LEXER.get_tokens(text))


def normalized(text: str) -> str:
    """What Pygments makes of a text before any lexer sees it."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def errors(text: str) -> list[str]:
    return [part for kind, part in tokens(text) if kind is Error]


def test_pygments_finds_it_by_name_and_by_file() -> None:
    assert isinstance(get_lexer_by_name("openchatml"), OpenChatMLLexer)
    assert isinstance(get_lexer_for_filename("talk.openchatml"), OpenChatMLLexer)


@pytest.mark.parametrize("sample", VALID, ids=lambda sample: sample.id)
def test_a_valid_transcript_has_no_error(sample: Sample) -> None:
    assert errors(sample.text) == []
    assert "".join(part for _, part in tokens(sample.text)) == normalized(sample.text)


@given(transcripts())
def test_no_spelling_that_is_allowed_is_an_error(transcript: str) -> None:
    assert errors(transcript) == []


@given(st.lists(st.sampled_from([*TRICKY, "user", "assistant", " to=", "version: 1\n"])).map("".join))
def test_no_text_is_lost(text: str) -> None:
    assert "".join(part for _, part in tokens(text)) == normalized(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<|start|>user<|message|>x<|end|> stray", "stray"),
        ("<|start|>user mood=good<|message|>x<|end|>", " "),
        ("<|start|>user<|channel|>odd<|message|>x<|end|>", "o"),
        ("<|start|>user<|message|>x<|message|>y<|end|>", "<|message|>"),
        ("<|start|>user<|literal|>x<|end|>", "<|literal|>"),
    ],
)
def test_what_has_no_place_is_an_error(text: str, error: str) -> None:
    assert errors(text)[0] == error


def test_the_parts_of_a_frame_have_tokens_of_their_own() -> None:
    head = "assistant to=functions.f call_id=1<|channel|>commentary<|constrain|>json"
    found = tokens(f'version: "2.2"\n<|start|>{head}<|message|>{{"a": "b"}}<|call|>')
    assert (Name.Tag, "version") in found
    assert [pair for pair in found if pair[0] in (Name.Class, Name.Attribute, Name.Constant, Keyword.Type)] == [
        (Name.Class, "assistant"),
        (Name.Attribute, "to"),
        (Name.Attribute, "call_id"),
        (Name.Constant, "commentary"),
        (Keyword.Type, "json"),
    ]
    assert (Name.Tag, '"a"') in found


def test_escapes_blocks_and_markers_are_told_from_text() -> None:
    body = "a <<|end|> <|start_reason|><|literal|><|start|><|endliteral|> <"
    assert tokens(f"<|start|>user<|message|>{body} <|end|>")[3:-1] == [
        (Token.Text, "a "),
        (String.Escape, "<<|end|>"),
        (Token.Text, " "),
        (Comment.Special, "<|start_reason|>"),
        (Keyword, "<|literal|>"),
        (String.Other, "<|start|>"),
        (Keyword, "<|endliteral|>"),
        (Token.Text, " "),
        (Token.Text, "<"),
        (Token.Text, " "),
    ]


def test_a_page_of_it_can_be_made() -> None:
    assert '<span class="nc">user</span>' in highlight("<|start|>user<|message|>x<|end|>", LEXER, HtmlFormatter())
