"""The control tokens of the vocabulary."""

from __future__ import annotations

import pytest

from antiphon.formats.harmony.controls import CONTROLS
from antiphon.tokens import Control, Tokenizer


@pytest.mark.spec("HAR-26", "HAR-27", "HAR-28", "HAR-29", "HAR-30", "HAR-31", "HAR-32", "HAR-33")
def test_the_controls_have_the_ids_of_the_guide(o200k: Tokenizer) -> None:
    names = {"start": 200006, "end": 200007, "message": 200008, "channel": 200005}
    names |= {"constrain": 200003, "return": 200002, "call": 200012}
    assert {f"<|{name}|>": id for name, id in names.items()} == {c.spelling: o200k.control_id(c) for c in CONTROLS}
    assert o200k.piece(200018) == Control("<|reserved_200018|>")
    assert o200k.name == "o200k_harmony"
