"""Pieces to ids and back: whole characters, one U+FFFD for each bad sequence, whatever way the stream is cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.tokens import ByteTokenizer, Control, Piece, PieceDecoder, decode, encode_pieces, spell, utf8, well_formed

START, END = Control("<|start|>"), Control("<|end|>")
TOKENIZER = ByteTokenizer([START, END])
TEXTS = st.text(st.characters(), max_size=12)


def merged(pieces: Sequence[Piece]) -> list[Piece]:
    out: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and out and isinstance(out[-1], str):
            out[-1] += piece
        else:
            out.append(piece)
    return out


def fed(*chunks: Sequence[int]) -> list[Piece]:
    decoder = PieceDecoder(TOKENIZER)
    return merged([piece for chunk in chunks for piece in decoder.feed(chunk)] + decoder.close())


@given(st.lists(st.one_of(TEXTS, st.sampled_from([START, END])), max_size=8))
def test_pieces_come_back_from_their_ids(pieces: list[Piece]) -> None:
    ids = encode_pieces(pieces, TOKENIZER)
    texts = [well_formed(piece) if isinstance(piece, str) else piece for piece in pieces]
    assert fed(ids) == merged([piece for piece in texts if piece])
    assert decode(TOKENIZER, ids) == spell(texts)


@given(st.lists(st.integers(0, 258), max_size=24), st.data())
def test_cutting_the_ids_anywhere_gives_the_same_pieces(ids: list[int], data: st.DataObject) -> None:
    whole = fed(ids)
    assert fed(*([id] for id in ids)) == whole
    cut = data.draw(st.integers(0, len(ids)))
    assert fed(ids[:cut], [], ids[cut:]) == whole


@given(st.binary(max_size=24))
def test_bytes_decode_as_the_standard_says(content: bytes) -> None:
    assert "".join(map(str, fed(list(content)))) == content.decode("utf-8", "replace")


def test_half_a_character_waits() -> None:
    decoder = PieceDecoder(TOKENIZER)
    first, *rest = utf8("😀")
    assert decoder.feed([first]) == []
    assert decoder.feed(rest[:2]) == []
    assert decoder.feed(rest[2:]) == ["😀"]
    assert decoder.close() == []


def test_a_control_and_the_end_finish_half_a_character_as_one_replacement() -> None:
    half = list(utf8("😀"))[:3]
    assert fed([*half, TOKENIZER.controls[END], *utf8("a")]) == ["\ufffd", END, "a"]
    assert fed(half) == ["\ufffd"]


def test_a_decoder_is_clean_after_close() -> None:
    decoder = PieceDecoder(TOKENIZER)
    decoder.feed([0xF0])
    assert decoder.close() == ["\ufffd"]
    assert decoder.feed(list(b"a")) == ["a"]


def test_ids_outside_the_vocabulary_are_nothing() -> None:
    assert fed([97, -1, 10**9, 98]) == ["ab"]


@pytest.mark.parametrize(
    ("text", "expected"), [("\ud800", "\ufffd"), ("\udc00\ud800", "\ufffd\ufffd"), ("\ud83d\ude00", "😀"), ("a", "a")]
)
def test_surrogates_become_characters_or_replacements(text: str, expected: str) -> None:
    assert well_formed(text) == expected
    assert utf8(text) == expected.encode()
    assert fed(TOKENIZER.encode(text)) == [expected]
