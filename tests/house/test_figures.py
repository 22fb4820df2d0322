"""The measures find what they are for; that the source meets their aims is in test_house.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from house.figures import (
    Figure,
    docstring_share,
    long_functions,
    long_modules,
    loose,
    table,
    tangled,
    twins,
    unworded,
)
from house.imports import circles, imports_of, rooms


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A package of two rooms with one fault of each kind."""
    package = tmp_path / "house"
    written = {
        "__init__.py": "",
        "low/__init__.py": '"""Documented."""\n',
        "low/base.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.high.top import Top\n",
        "low/one.py": "from . import base\ndef late() -> None:\n    from .two import Two\n",
        "low/two.py": "from house.low.one import late\nclass Two: ...\nclass _Hidden: ...\n",
        "high/__init__.py": "",
        "high/top.py": "import house.low.base\nclass Top: ...\nclass Two: ...\n",
        "high/inner/top.py": "class Top:\n    def open(self) -> None:\n        '''Documented.'''\n",
        "high/many.py": "def branchy(n: int) -> None:\n"
        + "".join(f"    if n == {n}:\n        return\n" for n in range(10)),
    }
    for name, text in written.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


def test_a_circle_that_an_import_in_a_function_closes_is_found(source: Path) -> None:
    assert circles(imports_of(source).runtime) == [["house.low.one", "house.low.two"]]


def test_a_circle_of_rooms_is_found_and_one_for_types_is_distinguished(source: Path) -> None:
    imports = imports_of(source)
    assert imports.typing["house.low.base"] == {"house.high.top"}
    assert circles(rooms(imports.runtime)) == []
    both = {name: imports.runtime[name] | imports.typing[name] for name in imports.runtime}
    assert circles(rooms(both)) == [["high", "low"]]


def test_every_way_to_write_an_import_leads_to_its_module(source: Path) -> None:
    imports = imports_of(source).runtime
    assert imports["house.low.one"] == {"house.low.base", "house.low.two"}
    assert imports["house.low.two"] == {"house.low.one"}
    assert imports["house.high.top"] == {"house.low.base"}


def test_a_class_whose_name_its_room_has_twice_is_found(source: Path) -> None:
    assert twins(source) == ["Top: high/inner/top.py, high/top.py"]


def test_modules_beside_the_folders_of_a_room_are_counted(source: Path) -> None:
    assert loose(source / "high") == ["many.py", "top.py"]


def test_a_function_with_many_ways_through_it_is_found(source: Path) -> None:
    assert tangled(source, most=11) == []
    assert [found.partition(" ")[0] for found in tangled(source, most=10)] == ["high/many.py:1:"]


def test_long_modules_and_functions_are_found(source: Path) -> None:
    assert long_modules(source, most=20) == ["high/many.py: 21"]
    assert long_functions(source, most=20) == ["high/many.py:1: branchy, 21"]
    assert long_modules(source, most=21) == long_functions(source, most=21) == []


def test_docstrings_are_counted_of_what_is_public(source: Path) -> None:
    assert docstring_share(source) == round(100 * 2 / (9 + 4 + 3)), "two of 9 modules, 4 classes, 3 functions"


def test_a_docstring_without_verb_or_noun_is_found(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    words = ("What it is.", "Whoever", "Of it,", "None", "Where it is", "Whether", "Nonetheless", "Offers", "The")
    (tmp_path / "tools" / "one.py").write_text("".join(f'"""{word}"""\n' for word in words))
    assert unworded(tmp_path) == [f"tools/one.py:{number}" for number in range(1, 6)]


def test_a_figure_that_misses_its_aim_says_what_it_is_made_of() -> None:
    missed = Figure("codecs", 2, 1, exactly=True, parts=("one.py:1", "two.py:1"))
    shown = list(table([missed, Figure("lines", 5, 6)]))
    assert not missed.holds
    assert shown == [
        "figure    value  aim",
        "codecs        2  1   missed",
        "lines         5  ≤ 6",
        "",
        "codecs:",
        "  one.py:1",
        "  two.py:1",
    ]
    assert not Figure("codecs", 0, 1, exactly=True).holds
