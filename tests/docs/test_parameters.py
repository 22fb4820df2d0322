"""The page of parameters says what the code does."""

from __future__ import annotations

from pathlib import Path

from docs.parameters import page

PAGE = Path(__file__).parent.parent.parent / "docs" / "parameters.md"


def test_the_page_of_parameters_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python tests/docs/parameters.py > docs/parameters.md"
