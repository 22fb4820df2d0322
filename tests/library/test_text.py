"""Prompts, replies and transcripts without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import antiphon
from antiphon.errors import NotFoundError, ParseError, RequestError
from antiphon.tokens import o200k_harmony

REPLY = "<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>"


def test_a_prompt_has_its_text_and_its_ids() -> None:
    prompt = antiphon.render("2 + 2? <|end|>")
    assert prompt.text.endswith("<|start|>user<|message|>2 + 2? <|end|><|end|><|start|>assistant")
    assert prompt.ids is not None
    ends = [id for id in prompt.ids if id == 200007]
    assert len(ends) == 2, "the system message's end and the user's: what was typed is text"


def test_a_format_without_a_vocabulary_gives_no_ids() -> None:
    prompt = antiphon.render([{"role": "user", "content": "Hi"}], "chatml", system="Be brief.")
    assert prompt.ids is None
    assert str(prompt) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_reply_is_read_from_text_and_from_ids_alike() -> None:
    from_text = antiphon.parse(REPLY)
    ids = o200k_harmony()
    sampled = [id for text in ("analysis", "Easy.") for id in ids.encode(text)]
    assert [(m.channel, m.text) for m in from_text.messages] == [("analysis", "Easy."), ("final", "4")]
    assert from_text.incidents == ()
    assert sampled
    spelled = antiphon.parse([200005, *ids.encode("final"), 200008, *ids.encode("4"), 200002])
    assert [(m.channel, m.text) for m in spelled.messages] == [("final", "4")]


def test_what_is_malformed_is_repaired_and_said_or_refused() -> None:
    broken = "<|channel|><|message|>4<|end|>"
    assert antiphon.parse(broken).incidents
    with pytest.raises(ParseError):
        antiphon.parse(broken, strict=True)


def test_ids_of_another_vocabulary_are_not_guessed() -> None:
    with pytest.raises(RequestError, match="vocabulary"):
        antiphon.parse([1, 2, 3], "chatml")


def test_an_unknown_format_is_named_with_those_that_are_near() -> None:
    with pytest.raises(NotFoundError) as caught:
        antiphon.render("Hi", "harmoni")
    assert "harmony" in str(caught.value.hint)


def test_a_chat_request_becomes_a_transcript_and_comes_back() -> None:
    chat = '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}'
    there = antiphon.convert(chat, "openchatml")
    assert antiphon.validate(there.text) == []
    back = antiphon.convert(there.text, "chat")
    assert antiphon.read_chat(back.text).messages == antiphon.read_chat(chat).messages
    assert there.losses == ()
    assert [loss.path for loss in back.losses] == ["header.profiles"]


def test_what_a_form_cannot_hold_is_listed() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    content = [{"type": "text", "text": "Hi"}, image]
    lost = antiphon.convert(json.dumps({"messages": [{"role": "user", "content": content}]}), "chatml")
    assert lost.losses


def test_an_invalid_transcript_has_findings_with_their_places() -> None:
    (finding, *_) = antiphon.validate("no frame")
    assert finding.code
    assert finding.position.line == 1


def test_a_chat_request_is_read_with_its_tools_and_its_form() -> None:
    conversation = antiphon.read_chat(
        {
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            "response_format": {"type": "json_object"},
        }
    )
    assert [tool.recipient for tool in conversation.tools] == ["functions.f"]
    assert conversation.response_format is not None
    assert conversation.response_format.kind == "json_object"


def test_what_cannot_be_converted_is_told_in_words_of_python(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="this is empty"):
        antiphon.convert("", "openchatml")
    with pytest.raises(ParseError, match=r"Name its form \(form=…\): openchatml, .*sharegpt"):
        antiphon.convert("just words", "openchatml")
    file = tmp_path / "chat.json"
    file.write_text("[]")
    with pytest.raises(ParseError, match=r"is the name of a file; give its text"):
        antiphon.convert(str(file), "openchatml")
