"""The glossary leads to the code: every path that it names is there, and the words that people search for are in it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "glossary.md"
TEXT = PAGE.read_text("utf-8")
ROWS = re.findall(r"^\| (?!word|---)(.+?) \| (.+?) \| ([^|]+?) \|$", TEXT, re.MULTILINE)
PATHS = sorted(set(re.findall(r"`(antiphon(?:\.\w+)+)`", TEXT)))


def lookup(path: str) -> object:
    """The module, or what a module has under that name."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_the_glossary_exists(path: str) -> None:
    assert lookup(path) is not None


def test_every_word_has_a_meaning_and_a_place() -> None:
    assert len(ROWS) == sum(line.startswith("| ") for line in TEXT.splitlines()) - TEXT.count("| word |") > 60
    assert [word for word, _, where in ROWS if not re.fullmatch(r"`antiphon[\w.]+`(, `antiphon[\w.]+`)*", where)] == []
    words = [word for names, _, _ in ROWS for word in re.split(r"[,()] ?", names.rstrip(")"))]
    assert sorted({word for word in words if words.count(word) > 1}) == []


SEARCHED = """
buffered cancel catalog channel constrained control deadline dialect engine envelope exchange grammar incident journal
layer log loss names piece post resumer run session limits sidecar step store tenant truncate wire
"""


@pytest.mark.parametrize("word", SEARCHED.split())
def test_a_word_that_people_search_for_is_found(word: str) -> None:
    assert [names for names, _, _ in ROWS if re.search(rf"\b{word}\b", names)]
