"""Which tests are dear, by what they use: `make test-cheap` runs the others alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

TESTS = Path(__file__).parents[1]
STARTS = frozenset({"subprocess", "multiprocessing", "pexpect", "antiphon.isolation", "antiphon.tools.python"})
"""Modules that start processes; so does a module of the tests that imports one of them."""
FIXTURES = {"postgres": "postgres", "smollm2_path": "model", "minilm_path": "model"}
"""The tier of tests that use a fixture, themselves or through another."""
TIERS = {
    "cheap": "loads no model and starts nothing",
    "model": "loads the weights of a model",
    "postgres": "asks a PostgreSQL server",
    "process": "is in a module that starts processes",
    "property": "draws its examples",
}
FEW = 12
"""Examples of a property test where only cheap tests run."""


def tiers_of(item: pytest.Item) -> Iterator[str]:
    """The tiers of a test: none for a cheap one."""
    yield from {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
    if starts_processes(item.path):
        yield "process"
    if is_hypothesis_test(getattr(item, "function", None)):
        yield "property"


def draw_few(item: pytest.Item) -> None:
    """Lets a property test draw few examples, the same at every run, whatever it says of itself."""
    function = getattr(item, "function", None)
    said: settings = getattr(function, "_hypothesis_internal_use_settings")  # noqa: B009
    few = settings(said, max_examples=min(said.max_examples, FEW), derandomize=True, database=None)
    setattr(function, "_hypothesis_internal_use_settings", few)  # noqa: B010 - the decorator may be used once only


_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)
_NAME = re.compile(r"\w+")


@cache
def starts_processes(file: Path) -> bool:
    """Whether the module, or one of the tests' modules that it imports, imports what starts processes."""
    names = set(imported(file))
    if any(name == start or name.startswith(f"{start}.") for name in names for start in STARTS):
        return True
    files = (TESTS / f"{name.replace('.', '/')}.py" for name in names)
    return any(starts_processes(one) for one in files if one.exists() and one != file)


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports, and for ``from a import b`` also ``a.b``."""
    for module, names, alone in _IMPORT.findall(file.read_text("utf-8")):
        yield from (module or alone, *(f"{module}.{name}" for name in _NAME.findall(names)))
