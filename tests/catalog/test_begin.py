"""A prompt begins with what the model's file says that a text begins with, once."""

from __future__ import annotations

import pytest

from antiphon.catalog.files.text import ModelText, gguf_text
from antiphon.catalog.format_choice import choose_format
from antiphon.catalog.known_formats import known_formats
from antiphon.config import ModelEntry
from antiphon.conversation import Conversation, Message, Role
from antiphon.formats.template import jinja_format
from antiphon.tokens import Control
from kit.vocabularies import byte_level, sentencepiece

HI = Conversation((Message(role=Role.USER, text="Hi"),))
BEGIN = Control("<s>")
WRITES = "{% for m in messages %}{{ m.content }}{% endfor %}"


def rendered(text: ModelText, entry: ModelEntry) -> list[object]:
    return list(choose_format("m", entry, text, known_formats()).render(HI))


@pytest.mark.parametrize("template", [WRITES, "{{ bos_token }}" + WRITES])
def test_a_template_may_write_it_or_not(template: str) -> None:
    text = gguf_text({**sentencepiece(), "tokenizer.chat_template": template})  # type: ignore[dict-item]  # one kind
    assert rendered(text, ModelEntry()) == [BEGIN, "Hi"]


def test_a_built_in_template_gets_it_and_a_file_can_say_that_there_is_none() -> None:
    chatml = ModelEntry(format="chatml")
    with_it = gguf_text(sentencepiece())  # type: ignore[arg-type]  # of one kind for each key
    assert rendered(with_it, chatml)[0] == BEGIN
    without = gguf_text(sentencepiece(add_bos_token=False))  # type: ignore[arg-type]
    assert rendered(without, chatml) == rendered(with_it, chatml)[1:]


@pytest.mark.parametrize(("pre", "begins"), [("llama-bpe", True), ("tekken", True), ("qwen2", False), ("gpt-2", False)])
def test_what_a_file_does_not_say_goes_by_its_pre_tokenizer(pre: str, begins: bool) -> None:
    text = gguf_text(byte_level(pre, merges=10))  # type: ignore[arg-type]  # of one kind for each key
    assert text.begin == (BEGIN if begins else None)


def test_an_empty_prompt_is_only_that() -> None:
    format = jinja_format("", [BEGIN], {})
    assert list(format.render(HI)) == []
