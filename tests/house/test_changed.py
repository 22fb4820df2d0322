"""Which tests `make test-changed` runs, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from house.changed import Tree, nearest_first
from kit.tiers import SMOKES, TESTS, slow_functions

FILES = {
    "src/p/__init__.py": "from .leaf import f as g\nfrom .other import h",
    "src/p/leaf.py": "def f(): ...",
    "src/p/other.py": "def h():\n    from .deep import d",
    "src/p/deep.py": "",
    "src/p/late.py": "LATER = 'p.q.route:Route'",
    "src/p/commands.py": "def load(name): import_module(f'p.q.{name}')",
    "src/p/q/__init__.py": "",
    "src/p/q/route.py": "class Route: ...",
    "src/p/q/run.py": "",
    "src/p/table.json": "[]",
    "src/p/reads.py": "TABLE = 'table.json'",
    "tests/kit/near.py": "import p.other",
    "tests/a/conftest.py": "from kit import near",
    "tests/a/test_leaf.py": "from p import g",
    "tests/a/test_other.py": "from p import h",
    "tests/b/test_late.py": "import p.late",
    "tests/b/test_run.py": "import p.commands",
    "tests/b/test_near.py": "from kit.near import p",
    "tests/b/test_table.py": "import p.reads",
    "tests/b/test_deep.py": "from p import deep, other",
}


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("src/p/leaf.py", ["a/test_leaf.py"]),
        ("src/p/other.py", ["a/test_other.py", "b/test_deep.py", "b/test_near.py", "a/test_leaf.py"]),
        ("src/p/deep.py", ["b/test_deep.py", "a/test_other.py", "b/test_near.py", "a/test_leaf.py"]),
        ("src/p/q/route.py", ["b/test_late.py", "b/test_run.py"]),
        ("src/p/q/run.py", ["b/test_run.py"]),
        ("src/p/table.json", ["b/test_table.py"]),
        ("tests/a/conftest.py", ["a/test_leaf.py", "a/test_other.py"]),
        ("tests/b/test_near.py", ["b/test_near.py"]),
    ],
)
def test_a_change_has_the_tests_that_import_it_and_not_all_that_is_behind_its_front_door(
    tmp_path: Path, changed: str, tests: list[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = nearest_first(Tree(tmp_path / "src", tmp_path / "tests"), [tmp_path / changed])
    assert [str(path.relative_to(tmp_path / "tests")) for path in found] == tests


def is_test(name: str) -> bool:
    """Whether there is a function of this name in its file, or its class, which may have it of a contract."""
    file, _, function = name.partition("::")
    kind, _, own = function.rpartition("::")
    text = (TESTS.parent / file).read_text("utf-8")
    return f"def {own}(" in text or (bool(kind) and f"class {kind}(" in text)


@pytest.mark.parametrize("smoke", SMOKES)
def test_a_smoke_of_make_test_is_a_test(smoke: str) -> None:
    assert is_test(smoke)


def test_what_was_measured_as_slow_is_a_test() -> None:
    """`make slow` makes the list anew."""
    assert [name for name in slow_functions() if not is_test(name)] == []
