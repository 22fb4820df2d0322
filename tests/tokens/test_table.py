"""Text that a library reads as a control is cut, as little as it can be."""

from __future__ import annotations

import re

import pytest

from antiphon.tokens import Control
from antiphon.tokens.table import text_only

WORDS = {"hello": 10, "<|": 1, "<|x|>": 2, "#": 3}


def encode(text: str, limit: int | None = None, /) -> list[int]:
    """A vocabulary of a few words, among them controls, and else of characters."""
    return [WORDS.get(part) or 100 + ord(part) for part in re.findall(r"hello|<\|x\|>|<\||.", text)]


@pytest.mark.parametrize(
    ("spelling", "parts"),
    [("<|", ["<", "|"]), ("<|x|>", ["<", "|", "x", "|", ">"]), ("#", [])],
    ids=["of two characters", "of five", "of one"],
)
def test_only_the_spelling_of_a_control_is_cut(spelling: str, parts: list[str]) -> None:
    ids = text_only(encode, {Control(spelling): WORDS[spelling]})(f"hello{spelling}hello")
    whole = [10, *(100 + ord(part) for part in parts), 10]
    of_characters = [100 + ord(character) for character in "hello"]
    assert ids == (whole if parts else [*of_characters, *of_characters])
