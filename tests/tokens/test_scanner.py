"""Control spellings in text: leftmost, then longest, whatever way the text was cut."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.tokens import Control, ControlScanner, Piece

SETS = [
    ("<a>", "<ab>", "b>"),
    ("a", "ab", "abc", "bcd", "d"),
    ("aa", "aaa", "ab"),
    ("<|end|>", "<|start|>", "<|e", "end"),
    ("abab", "ababc", "bab"),
]


def naive(text: str, spellings: Iterable[str]) -> list[Piece]:
    """Leftmost, then longest, by trying every spelling at every place."""
    pieces: list[Piece] = []
    plain, at = "", 0
    while at < len(text):
        found = max((s for s in spellings if text.startswith(s, at)), key=len, default="")
        if not found:
            plain, at = plain + text[at], at + 1
            continue
        pieces += [plain, Control(found)] if plain else [Control(found)]
        plain, at = "", at + len(found)
    return [*pieces, plain] if plain else pieces


def scanned(spellings: Iterable[str], *chunks: str) -> list[Piece]:
    scanner = ControlScanner(map(Control, spellings))
    out: list[Piece] = []
    for piece in [piece for chunk in chunks for piece in scanner.feed(chunk)] + scanner.close():
        if isinstance(piece, str) and out and isinstance(out[-1], str):
            out[-1] += piece
        else:
            out.append(piece)
    return out


@given(st.sampled_from(SETS), st.lists(st.text("<>|abcdestrn", max_size=6), max_size=8))
def test_whatever_the_cut_the_leftmost_longest_spellings_are_found(
    spellings: tuple[str, ...], chunks: list[str]
) -> None:
    text = "".join(chunks)
    expected = naive(text, spellings)
    assert scanned(spellings, *chunks) == expected
    assert scanned(spellings, *text) == expected
    assert scanned(spellings, text) == expected


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5), st.text("abc", max_size=14))
def test_any_set_of_spellings_will_do(spellings: list[str], text: str) -> None:
    assert scanned(spellings, *text) == naive(text, spellings)


def test_only_a_tail_that_may_become_a_spelling_is_buffered() -> None:
    scanner = ControlScanner([Control("<|end|>")])
    assert scanner.feed("a < b <|") == ["a < b "]
    assert scanner.feed("x") == ["<|x"]
    assert scanner.feed("<|end|") == []
    assert scanner.feed(">y") == [Control("<|end|>"), "y"]
    assert scanner.close() == []


def test_a_tail_comes_out_at_the_end_with_the_controls_in_it() -> None:
    assert scanned(["ab", "abcd"], "xabc") == ["x", Control("ab"), "c"]


def test_without_controls_text_passes() -> None:
    assert scanned([], "a", "b") == ["ab"]


@pytest.mark.parametrize("text", ["<" * 100_000, "<|en" * 25_000])
def test_a_long_text_of_beginnings_is_not_quadratic(text: str) -> None:
    assert scanned(["<|end|>", "<|start|>"], *text) == [text]
