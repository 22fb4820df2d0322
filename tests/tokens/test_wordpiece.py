"""WordPiece as sentence encoders have it: the ids of the published tokenizer, and no control from any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.tokens import Control, TableTokenizer, decode, gguf_tokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁the", "▁cat", "s", "▁un", "happ", "y", "▁漢", "▁!", "▁[", "▁]", "▁cls"]


@pytest.fixture(scope="module")
def tokenizer() -> TableTokenizer:
    types = [3 if piece.startswith("[") else 1 for piece in PIECES]
    return gguf_tokenizer(
        {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": PIECES, "tokenizer.ggml.token_type": types}
    )


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The CATS", ["▁the", "▁cat", "s"]),
        ("unhäppy", ["▁un", "happ", "y"]),
        ("the漢cat!", ["▁the", "▁漢", "▁cat", "▁!"]),
        ("dog", ["[UNK]"]),
        ("", []),
        ("[CLS]", ["▁[", "▁cls", "▁]"]),
    ],
)
def test_words_are_lowered_stripped_of_accents_and_cut_into_pieces(
    tokenizer: TableTokenizer, text: str, pieces: list[str]
) -> None:
    assert [PIECES[id] for id in tokenizer.encode(text)] == pieces


def test_the_marks_are_controls_and_the_unknown_word_is_none(tokenizer: TableTokenizer) -> None:
    assert tokenizer.control_id(Control("[CLS]")) == 2
    assert tokenizer.control_id(Control("[UNK]")) is None
    assert decode(tokenizer, tokenizer.encode("the cats")) == " the cats"


@given(st.text(max_size=20))
def test_no_text_is_a_control(tokenizer: TableTokenizer, text: str) -> None:
    assert not set(tokenizer.encode(text)) & set(tokenizer.controls.values())


def test_every_letter_and_sign_of_a_long_text_counts_and_what_stands_between_words_does_not(
    tokenizer: TableTokenizer,
) -> None:
    counted = {byte: tokenizer.fewest(chr(byte) * 40_000) for byte in range(128)}
    assert {byte for byte, fewest in counted.items() if fewest == 0} == {*range(33), 127}
    assert set(counted.values()) == {0, 100}, "no token has more than 100 characters of 4 bytes"
    assert tokenizer.fewest("漢" * 40_000) == 300
