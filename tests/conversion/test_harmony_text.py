"""Harmony's canonical form: the same messages, and its own canonical form; and what is found wrong with a text."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from antiphon.conversation import Conversation, Message
from antiphon.conversion import Conversion
from antiphon.conversion.convert import source_named
from antiphon.conversion.harmony import format_harmony, harmony_findings
from antiphon.errors import FormatError, ParseError
from antiphon.formats.openchatml import write
from kit.openchatml import conversations


def messages(text: bytes) -> list[Message]:
    source = source_named("harmony")
    return [*source.feed(text), *source.close()]


@given(conversations())
def test_a_conversation_keeps_its_messages(conversation: Conversation) -> None:
    try:
        text = b"".join(Conversion(to="harmony").run([write(conversation).encode("utf-8", "surrogateescape")]))
        before = messages(text)
    except FormatError:
        assume(False)
    formatted = format_harmony(text).encode("utf-8", "surrogateescape")
    assert messages(formatted) == before
    assert format_harmony(formatted).encode("utf-8", "surrogateescape") == formatted


@pytest.mark.parametrize(
    "header",
    [
        "assistant<|channel|>commentary to=functions.x<|constrain|>json",
        "assistant to=functions.x<|channel|>commentary <|constrain|>json",
        "assistant to=functions.x<|channel|>commentary json",
        "functions.x to=assistant<|channel|>commentary",
        "assistant<|channel|>analysis to=browser.search code",
    ],
)
def test_headers_in_any_order_have_one_form(header: str) -> None:
    text = f"<|start|>user<|message|>Hi<|end|><|start|>{header}<|message|>{{}}<|end|>\n\n".encode().replace(
        b"\n\n", b"\n"
    )
    formatted = format_harmony(text)
    assert messages(formatted.encode()) == messages(text)
    assert format_harmony(formatted.encode()) == formatted


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("wrong", "code", "words"),
    [
        ("stray<|start|>assistant<|message|>a<|return|>", "stray-text", "stray"),
        ("<|start|>assistant<|channel|>final", "truncated-header", "assistantfinal"),
    ],
)
def test_what_is_wrong_has_its_place_however_the_text_is_cut(size: int, wrong: str, code: str, words: str) -> None:
    text = f"<|start|>user<|message|>é\n<|end|>{wrong}".encode()
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    [found] = harmony_findings(parts)
    assert (found.code, found.text, found.position.line) == (code, words, 2)
    with pytest.raises(ParseError, match=code):
        format_harmony(text)
