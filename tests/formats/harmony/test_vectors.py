"""The reference's vectors, of both dialects."""

from __future__ import annotations

from typing import Literal

import pytest

from antiphon.errors import AntiphonError
from antiphon.formats.harmony import Harmony
from antiphon.tokens import spell
from harmony_corpora import DIALECTS, render, rows


@pytest.mark.corpus
@pytest.mark.spec("HAR-19", "HAR-20", "HAR-25", "HAR-36", "HAR-56")
@pytest.mark.parametrize("dialect", ["a", "b"])
def test_a_conversation_of_the_corpus_renders_as_the_reference_renders_it(dialect: Literal["a", "b"]) -> None:
    harmony = Harmony(dialect=dialect)
    for row in rows(f"harmony_corpus{DIALECTS[dialect]}"):
        if "error" in row:
            with pytest.raises(AntiphonError):
                list(render(harmony, row))
        else:
            assert spell(tuple(render(harmony, row))) == row["text"], row["name"]
