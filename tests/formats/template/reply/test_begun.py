"""What a prompt says of the reply that follows it, read from no more of the prompt than that takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.formats.replies import CompiledDescription, ReplyDescription
from antiphon.formats.replies.description import Region
from antiphon.tokens import Control, Piece

OPEN, END = Control("<|open|>"), Control("<|end|>")
DESCRIPTION = ReplyDescription(
    anchor="<|open|>assistant\n", reasoning=Region(open="<think>", close="</think>"), ends=("<|end|>",)
)
ANCHOR = ("<|open|>assistant\n", OPEN)
SHORT = (END, "assistant\n", "<think>", "</think>", "<|end|>", "it")
LONG = tuple(text * times for text in ("\n", " it", "\ud800", "😀") for times in (4_090, 70_000))
PROMPTS = st.lists(st.sampled_from(ANCHOR) | st.sampled_from(SHORT) | st.sampled_from(LONG), max_size=8)


@pytest.mark.parametrize("controls", [(OPEN, END), (END,), ()])
@given(PROMPTS)
def test_the_end_of_a_prompt_says_what_the_whole_prompt_says(
    controls: tuple[Control, ...], prompt: list[Piece]
) -> None:
    description = CompiledDescription(DESCRIPTION, controls, ())
    whole = "".join(_as_characters(description, piece) for piece in prompt)
    assert description.begun_by(prompt) == description.begun(whole)


def _as_characters(description: CompiledDescription, piece: Piece) -> str:
    if isinstance(piece, Control):
        return description.alphabet.symbol(piece.spelling) or "\udfff"
    return piece.replace("\ud800", "\ufffd")
