"""Sets of characters as bits."""

from __future__ import annotations

from antiphon.grammar.source.expression import Chars, Text
from antiphon.grammar.source.lexemes import Alphabet


def test_a_class_has_its_own_characters_and_no_others() -> None:
    first, other = Chars(((97, 99),)), Chars(((65, 90), (100, 122)))
    alphabet = Alphabet([first, other, Text("b")])
    assert [bool(alphabet.bits(first) & alphabet.of(char)) for char in "Aabd"] == [False, True, True, False]
    assert [bool(alphabet.bits(other) & alphabet.of(char)) for char in "Aabd"] == [True, False, False, True]
