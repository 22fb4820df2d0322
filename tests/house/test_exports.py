"""Packages that import their names when they are first used: type checkers see the names that there are."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
LAZY = [path for path in sorted((SOURCE / "antiphon").rglob("__init__.py")) if "exports(" in path.read_text("utf-8")]


def package_of(path: Path) -> str:
    return ".".join(path.parent.relative_to(SOURCE).parts)


@pytest.mark.parametrize("path", LAZY, ids=package_of)
def test_a_name_that_a_type_checker_sees_is_imported_from_there(path: Path) -> None:
    package = import_module(package_of(path))
    checked = {
        alias.asname or alias.name: ("." * node.level) + (node.module or "")
        for block in ast.parse(path.read_text("utf-8")).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert checked
    for name, module in checked.items():
        assert getattr(package, name) is getattr(import_module(module, package.__name__), name), name
    assert {*checked} - {"__version__"} <= {*package.__all__} <= {*vars(package)}, "a name that one of both sees alone"
