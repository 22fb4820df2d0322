"""Ids that an engine did not report are found by their bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.llama_cpp.wire import Fragments, is_whole

SINGLE = [(byte, bytes((byte,))) for byte in range(256)]
PAIRS = [(300, b"\xf0\x9f"), (301, b"\xe6\xbc"), (302, b" \xe6"), (303, b"\x8e\x89")]
FRAGMENTS = Fragments([*SINGLE, *PAIRS, (400, b"whole"), (401, "漢".encode())])


def test_one_missing_id_is_what_is_left_of_the_character() -> None:
    assert FRAGMENTS.fill("漢".encode(), (0xA2,), 1) == (301, 0xA2)


def test_two_missing_ids_are_reported_by_their_number() -> None:
    assert FRAGMENTS.fill("漢".encode(), (0xA2,), 2) == (0xE6, 0xBC, 0xA2)
    assert FRAGMENTS.fill("🎉".encode(), (0x89,), 2) == (300, 0x8E, 0x89)


def test_a_missing_id_may_begin_with_whole_characters() -> None:
    assert FRAGMENTS.fill(" 漢".encode(), (0xA2,), 2) == (302, 0xBC, 0xA2)


def test_text_that_was_never_utf_8_is_spelled_byte_by_byte() -> None:
    assert FRAGMENTS.fill("\ufffdab".encode(), (0x62,), 2) == (0xEF, 0xBF, 0xBD, 0x61, 0x62)


def test_an_unknown_vocabulary_gives_what_was_reported() -> None:
    assert Fragments(()).fill("漢".encode(), (7,), 2) == (7,)


@given(st.text(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]), min_size=1, max_size=1), st.data())
def test_any_split_of_a_character_is_found_again_with_its_bytes(character: str, data: st.DataObject) -> None:
    text = character.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), min_size=1)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    vocabulary = list(enumerate([bytes((byte,)) for byte in range(256)] + [p for p in parts if len(p) > 1]))
    id_of = {piece: id for id, piece in vocabulary}
    sampled = tuple(id_of[part] for part in parts)
    found = Fragments(vocabulary).fill(text, sampled[-1:], len(sampled) - 1)
    assert len(found) == len(sampled)
    assert b"".join(vocabulary[id][1] for id in found) == text
    assert not is_whole(b"".join(vocabulary[id][1] for id in found[:-1]))
