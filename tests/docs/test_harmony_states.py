"""The page of Harmony shows the table that the parser runs on."""

from __future__ import annotations

from docs.harmony_states import BEGIN, END, PAGE, page


def test_the_table_of_states_and_controls_is_current() -> None:
    text = PAGE.read_text("utf-8")
    assert BEGIN in text
    assert END in text
    assert text == page(text), "run: python tests/docs/harmony_states.py"
